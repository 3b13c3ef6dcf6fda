//! When an instance is ready: the job-manager answers, the listing service is there, the scheduler has said hello.

use super::{Ends, Report, Supervisor};
use crate::connect::Session;
use crate::uri::Place;
use anyhow::bail;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The wait between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// An instance with a large store takes a while; more than this is a fault.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// So many ends of a daemon before the instance was ready, and it is given up on.
const ENDS_MAX: u32 = 4;

/// The resources of an instance, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Nodes.
    pub nodes: u64,
    /// Cores.
    pub cores: u64,
}

/// Waits until the job-manager answers, and it is ours: where the state directory is in use, somebody else's answers until ours
/// has found that out and ends.
///
/// # Errors
/// It ended instead, or did not answer in time.
pub async fn manager(
    supervisor: &mut Supervisor,
    place: &Place,
    process: &watch::Receiver<u32>,
) -> anyhow::Result<Session> {
    until(supervisor, "weir-job-manager does not answer", async || {
        let session = Session::open_at(place).await.ok()?;
        let stats = session.call("job-manager.stats-get", &json!({})).await;
        let stats: ManagerStats = stats.ok()?;
        (stats.pid == *process.borrow()).then_some(session)
    })
    .await
}

#[derive(Deserialize)]
struct ManagerStats {
    pid: u32,
}

/// Waits until the listing service is there and jobs can be started. A session that is lost meanwhile is replaced.
///
/// # Errors
/// A daemon gave up or keeps ending, or it takes too long.
pub async fn all(supervisor: &mut Supervisor, session: &mut Session) -> anyhow::Result<Resources> {
    until(supervisor, "weir-job-info does not answer", async || {
        ask::<Value>(session, "job-list.ping", &json!({"seq": 0})).await
    })
    .await?;
    until(supervisor, "weir-job-runner does not answer", async || {
        let queue = named_queue(session).await;
        let status: QueueStatus = ask(session, "job-manager.queue-status", &queue).await?;
        (status.blocked.as_deref() != Some("scheduler")).then_some(())
    })
    .await?;
    Ok(resources(session).await.unwrap_or_default())
}

/// Asks; a session that was lost is replaced, for the next time.
async fn ask<T: DeserializeOwned>(
    session: &mut Session,
    topic: &str,
    payload: &Value,
) -> Option<T> {
    match session.call(topic, payload).await {
        Ok(answer) => Some(answer),
        Err(error) => {
            if error.is_lost()
                && let Ok(new) = Session::open_at(session.place()).await
            {
                *session = new;
            }
            None
        }
    }
}

#[derive(Deserialize)]
struct QueueStatus {
    #[serde(default)]
    blocked: Option<String>,
}

/// `{}`, or the name of some queue where there are several.
async fn named_queue(session: &Session) -> Value {
    let list: Result<protocol::job_manager::QueueListResponse, _> =
        session.call("job-manager.queue-list", &json!({})).await;
    match list.ok().and_then(|list| list.queues.into_iter().next()) {
        Some(name) => json!({"name": name}),
        None => json!({}),
    }
}

async fn until<T>(
    supervisor: &mut Supervisor,
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    let mut ends: HashMap<&str, u32> = HashMap::new();
    loop {
        // The look itself is bounded by the connection: a daemon that ends closes it.
        if let Some(found) = look().await {
            return Ok(found);
        }
        tokio::select! {
            report = supervisor.report() => {
                if let Report::Ended { name, how, said, ends: Ends { log, .. }, .. } = &report {
                    let ends = ends.entry(name).or_default();
                    *ends += 1;
                    if *ends >= ENDS_MAX {
                        bail!(
                            "giving up: {name} ended {ends} times before the instance was ready; the last time it {how}{}; its log is {}",
                            said.as_ref().map_or_else(String::new, |said| format!(": {said}")),
                            log.display()
                        );
                    }
                }
                report.tell()?;
            }
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if started.elapsed() > READY_WITHIN {
            bail!(
                "{what} after {} s; its log is in the state directory",
                READY_WITHIN.as_secs()
            );
        }
    }
}

/// Asks for what there is to run jobs on.
async fn resources(session: &Session) -> Option<Resources> {
    let status: Value = session
        .call("resource.sched-status", &json!({}))
        .await
        .ok()?;
    let mut found = Resources::default();
    for group in status.pointer("/all/execution/R_lite")?.as_array()? {
        let count = |value: Option<&Value>| {
            value
                .and_then(Value::as_str)
                .and_then(|text| text.parse::<job::idset::Idset>().ok())
                .map_or(0, |set| set.count())
        };
        let nodes = count(group.get("rank"));
        found.nodes += nodes;
        found.cores += nodes * count(group.pointer("/children/core"));
    }
    Some(found)
}
