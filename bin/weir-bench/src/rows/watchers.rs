//! Very many who wait for changes of pages of statuses, over real connections, while one job changes at a time.
//!
//! ```text
//!  10,000 pending jobs: 400 pages of 25, and 50 filters by priority
//!  10,000 connections: four in five wait for a page (20 each), the others for a filter (40 each)
//!  a round: one job gets another urgency; those of its page and of the filters it enters and leaves must be answered, nobody else
//! ```
//! Every watcher asks again with the index it was given as soon as it is answered. An instance of its own; `--only watchers`.

use super::{queue, submit};
use crate::http::{Connection, Site};
use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use crate::{Config, Instance};
use anyhow::{Context as _, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const PAGE_JOBS: usize = 25;
const PAGES: usize = 400;
const FILTERS: usize = 50;
const ROUNDS: usize = 60;
/// Urgencies that the filters ask for: 17 to 30.
const URGENCIES: usize = 14;
/// For anything that should come at once.
const PATIENCE: Duration = Duration::from_secs(60);
/// Files that are not connections of watchers.
const FILES_OTHERS: u64 = 200;

/// Who was answered, and when.
type Told = (usize, Instant);

/// Raises the limit of open files; how many watchers there may be.
fn room(wanted: usize) -> usize {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(1 << 20);
    let raised = Rlimit {
        current: Some(most),
        maximum: now.maximum,
    };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => now.current.unwrap_or(1024),
    };
    let room = files.saturating_sub(FILES_OTHERS);
    wanted.min(usize::try_from(room).unwrap_or(wanted))
}

/// What a watcher asks for.
fn path(watcher: usize, tokens: &[Option<String>]) -> String {
    if watcher % 5 < 4 {
        let page = page_of(watcher, tokens.len());
        let token = tokens.get(page).and_then(Option::as_deref);
        let token = token.map_or_else(String::new, |token| format!("&next_token={token}"));
        format!("/v1/jobs/statuses?per_page={PAGE_JOBS}{token}")
    } else {
        let filter = filter_of(watcher);
        let urgency = urgency_of(filter);
        format!(
            "/v1/jobs/statuses?filter=Priority+%3D%3D+{urgency}+and+Name+%21%3D+%22f{filter}%22"
        )
    }
}

fn page_of(watcher: usize, pages: usize) -> usize {
    (watcher / 5 * 4 + watcher % 5) % pages
}

fn filter_of(watcher: usize) -> usize {
    watcher / 5 % FILTERS
}

fn urgency_of(filter: usize) -> usize {
    17 + filter % URGENCIES
}

async fn watch(
    mut connection: Connection,
    watcher: usize,
    path: String,
    told: mpsc::Sender<Told>,
) -> anyhow::Result<()> {
    let mut index = connection.get(&path).await?.index;
    loop {
        let response = connection.get(&format!("{path}&index={index}")).await?;
        let at = Instant::now();
        ensure!(response.index >= index, "the index went back");
        index = response.index;
        if told.send((watcher, at)).await.is_err() {
            return Ok(());
        }
    }
}

