//! How many connections there may be: the limit of open files is raised as far as it goes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most files this process ever wants open.
const FILES_MAX: u64 = 1 << 17;
/// Files that are not HTTP's: sockets of the broker and of clients, followed files, the loop's own.
const FILES_OTHERS: u64 = 4096 + 512;
/// Connections that are always allowed.
const CONNECTIONS_LEAST: u64 = 128;

/// Raises the soft limit to the hard one; the connections for which there is room then, at most `wanted`.
pub(crate) fn raise(wanted: usize) -> usize {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
    let mut files = now.current.unwrap_or(FILES_MAX);
    if files < most {
        let raised = Rlimit {
            current: Some(most),
            maximum: now.maximum,
        };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => files = most,
            Err(error) => tracing::warn!(%error, files, "the limit of open files stays as it is"),
        }
    }
    let room = files.saturating_sub(FILES_OTHERS).max(CONNECTIONS_LEAST);
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
}
