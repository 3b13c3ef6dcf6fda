//! The parts of a job, one a node, and what is told of each: `alloc-status`.
//!
//! ```text
//!               started               ended 0 ▶ complete      ended ≠ 0 ▶ failed
//!  (pending) ───────────▶ running ────────────────────────────────────────────▶ over
//!       ▲ │                │   ▲      lost ▶ lost
//!       │ │ node down      │   │ node back, and the part with it
//!       │ └──────▶ unknown ◀───┘
//!       └─────────── └ ─ ─ ─ ─ ─ ─ ─ ─ node back, the part's processes proved gone ▶ lost
//! ```
//! Only what differs from what the job's own events say is told: while it runs, its parts run; with its end they are complete or
//! failed by its status, with `cancel` stopped, with `node-fail` lost.

use job::Idset;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::messages::{Ended, Exception};

/// The longest reason of one status, in bytes.
const REASON_LEN_MAX: usize = 256;

/// What becomes of one part, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Pending,
    Running,
    Complete,
    Failed,
    Lost,
    Unknown,
}

/// The same with what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) status: Status,
    pub(super) reason: Option<String>,
    pub(super) wait_status: Option<i32>,
}

impl Standing {
    pub(super) fn of(status: Status) -> Standing {
        Standing {
            status,
            reason: None,
            wait_status: None,
        }
    }
}

/// One node's part of a job.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) rank: u32,
    /// None if its node is gone.
    pub(super) place: Option<u32>,
    pub(super) host: String,
    pub(super) order: Box<RawValue>,
    pub(super) started: bool,
    /// Its node went away; what became of it is not known yet.
    pub(super) unknown: bool,
    pub(super) ended: Option<Ended>,
    /// It ended because the whole job was told to end: the job's end says what that means.
    pub(super) stopped: bool,
    /// What the job-manager was told last.
    pub(super) told: Told,
}

/// What the job-manager was told of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing: it goes by the job's events.
    Nothing,
    /// By an engine before this one, perhaps, something.
    Perhaps,
    /// This.
    Status(Status),
}

impl Part {
    /// How it is.
    pub(super) fn standing(&self) -> Standing {
        let Some(ended) = &self.ended else {
            return if self.unknown {
                Standing {
                    reason: Some(clip(&format!(
                        "the node process of {} went away",
                        self.host
                    ))),
                    ..Standing::of(Status::Unknown)
                }
            } else if self.started {
                Standing::of(Status::Running)
            } else {
                Standing::of(Status::Pending)
            };
        };
        let because = |exception: Option<&Exception>| exception.map(|it| clip(&it.note));
        let node_fail = ended.exceptions.iter().find(|it| it.kind == "node-fail");
        let fatal = ended.exceptions.iter().rfind(|it| it.severity == 0);
        match ended.status {
            Some(_) if node_fail.is_some() => Standing {
                reason: because(node_fail),
                ..Standing::of(Status::Lost)
            },
            Some(0) => Standing::of(Status::Complete),
            Some(status) => Standing {
                reason: because(fatal),
                wait_status: Some(status),
                ..Standing::of(Status::Failed)
            },
            // Its body may have begun, or there is nobody who could know.
            None if self.started || self.place.is_none() => Standing {
                reason: because(node_fail.or(fatal)),
                ..Standing::of(Status::Lost)
            },
            None => Standing {
                reason: because(fatal),
                ..Standing::of(Status::Failed)
            },
        }
    }

    /// Whether it has to be told while the job goes on, where all that are not named run.
    pub(super) fn is_news(&self, status: Status) -> bool {
        match status {
            Status::Pending => false,
            Status::Running => match self.told {
                Told::Nothing => false,
                Told::Perhaps => true,
                Told::Status(told) => told != Status::Running,
            },
            Status::Complete | Status::Failed if self.stopped => false,
            _ => self.told != Told::Status(status),
        }
    }

    /// Whether what was told of it last stays as it is, whatever the job's events say.
    pub(super) fn is_settled(&self) -> bool {
        matches!(
            self.told,
            Told::Status(Status::Complete | Status::Failed | Status::Lost)
        )
    }
}

fn clip(text: &str) -> String {
    let mut end = REASON_LEN_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// `alloc-status` as it is sent: `{allocs:[{ranks, status, reason?, wait_status?}…]}`, parts of one standing in one entry.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    allocs: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    #[serde(serialize_with = "as_text")]
    ranks: Idset,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_status: Option<i32>,
}

fn as_text<S: serde::Serializer>(ranks: &Idset, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(ranks)
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.allocs.is_empty()
    }

    /// Adds a part, and takes note that it was told.
    pub(super) fn add(&mut self, part: &mut Part, standing: Standing) {
        part.told = Told::Status(standing.status);
        let known = self.allocs.iter_mut().find(|entry| {
            entry.status == standing.status
                && entry.wait_status == standing.wait_status
                && entry.reason == standing.reason
        });
        match known {
            Some(entry) => entry.ranks.insert(part.rank),
            None => self.allocs.push(Entry {
                ranks: Idset::from_range(part.rank, part.rank),
                status: standing.status,
                reason: standing.reason,
                wait_status: standing.wait_status,
            }),
        };
    }
}
