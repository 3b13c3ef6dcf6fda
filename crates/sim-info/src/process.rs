//! One life of job-info: its link to the broker, its own socket, and the loop of `service.rs` in steps.

use crate::Config;
use crate::core::Info;
use crate::peer::{OUT_LIMITS, Via};
use info::Projection;
use sim_io::client::Sender;
use sim_io::{ConnHandle, ConnId, Outbox};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::{Cred, Message};

/// How a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// There was none: nobody serves the socket.
    Absent,
    /// It was accepted, and ended.
    Broken,
}

/// See the module.
pub struct Follower {
    info: Info,
    /// What this life's instants count from, and that moment on the simulator's clock.
    origin: (Instant, f64),
}

impl Follower {
    /// A new life. `statedir`: where the file `key` is.
    #[must_use]
    pub fn start(statedir: PathBuf, owner: u32, jitter: u64) -> Follower {
        let origin = (Instant::now(), sim_io::clock::monotonic());
        let config = Config {
            statedir,
            reconnect: Duration::from_secs(1),
            private: false,
        };
        Follower {
            info: Info::new(config, Cred::owner(owner), jitter, origin.0),
            origin,
        }
    }

    fn now(&self) -> Instant {
        let since = (sim_io::clock::monotonic() - self.origin.1).max(0.0);
        self.origin.0 + Duration::from_secs_f64(since)
    }

    fn seconds(&self, at: Instant) -> f64 {
        self.origin.1 + at.saturating_duration_since(self.origin.0).as_secs_f64()
    }

    /// The output queue of its connection to the broker, or of a client of its own socket.
    #[must_use]
    pub fn outbox() -> Outbox {
        Outbox::new(OUT_LIMITS)
    }

    /// Whether it wants to connect now.
    #[must_use]
    pub fn wants_to_connect(&self) -> bool {
        !self.info.link.up && self.info.link.due.is_some_and(|due| due <= self.now())
    }

    /// When it next wants to connect or has something to do by itself.
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<f64> {
        let connect = self.info.link.due.filter(|_| !self.info.link.up);
        let now = self.now();
        let tick = self.info.next_tick(now);
        connect
            .into_iter()
            .chain(tick)
            .min()
            .map(|at| self.seconds(at))
    }

    /// It is let in.
    pub fn connected(&mut self, outbox: Outbox) {
        self.info.link.attempts += 1;
        self.info.link.due = None;
        self.info.link_up(Sender::new(outbox));
    }

    /// The connection is over, or an attempt led to none.
    pub fn lost(&mut self, how: Lost) {
        let how = match how {
            Lost::Absent => crate::link::Lost::Absent,
            Lost::Broken => crate::link::Lost::Broken,
        };
        let now = self.now();
        self.info.link_lost(&"cut", how, now);
    }

    /// Whether it counts itself connected.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.info.link.up
    }

    /// A message of the broker.
    pub fn message(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Request(request) => self.info.take_request(Via::Broker, request, now),
            Message::Response(response) => self.info.take_response(&response, now),
            Message::Event(_) | Message::Control(_) => {}
        }
    }

    /// A client of its own socket.
    pub fn opened(&mut self, conn: u64, outbox: Outbox) {
        let handle = ConnHandle::new(ConnId(conn), outbox);
        self.info.out.open(ConnId(conn), handle);
    }

    /// A message of a client of its own socket.
    pub fn direct(&mut self, conn: u64, message: Message) {
        let now = self.now();
        if let Message::Request(request) = message {
            self.info
                .take_request(Via::Direct(ConnId(conn)), request, now);
        }
    }

    /// That client's queue has drained.
    pub fn drained(&mut self, conn: u64) {
        self.info.streams.unblock(Via::Direct(ConnId(conn)));
    }

    /// The way to the broker has room again.
    pub fn room(&mut self) {
        self.info.streams.unblock(Via::Broker);
    }

    /// A client of its own socket is gone.
    pub fn closed(&mut self, conn: u64) {
        let via = Via::Direct(ConnId(conn));
        self.info.out.close(ConnId(conn));
        self.info.forget(|caller| caller.via == via);
        self.info.streams.forget_clients(|client| client.via == via);
    }

    /// Its timers.
    pub fn tick(&mut self) {
        let now = self.now();
        self.info.tick(now);
    }

    /// Lets streams send until they can no more.
    pub fn pump(&mut self) {
        while self.info.streams.has_ready() {
            self.info.pump();
        }
    }

    /// The list.
    #[must_use]
    pub fn projection(&self) -> &Projection {
        &self.info.projection
    }

    /// Requests that wait for the list.
    #[must_use]
    pub fn held(&self) -> usize {
        self.info.hold.len()
    }

    /// Open streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.info.streams.len()
    }
}
