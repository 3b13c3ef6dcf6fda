//! How many jobs of `true` go from submit to inactive in a second: starts a job-manager and an engine, submits, waits for the last.
//!
//! `cargo run --release -p job-runner --example true_rate -- BINDIR [JOBS]`; BINDIR holds weir-job-manager and weir-job-runner, and the
//! state directory is made in the current one, so that its file system is the one that counts.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use rpc::client::{Client, ConnectOptions, Retry};
use serde_json::json;

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

fn j() -> String {
    let userid = rustix::process::geteuid().as_raw();
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    let environment: serde_json::Map<String, serde_json::Value> = std::env::vars()
        .map(|(name, value)| (name, value.into()))
        .collect();
    let jobspec = json!({
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "cwd": "/tmp", "environment": environment}},
        "version": 1
    });
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    format!("{}.{}.none", encode(&header), encode(&jobspec.to_string()))
}

/// The median of `fdatasync` after a write of 4 KiB, in milliseconds.
fn fdatasync_ms(dir: &Path) -> anyhow::Result<f64> {
    use std::io::Write as _;
    let mut file = std::fs::File::create(dir.join("probe"))?;
    let mut taken = Vec::new();
    for _ in 0..50 {
        file.write_all(&[0; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        taken.push(start.elapsed().as_secs_f64() * 1e3);
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken[taken.len() / 2])
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let bindir = arguments.next().context("usage: true_rate BINDIR [JOBS]")?;
    let count: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let statedir = std::path::absolute(format!("true-rate.{}", std::process::id()))?;
    std::fs::create_dir(&statedir)?;
    let result = measure(&bindir, &statedir, count);
    std::fs::remove_dir_all(&statedir)?;
    result
}

fn measure(bindir: &str, statedir: &Path, count: usize) -> anyhow::Result<()> {
    let uri = rpc::uri::of_socket(&statedir.join("socket"));
    let daemon = |name: &str, arguments: &[&str]| -> anyhow::Result<Daemon> {
        let mut command = Command::new(Path::new(bindir).join(name));
        command
            .arg("--statedir")
            .arg(statedir)
            .args(arguments)
            .env("WEIR_LOG", "warn")
            .stdin(Stdio::null());
        Ok(Daemon(
            command
                .spawn()
                .with_context(|| format!("failed to start {name}"))?,
        ))
    };
    let _manager = daemon("weir-job-manager", &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let retry = Retry { attempts: 200, first: Duration::from_millis(5), max: Duration::from_millis(50) };
        let options = ConnectOptions { retry, ..ConnectOptions::default() };
        let client = Client::connect_with(statedir.join("socket"), &options).await?;
        let _engine = daemon("weir-job-runner", &["--uri", &uri])?;
        let submit = json!({"J": j(), "urgency": 16, "flags": 0});
        let fdatasync = fdatasync_ms(statedir)?;
        // One job to warm up; the engine is there when it is done.
        client.call("job-ingest.submit", &submit).await?;
        client.call("job-manager.drain", &()).await?;
        let start = Instant::now();
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            replies.push(client.begin("job-ingest.submit", &submit).await?);
        }
        for reply in replies {
            let _ = reply.json().await?;
        }
        let submitted = start.elapsed();
        client.call("job-manager.drain", &()).await?;
        let drained = start.elapsed();
        println!(
            "{count} jobs: submitted in {:.0} ms, all inactive after {:.0} ms: {:.0} jobs a second (fdatasync {fdatasync:.2} ms)",
            submitted.as_secs_f64() * 1e3,
            drained.as_secs_f64() * 1e3,
            count as f64 / drained.as_secs_f64()
        );
        let mut single = Vec::new();
        for _ in 0..50 {
            let start = Instant::now();
            client.call("job-ingest.submit", &submit).await?;
            client.call("job-manager.drain", &()).await?;
            single.push(start.elapsed().as_secs_f64() * 1e3);
        }
        single.sort_by(f64::total_cmp);
        println!("one at a time: {:.2} ms from submit to inactive (median of {})", single[single.len() / 2], single.len());
        anyhow::Ok(())
    })
}
