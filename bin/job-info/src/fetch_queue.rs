//! Streams that wait until they may look something up at the job-manager.
//!
//! Few look-ups are under way at a time, because what they bring is held until it is sent. Clients take turns: the first stream of each
//! comes before the second of any, so one with thousands does not delay one with a single one.

use std::collections::{BTreeSet, HashMap};

use crate::{peer::ClientKey, streams::StreamId};

/// The streams that wait.
#[derive(Debug, Default)]
pub(crate) struct FetchQueue {
    order: BTreeSet<(u32, StreamId)>,
    by_stream: HashMap<StreamId, (u32, ClientKey)>,
    by_client: HashMap<ClientKey, u32>,
}

impl FetchQueue {
    /// The stream waits, if it does not yet.
    pub(crate) fn add(&mut self, stream: StreamId, client: ClientKey) {
        if self.by_stream.contains_key(&stream) {
            return;
        }
        let before = self.by_client.entry(client.clone()).or_default();
        self.order.insert((*before, stream));
        self.by_stream.insert(stream, (*before, client));
        *before += 1;
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The next stream.
    pub(crate) fn pop(&mut self) -> Option<StreamId> {
        let (_, stream) = *self.order.first()?;
        self.remove(stream);
        Some(stream)
    }

    /// The stream waits no more.
    pub(crate) fn remove(&mut self, stream: StreamId) {
        let Some((turn, client)) = self.by_stream.remove(&stream) else {
            return;
        };
        self.order.remove(&(turn, stream));
        if let Some(count) = self.by_client.get_mut(&client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Via;

    #[test]
    fn clients_take_turns() {
        let client = |number| ClientKey::new(Via::Direct(rpc::ConnId(number)), None);
        let mut queue = FetchQueue::default();
        for stream in 1..=1000 {
            queue.add(stream, client(1));
            queue.add(stream, client(1));
        }
        queue.add(1001, client(2));
        queue.add(1002, client(2));
        assert_eq!(
            [queue.pop(), queue.pop(), queue.pop(), queue.pop()],
            [1, 1001, 2, 1002].map(Some)
        );
        queue.remove(3);
        assert_eq!(queue.pop(), Some(4));
        while queue.pop().is_some() {}
        assert!(queue.by_stream.is_empty() && queue.by_client.is_empty());
    }
}
