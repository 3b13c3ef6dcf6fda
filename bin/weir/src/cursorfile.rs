//! A file that says how far a reader of the journal is, so that the next run goes on there: `{"epoch":"9f3c…","seq":4711}`.
//!
//! It is replaced whole: a reader that is killed leaves the old one or the new one, never half of one. It is written after what it covers:
//! a kill between the two makes the next run print the last events once more, with the seqs they had; none is ever left out.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The longest file that may be a cursor.
const FILE_BYTES_MAX: u64 = 4096;

/// How far a stream is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Whose seqs these are; without it, those of whatever instance is asked.
    pub epoch: Option<String>,
    /// The newest event that is covered.
    pub seq: u64,
}

/// Where it is kept.
#[derive(Debug)]
pub struct CursorFile {
    path: PathBuf,
    aside: PathBuf,
}

impl CursorFile {
    /// At this path; what is written goes beside it first.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let mut aside = OsString::from(path.as_os_str());
        aside.push(".new");
        Self {
            path: path.to_owned(),
            aside: aside.into(),
        }
    }

    /// What is in it; nothing if there is no such file.
    ///
    /// # Errors
    /// It cannot be read, or is no cursor.
    pub fn read(&self) -> anyhow::Result<Option<Cursor>> {
        let shown = self.path.display();
        let found = std::fs::metadata(&self.path).and_then(|about| {
            if about.is_file() && about.len() <= FILE_BYTES_MAX {
                std::fs::read(&self.path)
            } else {
                Ok(Vec::new())
            }
        });
        let text = match found {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => anyhow::bail!("cursor file {shown}: {error}"),
        };
        match serde_json::from_slice::<Cursor>(&text) {
            Ok(cursor) if cursor.epoch.is_some() => Ok(Some(cursor)),
            _ => anyhow::bail!(
                "cursor file {shown} is none: expected {{\"epoch\":…,\"seq\":…}}; remove it to start anew"
            ),
        }
    }

    /// Replaces it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, cursor: &Cursor) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(cursor)?;
        text.push(b'\n');
        std::fs::write(&self.aside, text)
            .and_then(|()| std::fs::rename(&self.aside, &self.path))
            .map_err(|error| anyhow::anyhow!("cursor file {}: {error}", self.path.display()))
    }

    /// What to do when it cannot be continued, as the end of a line.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("; remove {} first", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_resumable_a_cursor_file_is_read_as_it_was_written_and_nothing_else_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("at");
        let file = CursorFile::new(&path);
        assert_eq!(file.read().unwrap(), None);
        let cursor = Cursor {
            epoch: Some("ab".to_owned()),
            seq: u64::MAX,
        };
        file.write(&cursor).unwrap();
        assert_eq!(file.read().unwrap(), Some(cursor));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        for text in [
            "",
            "{}",
            "{\"seq\":1}",
            "{\"epoch\":\"ab\",\"seq\":-1}",
            "7",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(
                error.contains(&*path.to_string_lossy()) && error.contains("remove it"),
                "{error}"
            );
        }
        let nowhere = CursorFile::new(&folder.path().join("no/at"));
        assert!(nowhere.read().unwrap().is_none());
        assert!(
            nowhere
                .write(&Cursor {
                    epoch: None,
                    seq: 1
                })
                .is_err()
        );
    }
}
