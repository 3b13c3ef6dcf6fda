//! The limit of open files: a daemon that serves many clients raises its own as far as it may.
//!
//! Not for a process that starts others' programs: those would have the raised limit too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most files a daemon asks for: its own bounds allow fewer.
pub const OPEN_FILES_MAX: u64 = 1 << 17;

/// Raises the soft limit to the hard one, at most to [`OPEN_FILES_MAX`]; what it is then. It is never lowered.
pub fn raise_open_files() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let files = now.current.unwrap_or(OPEN_FILES_MAX);
    let most = now.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    if files >= most {
        return files;
    }
    let raised = Rlimit {
        current: Some(most),
        maximum: now.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(error) => {
            tracing::warn!(%error, files, "the limit of open files stays as it is");
            files
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_soft_limit_rises_to_the_hard_one_and_is_never_lowered() {
        let before = getrlimit(Resource::Nofile);
        let lowered = Rlimit {
            current: Some(128),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        let most = before.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
        assert_eq!(raise_open_files(), most);
        let after = getrlimit(Resource::Nofile);
        assert_eq!((after.current, after.maximum), (Some(most), before.maximum));
        assert_eq!(raise_open_files(), most, "a second time changes nothing");
    }
}
