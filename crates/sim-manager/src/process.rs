//! One life of the job-manager: opened over a disk, fed with news, driven turn by turn.
//!
//! ```text
//!  opened, messages, drained, closed ┐
//!  store_event, found, heartbeat     ├─▶ Shell ─▶ end_turn         (the order of `turns.rs`, the choice the simulator's)
//! ```

use crate::Config;
use crate::builtin::Attrs;
use crate::clock::Clock;
use crate::committer::Committer;
use crate::conns::{Conns, OUTBOX_LIMITS};
use crate::reads::Reads;
use crate::restore;
use crate::retain::{LogLimit, Retention};
use crate::set_aside::SetAside;
use crate::shell::{Found, LOCAL, OWN_SERVICES, Parts, Shell};
use crate::streams::Streams;
use crate::turns::Share;
use bytes::Bytes;
use manager::{Input, Manager};
use router::{PeerId, PeerInfo, PeerKind, Router};
use sim_io::{ConnHandle, ConnId, Disk, Outbox, Reader};
use std::collections::VecDeque;
use std::time::Duration;
use wire::{Cred, Message};

pub use crate::reads::Lane;

/// What a life is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The user who runs the instance.
    pub owner: u32,
    /// The key of weir's own services.
    pub key: String,
    /// Distinguishes this life's hops from all others.
    pub life: u64,
    /// Entries in the journal's ring.
    pub ring_entries: usize,
    /// Over which events are gathered for a busy listener, in seconds.
    pub batch_interval: f64,
    /// Reads that may wait in a lane.
    pub reads_max: usize,
    /// Entries of the log that are kept.
    pub log_entries: u64,
    /// Jobs that stay of those that ended.
    pub inactive_num: Option<u64>,
}

/// What a check may want to know of a life.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Requests that wait for an answer of the manager.
    pub asked: usize,
    /// Look-ups that wait for the disk.
    pub lookups: usize,
    /// Requests that wait for an engine.
    pub engines: usize,
    /// Entries that are not durable.
    pub undurable: usize,
    /// Actions that wait for the disk.
    pub held: usize,
    /// Open connections.
    pub conns: usize,
}

/// Why a life ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The disk is full and the reserve used up. Who waited was told so, and reads it before the connection ends.
    OutOfRoom,
    /// The disk is broken.
    Fatal,
}

/// See the module.
pub struct Broker {
    shell: Shell,
    disk: Disk,
    reader: Reader,
    found: VecDeque<Found>,
}

impl Broker {
    /// Opens the store and takes up what is in it, as `open.rs` does.
    /// # Errors
    /// The store cannot be read.
    pub fn start(disk: &Disk, settings: &Settings) -> Result<Broker, String> {
        let recovered = disk.model().recovered();
        let writer = disk.open();
        let reader = disk.reader();
        let mut manager = Manager::new(
            manager::Config {
                owner: settings.owner,
                private: false,
            },
            manager::Recovered {
                newest_seq: recovered.newest_seq,
                max_jobid: recovered.max_jobid,
                last_timestamp: recovered.last_timestamp,
                meta: recovered.meta.into_iter().collect(),
            },
        );
        let set_aside = SetAside::default();
        restore::jobs(&mut manager, &reader, recovered.newest_seq, &set_aside)?;
        for id in set_aside.ids(None) {
            manager.restore_set_aside(id);
        }
        manager.keep(manager::Keep {
            age: None,
            num: settings.inactive_num,
        });
        let retention = Retention {
            log_entries: settings.log_entries,
            ..Retention::default()
        };
        let log = LogLimit::new(&retention, recovered.floor, recovered.newest_seq, 0);
        let own_cred = Cred::owner(settings.owner);
        let local_uuid = Bytes::from(format!("job-manager-{}", settings.life));
        let broker_uuid = Bytes::from(format!("broker-{}", settings.life));
        let mut router = Router::new(own_cred, broker_uuid);
        router.add_peer(PeerInfo {
            id: LOCAL,
            uuid: local_uuid.clone(),
            cred: own_cred,
            kind: PeerKind::InProcess,
        });
        for name in OWN_SERVICES {
            router
                .add_service(LOCAL, own_cred, name, true)
                .map_err(|error| error.to_string())?;
        }
        let config = Config {
            journal_size_limit: settings.ring_entries,
            batch_interval: Duration::from_secs_f64(settings.batch_interval),
        };
        let streams = Streams::new(
            &config,
            &recovered.epoch,
            recovered.newest_seq,
            recovered.floor,
            set_aside.clone(),
        );
        let mut shell = Shell::new(Parts {
            config,
            clock: Clock,
            attrs: Attrs::new(vec![("weir.epoch", recovered.epoch)]),
            key: settings.key.clone(),
            manager,
            router,
            conns: Conns::new(own_cred),
            streams,
            committer: Committer::new(writer, log),
            reads: Reads::new(settings.reads_max),
            set_aside,
            local_uuid,
        });
        shell.handle(Input::Start);
        if shell.committer.is_halted() {
            shell.take_no_space(true);
        }
        Ok(Broker {
            shell,
            disk: disk.clone(),
            reader,
            found: VecDeque::new(),
        })
    }

