//! The end: what was decided becomes durable and is answered, streams end, clients read what waits for them, the store is closed.
//!
//! ```text
//!  no more requests ─▶ all durable │ 5 s │ out of room ─▶ streams end (61) ─▶ EOF to each that has read all │ 1 s ─▶ store closed │ 10 s
//! ```
//! Each step has its time; a disk that hangs or a client that does not read is not waited for. Nothing that was not answered needs it.

use crate::shell::Shell;
use crate::turns::{News, take_store_event};
use router::PeerId;
use rpc::Inbound;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// For the disk to take what was decided.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// For clients to read what waits for them.
const READ_MAX: Duration = Duration::from_secs(1);
/// For the store to be closed.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Ends everything. `healthy`: the store can still be written.
pub(crate) async fn stop(mut shell: Shell, mut news: News, healthy: bool) {
    if healthy
        && timeout(SETTLE_MAX, settle(&mut shell, &mut news))
            .await
            .is_err()
    {
        tracing::warn!("the disk does not take what was decided last; nobody was told of it");
    }
    shell.end_streams();
    shell.conns.finish_all();
    if timeout(READ_MAX, all_gone(&mut shell, &mut news))
        .await
        .is_err()
    {
        tracing::debug!(clients = shell.conns.len(), "clients that do not read");
        shell.conns.close_all();
    }
    drop(news);
    // The readers' threads end, so that the store's files are closed with the writer.
    let Shell {
        committer, reads, ..
    } = shell;
    drop(reads);
    let (done, closed) = oneshot::channel();
    let closing = std::thread::Builder::new()
        .name("store-close".into())
        .spawn(move || {
            committer.close();
            // Nobody waits any more: the time is over.
            let _ = done.send(());
        });
    if closing.is_err() || timeout(CLOSE_MAX, closed).await.is_err() {
        tracing::error!("the store does not close; what was acknowledged is in it");
    }
}

/// Until everything decided is durable and answered. With a full disk the reserve has room for it; if not, the store says so.
async fn settle(shell: &mut Shell, news: &mut News) {
    shell.end_turn();
    while shell.committer.undurable() > 0 {
        let event = news.store.recv().await;
        if let Err(error) = take_store_event(shell, event) {
            tracing::error!(%error, "at the end");
            return;
        }
        shell.end_turn();
    }
}

/// Until every connection is over. What clients still ask is not taken: whoever has no answer sees the connection end.
async fn all_gone(shell: &mut Shell, news: &mut News) {
    let Some(inbound) = news.inbound.as_mut() else {
        return;
    };
    while shell.conns.len() > 0 {
        match inbound.recv().await {
            Some(Inbound::Closed { conn, .. }) => drop(shell.conns.remove(PeerId(conn.0))),
            Some(Inbound::Opened { handle, .. }) => handle.close(),
            Some(Inbound::Messages { .. } | Inbound::Drained { .. }) => {}
            None => return,
        }
    }
}
