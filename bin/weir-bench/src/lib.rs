//! Load generator and benchmarks: an instance of its own, loaded and measured through the public RPCs only.
//!
//! Each row is a function in `rows/` that returns what it measured; targets are those of the design's speed table. Durable rows
//! are printed beside the fdatasync median of the same folder, measured in the same run.

mod http;
mod instance;
mod jobs;
mod rows;
mod sample;
mod table;

use anyhow::Context as _;
use instance::Instance;
use table::Table;

/// What the rows of that group begin with.
const ISOLATION: &str = "isolation";
const STATUSES: &str = "statuses";
const WATCHERS: &str = "watchers";

/// What to measure.
#[derive(Debug, Clone)]
pub struct Config {
    /// Pending jobs to measure with.
    pub jobs: usize,
    /// Jobs that are really run.
    pub run_jobs: usize,
    /// Listeners of the fan-out row.
    pub listeners: usize,
    /// Connections that wait for pages of statuses.
    pub watchers: usize,
    /// Events while a listener is stopped, for the rows of isolation.
    pub events: u64,
    /// Only rows whose name contains one of these, separated by commas.
    pub only: Option<String>,
    /// Where the state goes.
    pub dir: std::path::PathBuf,
    /// Folder of the programs.
    pub bin: std::path::PathBuf,
    /// JSON instead of a table.
    pub json: bool,
}

/// Measures all rows and prints them.
/// # Errors
/// The instance cannot be started, or answers a request with an error.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let mut table = Table::new(config.only.clone(), config.json);
    let alone = [ISOLATION, STATUSES, WATCHERS];
    let only = config.only.as_deref().unwrap_or_default();
    if !only.split(',').all(|part| alone.contains(&part.trim())) {
        let instance = Instance::start(&config)
            .await
            .context("failed to start an instance")?;
        let measured = rows::all(&config, &instance, &mut table).await;
        let stopped = instance.stop().await;
        measured?;
        stopped?;
    }
    if table.wants(STATUSES) {
        rows::statuses(&mut table)?;
    }
    if table.wants(WATCHERS) {
        rows::watchers(&config, &mut table).await?;
    }
    if table.wants(ISOLATION) {
        rows::isolation(&config, &mut table).await?;
    }
    table.print();
    Ok(())
}
