//! What `stats-get` shows of the journal. All but the gauges only grow.

/// Gauges and counts of a [`crate::Fanout`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Listeners now.
    pub listeners: usize,
    /// Distinct pairs of filter and format among them.
    pub groups: usize,
    /// Entries in the ring.
    pub ring_entries: usize,
    /// Bytes in the ring.
    pub ring_bytes: usize,
    /// Commits pushed.
    pub commits: u64,
    /// Batches with entries that were encoded from the ring.
    pub batches_encoded: u64,
    /// Batches with entries handed out, counted once a listener.
    pub batches_delivered: u64,
    /// Entries handed out, counted once a listener.
    pub entries_delivered: u64,
    /// Responses without entries: progress.
    pub progress_delivered: u64,
    /// Pages of the store that were answered.
    pub store_pages: u64,
}
