//! Isolation: what clients that do not read, or ask without end, cost the others. Instances of their own; `--only isolation`.
//!
//! ```text
//!  memory   the same events twice, without and with a listener that reads nothing: memory, another listener's lag, and how the first catches up
//!  crowd    10 listeners and 100 listings that nobody reads, and a job-info that is stopped: submits, and another client's first page
//!  flood    one client that asks without end, of job-info or of the job-manager: another one's questions
//! ```
//! A client that does not read is a connection whose socket is left alone: to the daemons that is what a process under SIGSTOP is.

mod crowd;
mod flood;
mod memory;
mod stopped;

use super::{queue, submit};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};

/// All of it.
pub(crate) async fn all(config: &Config, table: &mut Table) -> anyhow::Result<()> {
    let without = memory::run(config, false).await?;
    let with = memory::run(config, true).await?;
    memory::compare(table, &without, &with);
    let instance = Instance::start(config).await?;
    queue(&instance, false).await?;
    let measured = beside(config, &instance, table).await;
    let stopped = instance.stop().await;
    measured.and(stopped)
}

async fn beside(config: &Config, instance: &Instance, table: &mut Table) -> anyhow::Result<()> {
    submit::load(instance, config.jobs).await?;
    crowd::run(config, instance, table).await?;
    flood::run(instance, table).await
}

/// A row of this group without a figure for this stage.
fn row(name: &'static str, value: f64, unit: &'static str, target: Target, note: String) -> Row {
    Row {
        name,
        value,
        unit,
        p99: None,
        target,
        stage: Target::None,
        note,
    }
}
