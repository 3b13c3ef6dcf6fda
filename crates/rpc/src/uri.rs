//! Where an instance is: `local:///path/to/socket`.

use std::path::PathBuf;

/// The variable that says which instance is meant, and the one looked at when it is unset.
pub const URI_VARIABLES: [&str; 2] = ["WEIR_URI", "FLUX_URI"];
/// The longest socket path, in bytes, that the system takes.
pub const SOCKET_PATH_LEN_MAX: usize = 107;

const SCHEME: &str = "local://";

/// A URI that names no socket.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// Neither variable is set.
    #[error(
        "neither WEIR_URI nor FLUX_URI is set; start an instance with `weir start`, or set WEIR_URI=local:///PATH/socket"
    )]
    Unset,
    /// Another way to reach an instance, or none.
    #[error("{uri}: only local:///PATH/socket is understood")]
    NotLocal {
        /// What was given.
        uri: String,
    },
    /// A relative path.
    #[error("{uri}: the path must be absolute, as in local:///PATH/socket")]
    NotAbsolute {
        /// What was given.
        uri: String,
    },
    /// The system takes no such path.
    #[error("{uri}: a socket path may have {SOCKET_PATH_LEN_MAX} bytes, this one has {have}")]
    TooLong {
        /// What was given.
        uri: String,
        /// Its path's length.
        have: usize,
    },
}

/// The socket path of a `local://` URI.
/// # Errors
/// [`UriError`]: another scheme, a relative or too long path.
pub fn socket_path(uri: &str) -> Result<PathBuf, UriError> {
    let path = uri.strip_prefix(SCHEME).ok_or_else(|| UriError::NotLocal {
        uri: uri.to_owned(),
    })?;
    if !path.starts_with('/') {
        return Err(UriError::NotAbsolute {
            uri: uri.to_owned(),
        });
    }
    if path.len() > SOCKET_PATH_LEN_MAX {
        return Err(UriError::TooLong {
            uri: uri.to_owned(),
            have: path.len(),
        });
    }
    Ok(PathBuf::from(path))
}

/// The URI of a socket.
#[must_use]
pub fn of_socket(path: &std::path::Path) -> String {
    format!("{SCHEME}{}", path.display())
}

/// `WEIR_URI`, else `FLUX_URI`; a variable set to nothing counts as unset.
/// # Errors
/// [`UriError::Unset`].
pub fn uri_from_env() -> Result<String, UriError> {
    first_set(|name| std::env::var(name).ok())
}

fn first_set(get: impl Fn(&str) -> Option<String>) -> Result<String, UriError> {
    URI_VARIABLES
        .into_iter()
        .filter_map(get)
        .find(|uri| !uri.is_empty())
        .ok_or(UriError::Unset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_absolute_short_paths() {
        assert_eq!(
            socket_path("local:///run/weir/socket"),
            Ok(PathBuf::from("/run/weir/socket"))
        );
        assert!(matches!(
            socket_path("ssh://host/x"),
            Err(UriError::NotLocal { .. })
        ));
        assert!(matches!(
            socket_path("/run/weir/socket"),
            Err(UriError::NotLocal { .. })
        ));
        assert!(matches!(
            socket_path("local://x"),
            Err(UriError::NotAbsolute { .. })
        ));
        let long = format!("local:///{}", "x".repeat(SOCKET_PATH_LEN_MAX));
        assert!(matches!(
            socket_path(&long),
            Err(UriError::TooLong { have: 108, .. })
        ));
        assert!(socket_path(&long[..long.len() - 1]).is_ok());
        assert_eq!(of_socket(std::path::Path::new("/a/b")), "local:///a/b");
    }

    #[test]
    fn weirs_own_variable_comes_first() {
        let get = |weir: Option<&'static str>, flux: Option<&'static str>| {
            first_set(move |name| if name == "WEIR_URI" { weir } else { flux }.map(str::to_owned))
        };
        assert_eq!(
            get(Some("local:///w"), Some("local:///f")).as_deref(),
            Ok("local:///w")
        );
        assert_eq!(
            get(Some(""), Some("local:///f")).as_deref(),
            Ok("local:///f")
        );
        assert_eq!(get(None, None), Err(UriError::Unset));
    }
}
