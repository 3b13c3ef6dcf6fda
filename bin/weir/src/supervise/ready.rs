//! When an instance is ready: the job-manager answers, the listing service is there, the scheduler has said hello.
//!
//! No wait is silent: after some seconds it is said for whom, and what that one said last. On a full disk the engine is not heard until there
//! is room; that is said at once, and waited for without an end.

use super::Supervisor;
use super::daemon::Daemon;
use super::report::{Ends, Report};
use crate::connect::Session;
use crate::output::complain;
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
/// After so long it is said for whom is waited.
const SAID_AFTER: Duration = Duration::from_secs(5);
/// After so long it is asked whether the disk is full.
const ASKED_AFTER: Duration = Duration::from_millis(200);
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

/// A daemon that is waited for, and where in its log its words begin.
#[derive(Debug)]
pub struct Awaited {
    daemon: Daemon,
    from: u64,
}

impl Awaited {
    /// To be made before it is started.
    #[must_use]
    pub fn of(daemon: &Daemon) -> Self {
        Self {
            daemon: daemon.clone(),
            from: daemon.log_length(),
        }
    }
}

/// What a look found.
enum Look<T> {
    Ready(T),
    NotYet,
    /// There is no room, which is nobody's fault: waited for, however long.
    DiskFull,
}

impl<T> From<Option<T>> for Look<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or(Self::NotYet, Self::Ready)
    }
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
    awaited: &Awaited,
) -> anyhow::Result<Session> {
    let answers = async || {
        let session = Session::open_at(place).await.ok()?;
        let stats = session.call("job-manager.stats-get", &json!({})).await;
        let stats: ManagerStats = stats.ok()?;
        (stats.pid == *process.borrow()).then_some(session)
    };
    until(supervisor, awaited, async || answers().await.into()).await
}

#[derive(Deserialize)]
struct ManagerStats {
    pid: u32,
    #[serde(default)]
    no_space: bool,
}

/// Waits until the listing service is there and jobs can be started. A session that is lost meanwhile is replaced.
///
/// # Errors
/// A daemon gave up or keeps ending, or it takes too long.
pub async fn all(
    supervisor: &mut Supervisor,
    session: &mut Session,
    [info, runner]: &[Awaited; 2],
) -> anyhow::Result<Resources> {
    until(supervisor, info, async || {
        let answer = ask::<Value>(session, "job-list.ping", &json!({"seq": 0})).await;
        answer.into()
    })
    .await?;
    let mut asked = Instant::now();
    until(supervisor, runner, async || {
        let queue = named_queue(session).await;
        let status = ask::<QueueStatus>(session, "job-manager.queue-status", &queue).await;
        if status.is_some_and(|status| status.blocked.as_deref() != Some("scheduler")) {
            return Look::Ready(());
        }
        if asked.elapsed() < ASKED_AFTER {
            return Look::NotYet;
        }
        asked = Instant::now();
        let stats = ask::<ManagerStats>(session, "job-manager.stats-get", &json!({})).await;
        match stats {
            Some(stats) if stats.no_space => Look::DiskFull,
            _ => Look::NotYet,
        }
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
    Awaited { daemon, from }: &Awaited,
    mut look: impl AsyncFnMut() -> Look<T>,
) -> anyhow::Result<T> {
    let mut started = Instant::now();
    let (mut told, mut told_full) = (false, false);
    let mut ends: HashMap<&str, u32> = HashMap::new();
    loop {
        // The look itself is bounded by the connection: a daemon that ends closes it.
        match look().await {
            Look::Ready(found) => return Ok(found),
            Look::NotYet => {}
            Look::DiskFull => {
                started = Instant::now();
                if !std::mem::replace(&mut told_full, true) {
                    complain(
                        "start: the disk with the state directory is full: waiting for room; free some space, and the instance goes on",
                    );
                }
            }
        }
        if started.elapsed() > SAID_AFTER && !std::mem::replace(&mut told, true) {
            let said = daemon.last_words(*from);
            complain(&format!(
                "start: still waiting for {}; its log is {}{}",
                daemon.name,
                daemon.log.display(),
                said.map_or_else(String::new, |said| format!(" and ends: {said}"))
            ));
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
                "{} does not answer after {} s; its log is {}",
                daemon.name,
                READY_WITHIN.as_secs(),
                daemon.log.display()
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
