//! Waiting no longer than `--timeout` says.

use crate::failure::Exit;
use crate::output::complain;
use crate::when;
use std::time::Duration;

/// The status when the time is over, as timeout(1) has it.
pub const STATUS_TIMEOUT: u8 = 124;

/// Waits, at most so many seconds; `late` makes the line said when they are over, from how long they were.
///
/// # Errors
/// Those of what was waited for; [`STATUS_TIMEOUT`] as [`Exit`].
pub async fn within<T>(
    seconds: Option<f64>,
    waiting: impl Future<Output = anyhow::Result<T>>,
    late: impl FnOnce(&str) -> String,
) -> anyhow::Result<T> {
    let Some(seconds) = seconds else {
        return waiting.await;
    };
    match tokio::time::timeout(Duration::from_secs_f64(seconds), waiting).await {
        Ok(result) => result,
        Err(_) => {
            complain(&late(&when::human(seconds)));
            Err(Exit(STATUS_TIMEOUT).into())
        }
    }
}
