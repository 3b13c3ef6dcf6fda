//! Listings: the first page, a query that matches nothing, and the whole `weir jobs` process.

use crate::Instance;
use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use anyhow::ensure;
use rpc::Client;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What `weir jobs` asks for in its default format.
const ATTRS: [&str; 8] = [
    "userid", "name", "state", "ntasks", "nnodes", "t_submit", "priority", "urgency",
];

/// One page; how many rows came.
pub(crate) async fn page(
    client: &Client,
    count: usize,
    constraint: &Value,
) -> anyhow::Result<usize> {
    let request = json!({"max_entries": count, "attrs": ATTRS, "constraint": constraint});
    let answer: Value = client.call_as("job-list.list", &request).await?;
    Ok(answer["jobs"].as_array().map_or(0, Vec::len))
}

/// First page, and nothing found.
pub(crate) async fn pages(
    instance: &Instance,
    table: &mut Table,
    pending: usize,
) -> anyhow::Result<()> {
    let client = instance.connect().await?;
    for (name, constraint, rows, target, stage) in [
        (
            "first 25 pending, round trip",
            json!({"states": ["pending"]}),
            25,
            0.15,
            0.5,
        ),
        (
            "query that matches nothing (name)",
            json!({"name": ["no-such-job"]}),
            0,
            0.2,
            0.5,
        ),
        (
            "query that matches nothing (user)",
            json!({"userid": [4_000_000]}),
            0,
            0.2,
            0.5,
        ),
    ] {
        let mut samples = Samples::default();
        for _ in 0..2000 {
            let start = Instant::now();
            let found = page(&client, 25, &constraint).await?;
            samples.push(start.elapsed());
            ensure!(found == rows, "{name}: expected {rows} rows, got {found}");
        }
        table.add(Row {
            name,
            value: ms(samples.median()),
            unit: "ms",
            p99: Some(ms(samples.quantile(0.99))),
            target: Target::Below(target),
            stage: Target::Below(stage),
            note: format!("{pending} pending"),
        });
    }
    Ok(())
}

/// `weir jobs` from fork to exit.
pub(crate) fn processes(instance: &Instance, table: &mut Table) -> anyhow::Result<()> {
    for (name, count, times, target) in [
        ("weir jobs, whole process, 25 rows", "25", 50, 10.0),
        ("weir jobs, whole process, all rows", "0", 10, 300.0),
    ] {
        let mut samples = Samples::default();
        let mut lines = 0;
        for _ in 0..times {
            let start = Instant::now();
            let output = Command::new(&instance.weir)
                .args(["jobs", "--no-header", "-A", "-c", count])
                .env("WEIR_URI", instance.uri())
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()?;
            samples.push(start.elapsed());
            ensure!(output.status.success(), "weir jobs: {}", output.status);
            lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        }
        table.add(Row {
            name,
            value: ms(samples.median()),
            unit: "ms",
            p99: None,
            target: Target::Below(target),
            stage: Target::None,
            note: format!("{lines} rows (the design's second target is for 50,000)"),
        });
    }
    Ok(())
}
