//! Durable submits: many under way at once, and one at a time. The queue is stopped: these jobs stay pending.

use crate::sample::{Samples, ms, rate};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance, jobs};
use futures::StreamExt as _;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Submits under way at once.
pub(crate) const WINDOW: usize = 1024;

#[derive(Deserialize)]
struct Submitted {
    id: u64,
}

/// Submits `count` jobs; their ids and how long it took until the last was durable.
pub(crate) async fn load(
    instance: &Instance,
    count: usize,
) -> anyhow::Result<(Vec<u64>, Duration)> {
    let client = instance.connect().await?;
    let request = jobs::submit(&["true"]);
    let start = Instant::now();
    let mut ids = Vec::with_capacity(count);
    let mut answers = futures::stream::iter(0..count)
        .map(|_| client.call_as::<Submitted>("job-ingest.submit", &request))
        .buffer_unordered(WINDOW);
    while let Some(answer) = answers.next().await {
        ids.push(answer?.id);
    }
    let took = start.elapsed();
    ids.sort_unstable();
    Ok((ids, took))
}

/// Resident memory of job-manager, less what its ring holds, and of job-info.
async fn memory(instance: &Instance) -> anyhow::Result<(u64, u64)> {
    let ring = instance.stats().await?["journal"]["ring_bytes"]
        .as_u64()
        .unwrap_or(0);
    Ok((
        instance.rss("weir-job-manager")?.saturating_sub(ring),
        instance.rss("weir-job-info")?,
    ))
}

/// The pending jobs of all later rows.
pub(crate) async fn pipelined(
    config: &Config,
    instance: &Instance,
    table: &mut Table,
) -> anyhow::Result<Vec<u64>> {
    let before = memory(instance).await?;
    let (ids, took) = load(instance, config.jobs).await?;
    table.add(Row {
        name: "durable submits, pipelined",
        value: rate(ids.len(), took),
        unit: "jobs/s",
        p99: None,
        target: Target::Above(30_000.0),
        stage: Target::Above(10_000.0),
        note: format!(
            "{} jobs of 1 core, {} under way at once, 1 client",
            ids.len(),
            WINDOW
        ),
    });
    let after = memory(instance).await?;
    let each = |after: u64, before: u64| after.saturating_sub(before) as f64 / ids.len() as f64;
    for (name, value, most) in [
        (
            "memory per pending job, job-manager",
            each(after.0, before.0),
            1024.0,
        ),
        (
            "memory per pending job, job-info",
            each(after.1, before.1),
            600.0,
        ),
    ] {
        table.add(Row {
            name,
            value,
            unit: "bytes",
            p99: None,
            target: Target::Below(most),
            stage: Target::None,
            note: "growth of resident memory, without the journal's bounded ring".into(),
        });
    }
    Ok(ids)
}

/// One client that waits for each answer.
pub(crate) async fn one_at_a_time(
    instance: &Instance,
    table: &mut Table,
    sync: Duration,
) -> anyhow::Result<()> {
    let client = instance.connect().await?;
    let request = jobs::submit(&["true"]);
    let mut samples = Samples::default();
    for _ in 0..300 {
        let start = Instant::now();
        client.call("job-ingest.submit", &request).await?;
        samples.push(start.elapsed());
    }
    table.add(Row {
        name: "durable submits, one at a time",
        value: 1.0 / samples.median().as_secs_f64(),
        unit: "jobs/s",
        p99: None,
        target: Target::Above(0.7 / sync.as_secs_f64()),
        stage: Target::None,
        note: format!(
            "{:.2} ms each; 0.7 / fdatasync is the target",
            ms(samples.median())
        ),
    });
    Ok(())
}