/// Waits until that many requests wait in job-info.
async fn all_wait(probe: &mut Connection, count: usize) -> anyhow::Result<()> {
    let wanted = format!("weir_http_waiters {count}");
    let start = Instant::now();
    loop {
        let metrics = probe.get("/metrics").await?;
        let text = String::from_utf8_lossy(&metrics.body);
        if text.lines().any(|line| line == wanted) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let line = text
                .lines()
                .find(|line| line.starts_with("weir_http_waiters"));
            bail!("expected {wanted:?}, got {line:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The token of each page, and how many jobs there are on all of them.
async fn pages(probe: &mut Connection) -> anyhow::Result<(Vec<Option<String>>, usize)> {
    let mut tokens = vec![None];
    let mut jobs = 0;
    while let Some(token) = tokens.last() {
        let token: &Option<String> = token;
        let token = token.as_ref();
        let token = token.map_or_else(String::new, |token| format!("&next_token={token}"));
        let path = format!("/v1/jobs/statuses?per_page={PAGE_JOBS}{token}");
        let page = probe.get(&path).await?;
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&page.body)?;
        jobs += rows.len();
        match page.next {
            Some(next) => tokens.push(Some(next)),
            None => break,
        }
    }
    Ok((tokens, jobs))
}

/// The rows.
pub(crate) async fn all(config: &Config, table: &mut Table) -> anyhow::Result<()> {
    let instance = Instance::start(config).await?;
    let measured = measure(config, &instance, table).await;
    let stopped = instance.stop().await;
    measured.and(stopped)
}

async fn measure(config: &Config, instance: &Instance, table: &mut Table) -> anyhow::Result<()> {
    queue(instance, false).await?;
    let (ids, _) = submit::load(instance, PAGES * PAGE_JOBS).await?;
    let site = Site::of(&instance.dir)?;
    let mut probe = site.connect().await?;
    let start = Instant::now();
    let tokens = loop {
        let (tokens, jobs) = pages(&mut probe).await?;
        if (tokens.len(), jobs) == (PAGES, PAGES * PAGE_JOBS) {
            break tokens;
        }
        ensure!(
            start.elapsed() < PATIENCE,
            "expected {PAGES} pages of {PAGE_JOBS}, got {} and {jobs} jobs",
            tokens.len()
        );
        sleep(Duration::from_millis(50)).await;
    };
    let watchers = room(config.watchers);
    let before = instance.rss("weir-job-info")?;
    let (tell, mut told) = mpsc::channel::<Told>(watchers.max(1));
    let mut tasks = Vec::with_capacity(watchers);
    for watcher in 0..watchers {
        let connection = site.connect().await?;
        let path = path(watcher, &tokens);
        tasks.push(tokio::spawn(watch(connection, watcher, path, tell.clone())));
    }
    all_wait(&mut probe, watchers)
        .await
        .context("not all watchers came to wait")?;
    let each = instance.rss("weir-job-info")?.saturating_sub(before) as f64 / watchers as f64;

    let client = instance.connect().await?;
    let mut wakes = Samples::default();
    let mut last_of_round = Samples::default();
    let mut for_nothing = 0usize;
    // The order of the pages is that of submission, newest first.
    let newest: Vec<u64> = ids.iter().rev().copied().collect();
    let mut urgency = vec![16usize; newest.len()];
    for round in 0..ROUNDS {
        let place = (round * 163 + 7) % newest.len();
        let to = 17 + (round * 5) % URGENCIES;
        let (Some(id), Some(from)) = (newest.get(place), urgency.get_mut(place)) else {
            continue;
        };
        let touched = |watcher: usize| {
            if watcher % 5 < 4 {
                page_of(watcher, PAGES) == place / PAGE_JOBS
            } else {
                [*from, to].contains(&urgency_of(filter_of(watcher)))
            }
        };
        let expected = (0..watchers).filter(|watcher| touched(*watcher)).count();
        let start = Instant::now();
        client
            .call("job-manager.urgency", &json!({"id": id, "urgency": to}))
            .await?;
        let mut met = 0;
        while met < expected {
            let next = timeout(PATIENCE, told.recv()).await;
            let Some((watcher, at)) = next.context("a watcher was not woken")? else {
                bail!("the watchers are gone");
            };
            if touched(watcher) {
                met += 1;
                wakes.push(at - start);
                if met == expected {
                    last_of_round.push(at - start);
                }
            } else {
                for_nothing += 1;
            }
        }
        *from = to;
        all_wait(&mut probe, watchers).await?;
        while told.try_recv().is_ok() {
            for_nothing += 1;
        }
    }
    for task in tasks {
        if task.is_finished() {
            task.await.context("a watcher failed")??;
        } else {
            task.abort();
        }
    }
    let woken = wakes.len() / ROUNDS;
    let note = format!(
        "{watchers} real connections over {PAGES} pages and {FILTERS} filters, {} pending; {woken} of them touched a round, from the request to the whole body",
        newest.len()
    );
    let row = |name, value, unit, p99, target, note: &str| Row {
        name,
        value,
        unit,
        p99,
        target,
        stage: Target::None,
        note: note.into(),
    };
    table.add(row(
        "watchers, one job changes: woken after",
        ms(wakes.median()),
        "ms",
        Some(ms(wakes.quantile(0.99))),
        Target::None,
        &note,
    ));
    table.add(row(
        "watchers, one job changes: woken after, p99",
        ms(wakes.quantile(0.99)),
        "ms",
        None,
        Target::Below(50.0),
        &format!(
            "the last one of a round: median {:.1} ms",
            ms(last_of_round.median())
        ),
    ));
    table.add(row(
        "watchers, answered for nothing",
        for_nothing as f64,
        "",
        None,
        Target::Below(0.0),
        &format!("in {ROUNDS} rounds"),
    ));
    table.add(row(
        "watchers, memory each, job-info",
        each,
        "B",
        None,
        Target::None,
        "resident growth: connection, request, waiter",
    ));
    Ok(())
}
