//! The reservation of the job at the head, and who may go before it (EASY backfill).
//!
//! ```text
//!  cores            head: needs 4, starts at T at the earliest
//!    3  running A ─────────┤ head ───────
//!    2  running A ─────────┤ head ───────
//!    1  running B ──┤  x   │ head ───────     x: a later job that ends by T may use what is free until then
//!    0  running B ──┤  x   │ head ───────
//!      now                 T                  one that runs on past T may use only what the head leaves over at T
//! ```
//!
//! T follows from the end times that are known. A job without a time limit may end at any moment or never: if the head needs
//! what such a job holds, T is unknown ([`Reservation::Unknown`]) and any core given away now could be the one the head lacks
//! when that job ends; so nobody goes before it.

use crate::pool::{Free, Grant, Pool};
use crate::request::Request;

/// When the head can start at the earliest.
#[derive(Debug)]
pub(crate) enum Reservation {
    /// At `start_s`; `then` is what is free at that moment, the head's own part still in it.
    At { start_s: f64, then: Free },
    /// Only after a job without a known end, or when a node that is down is back. (One that is drained is waited for by nobody here.)
    Unknown,
}

impl Reservation {
    /// Finds the earliest start of `head`, given what is held and until when.
    pub(crate) fn find<'a>(
        now_s: f64,
        pool: &Pool,
        head: &Request,
        held: impl Iterator<Item = (f64, &'a Grant)>,
    ) -> Reservation {
        let mut ends: Vec<(f64, &Grant)> = held.filter(|(end_s, _)| end_s.is_finite()).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut then = pool.free().clone();
        let mut at = 0;
        while at < ends.len() {
            let start_s = ends[at].0;
            // Everything that ends at the same moment is free together.
            while at < ends.len() && ends[at].0 <= start_s {
                then.give(ends[at].1);
                at += 1;
            }
            if pool.fit(&then, head).is_some() {
                return Reservation::At {
                    start_s: start_s.max(now_s),
                    then,
                };
            }
        }
        Reservation::Unknown
    }

    /// Whether `grant`, given now until `end_s`, leaves the head's earliest start as it is. If so it is counted in.
    pub(crate) fn admit(&mut self, pool: &Pool, head: &Request, grant: &Grant, end_s: f64) -> bool {
        match self {
            Reservation::Unknown => false,
            Reservation::At { start_s, .. } if end_s <= *start_s => true,
            Reservation::At { then, .. } => {
                let mut without = then.clone();
                without.take(grant);
                let admitted = pool.fit(&without, head).is_some();
                if admitted {
                    *then = without;
                }
                admitted
            }
        }
    }
}
