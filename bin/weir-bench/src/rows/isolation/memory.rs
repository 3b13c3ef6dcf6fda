//! The same events with and without a listener that reads nothing.

use super::super::PATIENCE;
use super::stopped::Stopped;
use super::{queue, row, submit};
use crate::sample::rate;
use crate::table::{Table, Target};
use crate::{Config, Instance};
use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use rpc::client::Stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Instant;

/// Jobs whose urgency is changed.
const JOBS: usize = 1000;
/// Entries of one change: the urgency, and the priority that follows.
const ENTRIES_PER_CHANGE: u64 = 2;
/// Changes under way at once.
const WINDOW: usize = 256;

/// What one run showed.
pub(crate) struct Run {
    events: u64,
    rss: u64,
    ring_entries: u64,
    /// The largest number of batches that the other listener was behind an answer.
    behind: u64,
    /// How fast the stopped listener had the rest when it went on, entries a second.
    catch_up: f64,
}

#[derive(Deserialize)]
struct Changed {
    seq: u64,
}

/// How far the other listener is, and what was answered that it has not seen.
#[derive(Default)]
struct Lag {
    batches: Cell<u64>,
    seq: Cell<u64>,
    /// Seq of an answer, and how many batches there had been.
    open: RefCell<VecDeque<(u64, u64)>>,
    worst: Cell<u64>,
}

impl Lag {
    fn answered(&self, seq: u64) {
        if seq > self.seq.get() {
            self.open.borrow_mut().push_back((seq, self.batches.get()));
        }
    }

    fn batch(&self, seq: u64) {
        self.batches.set(self.batches.get() + 1);
        self.seq.set(seq);
        self.open.borrow_mut().retain(|(answered, batches)| {
            let waits = *answered > seq;
            if !waits {
                let behind = self.batches.get() - batches - 1;
                self.worst.set(self.worst.get().max(behind));
            }
            waits
        });
    }
}

/// Makes the events; `stopped`: beside a listener that reads nothing.
pub(crate) async fn run(config: &Config, stopped: bool) -> anyhow::Result<Run> {
    let instance = Instance::start(config).await?;
    let done = on(config, &instance, stopped).await;
    let ended = instance.stop().await;
    let run = done?;
    ended.map(|()| run)
}

async fn on(config: &Config, instance: &Instance, stopped: bool) -> anyhow::Result<Run> {
    queue(instance, false).await?;
    let (ids, _) = submit::load(instance, JOBS).await?;
    let before = instance.stats().await?["seq"]
        .as_u64()
        .context("no seq in stats-get")?;
    let mut deaf = None;
    if stopped {
        let ask = json!({"after": before});
        let mut one = Stopped::open(&instance.socket, "job-manager.events", &ask).await?;
        ensure!(
            one.next()
                .await?
                .is_some_and(|first| first["caught_up"] == true),
            "the listener was not accepted"
        );
        deaf = Some(one);
    }
    let client = instance.connect().await?;
    let other = instance.connect().await?;
    let mut journal = other
        .stream("job-manager.events", &json!({"after": before}))
        .await?;
    let changes = config.events.div_ceil(ENTRIES_PER_CHANGE);
    let last = before + changes * ENTRIES_PER_CHANGE;
    let lag = Lag::default();
    let (changed, followed) = tokio::join!(
        change(&client, &ids, changes, &lag),
        follow(&mut journal, last, &lag)
    );
    changed?;
    followed?;
    let stats = instance.stats().await?;
    let rss = instance.rss("weir-job-manager")?;
    let catch_up = match deaf {
        Some(deaf) => catch_up(deaf, before, last).await?,
        None => 0.0,
    };
    Ok(Run {
        events: changes * ENTRIES_PER_CHANGE,
        rss,
        ring_entries: stats["journal"]["ring_entries"].as_u64().unwrap_or(0),
        behind: lag.worst.get(),
        catch_up,
    })
}

async fn change(client: &rpc::Client, ids: &[u64], changes: u64, lag: &Lag) -> anyhow::Result<()> {
    let requests = (0..changes).zip(ids.iter().cycle()).map(|(at, id)| {
        // Another one each time round, so that each is a change.
        let urgency = 1 + (at / ids.len() as u64) % 15;
        json!({"id": id, "urgency": urgency})
    });
    let mut answers = futures::stream::iter(requests)
        .map(|request| async move {
            client
                .call_as::<Changed>("job-manager.urgency", &request)
                .await
        })
        .buffer_unordered(WINDOW);
    while let Some(answer) = answers.next().await {
        lag.answered(answer?.seq);
    }
    Ok(())
}

async fn follow(journal: &mut Stream, last: u64, lag: &Lag) -> anyhow::Result<()> {
    while lag.seq.get() < last {
        let batch = tokio::time::timeout(PATIENCE, journal.next())
            .await
            .context("no event came")?
            .context("the journal ended")??;
        lag.batch(seq_of(&batch)?);
    }
    Ok(())
}

/// The `seq` at the beginning of a batch, without parsing all of it.
fn seq_of(batch: &[u8]) -> anyhow::Result<u64> {
    const MARK: &[u8] = b"\"seq\":";
    let at = batch
        .windows(MARK.len())
        .position(|part| part == MARK)
        .context("a batch without seq")?;
    let digits = batch[at + MARK.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Every entry after `before`, in order, none twice and none missing, up to `last`; entries a second.
async fn catch_up(mut deaf: Stopped, before: u64, last: u64) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut next = before + 1;
    while next <= last {
        let batch: Value = deaf.next().await?.context("the stream ended")?;
        for event in batch["events"].as_array().into_iter().flatten() {
            let seq = event["seq"].as_u64();
            ensure!(seq == Some(next), "expected entry {next}, got {seq:?}");
            next += 1;
        }
    }
    Ok(rate((last - before) as usize, start.elapsed()))
}

/// The rows.
pub(crate) fn compare(table: &mut Table, without: &Run, with: &Run) {
    const MIB: f64 = (1 << 20) as f64;
    let grown = (with.rss as f64 - without.rss as f64) / MIB;
    table.add(row(
        "isolation: memory for a stopped listener",
        grown,
        "MiB",
        Target::Below(16.0),
        format!(
            "{} events; job-manager {:.1} MiB with it, {:.1} without; ring {} and {} entries",
            with.events,
            with.rss as f64 / MIB,
            without.rss as f64 / MIB,
            with.ring_entries,
            without.ring_entries
        ),
    ));
    table.add(row(
        "isolation: another listener's lag",
        with.behind as f64,
        "batches",
        Target::Below(1.0),
        format!(
            "behind what was answered already, at worst; {} without the stopped one",
            without.behind
        ),
    ));
    table.add(row(
        "isolation: the stopped listener goes on",
        with.catch_up,
        "events/s",
        Target::None,
        format!("all {} in order, none twice, none missing", with.events),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_how_many_batches_come_before_the_one_that_has_it() {
        let lag = Lag::default();
        lag.answered(5);
        lag.batch(4);
        lag.batch(8);
        assert_eq!(lag.worst.get(), 1, "one batch came without it");
        lag.answered(8);
        lag.answered(9);
        lag.batch(10);
        assert_eq!(lag.worst.get(), 1);
        assert!(lag.open.borrow().is_empty());
    }

    #[test]
    fn the_seq_of_a_batch_is_read_where_it_stands() {
        let batch = br#"{"epoch":"00","seq":417,"events":[{"seq":416}]}"#;
        assert_eq!(seq_of(batch).unwrap(), 417);
        assert!(seq_of(b"{}").is_err());
    }
}
