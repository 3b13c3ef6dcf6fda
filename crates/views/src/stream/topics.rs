//! What a reader of events asks for: topics, and keys in them.

use info::{Alloc, Record};
use job::JobId;

use crate::{answer::HttpError, ask::Viewer, names};

/// Most topics of one request.
pub const TOPICS_MAX: usize = 256;

/// What events are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Job,
    Allocation,
    Node,
}

impl Topic {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::Allocation => "Allocation",
            Self::Node => "Node",
        }
    }
}

/// A key that is asked for, read once.
#[derive(Debug, Clone)]
struct Key {
    text: Box<str>,
    job: Option<JobId>,
    alloc: Option<(JobId, u32)>,
}

impl Key {
    fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            job: names::parse_job(text),
            alloc: names::parse_allocation(text).map(|(job, _, rank)| (job, rank)),
        }
    }
}

/// Keys of one topic.
#[derive(Debug, Clone, Default)]
struct Asked {
    all: bool,
    keys: Vec<Key>,
}

impl Asked {
    fn add(&mut self, key: &str) {
        if matches!(key, "*" | "") {
            self.all = true;
        } else {
            self.keys.push(Key::new(key));
        }
    }

    fn has(&self, fits: impl Fn(&Key) -> bool) -> bool {
        self.all || self.keys.iter().any(fits)
    }
}

/// What a reader gets.
#[derive(Debug, Clone)]
pub struct Subscription {
    viewer: Viewer,
    /// Of a namespace that does not exist: only what is in none.
    elsewhere: bool,
    jobs: Asked,
    allocations: Asked,
    nodes: Asked,
}

impl Subscription {
    /// Reads `topic` parameters, each `TOPIC` or `TOPIC:KEY`; none is all of all. `*` beside other keys is still all, and what fits two
    /// keys comes once.
    ///
    /// # Errors
    /// [`HttpError`] 400: more than one colon, or too many topics.
    pub fn new<'a>(
        topics: impl IntoIterator<Item = &'a str>,
        namespace: Option<&str>,
        viewer: Viewer,
    ) -> Result<Self, HttpError> {
        let mut subscription = Self {
            viewer,
            elsewhere: !matches!(namespace, None | Some("" | "*" | names::NAMESPACE)),
            jobs: Asked::default(),
            allocations: Asked::default(),
            nodes: Asked::default(),
        };
        let mut asked = 0;
        for topic in topics {
            asked += 1;
            if asked > TOPICS_MAX {
                return Err(HttpError::bad(format!(
                    "too many topics: expected at most {TOPICS_MAX}"
                )));
            }
            let (name, key) = topic.split_once(':').unwrap_or((topic, "*"));
            if key.contains(':') {
                return Err(HttpError::bad(format!(
                    "Invalid topic query: {topic}: expected TOPIC or TOPIC:KEY"
                )));
            }
            subscription.add(name, key);
        }
        if asked == 0 {
            subscription.add("*", "*");
        }
        Ok(subscription)
    }

    fn add(&mut self, name: &str, key: &str) {
        // Other topics are taken, and nothing ever happens in them.
        if matches!(name, "*" | "Job") {
            self.jobs.add(key);
        }
        if matches!(name, "*" | "Allocation") {
            self.allocations.add(key);
        }
        if matches!(name, "*" | "Node") {
            self.nodes.add(key);
        }
    }

    fn sees(&self, userid: u32) -> bool {
        !self.elsewhere && self.viewer.only().is_none_or(|user| user == userid)
    }

    pub(super) fn wants_job(&self, id: JobId, userid: u32) -> bool {
        self.sees(userid) && self.jobs.has(|key| key.job == Some(id))
    }

    /// Whether it may want one of a job's allocations.
    pub(super) fn wants_some_of(&self, record: &Record) -> bool {
        let id = record.id();
        let fits = |key: &Key| key.job == Some(id) || key.alloc.is_some_and(|(job, _)| job == id);
        self.sees(record.job().userid) && self.allocations.has(fits)
    }

    pub(super) fn wants_alloc(&self, record: &Record, alloc: &Alloc<'_>) -> bool {
        let id = record.id();
        let fits = |key: &Key| key.job == Some(id) || key.alloc == Some((id, alloc.rank));
        self.allocations.has(fits)
    }

    pub(super) fn wants_node(&self, name: &str) -> bool {
        // The id is a hash of the name: worked out only where a key could be one.
        self.nodes.has(|key| {
            *key.text == *name
                || (key.text.len() == names::UUID_BYTES
                    && *key.text == *names::text(&names::node(name)))
        })
    }
}
