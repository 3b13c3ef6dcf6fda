//! The loop: wait for news, take some of it, send what is due, hand over what was decided.
//!
//! A turn is bounded, and between two turns the connections' own tasks run: so answers leave while more is asked, and nobody's flood
//! keeps the disk, the clock or another client waiting. Within a turn connections take turns too (`Waiting`): what one sent is no further
//! in front of what another one sent than [`SHARE_TIME`] or [`SHARE_MESSAGES_MAX`], whatever it sent.

use crate::shell::{Found, Shell};
use router::PeerId;
use rpc::Inbound;
use rpc::server::Credit;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Messages taken in one turn …
const TURN_MESSAGES_MAX: usize = 512;
/// … and the time after which none is begun.
const TURN_TIME: Duration = Duration::from_millis(4);
/// Messages of one connection before it is another one's turn …
const SHARE_MESSAGES_MAX: usize = 256;
/// … and the time after which none is begun.
const SHARE_TIME: Duration = Duration::from_millis(1);
/// What is taken from the server at a time.
const INBOUND_MAX: usize = 256;
/// What is taken of the store's events, and of what the reads found, in one turn.
const STORE_EVENTS_MAX: usize = 16;
const FOUND_MAX: usize = 16;
/// `heartbeat.pulse` every so often.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// All that can wake the loop.
pub(crate) struct News {
    /// None until the server is there.
    pub(crate) inbound: Option<mpsc::Receiver<Inbound>>,
    pub(crate) store: mpsc::Receiver<store::Event>,
    pub(crate) found: mpsc::Receiver<Found>,
}

/// Loops until `shutdown` is ready, or (true) the instance was asked to shut down.
/// # Errors
/// The store can be written no more, or the server has stopped.
pub(crate) async fn turn_for_ever(
    shell: &mut Shell,
    news: &mut News,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<bool> {
    tokio::pin!(shutdown);
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut taken = Vec::with_capacity(INBOUND_MAX);
    let mut waiting = Waiting::default();
    let mut more = false;
    loop {
        let due = shell.next_deadline();
        let inbound = news.inbound.as_mut();
        // In no order: whichever of them never runs dry, the others are heard.
        tokio::select! {
            () = &mut shutdown => {
                waiting.close(shell);
                return Ok(false);
            }
            event = news.store.recv() => take_store_event(shell, event)?,
            answer = news.found.recv() => {
                if let Some(answer) = answer {
                    shell.take_found(answer);
                }
            }
            _ = heartbeat.tick() => shell.heartbeat(),
            count = receive(inbound, &mut taken) => {
                anyhow::ensure!(count > 0, "the server has stopped");
            }
            () = std::future::ready(()), if more || !waiting.is_empty() => {}
            () = until(due), if due.is_some() => {}
        }
        take_what_is_there(shell, news, &mut taken)?;
        for one in taken.drain(..) {
            waiting.take(shell, one);
        }
        let until = Instant::now() + TURN_TIME;
        let mut room = TURN_MESSAGES_MAX;
        while room > 0 && !waiting.is_empty() {
            let share = Share::new(room.min(SHARE_MESSAGES_MAX));
            room = room.saturating_sub(waiting.turn(shell, share));
            if Instant::now() >= until {
                break;
            }
        }
        more = shell.end_turn();
        if shell.shut_down {
            waiting.close(shell);
            return Ok(true);
        }
        tokio::task::yield_now().await;
    }
}

/// Some of each kind of news, as far as it has come.
fn take_what_is_there(
    shell: &mut Shell,
    news: &mut News,
    taken: &mut Vec<Inbound>,
) -> anyhow::Result<()> {
    for _ in 0..STORE_EVENTS_MAX {
        match news.store.try_recv() {
            Ok(event) => take_store_event(shell, Some(event))?,
            Err(_) => break,
        }
    }
    for _ in 0..FOUND_MAX {
        match news.found.try_recv() {
            Ok(found) => shell.take_found(found),
            Err(_) => break,
        }
    }
    if let Some(inbound) = &mut news.inbound {
        while taken.len() < INBOUND_MAX
            && let Ok(one) = inbound.try_recv()
        {
            taken.push(one);
        }
    }
    Ok(())
}

async fn receive(inbound: Option<&mut mpsc::Receiver<Inbound>>, into: &mut Vec<Inbound>) -> usize {
    match inbound {
        Some(inbound) => inbound.recv_many(into, INBOUND_MAX).await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due.into()).await;
    }
}

