//! A job's allocations as text, in chunks that are encoded only when one of theirs changed.
//!
//! ```text
//!  ranks   0 … 255 │ 256 … 511 │ 512 …          by rank = by id
//!  chunk   bytes   │ bytes     │ bytes          joined by commas; each knows the sign of what it says
//! ```
//! A job of 100,000 allocations is 391 chunks. When it changes, the signs are computed anew (a few instructions an allocation) and only
//! the chunks whose sign differs are written; the others are shared with the bodies that still hold them.

use bytes::Bytes;
use info::{Allocs, NodeIx, Nodes};
use job::JobId;

use crate::names::{self, UUID_BYTES};

/// Allocations in one chunk.
pub const CHUNK_ALLOCS: usize = 256;

/// The ids of the nodes, by their place in the table; computed once.
#[derive(Debug, Default)]
pub struct NodeIds {
    ids: Vec<[u8; UUID_BYTES]>,
}

impl NodeIds {
    /// Computes those that are missing, at most `most`; whether some are left.
    pub fn fill(&mut self, nodes: &Nodes, most: usize) -> bool {
        let end = nodes.len().min(self.ids.len().saturating_add(most));
        for at in self.ids.len()..end {
            let name = u32::try_from(at).ok().and_then(|at| nodes.get(NodeIx(at)));
            self.ids
                .push(names::node(name.map_or("", |node| &node.name)));
        }
        end < nodes.len()
    }

    /// The table of nodes is another one.
    pub fn clear(&mut self) {
        self.ids.clear();
    }

    /// The id of a node.
    #[must_use]
    pub fn get(&self, node: NodeIx) -> &[u8; UUID_BYTES] {
        const UNKNOWN: [u8; UUID_BYTES] = *b"00000000-0000-0000-0000-000000000000";
        self.ids.get(node.0 as usize).unwrap_or(&UNKNOWN)
    }

    /// Bytes held.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.ids.capacity() * UUID_BYTES
    }
}

/// Some allocations as text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chunk {
    /// What it says, as a number; 0: it is not written yet.
    sign: u64,
    pub(crate) text: Bytes,
}

/// All allocations of a job as text, and how many are how.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chunks {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) counts: [u32; job::AllocStatus::ALL.len()],
    /// Chunks that are not written yet.
    pub(crate) missing: usize,
}

/// What is written of one allocation.
type Part = (u32, NodeIx, job::AllocStatus);

impl Chunks {
    /// The allocations as they are, with the chunks of `old` that still say the same. At most `most` chunks are written anew.
    pub(crate) fn of(
        id: JobId,
        group: &str,
        allocs: &Allocs<'_>,
        nodes: &NodeIds,
        old: Option<&Chunks>,
        most: usize,
    ) -> Self {
        let mut made = Self {
            chunks: Vec::with_capacity(allocs.len().div_ceil(CHUNK_ALLOCS)),
            ..Self::default()
        };
        let mut line = Line::new(id, group);
        let mut left = most;
        let mut part: Vec<Part> = Vec::with_capacity(CHUNK_ALLOCS.min(allocs.len()));
        for alloc in allocs.iter() {
            part.push((alloc.rank, alloc.node, alloc.status));
            if part.len() == CHUNK_ALLOCS {
                made.add(&mut part, &mut line, nodes, old, &mut left);
            }
        }
        if !part.is_empty() {
            made.add(&mut part, &mut line, nodes, old, &mut left);
        }
        made
    }

