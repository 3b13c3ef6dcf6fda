//! What each client takes of the memory that all clients share: ids of listings not read yet, answers being made.
//!
//! ```text
//!                        one client                                     all clients
//!  ids of listings       4 Mi, or one listing that is longer            16 Mi, or one listing that is longer
//!  long listings         64                                             (as many as have ids)
//!  bytes of answers      64 MiB                                         256 MiB
//! ```
//! What does not fit is refused with EAGAIN and the bound; nothing is taken then. Whoever took something gives the same
//! back when its stream is closed. Before a listing is refused because of what others hold, listings of clients that do not read
//! are ended (`list.rs`): they must not keep others waiting.

use std::collections::HashMap;

use wire::errno;

use crate::peer::{ClientKey, Refusal};

/// Most ids held by the listings of one client, unless it is one listing alone.
pub(crate) const CLIENT_IDS_MAX: usize = 4 << 20;
/// Most ids held by all listings together.
pub(crate) const IDS_MAX: usize = 16 << 20;
/// Most long listings one client may have open.
pub(crate) const CLIENT_LISTINGS_MAX: usize = 64;
/// A listing of more ids than this is a long one. Shorter ones are streams like others.
pub(crate) const SHORT_LISTING_IDS_MAX: usize = 1024;
/// Most bytes of answers that are being made for one client.
pub(crate) const CLIENT_ANSWER_BYTES_MAX: usize = 64 << 20;
/// Most bytes of answers that are being made for all.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 20;

const _: () = assert!(CLIENT_IDS_MAX < IDS_MAX && CLIENT_ANSWER_BYTES_MAX < ANSWER_BYTES_MAX);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Share {
    ids: usize,
    long_listings: usize,
    bytes: usize,
}

/// All that is taken, and by whom.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    ids: usize,
    bytes: usize,
    of: HashMap<ClientKey, Share>,
}

fn refused(text: String) -> Refusal {
    Refusal::new(errno::EAGAIN, text)
}

impl Shares {
    fn share(&self, client: &ClientKey) -> Share {
        self.of.get(client).copied().unwrap_or_default()
    }

    /// Whether the client may ask for another listing at all, so that none is computed in vain.
    pub(crate) fn may_list(&self, client: &ClientKey) -> Result<(), Refusal> {
        if self.share(client).ids < CLIENT_IDS_MAX {
            return Ok(());
        }
        Err(too_many_ids())
    }

    /// Whether all clients together leave room for a listing of `ids`.
    pub(crate) fn has_room(&self, ids: usize) -> bool {
        self.ids == 0 || self.ids + ids <= IDS_MAX
    }

    /// Whether it is others who keep a listing of `ids` from being taken.
    pub(crate) fn is_for_all(&self, client: &ClientKey, ids: usize) -> bool {
        !self.has_room(ids) && self.share(client).ids == 0
    }

    /// Ids held by all listings.
    pub(crate) fn ids(&self) -> usize {
        self.ids
    }

    /// Takes room for a listing of `ids`.
    pub(crate) fn take_listing(&mut self, client: &ClientKey, ids: usize) -> Result<(), Refusal> {
        let share = self.share(client);
        let long = usize::from(ids > SHORT_LISTING_IDS_MAX);
        if share.long_listings + long > CLIENT_LISTINGS_MAX {
            return Err(refused(format!(
                "this client has {CLIENT_LISTINGS_MAX} listings of more than {SHORT_LISTING_IDS_MAX} jobs open, the most \
                 one may have; read one to its end and try again"
            )));
        }
        if share.ids > 0 && share.ids + ids > CLIENT_IDS_MAX {
            return Err(too_many_ids());
        }
        if !self.has_room(ids) {
            return Err(refused(format!(
                "the listings that are being sent to all clients hold {IDS_MAX} jobs, the most they may; try again later"
            )));
        }
        self.ids += ids;
        let share = self.of.entry(client.clone()).or_default();
        share.ids += ids;
        share.long_listings += long;
        Ok(())
    }

    /// Gives back what [`Shares::take_listing`] took.
    pub(crate) fn give_listing(&mut self, client: &ClientKey, ids: usize) {
        self.ids = self.ids.saturating_sub(ids);
        self.change(client, |share| {
            share.ids = share.ids.saturating_sub(ids);
            let long = usize::from(ids > SHORT_LISTING_IDS_MAX);
            share.long_listings = share.long_listings.saturating_sub(long);
        });
    }