/// Takes what the store tells.
/// # Errors
/// It can be written no more.
pub(crate) fn take_store_event(
    shell: &mut Shell,
    event: Option<store::Event>,
) -> anyhow::Result<()> {
    match event {
        Some(store::Event::Durable {
            seq, commit_micros, ..
        }) => shell.take_durable(seq, commit_micros),
        Some(store::Event::NoSpace(full)) => {
            tracing::warn!(full, "space in the store");
            shell.take_no_space(full);
        }
        Some(store::Event::OutOfRoom) => {
            shell.take_out_of_room();
            anyhow::bail!(
                "the disk with the state directory is full, and what was under way did not fit: it was refused, and nothing of it is stored"
            )
        }
        Some(store::Event::Fatal(text)) => {
            anyhow::bail!("the store cannot be written any more: {text}")
        }
        None => anyhow::bail!("the store's writer has ended"),
    }
    Ok(())
}

/// How much of one connection is taken before it is another one's turn.
pub(crate) struct Share {
    left: usize,
    taken: usize,
    until: Instant,
}

impl Share {
    fn new(messages: usize) -> Share {
        Share {
            left: messages,
            taken: 0,
            until: Instant::now() + SHARE_TIME,
        }
    }

    /// Whether one more may be taken; it counts as taken then. The first always may.
    pub(crate) fn one_more(&mut self) -> bool {
        let may = self.left > 0 && (self.taken == 0 || Instant::now() < self.until);
        if may {
            self.left -= 1;
            self.taken += 1;
        }
        may
    }
}

/// What a connection sent and what became of it, in order.
enum Said {
    /// Messages of one read, those that were not taken yet.
    Messages {
        messages: std::vec::IntoIter<wire::Message>,
        #[allow(dead_code, reason = "held until they are taken")]
        credit: Credit,
    },
    /// It is over.
    Closed,
}

/// What was received and not taken, by connection; they take turns. Bounded by what the server lets each connection have waiting.
#[derive(Default)]
struct Waiting {
    of: HashMap<PeerId, VecDeque<Said>>,
    turns: VecDeque<PeerId>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    fn push(&mut self, peer: PeerId, said: Said) {
        let queue = self.of.entry(peer).or_default();
        if queue.is_empty() {
            self.turns.push_back(peer);
        }
        queue.push_back(said);
    }

    /// News from the server: who comes and who reads again is taken at once, the rest in turn.
    fn take(&mut self, shell: &mut Shell, inbound: Inbound) {
        match inbound {
            Inbound::Opened {
                conn,
                handle,
                cred,
                uuid,
                ..
            } => shell.take_opened(PeerId(conn.0), handle, cred, uuid),
            Inbound::Messages {
                conn,
                messages,
                credit,
            } => {
                let messages = messages.into_iter();
                self.push(PeerId(conn.0), Said::Messages { messages, credit });
            }
            Inbound::Drained { conn } => shell.take_drained(PeerId(conn.0)),
            Inbound::Closed { conn, reason } => {
                tracing::debug!(conn = conn.0, %reason, "closed");
                self.push(PeerId(conn.0), Said::Closed);
            }
        }
    }

    /// One connection's share; how many messages it was worth.
    fn turn(&mut self, shell: &mut Shell, mut share: Share) -> usize {
        let Some(peer) = self.turns.pop_front() else {
            return 0;
        };
        let Some(queue) = self.of.get_mut(&peer) else {
            return 0;
        };
        while let Some(said) = queue.front_mut() {
            match said {
                Said::Messages { messages, .. } => {
                    shell.take_messages(peer, messages, &mut share);
                    if messages.len() > 0 {
                        break;
                    }
                }
                Said::Closed => {
                    share.one_more();
                    shell.take_closed(peer);
                }
            }
            queue.pop_front();
        }
        if queue.is_empty() {
            self.of.remove(&peer);
        } else {
            self.turns.push_back(peer);
        }
        share.taken.max(1)
    }

    /// Nothing more is taken: the connections that are over are.
    fn close(&mut self, shell: &mut Shell) {
        for (peer, queue) in self.of.drain() {
            if queue.iter().any(|said| matches!(said, Said::Closed)) {
                shell.take_closed(peer);
            }
        }
        self.turns.clear();
    }
}
