//! The way to the job-manager: the socket and the instance key, tried until both are there.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rpc::client::Connection;
use tracing::{debug, warn};

use crate::engine::serve::Config;
use crate::paths;

/// Pause before the job-manager is tried again; up to half as much is added at random.
pub(super) const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// A connection that is being made, and the instance key.
pub(super) type Connecting = Pin<Box<dyn Future<Output = (Connection, String)>>>;

/// Connects, after a pause, as often as it takes.
pub(super) async fn connect(config: Config, pause: Duration) -> (Connection, String) {
    let mut pause = pause;
    let mut complained = false;
    loop {
        let jitter = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.subsec_nanos() % 512);
        tokio::time::sleep(pause + pause.mul_f64(f64::from(jitter) / 1024.0)).await;
        pause = RECONNECT_AFTER;
        match attempt(&config).await {
            Ok(found) => return found,
            Err(reason) if complained => debug!("{reason:#}"),
            Err(reason) => warn!("{reason:#}; trying again"),
        }
        complained = true;
    }
}

async fn attempt(config: &Config) -> anyhow::Result<(Connection, String)> {
    let path = rpc::uri::socket_path(&config.uri)?;
    let connection = Connection::connect(&path).await?;
    let key = paths::read_key(&config.statedir).with_context(|| {
        let statedir = config.statedir.display();
        format!("failed to read the instance key {statedir}/key")
    })?;
    Ok((connection, key))
}
