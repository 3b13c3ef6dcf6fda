//! Rows as text: made when a job changed, kept while they are asked for, bounded in bytes.
//!
//! A row that was told dirty is made again when it is next needed, with the chunks of allocations that did not change. The least recently
//! needed rows go when there is no room; a body that was made of them keeps its own share.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hasher as _,
    sync::Arc,
};

use bytes::Bytes;
use info::{Allocs, Projection, Record, place::ListKey as _};
use job::{AllocStatus, JobId};

use super::{
    Shape,
    allocs::{Chunk, Chunks, NodeIds},
    row,
};
use crate::watch::page::Member;

/// Up to this many allocations a row is one piece of text.
const SMALL_ALLOCS_MAX: usize = 48;
/// From this many allocations on a row is written before it is asked for.
const WIDE_ALLOCS_MIN: usize = 2048;
/// Bytes of an allocation's line, about.
const LINE_BYTES: usize = 256;
/// Most jobs that wait to be written ahead.
const AHEAD_MAX: usize = 256;
/// Chunks that are written ahead at a time: about a millisecond.
const AHEAD_CHUNKS: usize = 16;
/// What a row costs beside its text.
const ROW_OVERHEAD_BYTES: usize = 256;

/// One job's row.
#[derive(Debug)]
pub(crate) struct Row {
    /// Without children and allocations.
    head: Bytes,
    /// All of it, while that is small or nothing in it can be shared; then there are no chunks, and the head is a part of it.
    whole: Option<Bytes>,
    chunks: Chunks,
    /// `,"ChildCounts":…,"AllocCounts":…}`
    counts: Bytes,
    sign_full: u64,
    sign_counts: u64,
}

impl Row {
    fn of(
        projection: &Projection,
        id: JobId,
        nodes: &NodeIds,
        old: Option<&Chunks>,
    ) -> Option<Self> {
        let record = projection.jobs().get(id)?;
        let mut head = Vec::with_capacity(640);
        row::head(&mut head, record);
        let none = crate::facts::is_parent(record);
        let allocs = Allocs::of(record, projection.nodes());
        let mut chunks = if none || allocs.is_empty() {
            Chunks::default()
        } else {
            Chunks::of(id, record.group(), &allocs, nodes, old, usize::MAX)
        };
        let mut counts = Vec::with_capacity(128);
        row::child_counts(&mut counts, projection, record);
        counts.extend_from_slice(b",\"AllocCounts\":");
        if none {
            counts.extend_from_slice(b"null");
        } else {
            let each = AllocStatus::ALL.into_iter().zip(chunks.counts);
            row::counted(&mut counts, each.map(|(status, n)| (status.as_str(), n)));
        }
        counts.push(b'}');
        let sign_counts = sign(&[&head, &counts], 0);
        if !none && allocs.len() > SMALL_ALLOCS_MAX {
            return Some(Self {
                sign_full: sign(&[&head], chunks.sign()),
                head: head.into(),
                whole: None,
                chunks,
                counts: counts.into(),
                sign_counts,
            });
        }
        let head_end = head.len();
        let mut whole = head;
        whole.reserve(chunks.len() + 48);
        row::child_statuses(&mut whole, projection, record);
        match chunks.chunks.first() {
            None => whole.extend_from_slice(b",\"Allocs\":null}"),
            Some(chunk) => {
                whole.extend_from_slice(b",\"Allocs\":[");
                whole.extend_from_slice(&chunk.text);
                whole.extend_from_slice(ALLOCS_CLOSE);
            }
        }
        chunks.chunks.clear();
        let whole = Bytes::from(whole);
        Some(Self {
            sign_full: sign(&[&whole], 0),
            head: whole.slice(..head_end),
            whole: Some(whole),
            chunks,
            counts: counts.into(),
            sign_counts,
        })
    }

    /// What the row says in this shape, as a number.
    pub(crate) fn sign(&self, shape: Shape) -> u64 {
        match shape {
            Shape::Full => self.sign_full,
            Shape::Counts => self.sign_counts,
        }
    }

