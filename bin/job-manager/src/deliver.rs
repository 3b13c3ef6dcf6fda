//! Out: what was decided reaches connections, this process itself, or the engines' queues. Requests of clients to services are in `forward.rs`.

use crate::shell::{LOCAL, Shell};
use bytes::Bytes;
use router::PeerId;
use wire::{Message, Request, errno};

/// The longest topic of a request, in bytes: the router remembers topics.
pub(crate) const TOPIC_LEN_MAX: usize = 1024;
/// All hops of a request together, in bytes.
pub(crate) const HOPS_LEN_MAX: usize = 4096;

impl Shell {
    /// Carries out deliveries, and starts between them, until none is left.
    pub(crate) fn deliver(&mut self) {
        while !self.deliveries.is_empty() || !self.starts.is_empty() {
            let mut batch = std::mem::take(&mut self.deliveries);
            let mut starts = std::mem::take(&mut self.starts).into_iter().peekable();
            for (at, delivery) in batch.drain(..).enumerate() {
                while let Some((_, to, start)) = starts.next_if(|(before, ..)| *before <= at) {
                    self.queue_start(to, start);
                }
                if delivery.to == LOCAL {
                    self.local(delivery.message);
                } else {
                    self.send(delivery.to, delivery.message);
                }
            }
            for (_, to, start) in starts {
                self.queue_start(to, start);
            }
            if self.deliveries.is_empty() {
                // Its memory is used again.
                self.deliveries = batch;
            }
        }
    }

    fn send(&mut self, to: PeerId, message: Message) {
        match message {
            Message::Request(request) if self.is_own(&request) => {
                self.send_to_engine(to, request);
            }
            message @ Message::Request(_) => self.forward(to, &message),
            message => self.transmit(to, wire::to_frame(&message)),
        }
    }

    /// Whether this process asks, not a client.
    fn is_own(&self, request: &Request) -> bool {
        newest_hop(request).is_some_and(|hop| *hop == self.local_uuid)
    }

    /// Queues a frame for a connection; the only way out but for the journal's batches. Who does not read has its streams paused.
    pub(crate) fn transmit(&mut self, to: PeerId, frame: Bytes) {
        if self.conns.send(to, frame) {
            self.streams.set_writable(to, false);
            self.router.pause(to, &mut self.deliveries);
        }
    }

    /// A request whose topic or hops are longer than what is to be remembered of it may be.
    pub(crate) fn refuse_long(&mut self, from: PeerId, request: &Request) {
        if request.expects_response() {
            let text = format!(
                "a request may have a topic of {TOPIC_LEN_MAX} bytes and hops of {HOPS_LEN_MAX} bytes in all"
            );
            let mut response = request.error(errno::EINVAL, Some(&text));
            response.cred = self.conns.own_cred();
            response.routes = Some(response.routes.unwrap_or_default());
            self.transmit(from, wire::to_frame(&Message::Response(response)));
        }
    }
}

/// Whether it is longer than what is to be remembered of it may be.
pub(crate) fn too_long(request: &Request) -> bool {
    let hops = request
        .routes
        .iter()
        .flatten()
        .map(Bytes::len)
        .sum::<usize>();
    request.topic.as_bytes().len() > TOPIC_LEN_MAX || hops > HOPS_LEN_MAX
}

pub(crate) fn newest_hop(request: &Request) -> Option<&Bytes> {
    request.routes.as_ref().and_then(|hops| hops.first())
}
