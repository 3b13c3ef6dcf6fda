//! One client that asks without end and reads its answers, and another one that asks now and then.

use super::super::listing;
use super::row;
use crate::sample::{Samples, ms};
use crate::table::{Row, Table, Target};
use crate::{Instance, jobs};
use anyhow::ensure;
use futures::StreamExt as _;
use rpc::Client;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use wire::errno;

/// Requests that the flood has under way.
const WINDOW: usize = 20_000;
/// Questions of the other client.
const QUESTIONS: usize = 200;

/// Pages beside a flood of listings, submits beside a flood of the job-manager's own.
pub(crate) async fn run(instance: &Instance, table: &mut Table) -> anyhow::Result<()> {
    let client = instance.connect().await?;
    let pending = json!({"states": ["pending"]});
    let ask = json!({"max_entries": 100, "attrs": ["all"], "since": 0.0});
    let flood = Flood::start(instance, "job-list.list", ask)?;
    let mut samples = Samples::default();
    for _ in 0..QUESTIONS {
        let start = Instant::now();
        let found = listing::page(&client, 25, &pending).await?;
        samples.push(start.elapsed());
        ensure!(found == 25, "expected 25 rows, got {found}");
    }
    let said = flood.stop()?;
    table.add(Row {
        p99: Some(ms(samples.quantile(0.99))),
        ..row(
            "isolation: first page beside a flood",
            ms(samples.median()),
            "ms",
            Target::Below(20.0),
            format!("one client with {WINDOW} listings of 100 rows under way: {said}"),
        )
    });
    let flood = Flood::start(instance, "job-manager.list", json!({"max_entries": 100}))?;
    let submission = jobs::submit(&["true"]);
    let mut samples = Samples::default();
    for _ in 0..QUESTIONS {
        let start = Instant::now();
        client.call("job-ingest.submit", &submission).await?;
        samples.push(start.elapsed());
    }
    let said = flood.stop()?;
    table.add(Row {
        p99: Some(ms(samples.quantile(0.99))),
        ..row(
            "isolation: submit beside a flood",
            ms(samples.median()),
            "ms",
            Target::Below(20.0),
            format!("one client with {WINDOW} job-manager.list under way: {said}"),
        )
    });
    Ok(())
}

/// A client in a thread of its own that asks the same for as long as it may.
struct Flood {
    thread: std::thread::JoinHandle<anyhow::Result<()>>,
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    began: Instant,
}

impl Flood {
    /// Returns once its first answers have come.
    fn start(instance: &Instance, topic: &'static str, ask: Value) -> anyhow::Result<Flood> {
        let over = Arc::new(AtomicBool::new(false));
        let (answered, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (socket, shared) = (
            instance.socket.clone(),
            (over.clone(), answered.clone(), refused.clone()),
        );
        let (ready, first) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("flood".into())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(pour(socket, topic, ask, shared, ready))
            })?;
        first.recv()?;
        Ok(Flood {
            thread,
            over,
            answered,
            refused,
            began: Instant::now(),
        })
    }

    /// Ends it: what became of its requests.
    fn stop(self) -> anyhow::Result<String> {
        let seconds = self.began.elapsed().as_secs_f64();
        let (answered, refused) = (
            self.answered.load(Ordering::Relaxed),
            self.refused.load(Ordering::Relaxed),
        );
        self.over.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow::anyhow!("the flood's thread panicked"))??;
        Ok(format!(
            "{:.1} k/s answered, {:.1} k/s refused; the other none",
            answered as f64 / seconds / 1e3,
            refused as f64 / seconds / 1e3
        ))
    }
}

async fn pour(
    socket: PathBuf,
    topic: &'static str,
    ask: Value,
    (over, answered, refused): (Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>),
    ready: std::sync::mpsc::Sender<()>,
) -> anyhow::Result<()> {
    let client = Client::connect(&socket).await?;
    let (client, ask) = (&client, &ask);
    let mut answers = futures::stream::repeat(())
        .take_while(|()| std::future::ready(!over.load(Ordering::Relaxed)))
        .map(|()| client.call(topic, ask))
        .buffer_unordered(WINDOW);
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(_) => answered.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.errnum == errno::EAGAIN => refused.fetch_add(1, Ordering::Relaxed),
            Err(error) => return Err(error.into()),
        };
        // Whoever waits for the first is gone after it.
        let _ = ready.send(());
    }
    Ok(())
}