    /// Bytes of the row in this shape.
    pub(crate) fn len(&self, shape: Shape) -> usize {
        match (shape, &self.whole) {
            (Shape::Counts, _) => self.head.len() + self.counts.len(),
            (Shape::Full, Some(whole)) => whole.len(),
            (Shape::Full, None) => self.head.len() + self.chunks.len() + self.chunks.chunks.len(),
        }
    }

    /// Appends the row in this shape.
    pub(crate) fn write(&self, shape: Shape, out: &mut super::assemble::Assembler) {
        match (shape, &self.whole) {
            (Shape::Counts, _) => {
                out.push(&self.head);
                out.push(&self.counts);
            }
            (Shape::Full, Some(whole)) => out.push(whole),
            (Shape::Full, None) => {
                out.push(&self.head);
                out.text(ALLOCS_OPEN);
                for (at, chunk) in self.chunks.chunks.iter().enumerate() {
                    if at > 0 {
                        out.text(b",");
                    }
                    out.push(&chunk.text);
                }
                out.text(ALLOCS_CLOSE);
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        let text = self.whole.as_ref().map_or(self.head.len(), Bytes::len);
        let chunks = self.chunks.len() + self.chunks.chunks.capacity() * size_of::<Chunk>();
        text + self.counts.len() + chunks + ROW_OVERHEAD_BYTES
    }
}

/// Of a job that is no parent.
const ALLOCS_OPEN: &[u8] = b",\"ChildStatuses\":null,\"Allocs\":[";
const ALLOCS_CLOSE: &[u8] = b"]}";

/// What these texts say, as a number; 0 is kept for what is not known.
fn sign(texts: &[&[u8]], and: u64) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for text in texts {
        hasher.write(text);
    }
    hasher.write_u64(and);
    hasher.finish().max(1)
}

#[derive(Debug)]
struct Kept {
    row: Arc<Row>,
    bytes: usize,
    stamp: u64,
    dirty: bool,
}

/// All rows that are kept.
#[derive(Debug)]
pub(crate) struct Rows {
    rows: HashMap<JobId, Kept>,
    by_stamp: BTreeMap<u64, JobId>,
    clock: u64,
    bytes: usize,
    bytes_max: usize,
    nodes: NodeIds,
    made: u64,
    /// Wide jobs that changed, or came with another list, and were not asked for since.
    ahead: VecDeque<JobId>,
    /// The allocations of one of them as far as they are written.
    begun: Option<(JobId, Chunks)>,
}

impl Rows {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            rows: HashMap::new(),
            by_stamp: BTreeMap::new(),
            clock: 0,
            bytes: 0,
            bytes_max,
            nodes: NodeIds::default(),
            made: 0,
            ahead: VecDeque::new(),
            begun: None,
        }
    }

    /// The row of a job as it is now; none if there is no such job.
    pub(crate) fn get(&mut self, projection: &Projection, id: JobId) -> Option<Arc<Row>> {
        self.clock += 1;
        if let Some(kept) = self.rows.get_mut(&id)
            && !kept.dirty
        {
            self.by_stamp.remove(&kept.stamp);
            kept.stamp = self.clock;
            self.by_stamp.insert(kept.stamp, id);
            return Some(kept.row.clone());
        }
        let _none_left = self.nodes.fill(projection.nodes(), usize::MAX);
        let old = self.take(id);
        let begun = self.begun.take_if(|(begun, _)| *begun == id);
        let old = match (&old, &begun) {
            (_, Some((_, chunks))) => Some(chunks),
            (Some(row), None) => Some(&row.chunks),
            (None, None) => None,
        };
        let row = Row::of(projection, id, &self.nodes, old)?;
        self.made += 1;
        let row = Arc::new(row);
        let bytes = row.heap_bytes();
        self.bytes += bytes;
        let kept = Kept {
            row: row.clone(),
            bytes,
            stamp: self.clock,
            dirty: false,
        };
        self.rows.insert(id, kept);
        self.by_stamp.insert(self.clock, id);
        while self.bytes > self.bytes_max
            && let Some((_, oldest)) = self.by_stamp.first_key_value()
            && let oldest = *oldest
        {
            self.take(oldest);
        }
        Some(row)
    }

    /// Notes what the rows of a page say that was not shown yet, unless they are very many, so that a change which changes nothing can be
    /// told from others.
    pub(crate) fn sign(&mut self, projection: &Projection, members: &mut [Member], shape: Shape) {
        const ROWS_MAX: usize = 200;
        if members.len() > ROWS_MAX {
            return;
        }
        for member in members {
            if member.sign == 0 {
                let row = self.get(projection, member.id);
                member.sign = row.map_or(0, |row| row.sign(shape));
            }
        }
    }

    fn take(&mut self, id: JobId) -> Option<Arc<Row>> {
        let kept = self.rows.remove(&id)?;
        self.by_stamp.remove(&kept.stamp);
        self.bytes -= kept.bytes.min(self.bytes);
        Some(kept.row)
    }

    /// A job changed. What is wide is written a little at a time, before anybody asks.
    pub(crate) fn dirty(&mut self, projection: &Projection, id: JobId) {
        if let Some(kept) = self.rows.get_mut(&id) {
            kept.dirty = true;
        }
        if let Some(record) = projection.jobs().get(id) {
            self.note_wide(record);
        }
    }

    fn note_wide(&mut self, record: &Record) {
        let width = record.allocation().map_or(0, |held| held.nnodes as usize);
        if width >= WIDE_ALLOCS_MIN
            && self.bytes + width * LINE_BYTES <= self.bytes_max / 4 * 3
            && self.ahead.len() < AHEAD_MAX
            && !self.ahead.contains(&record.id())
        {
            self.ahead.push_back(record.id());
        }
    }

    /// Writes some of what will be asked for; whether more is left.
    pub(crate) fn write_ahead(&mut self, projection: &Projection) -> bool {
        let Some(&id) = self.ahead.front() else {
            return false;
        };
        let dirty = self.rows.get(&id).is_none_or(|kept| kept.dirty);
        let record = projection.jobs().get(id).filter(|_| dirty);
        let Some(record) = record else {
            self.ahead.pop_front();
            self.begun = None;
            return !self.ahead.is_empty();
        };
        let begun = self.begun.take_if(|(begun, _)| *begun == id);
        let old = match &begun {
            Some((_, chunks)) => Some(chunks),
            None => self.rows.get(&id).map(|kept| &kept.row.chunks),
        };
        let allocs = Allocs::of(record, projection.nodes());
        let _none_left = self.nodes.fill(projection.nodes(), usize::MAX);
        let chunks = Chunks::of(id, record.group(), &allocs, &self.nodes, old, AHEAD_CHUNKS);
        let missing = chunks.missing;
        self.begun = Some((id, chunks));
        if missing == 0 {
            let _kept = self.get(projection, id);
            self.ahead.pop_front();
        }
        !self.ahead.is_empty()
    }

    /// Whether there is something for [`Rows::write_ahead`].
    pub(crate) fn is_behind(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Everything may have changed, the table of nodes included.
    pub(crate) fn dirty_all(&mut self, projection: &Projection) {
        for kept in self.rows.values_mut() {
            kept.dirty = true;
        }
        self.nodes.clear();
        let jobs = projection.jobs();
        for key in jobs.running().iter() {
            if let Some(record) = jobs.record(key.slot()) {
                self.note_wide(record);
            }
        }
    }

    /// Computes ids of nodes ahead of their need, a few at a time; whether some are left.
    pub(crate) fn know_nodes(&mut self, projection: &Projection) -> bool {
        const NODES_AT_ONCE: usize = 4096;
        self.nodes.fill(projection.nodes(), NODES_AT_ONCE)
    }

    /// Bytes kept.
    pub(crate) fn heap_bytes(&self) -> usize {
        let begun = self.begun.as_ref().map_or(0, |(_, chunks)| chunks.len());
        self.bytes + begun + self.nodes.heap_bytes()
    }

    /// How many rows were made, ever.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }
}
