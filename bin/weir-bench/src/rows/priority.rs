//! Priority changes: one, durable; the same and seen in the listing; all in one request.

use super::listing;
use crate::Instance;
use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use anyhow::ensure;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// One at a time, with and without the listing after it.
pub(crate) async fn single(
    instance: &Instance,
    table: &mut Table,
    ids: &[u64],
    sync: Duration,
) -> anyhow::Result<()> {
    let client = instance.connect().await?;
    let (mut change, mut seen) = (Samples::default(), Samples::default());
    for (turn, id) in ids.iter().rev().cycle().take(400).enumerate() {
        let start = Instant::now();
        client
            .call(
                "job-manager.urgency",
                &json!({"id": id, "urgency": 17 + turn % 14}),
            )
            .await?;
        change.push(start.elapsed());
        listing::page(&client, 25, &json!({"states": ["pending"]})).await?;
        seen.push(start.elapsed());
    }
    let sync = ms(sync);
    table.add(Row {
        name: "one priority change, durable, round trip",
        value: ms(change.median()),
        unit: "ms",
        p99: Some(ms(change.quantile(0.99))),
        target: Target::Below(1.3 * sync + 0.2),
        stage: Target::Below(2.0 * sync + 0.5),
        note: format!(
            "{:.2} × fdatasync; {} pending",
            ms(change.median()) / sync,
            ids.len()
        ),
    });
    table.add(Row {
        name: "… and visible in order in the listing",
        value: ms(seen.median()),
        unit: "ms",
        p99: Some(ms(seen.quantile(0.99))),
        target: Target::Below(10.0),
        stage: Target::Below(10.0),
        note: "within one batch interval (10 ms)".into(),
    });
    Ok(())
}

/// All of them, three times.
pub(crate) async fn all_at_once(
    instance: &Instance,
    table: &mut Table,
    ids: &[u64],
) -> anyhow::Result<()> {
    let client = instance.connect().await?;
    let before = instance.stats().await?;
    let mut samples = Samples::default();
    for urgency in [20, 21, 22] {
        let jobs: Vec<(u64, u32)> = ids.iter().map(|id| (*id, urgency)).collect();
        let start = Instant::now();
        let answer: Value = client
            .call_as("job-manager.priority", &json!({"jobs": jobs}))
            .await?;
        samples.push(start.elapsed());
        let changed = answer["results"].as_array().map_or(0, |results| {
            results
                .iter()
                .filter(|one| one.as_array().is_some_and(|one| one.len() == 2))
                .count()
        });
        ensure!(
            changed == ids.len(),
            "expected {} changes, got {changed}",
            ids.len()
        );
    }
    let after = instance.stats().await?;
    let commits = after["store"]["commits"].as_u64().unwrap_or(0)
        - before["store"]["commits"].as_u64().unwrap_or(0);
    table.add(Row {
        name: "all priorities changed, one request",
        value: ms(samples.median()),
        unit: "ms",
        p99: None,
        target: Target::Below(100.0 * (ids.len() as f64 / 10_000.0)),
        stage: Target::None,
        note: format!("{} jobs; {commits} commits for 3 requests", ids.len()),
    });
    Ok(())
}
