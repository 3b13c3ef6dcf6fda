//! An instance of its own: `weir start` in a new folder, ended by its pid at the end.

use crate::Config;
use anyhow::{Context as _, bail};
use rpc::Client;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// How long an instance may take to be there, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running instance.
pub(crate) struct Instance {
    pub(crate) socket: PathBuf,
    pub(crate) weir: PathBuf,
    pub(crate) dir: PathBuf,
    _home: tempfile::TempDir,
    supervisor: Child,
}

impl Instance {
    /// Starts one and waits until all three daemons answer.
    pub(crate) async fn start(config: &Config) -> anyhow::Result<Instance> {
        let home = tempfile::Builder::new()
            .prefix("weir-bench-")
            .tempdir_in(&config.dir)?;
        // As the daemons are told it: their memory is looked for by it.
        let dir = std::path::absolute(home.path())?.join("state");
        let weir = config.bin.join("weir");
        let log = std::fs::File::create(home.path().join("start.log"))?;
        let supervisor = Command::new(&weir)
            .args(["start", "--statedir"])
            .arg(&dir)
            .env_remove("WEIR_URI")
            .env_remove("FLUX_URI")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to run {}", weir.display()))?;
        let instance = Instance {
            socket: dir.join("socket"),
            weir,
            dir,
            _home: home,
            supervisor,
        };
        timeout(PATIENCE, instance.ready())
            .await
            .context("the instance did not answer in time")?;
        Ok(instance)
    }

    /// Waits until every service answers.
    pub(crate) async fn ready(&self) {
        for service in ["job-manager", "job-list", "sched"] {
            loop {
                if let Ok(client) = Client::connect(&self.socket).await
                    && client
                        .call(format!("{service}.ping"), &json!({"seq": 0}))
                        .await
                        .is_ok()
                {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.socket).await?)
    }

    /// The instance's URI.
    pub(crate) fn uri(&self) -> String {
        format!("local://{}", self.socket.display())
    }

    /// The processes of this instance with that name.
    fn processes(&self, name: &str) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc")?.flatten() {
            let path = process.path();
            let Ok(cmdline) = std::fs::read(path.join("cmdline")) else {
                continue;
            };
            let words: Vec<&[u8]> = cmdline.split(|byte| *byte == 0).collect();
            let dir = self.dir.as_os_str().as_encoded_bytes();
            if words
                .first()
                .is_some_and(|word| word.ends_with(name.as_bytes()))
                && words.contains(&dir)
            {
                found.push(path);
            }
        }
        if found.is_empty() {
            bail!("no process {name} of this instance was found");
        }
        Ok(found)
    }

    /// Resident memory of the processes of that name; bytes.
    pub(crate) fn rss(&self, name: &str) -> anyhow::Result<u64> {
        let mut total = 0;
        for process in self.processes(name)? {
            let status = std::fs::read_to_string(process.join("status"))?;
            let line = status
                .lines()
                .find(|line| line.starts_with("VmRSS:"))
                .unwrap_or_default();
            let kib: u64 = line
                .split_whitespace()
                .nth(1)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0);
            total += kib * 1024;
        }
        Ok(total)
    }

    /// Sends a signal to the processes of that name.
    pub(crate) fn signal(&self, name: &str, signal: rustix::process::Signal) -> anyhow::Result<()> {
        for process in self.processes(name)? {
            let number = process.file_name().and_then(|name| name.to_str());
            let pid = number
                .and_then(|number| number.parse().ok())
                .and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                rustix::process::kill_process(pid, signal)?;
            }
        }
        Ok(())
    }

    /// The job-manager's counters.
    pub(crate) async fn stats(&self) -> anyhow::Result<Value> {
        Ok(self
            .connect()
            .await?
            .call_as("job-manager.stats-get", &json!({}))
            .await?)
    }

    /// Ends it and waits for that.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(pid) = self
            .supervisor
            .id()
            .and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()))
        {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        timeout(PATIENCE, self.supervisor.wait())
            .await
            .context("the instance did not end in time")??;
        Ok(())
    }
}
