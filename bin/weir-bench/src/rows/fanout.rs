//! The journal to its readers: the whole backlog to one, live events to one and to many.

use super::{PATIENCE, submit};
use crate::sample::{Samples, rate};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};
use anyhow::{Context as _, ensure};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Entries of one submit.
const ENTRIES_PER_SUBMIT: u64 = 4;
/// Jobs submitted while listeners listen.
const LIVE_JOBS: usize = 5_000;

/// How many entries a batch holds, without parsing it.
fn count(batch: &[u8]) -> u64 {
    const MARK: &[u8] = b"\"eventlog_seq\":";
    let mut found = 0;
    let mut at = 0;
    while let Some(next) = batch[at..].iter().position(|byte| *byte == b'_') {
        at += next + 1;
        found += u64::from(at >= 10 && batch[at - 10..].starts_with(MARK));
    }
    found
}

/// Most that is looked through for the mark: it comes with what is known of nodes, and never with events.
const CAUGHT_UP_LEN_MAX: usize = 64 << 10;

/// Whether this response says that the backlog is over; it carries no events.
fn is_caught_up(batch: &[u8]) -> bool {
    let holds = |mark: &[u8]| batch.windows(mark.len()).any(|part| part == mark);
    batch.len() <= CAUGHT_UP_LEN_MAX && holds(b"\"caught_up\":true") && holds(b"\"events\":[]")
}

/// `from:"all"`, to one reader, until it is caught up.
pub(crate) async fn backlog(instance: &Instance, table: &mut Table) -> anyhow::Result<()> {
    let client = instance.connect().await?;
    let mut samples = Samples::default();
    let mut events = 0;
    for _ in 0..3 {
        let start = Instant::now();
        let mut journal = client
            .stream("job-manager.events", &json!({"from": "all"}))
            .await?;
        events = 0;
        loop {
            let batch = tokio::time::timeout(PATIENCE, journal.next())
                .await
                .context("no backlog came")?
                .context("the journal ended")??;
            events += count(&batch);
            if is_caught_up(&batch) {
                break;
            }
        }
        samples.push(start.elapsed());
        journal.cancel();
    }
    table.add(Row {
        name: "backlog replay to one reader",
        value: rate(events as usize, samples.median()),
        unit: "events/s",
        p99: None,
        target: Target::Above(500_000.0),
        stage: Target::None,
        note: format!("{events} events; median of 3"),
    });
    Ok(())
}

/// Submits with no listener, with one, and with many in a process of their own threads.
pub(crate) async fn live(
    config: &Config,
    instance: &Instance,
    table: &mut Table,
) -> anyhow::Result<()> {
    let mut alone = Samples::default();
    for _ in 0..5 {
        alone.push(submit::load(instance, LIVE_JOBS).await?.1);
    }
    let alone = rate(LIVE_JOBS, alone.median());
    for (listeners, name) in [
        (1, "live fan-out to 1 listener"),
        (config.listeners, "live fan-out to many listeners"),
    ] {
        let heard = Arc::new(AtomicU64::new(0));
        let ready = Arc::new(AtomicU64::new(0));
        let expected = LIVE_JOBS as u64 * ENTRIES_PER_SUBMIT;
        let thread = listen(
            instance.socket.clone(),
            listeners,
            expected,
            heard.clone(),
            ready.clone(),
        )?;
        while ready.load(Ordering::Acquire) < listeners as u64 {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        let (ids, took) = submit::load(instance, LIVE_JOBS).await?;
        let done = tokio::task::spawn_blocking(move || thread.join()).await?;
        done.map_err(|_| anyhow::anyhow!("the listeners' thread panicked"))??;
        let all = start.elapsed();
        let heard = heard.load(Ordering::Acquire);
        ensure!(
            heard == expected * listeners as u64,
            "expected {} deliveries, got {heard}",
            expected * listeners as u64
        );
        table.add(Row {
            name,
            value: rate(heard as usize, all),
            unit: "events/s",
            p99: None,
            target: if listeners > 1 {
                Target::Above(5e6)
            } else {
                Target::None
            },
            stage: Target::None,
            note: format!(
                "{listeners} listeners; submits {:.0} % of those without ({:.1} k/s)",
                100.0 * rate(ids.len(), took) / alone,
                alone / 1e3
            ),
        });
    }
    Ok(())
}

/// A thread with a runtime of its own whose listeners each wait for `expected` entries.
fn listen(
    socket: PathBuf,
    listeners: usize,
    expected: u64,
    heard: Arc<AtomicU64>,
    ready: Arc<AtomicU64>,
) -> anyhow::Result<std::thread::JoinHandle<anyhow::Result<()>>> {
    Ok(std::thread::Builder::new()
        .name("listeners".into())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let all = (0..listeners).map(|_| async {
                    let client = rpc::Client::connect(&socket).await?;
                    let mut journal = client
                        .stream("job-manager.events", &json!({"from": "now"}))
                        .await?;
                    let mut mine = 0;
                    let mut first = true;
                    while mine < expected {
                        let batch = tokio::time::timeout(PATIENCE, journal.next())
                            .await
                            .context("no event came")?
                            .context("the journal ended")??;
                        if std::mem::take(&mut first) {
                            ready.fetch_add(1, Ordering::AcqRel);
                        }
                        let events = count(&batch);
                        mine += events;
                        heard.fetch_add(events, Ordering::AcqRel);
                    }
                    anyhow::Ok(())
                });
                futures::future::try_join_all(all).await.map(|_| ())
            })
        })?)
}
