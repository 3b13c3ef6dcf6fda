//! Connecting: the socket, then the handshake byte. Each failure is one line that names the socket and the remedy.

use crate::uri::SOCKET_PATH_LEN_MAX;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use wire::errno;

/// How long a server may take to say whether it lets us in.
const HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(30);
/// The pause before a socket whose queue of waiting clients is full is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// How often to try again when nobody serves the socket (yet).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first one.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles each time.
    pub first: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl Retry {
    /// Try once.
    pub const NONE: Retry = Retry {
        attempts: 0,
        first: Duration::ZERO,
        max: Duration::ZERO,
    };
    /// As Flux's own clients do: five times, from 16 ms on.
    pub const USUAL: Retry = Retry {
        attempts: 5,
        first: Duration::from_millis(16),
        max: Duration::from_secs(2),
    };
}

/// How to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// When nobody serves the socket.
    pub retry: Retry,
    /// How long the server may take to answer at all.
    pub handshake_wait: Duration,
    /// The longest frame body taken.
    pub frame_len_max: usize,
}

impl Default for ConnectOptions {
    fn default() -> ConnectOptions {
        ConnectOptions {
            retry: Retry::NONE,
            handshake_wait: HANDSHAKE_WAIT_MAX,
            frame_len_max: wire::FRAME_LEN_MAX_DEFAULT,
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The system takes no such path.
    #[error("{}: a socket path may have {SOCKET_PATH_LEN_MAX} bytes, this one has {have}; use a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        have: usize,
    },
    /// There is no such socket.
    #[error("{}: no such socket; start the instance with `weir start`, or set WEIR_URI to one that runs", path.display())]
    NotThere {
        /// The path.
        path: PathBuf,
    },
    /// There is one, left behind by a server that is gone.
    #[error("{}: nobody serves this socket any more; start the instance with `weir start`", path.display())]
    NotServed {
        /// The path.
        path: PathBuf,
    },
    /// The server does not let us in.
    #[error("{}: refused by the instance: {}; ask its owner for access", path.display(), errno::text(*errnum))]
    Refused {
        /// The path.
        path: PathBuf,
        /// The number it said.
        errnum: u32,
    },
    /// The server hung up before it said anything.
    #[error("{}: the instance hung up before it answered; it may be stopping, try again", path.display())]
    HungUp {
        /// The path.
        path: PathBuf,
    },
    /// The server says nothing.
    #[error("{}: the instance does not answer (waited {waited:?}); look whether it is stopped or overloaded", path.display())]
    Silent {
        /// The path.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The system refused.
    #[error("{}: cannot be connected to: {source}; check the permissions of the socket and its directory", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl ConnectError {
    /// The same attempt may succeed a little later.
    #[must_use]
    pub fn may_be_retried(&self) -> bool {
        matches!(
            self,
            ConnectError::NotThere { .. }
                | ConnectError::NotServed { .. }
                | ConnectError::HungUp { .. }
                | ConnectError::Refused {
                    errnum: errno::EAGAIN,
                    ..
                }
        )
    }

    /// The nearest POSIX number.
    #[must_use]
    pub fn errnum(&self) -> u32 {
        match self {
            ConnectError::PathTooLong { .. } => errno::ENAMETOOLONG,
            ConnectError::NotThere { .. } => errno::ENOENT,
            ConnectError::NotServed { .. } => errno::ECONNREFUSED,
            ConnectError::Refused { errnum, .. } => *errnum,
            ConnectError::HungUp { .. } => errno::ECONNRESET,
            ConnectError::Silent { .. } => errno::ETIMEDOUT,
            ConnectError::Io { source, .. } => source
                .raw_os_error()
                .and_then(|errnum| u32::try_from(errnum).ok())
                .unwrap_or(errno::EIO),
        }
    }
}

pub(super) async fn connect(
    path: &Path,
    options: &ConnectOptions,
) -> Result<UnixStream, ConnectError> {
    let have = path.as_os_str().len();
    if have > SOCKET_PATH_LEN_MAX {
        return Err(ConnectError::PathTooLong {
            path: path.to_owned(),
            have,
        });
    }
    let Retry {
        attempts,
        first,
        max,
    } = options.retry;
    let mut pause = first;
    for _ in 0..attempts {
        match attempt(path, options).await {
            Err(error) if error.may_be_retried() => {
                tokio::time::sleep(pause.min(max)).await;
                pause = pause.saturating_mul(2);
            }
            other => return other,
        }
    }
    attempt(path, options).await
}

async fn attempt(path: &Path, options: &ConnectOptions) -> Result<UnixStream, ConnectError> {
    let waited = options.handshake_wait;
    match tokio::time::timeout(waited, greet(path)).await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Silent {
            path: path.to_owned(),
            waited,
        }),
    }
}

async fn greet(path: &Path) -> Result<UnixStream, ConnectError> {
    let path = || path.to_owned();
    let stream = loop {
        match UnixStream::connect(path()).await {
            Ok(stream) => break stream,
            // So many clients wait to be accepted that the kernel takes no more.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(BUSY_PAUSE).await
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ConnectError::NotThere { path: path() });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(ConnectError::NotServed { path: path() });
            }
            Err(source) => {
                return Err(ConnectError::Io {
                    path: path(),
                    source,
                });
            }
        }
    };
    let mut byte = [0xff];
    loop {
        let io_error = |source| ConnectError::Io {
            path: path(),
            source,
        };
        stream.readable().await.map_err(io_error)?;
        match stream.try_read(&mut byte) {
            Ok(0) => return Err(ConnectError::HungUp { path: path() }),
            Ok(_) => break,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(ConnectError::HungUp { path: path() });
            }
            Err(source) => return Err(io_error(source)),
        }
    }
    match byte[0] {
        0 => Ok(stream),
        errnum => Err(ConnectError::Refused {
            path: path(),
            errnum: u32::from(errnum),
        }),
    }
}