    fn add(
        &mut self,
        part: &mut Vec<Part>,
        line: &mut Line,
        nodes: &NodeIds,
        old: Option<&Chunks>,
        left: &mut usize,
    ) {
        let mut sign = 1;
        for &(rank, node, status) in part.iter() {
            if let Some(count) = self.counts.get_mut(status as usize) {
                *count += 1;
            }
            sign = mix(sign, u64::from(rank) << 8 | status as u64, nodes.get(node));
        }
        let sign = sign.max(1);
        let same = old
            .and_then(|old| old.chunks.get(self.chunks.len()))
            .filter(|chunk| chunk.sign == sign);
        let chunk = match same {
            Some(chunk) => chunk.clone(),
            None if *left == 0 => {
                self.missing += 1;
                Chunk::default()
            }
            None => {
                *left -= 1;
                let mut text = Vec::with_capacity(part.len() * (line.len_max() + 1));
                for (at, &(rank, node, status)) in part.iter().enumerate() {
                    if at > 0 {
                        text.push(b',');
                    }
                    line.write(&mut text, status, rank, nodes.get(node));
                }
                Chunk {
                    sign,
                    text: text.into(),
                }
            }
        };
        self.chunks.push(chunk);
        part.clear();
    }

    /// What all of it says, as a number.
    pub(crate) fn sign(&self) -> u64 {
        let mut sign = self.chunks.len() as u64;
        for chunk in &self.chunks {
            sign = (sign ^ chunk.sign)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29);
        }
        sign
    }

    /// Bytes of the texts.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.text.len()).sum()
    }
}

fn mix(sign: u64, what: u64, node: &[u8; UUID_BYTES]) -> u64 {
    // The last group of a UUID has twelve digits; eight of them tell nodes apart well enough for a job's own rank.
    let [.., a, b, c, d, e, f, g, h] = *node;
    let node = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    (sign ^ what)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(23)
        .wrapping_add(node)
        .wrapping_mul(0xff51_afd7_ed55_8ccd)
}

/// Lines of one job, one for each status; only rank and node differ within one.
struct Line {
    texts: [Vec<u8>; job::AllocStatus::ALL.len()],
    /// Where in each the eight digits of the rank are.
    rank_at: [usize; job::AllocStatus::ALL.len()],
    after_rank: usize,
}

impl Line {
    fn new(id: JobId, group: &str) -> Self {
        let uuid = names::allocation(id, 0, 0);
        let mut rank_at = [0; job::AllocStatus::ALL.len()];
        let mut place = rank_at.iter_mut();
        let mut after_rank = 0;
        let texts = job::AllocStatus::ALL.map(|status| {
            let mut text = Vec::with_capacity(256);
            text.extend_from_slice(b"{\"ClientStatus\":\"");
            text.extend_from_slice(status.as_str().as_bytes());
            text.extend_from_slice(
                b"\",\"DeploymentStatus\":{\"Canary\":false,\"Healthy\":null},\"FollowupEvalID\":\"\",\"Group\":",
            );
            info::row::text(&mut text, group);
            text.extend_from_slice(b",\"HasPausedTask\":false,\"ID\":\"");
            text.extend_from_slice(&uuid);
            if let Some(place) = place.next() {
                *place = text.len() - 8;
            }
            let rank_end = text.len();
            text.extend_from_slice(b"\",\"JobVersion\":0,\"NodeID\":\"");
            after_rank = text.len() - rank_end;
            text.extend_from_slice(&[b'0'; UUID_BYTES]);
            text.extend_from_slice(b"\"}");
            text
        });
        Self {
            texts,
            rank_at,
            after_rank,
        }
    }

    fn len_max(&self) -> usize {
        self.texts.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        status: job::AllocStatus,
        rank: u32,
        node: &[u8; UUID_BYTES],
    ) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let at = status as usize;
        let (Some(text), Some(&rank_at)) = (self.texts.get_mut(at), self.rank_at.get(at)) else {
            return;
        };
        if let Some(digits) = text.get_mut(rank_at..rank_at + 8) {
            for (digit, byte) in digits.chunks_exact_mut(2).zip(rank.to_be_bytes()) {
                if let [high, low] = digit {
                    *high = HEX.get(usize::from(byte >> 4)).copied().unwrap_or(b'0');
                    *low = HEX.get(usize::from(byte & 15)).copied().unwrap_or(b'0');
                }
            }
        }
        let node_at = rank_at + 8 + self.after_rank;
        if let Some(place) = text.get_mut(node_at..node_at + UUID_BYTES) {
            place.copy_from_slice(node);
        }
        out.extend_from_slice(text);
    }
}
