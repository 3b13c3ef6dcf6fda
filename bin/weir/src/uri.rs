//! Where the instance is: `WEIR_URI`, else `FLUX_URI`, else the socket in the default state directory.
//!
//! A URI is `local:///absolute/path`; a bare absolute path is taken too. Which of the three it came from is kept, so that an
//! error about it can name the remedy.

use std::env;
use std::path::{Path, PathBuf};

/// The longest path that fits into a Unix socket address.
pub const SOCKET_PATH_MAX: usize = 107;

/// Where a socket path came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// `WEIR_URI`.
    WeirUri,
    /// `FLUX_URI`, `WEIR_URI` being unset.
    FluxUri,
    /// The default state directory.
    Default,
}

/// The instance a command talks to.
#[derive(Debug, Clone)]
pub struct Place {
    /// The path of the main socket.
    pub socket: PathBuf,
    /// Why this one.
    pub from: From,
}

impl Place {
    /// Finds the instance from the environment.
    ///
    /// # Errors
    /// The variable that is set holds something else than `local://PATH`.
    pub fn find() -> anyhow::Result<Self> {
        for (name, from) in [("WEIR_URI", From::WeirUri), ("FLUX_URI", From::FluxUri)] {
            if let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) {
                let value = value.to_string_lossy().into_owned();
                return Ok(Self {
                    socket: path_of(name, &value)?,
                    from,
                });
            }
        }
        Ok(Self {
            socket: default_statedir()?.join("socket"),
            from: From::Default,
        })
    }

    /// The state directory this socket belongs to.
    #[must_use]
    pub fn statedir(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }

    /// What to do when nobody answers there.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self.from {
            From::WeirUri => {
                "start it with 'weir start --statedir DIR', or set WEIR_URI to a running instance"
            }
            From::FluxUri => {
                "it comes from FLUX_URI; start an instance with 'weir start', or set WEIR_URI to a running one"
            }
            From::Default => "start one with 'weir start', or set WEIR_URI to a running instance",
        }
    }
}

/// `local:///path` as `weir` itself writes it.
#[must_use]
pub fn of_socket(socket: &Path) -> String {
    format!("local://{}", socket.display())
}

/// The state directory when nothing else is said: `$XDG_STATE_HOME/weir`, else `~/.local/state/weir`.
///
/// # Errors
/// Neither `XDG_STATE_HOME` nor `HOME` is set.
pub fn default_statedir() -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if let Some(base) = absolute("XDG_STATE_HOME") {
        return Ok(base.join("weir"));
    }
    match absolute("HOME") {
        Some(home) => Ok(home.join(".local/state/weir")),
        None => anyhow::bail!(
            "no state directory: neither HOME nor XDG_STATE_HOME is set; use --statedir DIR or set WEIR_URI"
        ),
    }
}

fn path_of(name: &str, value: &str) -> anyhow::Result<PathBuf> {
    let path = value.strip_prefix("local://").unwrap_or(value);
    if !path.starts_with('/') {
        anyhow::bail!("{name}='{value}': expected local:///path/of/socket");
    }
    if path.len() > SOCKET_PATH_MAX {
        anyhow::bail!(
            "{name}='{value}': the path has {} bytes, a socket path may have {SOCKET_PATH_MAX}",
            path.len()
        );
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_local_and_absolute_and_short_enough() {
        assert_eq!(
            path_of("WEIR_URI", "local:///run/x/socket").unwrap(),
            PathBuf::from("/run/x/socket")
        );
        assert_eq!(
            path_of("WEIR_URI", "/run/x/socket").unwrap(),
            PathBuf::from("/run/x/socket")
        );
        assert!(
            path_of("FLUX_URI", "ssh://host/x")
                .unwrap_err()
                .to_string()
                .starts_with("FLUX_URI='ssh://host/x': expected local")
        );
        assert!(
            path_of("WEIR_URI", &format!("local:///{}", "x".repeat(200)))
                .unwrap_err()
                .to_string()
                .contains("201 bytes")
        );
    }
}
