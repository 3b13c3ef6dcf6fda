//! A crowd that does not read, and what others see of it.

use super::super::listing;
use super::stopped::Stopped;
use super::{row, submit};
use crate::sample::{Samples, ms, rate};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};
use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::json;

const LISTENERS: usize = 10;
const LISTINGS: usize = 100;
/// Jobs submitted in one measurement.
const JOBS: usize = 5000;
/// Pages asked for.
const PAGES: usize = 1000;

/// Submits and pages without the crowd, with it, and with a job-info that is stopped besides.
pub(crate) async fn run(
    config: &Config,
    instance: &Instance,
    table: &mut Table,
) -> anyhow::Result<()> {
    let alone = submits(instance).await?;
    let page_alone = pages(instance).await?;
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS {
        let ask = json!({"from": "all"});
        listeners.push(Stopped::open(&instance.socket, "job-manager.events", &ask).await?);
    }
    let mut listings = Vec::new();
    for _ in 0..LISTINGS {
        let ask = json!({"max_entries": 0, "attrs": ["all"], "since": 0.0});
        listings.push(Stopped::open(&instance.socket, "job-list.list", &ask).await?);
    }
    let page = pages(instance).await?;
    let beside = submits(instance).await?;
    instance.signal("weir-job-info", Signal::STOP)?;
    let all_stopped = submits(instance).await;
    instance.signal("weir-job-info", Signal::CONT)?;
    let all_stopped = all_stopped?;
    table.add(row(
        "isolation: submits beside a stopped crowd",
        100.0 * all_stopped / alone,
        "%",
        Target::Above(90.0),
        format!(
            "{LISTENERS} listeners, {LISTINGS} listings, job-info stopped: {:.1} k/s; {:.1} k/s with job-info running; {:.1} k/s alone",
            all_stopped / 1e3,
            beside / 1e3,
            alone / 1e3
        ),
    ));
    table.add(Row {
        p99: Some(ms(page.quantile(0.99))),
        ..row(
            "isolation: first page beside a stopped crowd",
            ms(page.median()),
            "ms",
            Target::Below(2.0 * ms(page_alone.median()) + 0.1),
            format!(
                "{:.3} ms without it (p99 {:.3}); {} pending",
                ms(page_alone.median()),
                ms(page_alone.quantile(0.99)),
                config.jobs
            ),
        )
    });
    goes_on(config, listings, listeners).await
}

/// Submits a second; the median of three goes.
async fn submits(instance: &Instance) -> anyhow::Result<f64> {
    let mut took = Samples::default();
    for _ in 0..3 {
        took.push(submit::load(instance, JOBS).await?.1);
    }
    Ok(rate(JOBS, took.median()))
}

async fn pages(instance: &Instance) -> anyhow::Result<Samples> {
    let client = instance.connect().await?;
    let pending = json!({"states": ["pending"]});
    let mut samples = Samples::default();
    for _ in 0..PAGES {
        let start = std::time::Instant::now();
        let found = listing::page(&client, 25, &pending).await?;
        samples.push(start.elapsed());
        ensure!(found == 25, "expected 25 rows, got {found}");
    }
    Ok(samples)
}

/// Those who were stopped get all they asked for.
async fn goes_on(
    config: &Config,
    listings: Vec<Stopped>,
    listeners: Vec<Stopped>,
) -> anyhow::Result<()> {
    for mut listing in listings.into_iter().take(5) {
        let mut rows = 0;
        while let Some(page) = listing.next().await? {
            rows += page["jobs"].as_array().map_or(0, Vec::len);
        }
        ensure!(
            rows >= config.jobs,
            "a listing that was stopped had {rows} rows of {}",
            config.jobs
        );
    }
    for mut listener in listeners.into_iter().take(2) {
        let mut next = 1;
        loop {
            let batch = listener.next().await?.context("the stream ended")?;
            for event in batch["events"].as_array().into_iter().flatten() {
                let seq = event["seq"].as_u64();
                ensure!(seq == Some(next), "expected entry {next}, got {seq:?}");
                next += 1;
            }
            if batch["caught_up"] == true {
                break;
            }
        }
    }
    Ok(())
}