    /// Takes room for (more of) an answer.
    pub(crate) fn take_bytes(&mut self, client: &ClientKey, bytes: usize) -> Result<(), Refusal> {
        let share = self.share(client);
        if share.bytes + bytes > CLIENT_ANSWER_BYTES_MAX {
            return Err(refused(format!(
                "answers of {CLIENT_ANSWER_BYTES_MAX} bytes are being made for this client, the most one may have; wait for \
                 one, or ask with the streaming flag"
            )));
        }
        if self.bytes + bytes > ANSWER_BYTES_MAX {
            return Err(refused(format!(
                "answers of {ANSWER_BYTES_MAX} bytes are being made for all clients, the most there may be; try again \
                 later, or ask with the streaming flag"
            )));
        }
        self.bytes += bytes;
        self.of.entry(client.clone()).or_default().bytes += bytes;
        Ok(())
    }

    /// Gives back what [`Shares::take_bytes`] took.
    pub(crate) fn give_bytes(&mut self, client: &ClientKey, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.change(client, |share| {
            share.bytes = share.bytes.saturating_sub(bytes);
        });
    }

    fn change(&mut self, client: &ClientKey, change: impl FnOnce(&mut Share)) {
        if let Some(share) = self.of.get_mut(client) {
            change(share);
            if *share == Share::default() {
                self.of.remove(client);
            }
        }
    }
}

fn too_many_ids() -> Refusal {
    refused(format!(
        "the listings this client has not read hold {CLIENT_IDS_MAX} jobs, the most they may; read one to its end and try again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Via;

    fn client(name: &'static str) -> ClientKey {
        ClientKey::new(Via::Broker, Some(name.as_bytes()))
    }

    fn text(result: Result<(), Refusal>) -> String {
        let refusal = result.expect_err("no room");
        assert_eq!(refusal.errnum, errno::EAGAIN);
        refusal.text.expect("a text")
    }

    #[test]
    fn invariant_7_one_client_cannot_use_up_the_ids_of_all() {
        let (rude, other) = (client("rude"), client("other"));
        let mut shares = Shares::default();
        let mut taken = 0;
        while shares.take_listing(&rude, 100_000).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, CLIENT_IDS_MAX / 100_000);
        assert!(text(shares.take_listing(&rude, 100_000)).contains("4194304"));
        // A short one still fits, another client's does whatever its length.
        assert!(shares.take_listing(&rude, 10).is_ok());
        assert!(shares.take_listing(&other, CLIENT_IDS_MAX * 2).is_ok());
        // … but a second does not, and is not even computed.
        assert!(shares.may_list(&other).is_err());
        assert!(text(shares.take_listing(&other, 1)).contains("4194304"));
        shares.give_listing(&other, CLIENT_IDS_MAX * 2);
        assert!(shares.may_list(&other).is_ok());
        shares.give_listing(&rude, 10);
        for _ in 0..taken {
            shares.give_listing(&rude, 100_000);
        }
        assert_eq!((shares.ids, shares.of.len()), (0, 0), "nothing is left");
    }

    #[test]
    fn a_connection_of_our_own_socket_is_one_client_whatever_routes_it_writes() {
        let of = |conn, hop: &'static str| {
            ClientKey::new(Via::Direct(rpc::ConnId(conn)), Some(hop.as_bytes()))
        };
        assert_eq!(of(1, "a"), of(1, "b"));
        assert_ne!(of(1, "a"), of(2, "a"));
        assert_ne!(client("a"), client("b"));
    }

    #[test]
    fn the_bound_of_all_clients_holds_too() {
        let mut shares = Shares::default();
        for name in ["a", "b", "c", "d"] {
            assert!(shares.take_listing(&client(name), IDS_MAX / 4).is_ok());
        }
        assert!(text(shares.take_listing(&client("e"), 1)).contains("16777216"));
        shares.give_listing(&client("a"), IDS_MAX / 4);
        assert!(shares.take_listing(&client("e"), 1).is_ok());
    }

    #[test]
    fn answers_in_the_making_are_bounded_by_client_and_in_all() {
        let mut shares = Shares::default();
        let (rude, half) = (client("rude"), CLIENT_ANSWER_BYTES_MAX / 2);
        assert!(shares.take_bytes(&rude, half).is_ok());
        assert!(shares.take_bytes(&rude, half).is_ok());
        assert!(text(shares.take_bytes(&rude, 1)).contains("67108864"));
        for name in ["a", "b", "c"] {
            assert!(
                shares
                    .take_bytes(&client(name), CLIENT_ANSWER_BYTES_MAX)
                    .is_ok()
            );
        }
        assert!(text(shares.take_bytes(&client("d"), 1)).contains("268435456"));
        shares.give_bytes(&rude, half);
        assert!(shares.take_bytes(&client("d"), 1).is_ok());
    }
}
