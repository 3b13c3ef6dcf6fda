//! A socket to listen on. Binding takes over what a dead server left behind, and never what a living one holds.

use crate::uri::SOCKET_PATH_LEN_MAX;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The system takes no such path.
    #[error("{}: a socket path may have {SOCKET_PATH_LEN_MAX} bytes, this one has {have}", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        have: usize,
    },
    /// Someone answers there.
    #[error("{}: another process serves this socket; stop it, or choose another path", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else stands there.
    #[error("{}: is there and is not a socket; remove it, or choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{}: cannot be bound: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// A bound socket. Dropping it removes its file, unless another server has put its own there since.
#[derive(Debug)]
pub struct Listener {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode, to know the file again.
    file: (u64, u64),
}

impl Listener {
    /// Binds `path` and gives the socket the permission bits `mode` (0o777 lets every user connect; the handshake decides).
    /// A socket file there is removed if nobody answers on it. That its directory is the owner's is the caller's to check,
    /// and two servers that start at the same moment are the caller's to keep apart (by a lock).
    ///
    /// Must be called within a tokio runtime.
    /// # Errors
    /// [`BindError`]; nothing is changed then.
    pub fn bind(path: &Path, mode: u32) -> Result<Listener, BindError> {
        let have = path.as_os_str().len();
        if have > SOCKET_PATH_LEN_MAX {
            return Err(BindError::PathTooLong {
                path: path.to_owned(),
                have,
            });
        }
        remove_stale(path)?;
        let io_error = |source| BindError::Io {
            path: path.to_owned(),
            source,
        };
        let listener = std::os::unix::net::UnixListener::bind(path).map_err(io_error)?;
        listener.set_nonblocking(true).map_err(io_error)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(io_error)?;
        let meta = std::fs::symlink_metadata(path).map_err(io_error)?;
        let listener = UnixListener::from_std(listener).map_err(io_error)?;
        Ok(Listener {
            listener,
            path: path.to_owned(),
            file: (meta.dev(), meta.ino()),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let still_ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file);
        if still_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "socket file stays behind");
        }
    }
}

fn remove_stale(path: &Path) -> Result<(), BindError> {
    let io_error = |source| BindError::Io {
        path: path.to_owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(BindError::NotASocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(io_error)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error(error)),
        Ok(_) => Err(BindError::InUse {
            path: path.to_owned(),
        }),
    }
}