    /// The output queue of a new connection.
    #[must_use]
    pub fn outbox() -> Outbox {
        Outbox::new(OUTBOX_LIMITS)
    }

    /// A client was let in.
    pub fn opened(&mut self, conn: u64, outbox: Outbox, cred: Cred, uuid: Bytes) {
        let handle = ConnHandle::new(ConnId(conn), outbox);
        self.shell.take_opened(PeerId(conn), handle, cred, uuid);
    }

    /// Messages of one read of one connection, so many at a time.
    pub fn messages(&mut self, conn: u64, messages: Vec<Message>, at_a_time: usize) {
        let mut messages = messages.into_iter();
        while messages.len() > 0 {
            let mut share = Share::new(at_a_time.max(1));
            self.shell
                .take_messages(PeerId(conn), &mut messages, &mut share);
            if messages.len() > 0 {
                let _ = self.shell.end_turn();
            }
        }
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: u64) {
        self.shell.take_closed(PeerId(conn));
    }

    /// A queue fell below low water.
    pub fn drained(&mut self, conn: u64) {
        self.shell.take_drained(PeerId(conn));
    }

    /// Takes what the store told next; `None`: nothing.
    /// # Errors
    /// The store can be written no more: the daemon ends.
    pub fn store_event(&mut self) -> Result<Option<store::Event>, End> {
        let Some(event) = self.disk.next_event() else {
            return Ok(None);
        };
        match &event {
            store::Event::Durable {
                seq, commit_micros, ..
            } => self.shell.take_durable(*seq, *commit_micros),
            store::Event::NoSpace(full) => self.shell.take_no_space(*full),
            store::Event::OutOfRoom => {
                self.shell.take_out_of_room();
                return Err(End::OutOfRoom);
            }
            store::Event::Fatal(_) => return Err(End::Fatal),
        }
        Ok(Some(event))
    }

    /// Does the next read of a lane; what it found waits for [`Broker::found`].
    pub fn read(&mut self, lane: Lane) -> bool {
        match self.shell.reads.run(lane, &self.reader) {
            Some(found) => {
                self.found.push_back(found);
                true
            }
            None => false,
        }
    }

    /// How many reads wait in a lane.
    #[must_use]
    pub fn reads(&self, lane: Lane) -> usize {
        self.shell.reads.len(lane)
    }

    /// Whether a read has found something.
    #[must_use]
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Takes what a read found.
    pub fn found(&mut self) {
        if let Some(found) = self.found.pop_front() {
            self.shell.take_found(found);
        }
    }

    /// Time passed.
    pub fn heartbeat(&mut self) {
        self.shell.heartbeat();
    }

    /// The end of a turn; true if there is more to do at once.
    #[must_use]
    pub fn end_turn(&mut self) -> bool {
        self.shell.end_turn()
    }

    /// Whether it was asked to end, and has said that it does.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shell.shut_down
    }

    /// Ends the streams of the journal, as a polite stop does.
    pub fn end_streams(&mut self) {
        self.shell.end_streams();
    }

    /// When something is due without news.
    #[must_use]
    pub fn next_deadline(&self) -> Option<f64> {
        let services = self.shell.inboxes.next_deadline();
        let streams = self.shell.streams.next_deadline();
        streams.into_iter().chain(services).min().map(|at| at.0)
    }

    /// The core.
    #[must_use]
    pub fn manager(&self) -> &Manager {
        &self.shell.manager
    }

    /// Whether weir's services have their names.
    #[must_use]
    pub fn has_service(&self, name: &str) -> bool {
        self.shell.router.owner_of(name).is_some()
    }

    /// The newest seq that listeners may know of.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.shell.streams.durable().0
    }

    /// Sizes of what must be bounded.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            asked: self.shell.asked.len(),
            lookups: self.shell.lookups.len(),
            engines: self.shell.engines.len(),
            undurable: self.shell.committer.undurable(),
            held: self.shell.manager.held(),
            conns: self.shell.conns.len(),
        }
    }
}
