//! The loop: wait for news, take some of it, send what is due, hand over what was decided.
//!
//! A turn is bounded, and between two turns the connections' own tasks run: so answers leave while more is asked, and nobody's flood
//! keeps the disk, the clock or another client waiting.

use crate::shell::{Found, Shell};
use router::PeerId;
use rpc::Inbound;
use std::collections::VecDeque;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Messages taken in one turn (what one read brought is not divided).
const TURN_MESSAGES_MAX: usize = 512;
/// What is taken from the server at a time.
const INBOUND_MAX: usize = 256;
/// `heartbeat.pulse` every so often.
const HEARTBEAT: Duration = Duration::from_secs(2);

/// All that can wake the loop.
pub(crate) struct News {
    /// None until the server is there.
    pub(crate) inbound: Option<mpsc::Receiver<Inbound>>,
    pub(crate) store: mpsc::Receiver<store::Event>,
    pub(crate) found: mpsc::Receiver<Found>,
}

/// Loops until `shutdown` is ready.
/// # Errors
/// The store can be written no more, or the server has stopped.
pub(crate) async fn turn_for_ever(
    shell: &mut Shell,
    news: &mut News,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    tokio::pin!(shutdown);
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut taken = Vec::with_capacity(INBOUND_MAX);
    let mut waiting: VecDeque<Inbound> = VecDeque::with_capacity(INBOUND_MAX);
    let mut more = false;
    loop {
        let due = shell.next_deadline();
        let inbound = news.inbound.as_mut();
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            event = news.store.recv() => take_store_event(shell, event)?,
            answer = news.found.recv() => {
                if let Some(answer) = answer {
                    shell.take_found(answer);
                }
            }
            _ = heartbeat.tick() => shell.heartbeat(),
            count = receive(inbound, &mut taken), if waiting.is_empty() => {
                anyhow::ensure!(count > 0, "the server has stopped");
                waiting.extend(taken.drain(..));
            }
            () = std::future::ready(()), if more || !waiting.is_empty() => {}
            () = until(due), if due.is_some() => {}
        }
        let mut room = TURN_MESSAGES_MAX;
        while room > 0
            && let Some(one) = waiting.pop_front()
        {
            room = room.saturating_sub(take_inbound(shell, one));
        }
        more = shell.end_turn();
        tokio::task::yield_now().await;
    }
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
        Some(store::Event::Fatal(text)) => {
            anyhow::bail!("the store cannot be written any more: {text}")
        }
        None => anyhow::bail!("the store's writer has ended"),
    }
    Ok(())
}

/// Takes one piece of news from the server; how many messages it was worth.
fn take_inbound(shell: &mut Shell, inbound: Inbound) -> usize {
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
            let count = messages.len();
            shell.take_messages(PeerId(conn.0), messages);
            drop(credit);
            return count;
        }
        Inbound::Drained { conn } => shell.take_drained(PeerId(conn.0)),
        Inbound::Closed { conn, reason } => {
            tracing::debug!(conn = conn.0, %reason, "closed");
            shell.take_closed(PeerId(conn.0));
        }
    }
    1
}
