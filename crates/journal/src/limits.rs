//! The bounds of the journal, by name, and how they hang together.

/// Entries the ring holds (`journal-size-limit`).
pub const RING_ENTRIES_MAX: usize = 65_536;
/// Bytes the ring holds.
pub const RING_BYTES_MAX: usize = 64 << 20;
/// A batch ends with the commit that reaches this many entries …
pub const BATCH_ENTRIES_MAX: usize = 4096;
/// … or this many bytes.
pub const BATCH_BYTES_MAX: usize = 1 << 20;
/// A commit that alone is larger than a batch stays whole up to this many entries …
pub const COMMIT_ENTRIES_MAX: usize = 65_536;
/// … or this many bytes: well below the frame cap of 64 MiB.
pub const COMMIT_BYTES_MAX: usize = 24 << 20;
/// Seconds between batches to one group under load (`batch-interval`).
pub const BATCH_INTERVAL_SECONDS: f64 = 0.010;
/// A listener hears how far its stream is at least this often.
pub const PROGRESS_INTERVAL_SECONDS: f64 = 5.0;
/// Jobs of one page of a backlog.
pub const PAGE_JOBS_MAX: usize = 256;
/// Entries of one page of the log.
pub const PAGE_ENTRIES_MAX: usize = 1000;
/// Bytes of one page of either.
pub const PAGE_BYTES_MAX: usize = 512 << 10;
/// Listeners at one time.
pub const LISTENERS_MAX: usize = 16_384;
/// One `poll` ends after this many bytes were encoded or handed out by reference.
pub const POLL_BYTES_MAX: usize = 8 << 20;

const _: () = {
    assert!(BATCH_ENTRIES_MAX <= COMMIT_ENTRIES_MAX && COMMIT_ENTRIES_MAX <= RING_ENTRIES_MAX);
    assert!(BATCH_BYTES_MAX <= COMMIT_BYTES_MAX && COMMIT_BYTES_MAX <= RING_BYTES_MAX);
};

/// The bounds a [`crate::Fanout`] works within. `default()` is what the daemon uses; tests make them small.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// [`RING_ENTRIES_MAX`]
    pub ring_entries: usize,
    /// [`RING_BYTES_MAX`]
    pub ring_bytes: usize,
    /// [`BATCH_ENTRIES_MAX`]
    pub batch_entries: usize,
    /// [`BATCH_BYTES_MAX`]
    pub batch_bytes: usize,
    /// [`COMMIT_ENTRIES_MAX`]
    pub commit_entries: usize,
    /// [`COMMIT_BYTES_MAX`]
    pub commit_bytes: usize,
    /// [`BATCH_INTERVAL_SECONDS`]
    pub batch_interval: f64,
    /// [`PROGRESS_INTERVAL_SECONDS`]
    pub progress_interval: f64,
    /// [`PAGE_JOBS_MAX`]
    pub page_jobs: usize,
    /// [`PAGE_ENTRIES_MAX`]
    pub page_entries: usize,
    /// [`PAGE_BYTES_MAX`]
    pub page_bytes: usize,
    /// [`LISTENERS_MAX`]
    pub listeners: usize,
    /// [`POLL_BYTES_MAX`]
    pub poll_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ring_entries: RING_ENTRIES_MAX,
            ring_bytes: RING_BYTES_MAX,
            batch_entries: BATCH_ENTRIES_MAX,
            batch_bytes: BATCH_BYTES_MAX,
            commit_entries: COMMIT_ENTRIES_MAX,
            commit_bytes: COMMIT_BYTES_MAX,
            batch_interval: BATCH_INTERVAL_SECONDS,
            progress_interval: PROGRESS_INTERVAL_SECONDS,
            page_jobs: PAGE_JOBS_MAX,
            page_entries: PAGE_ENTRIES_MAX,
            page_bytes: PAGE_BYTES_MAX,
            listeners: LISTENERS_MAX,
            poll_bytes: POLL_BYTES_MAX,
        }
    }
}
