//! Shares of something of which there is only so much for all clients together.
//!
//! ```text
//!   room of all ──────────────────────────────────────────────┐
//!   │ client a │ client b │  c  │            free             │     one client may have a part of what would be left free,
//!   └──────────┴──────────┴─────┴─────────────────────────────┘     and always `least`
//! ```
//! The more is taken, the less one client may have of it. So it takes hundreds that take all they may and give nothing back until a
//! newcomer finds no room; a fixed bound by client is used up by a few.

use std::collections::HashMap;

use crate::peer::ClientKey;

/// One client may have one part in so many of what is free.
const PARTS: usize = 32;

/// What is taken, and by whom.
#[derive(Debug)]
pub(crate) struct Quota {
    max: usize,
    least: usize,
    taken: usize,
    of: HashMap<ClientKey, usize>,
}

impl Quota {
    /// `max` for all; `least` for each, while there is any.
    pub(crate) fn new(max: usize, least: usize) -> Self {
        Self {
            max,
            least,
            taken: 0,
            of: HashMap::new(),
        }
    }

    /// How much is taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// How much a client has.
    pub(crate) fn of(&self, client: &ClientKey) -> usize {
        self.of.get(client).copied().unwrap_or(0)
    }

    /// Whether a client has any.
    pub(crate) fn has(&self, client: &ClientKey) -> bool {
        self.of.contains_key(client)
    }

    /// Takes; false, and nothing is taken, if there is not so much or it is not this client's to take.
    pub(crate) fn take(&mut self, client: &ClientKey, amount: usize) -> bool {
        let free = self.max.saturating_sub(self.taken);
        let wanted = self.of(client).saturating_add(amount);
        if amount > free || (wanted > self.least && wanted > (free - amount) / PARTS) {
            return false;
        }
        self.taken += amount;
        *self.of.entry(client.clone()).or_default() += amount;
        true
    }

    /// Gives back.
    pub(crate) fn give(&mut self, client: &ClientKey, amount: usize) {
        if let Some(of) = self.of.get_mut(client) {
            let amount = amount.min(*of);
            *of -= amount;
            self.taken -= amount.min(self.taken);
            if *of == 0 {
                self.of.remove(client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Via;

    fn client(number: u64) -> ClientKey {
        ClientKey::new(Via::Direct(rpc::ConnId(number)), None)
    }

    fn take_all(quota: &mut Quota, number: u64) -> usize {
        let mut count = 0;
        while quota.take(&client(number), 1) {
            count += 1;
        }
        count
    }

    #[test]
    fn invariant_7_hundreds_may_take_all_they_may_and_a_newcomer_finds_room() {
        for rude in [1, 8, 100, 200] {
            let mut quota = Quota::new(65_536, 4);
            for number in 0..rude {
                take_all(&mut quota, number);
            }
            assert!(take_all(&mut quota, 9999) >= 4, "{rude} clients");
        }
        let mut quota = Quota::new(65_536, 4);
        let alone = take_all(&mut quota, 0);
        assert!(alone > 1900 && alone < 65_536 / 32, "{alone}");
    }

    #[test]
    fn what_is_given_back_is_there_again_and_nothing_is_left_of_who_had_it() {
        let mut quota = Quota::new(100, 10);
        assert!(quota.take(&client(1), 10));
        assert!(!quota.take(&client(1), 20), "more than its part");
        assert!(quota.take(&client(2), 10) && quota.has(&client(2)));
        quota.give(&client(1), 4);
        assert_eq!((quota.of(&client(1)), quota.taken()), (6, 16));
        quota.give(&client(1), 60);
        quota.give(&client(2), 10);
        assert_eq!((quota.taken(), quota.of.len()), (0, 0));
        assert!(!quota.take(&client(3), 101));
    }
}
