//! All rows, in an order in which each finds the state it needs: nothing pending, then a stopped queue that fills, then real jobs.

mod fanout;
mod isolation;
mod listing;
mod priority;
mod statuses;
mod submit;
mod throughput;
mod watchers;

use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};
use serde_json::json;
use std::io::{Seek as _, Write as _};
use std::time::{Duration, Instant};

/// The group that has instances of its own.
pub(crate) use isolation::all as isolation;
/// Bodies of statuses, without an instance.
pub(crate) use statuses::all as statuses;
/// Who waits for pages of statuses, with an instance of its own.
pub(crate) use watchers::all as watchers;

/// Measures everything but isolation.
pub(crate) async fn all(
    config: &Config,
    instance: &Instance,
    table: &mut Table,
) -> anyhow::Result<()> {
    let append = fdatasync(config, false)?;
    let sync = fdatasync(config, true)?;
    for (name, samples, note) in [
        (
            "fdatasync after 4 KiB appended",
            &append,
            "a file that grows",
        ),
        (
            "fdatasync after 4 KiB overwritten",
            &sync,
            "a write-ahead log that is reused; durable rows are compared with this",
        ),
    ] {
        table.add(Row {
            name,
            value: ms(samples.median()),
            unit: "ms",
            p99: Some(ms(samples.quantile(0.99))),
            target: Target::None,
            stage: Target::None,
            note: note.into(),
        });
    }
    throughput::true_jobs(config, instance, table).await?;
    queue(instance, false).await?;
    let ids = submit::pipelined(config, instance, table).await?;
    submit::one_at_a_time(instance, table, sync.median()).await?;
    listing::pages(instance, table, ids.len()).await?;
    listing::processes(instance, table)?;
    priority::single(instance, table, &ids, sync.median()).await?;
    priority::all_at_once(instance, table, &ids).await?;
    fanout::backlog(instance, table).await?;
    fanout::live(config, instance, table).await?;
    Ok(())
}

/// Starts or stops the queue.
async fn queue(instance: &Instance, start: bool) -> anyhow::Result<()> {
    let request =
        json!({"start": start, "all": true, "nocheckpoint": false, "reason": "benchmark"});
    instance
        .connect()
        .await?
        .call("job-manager.queue-start", &request)
        .await?;
    Ok(())
}

/// What a durable write costs here, into a file that grows or over what is there.
fn fdatasync(config: &Config, over: bool) -> anyhow::Result<Samples> {
    const WRITES: usize = 200;
    let mut file = tempfile::tempfile_in(&config.dir)?;
    if over {
        file.write_all(&[1; 4096 * WRITES])?;
        file.sync_all()?;
        file.rewind()?;
    }
    let mut samples = Samples::default();
    for _ in 0..WRITES {
        let start = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        samples.push(start.elapsed());
    }
    Ok(samples)
}

/// A bound for anything that should come at once.
const PATIENCE: Duration = Duration::from_secs(120);
