//! The state of the nodes as JSON: in `caught_up` responses, and where the job-manager keeps it.
//!
//! ```text
//! {"seq":N,"eventlog_seq":N,                                newest entry of the resource log, and how many it has had
//!  "define"?:{"method":"announced","R":R,"pools":{NAME:IDSET…}},   as in the newest resource-define
//!  "up":IDSET,
//!  "drained":[{"idset":IDSET,"nodelist":HOSTLIST,"reason":s,"timestamp":f,"userid"?:N}…]}
//! ```
//!
//! Nodes drained for one reason at one time share an element. One with an empty idset names nodes that are in no set.

use super::{Define, Drain, Resources};
use crate::Map;
use crate::hostlist::Hostlist;
use crate::idset::Idset;
use crate::json::{push_f64, push_str, push_u64, push_value};
use crate::seq::Seq;
use crate::time::Timestamp;
use bytes::Bytes;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes that are no state of the nodes.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Not JSON of the shape above.
    #[error("state of the nodes is malformed: {0}")]
    Json(#[from] serde_json::Error),
    /// The set is none.
    #[error("state of the nodes is malformed: define: {0}")]
    Define(String),
    /// Nodes that the set does not have.
    #[error("state of the nodes is malformed: {field}: {met:?} are not all in R")]
    Ranks {
        /// Which key.
        field: &'static str,
        /// The ranks met.
        met: String,
    },
}

#[derive(Deserialize)]
struct Raw {
    seq: u64,
    #[serde(default)]
    eventlog_seq: u32,
    #[serde(default)]
    define: Option<Map>,
    #[serde(default)]
    up: Idset,
    #[serde(default)]
    drained: Vec<RawDrained>,
}

#[derive(Deserialize)]
struct RawDrained {
    #[serde(default)]
    idset: Idset,
    #[serde(default)]
    nodelist: Hostlist,
    #[serde(default)]
    reason: String,
    timestamp: f64,
    #[serde(default)]
    userid: Option<u32>,
}

impl Resources {
    /// The state as JSON.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        let mut buf = Vec::with_capacity(512);
        buf.extend_from_slice(b"{\"seq\":");
        push_u64(&mut buf, self.seq.0);
        buf.extend_from_slice(b",\"eventlog_seq\":");
        push_u64(&mut buf, u64::from(self.eventlog_seq));
        if let Some(define) = &self.define {
            buf.extend_from_slice(b",\"define\":{\"method\":\"announced\",\"R\":");
            buf.extend_from_slice(define.r_json());
            buf.extend_from_slice(b",\"pools\":");
            push_value(&mut buf, define.pools());
            buf.push(b'}');
        }
        buf.extend_from_slice(b",\"up\":");
        push_value(&mut buf, &self.up);
        buf.extend_from_slice(b",\"drained\":");
        self.push_drained(true, &mut buf);
        buf.push(b'}');
        Bytes::from(buf)
    }

    /// Only the drained nodes of the set, as an array.
    #[must_use]
    pub fn drained_json(&self) -> Bytes {
        let mut buf = Vec::new();
        self.push_drained(false, &mut buf);
        Bytes::from(buf)
    }

    fn push_drained(&self, with_gone: bool, buf: &mut Vec<u8>) {
        let mut places: HashMap<&Drain, usize> = HashMap::new();
        let mut groups: Vec<(&Drain, Idset, Vec<&str>)> = Vec::new();
        for (&rank, drain) in &self.drained {
            let at = *places.entry(drain).or_insert(groups.len());
            if at == groups.len() {
                groups.push((drain, Idset::new(), Vec::new()));
            }
            groups[at].1.insert(rank);
        }
        let here = groups.len();
        let mut places: HashMap<&Drain, usize> = HashMap::new();
        for (name, drain) in self.gone.iter().filter(|_| with_gone) {
            let at = *places.entry(drain).or_insert(groups.len());
            if at == groups.len() {
                groups.push((drain, Idset::new(), Vec::new()));
            }
            groups[at].2.push(name);
        }
        buf.push(b'[');
        for (at, (drain, ranks, names)) in groups.iter().enumerate() {
            let names = if at < here {
                self.nodelist(ranks)
            } else {
                Hostlist::from_names(names)
            };
            buf.extend_from_slice(if at == 0 { b"{" } else { b",{" });
            buf.extend_from_slice(b"\"idset\":");
            push_value(buf, ranks);
            buf.extend_from_slice(b",\"nodelist\":");
            push_value(buf, &names);
            buf.extend_from_slice(b",\"reason\":");
            push_str(buf, &drain.reason);
            buf.extend_from_slice(b",\"timestamp\":");
            push_f64(buf, drain.since.0);
            if let Some(userid) = drain.userid {
                buf.extend_from_slice(b",\"userid\":");
                push_u64(buf, u64::from(userid));
            }
            buf.push(b'}');
        }
        buf.push(b']');
    }

    /// Reads the state back.
    /// # Errors
    /// [`SnapshotError`]: not what [`Resources::to_json`] writes.
    pub fn from_json(json: &[u8]) -> Result<Resources, SnapshotError> {
        // An array in the right order would do for a derived struct, so an object is asked for.
        let object: Map = serde_json::from_slice(json)?;
        let raw = Raw::deserialize(serde_json::Value::Object(object))?;
        let define = match &raw.define {
            None => None,
            Some(context) => {
                let define = Define::from_context(context)
                    .map_err(|why| SnapshotError::Define(crate::json::clip(&why)))?;
                Some(Arc::new(define))
            }
        };
        let mut read = Resources {
            seq: Seq(raw.seq),
            eventlog_seq: raw.eventlog_seq,
            define,
            up: Idset::new(),
            drained: BTreeMap::new(),
            gone: BTreeMap::new(),
        };
        let check = |field, ranks: &Idset| {
            if ranks.is_subset(read.ranks()) {
                return Ok(());
            }
            let met = crate::json::clip(&ranks.to_string());
            Err(SnapshotError::Ranks { field, met })
        };
        check("up", &raw.up)?;
        for element in &raw.drained {
            check("drained", &element.idset)?;
        }
        read.up = raw.up;
        for element in raw.drained {
            let drain = Arc::new(Drain {
                since: Timestamp(element.timestamp),
                reason: Arc::from(element.reason),
                userid: element.userid,
            });
            if element.idset.is_empty() {
                let names = element.nodelist.iter();
                read.gone
                    .extend(names.map(|name| (name, Arc::clone(&drain))));
            }
            for rank in element.idset.iter() {
                read.drained.insert(rank, Arc::clone(&drain));
            }
        }
        Ok(read)
    }
}
