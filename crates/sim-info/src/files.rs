//! As `bin/job-info/src/files.rs`, for jobs that write nothing.

use job::JobId;
use std::path::PathBuf;

/// Nothing is ever told.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(crate) fn dir(&self, id: JobId) -> PathBuf {
        self.root.join(id.0.to_string())
    }

    pub(crate) fn must_poll(&self) -> bool {
        false
    }

    pub(crate) fn follow(&mut self, _: JobId) {}

    pub(crate) fn unfollow(&mut self, _: JobId) {}
}
