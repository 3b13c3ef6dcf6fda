//! All rows, in an order in which each finds the state it needs: nothing pending, then a stopped queue that fills, then real jobs.

mod fanout;
mod listing;
mod priority;
mod submit;
mod throughput;

use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};
use serde_json::json;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Measures everything.
pub(crate) async fn all(
    config: &Config,
    instance: &Instance,
    table: &mut Table,
) -> anyhow::Result<()> {
    let sync = fdatasync(config)?;
    table.add(Row {
        name: "fdatasync of 4 KiB in this folder",
        value: ms(sync.median()),
        unit: "ms",
        p99: Some(ms(sync.quantile(0.99))),
        target: Target::None,
        stage: Target::None,
        note: "what durable rows cost at least".into(),
    });
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

/// What a durable write costs here.
fn fdatasync(config: &Config) -> anyhow::Result<Samples> {
    let mut file = tempfile::tempfile_in(&config.dir)?;
    let mut samples = Samples::default();
    for _ in 0..200 {
        let start = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        samples.push(start.elapsed());
    }
    Ok(samples)
}

/// A bound for anything that should come at once.
const PATIENCE: Duration = Duration::from_secs(120);
