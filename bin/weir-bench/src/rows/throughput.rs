//! Real jobs: `true`, from submit to inactive, on all cores of the machine.

use super::{PATIENCE, submit};
use crate::sample::rate;
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use std::time::Instant;

/// Submits them all, and reads the journal until the last is clean.
pub(crate) async fn true_jobs(
    config: &Config,
    instance: &Instance,
    table: &mut Table,
) -> anyhow::Result<()> {
    const NAME: &str = "`true`, submit to inactive";
    if !table.wants(NAME) {
        return Ok(());
    }
    let client = instance.connect().await?;
    let mut journal = client
        .stream(
            "job-manager.events",
            &json!({"from": "now", "allow": ["clean", "finish"]}),
        )
        .await?;
    let start = Instant::now();
    let (ids, _) = submit::load(instance, config.run_jobs).await?;
    let (mut clean, mut failed) = (0, 0);
    while clean < ids.len() {
        let batch = tokio::time::timeout(PATIENCE, journal.next())
            .await
            .context("no event came")?
            .context("the journal ended")??;
        let batch: Value = serde_json::from_slice(&batch)?;
        for event in batch["events"].as_array().into_iter().flatten() {
            clean += usize::from(event["entry"]["name"] == "clean");
            failed += usize::from(
                event["entry"]["name"] == "finish" && event["entry"]["context"]["status"] != 0,
            );
        }
    }
    let took = start.elapsed();
    ensure!(failed == 0, "{failed} of the jobs failed");
    table.add(Row {
        name: NAME,
        value: rate(ids.len(), took),
        unit: "jobs/s",
        p99: None,
        target: Target::Above(500.0),
        stage: Target::Above(250.0),
        note: format!(
            "{} real processes, {} cores",
            ids.len(),
            std::thread::available_parallelism().map_or(1, usize::from)
        ),
    });
    Ok(())
}
