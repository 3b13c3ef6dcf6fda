//! `job-manager.*`: urgency, priority, raise, kill, list, wait, queues, look-up and the native journal.

use std::borrow::Cow;
use std::fmt;

use job::JobId;
use serde::de::{Deserializer, Error as _, SeqAccess, Unexpected, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A userid in a request that stands for all users.
pub const USERID_ALL: u32 = u32::MAX;

/// An integer that may be written -1 for [`USERID_ALL`].
fn userid<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let given = i64::deserialize(from)?;
    if given == -1 {
        Ok(USERID_ALL)
    } else {
        u32::try_from(given).map_err(D::Error::custom)
    }
}

/// `urgency`: `{id:I, urgency:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrgencyRequest {
    /// The job.
    pub id: JobId,
    /// 0 (held) to 31 (expedited).
    pub urgency: i64,
}

/// `{old_urgency:I, seq:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrgencyResponse {
    /// What it was before.
    pub old_urgency: u8,
    /// The entry this answer rests on (0 from a peer that has no such thing).
    #[serde(default)]
    pub seq: u64,
}

/// `priority` (weir): `{jobs:[[id,urgency]…]}`; an id may repeat up to 16 times, order counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityRequest {
    /// Ids and urgencies.
    pub jobs: Vec<(JobId, i64)>,
}

/// `{seq:I, results:[…]}`, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityResponse {
    /// The entry this answer rests on.
    pub seq: u64,
    /// One per pair.
    pub results: Vec<PriorityResult>,
}

/// `[id, old_urgency]` or `[id, errnum, "text"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PriorityResult {
    /// Done.
    Changed {
        /// The job.
        id: JobId,
        /// What it was before.
        old_urgency: u8,
    },
    /// Not done.
    Refused {
        /// The job.
        id: JobId,
        /// As `urgency` would have answered.
        errnum: u32,
        /// Likewise.
        text: Cow<'static, str>,
    },
}

impl Serialize for PriorityResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            PriorityResult::Changed { id, old_urgency } => {
                let mut row = to.serialize_seq(Some(2))?;
                row.serialize_element(id)?;
                row.serialize_element(old_urgency)?;
                row.end()
            }
            PriorityResult::Refused { id, errnum, text } => {
                let mut row = to.serialize_seq(Some(3))?;
                row.serialize_element(id)?;
                row.serialize_element(errnum)?;
                row.serialize_element(text)?;
                row.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for PriorityResult {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Row {
            Refused(JobId, u32, String),
            Changed(JobId, u8),
        }
        Ok(match Row::deserialize(from)? {
            Row::Changed(id, old_urgency) => PriorityResult::Changed { id, old_urgency },
            Row::Refused(id, errnum, text) => PriorityResult::Refused {
                id,
                errnum,
                text: text.into(),
            },
        })
    }
}

/// `prioritize` (weir, owner): `{jobs:[[id,priority|"default"]…]}`; an id may repeat up to 16 times, order counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritizeRequest {
    /// Ids and what their priority is to be.
    pub jobs: Vec<(JobId, PriorityAim)>,
}

/// What a priority is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriorityAim {
    /// This, until the next change of the urgency.
    Absolute(u32),
    /// `"default"`: what follows from the urgency.
    Default,
    /// A number that is no priority. It refuses its pair, not the request.
    Wrong,
}

impl Serialize for PriorityAim {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            PriorityAim::Absolute(priority) => to.serialize_u32(*priority),
            PriorityAim::Default => to.serialize_str("default"),
            PriorityAim::Wrong => to.serialize_i64(-1),
        }
    }
}

impl<'de> Deserialize<'de> for PriorityAim {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = PriorityAim;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a priority, 0 to 4294967295, or \"default\"")
            }

            fn visit_u64<E>(self, value: u64) -> Result<PriorityAim, E> {
                Ok(u32::try_from(value).map_or(PriorityAim::Wrong, PriorityAim::Absolute))
            }

            fn visit_i64<E>(self, _: i64) -> Result<PriorityAim, E> {
                Ok(PriorityAim::Wrong) // serde_json gives what is not negative to visit_u64
            }

            fn visit_f64<E>(self, _: f64) -> Result<PriorityAim, E> {
                Ok(PriorityAim::Wrong)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PriorityAim, E> {
                if text == "default" {
                    Ok(PriorityAim::Default)
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }
        }
        from.deserialize_any(Reader)
    }
}

/// `{seq:I, results:[…]}`, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritizeResponse {
    /// The entry this answer rests on.
    pub seq: u64,
    /// One per pair.
    pub results: Vec<PrioritizeResult>,
}

/// `[id, old_priority]` or `[id, errnum, "text"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrioritizeResult {
    /// It is as asked.
    Changed {
        /// The job.
        id: JobId,
        /// What it was before.
        old_priority: u32,
    },
    /// Not done.
    Refused {
        /// The job.
        id: JobId,
        /// Why, as a number.
        errnum: u32,
        /// Why.
        text: Cow<'static, str>,
    },
}

impl Serialize for PrioritizeResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            PrioritizeResult::Changed { id, old_priority } => (id, old_priority).serialize(to),
            PrioritizeResult::Refused { id, errnum, text } => (id, errnum, text).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for PrioritizeResult {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // By hand: there may be a million of them, and an untagged enum would keep each aside first.
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = PrioritizeResult;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("[id, old_priority] or [id, errnum, text]")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut row: A,
            ) -> Result<PrioritizeResult, A::Error> {
                let id = row
                    .next_element()?
                    .ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let number = row
                    .next_element()?
                    .ok_or_else(|| A::Error::invalid_length(1, &self))?;
                Ok(match row.next_element::<String>()? {
                    None => PrioritizeResult::Changed {
                        id,
                        old_priority: number,
                    },
                    Some(text) => PrioritizeResult::Refused {
                        id,
                        errnum: number,
                        text: text.into(),
                    },
                })
            }
        }
        from.deserialize_seq(Reader)
    }
}

/// `raise`: `{id:I, severity:I, type:s, note?:s, wait_status?:I}`; the answer has no payload, (weir) or `{seq:I}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiseRequest<'a> {
    /// The job.
    pub id: JobId,
    /// 0 (fatal) to 7.
    pub severity: i64,
    /// One word: `cancel` …
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    /// For people.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub note: Option<Cow<'a, str>>,
    /// The wait status the job is to be given.
    #[serde(
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub wait_status: Option<i32>,
}

/// `raiseall`: `{dry_run:b, userid:I, states:I, severity:I, type:s, note?:s}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiseallRequest<'a> {
    /// Only count.
    pub dry_run: bool,
    /// Whose jobs; 4294967295 or -1 for all.
    #[serde(deserialize_with = "userid")]
    pub userid: u32,
    /// Mask of states.
    pub states: u32,
    /// 0 (fatal) to 7.
    pub severity: i64,
    /// One word.
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    /// For people.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub note: Option<Cow<'a, str>>,
}

/// `{count:I, errors:I, seq:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllResponse {
    /// Jobs that matched.
    pub count: u64,
    /// Of these, how many could not be done.
    pub errors: u64,
    /// The entry this answer rests on.
    #[serde(default)]
    pub seq: u64,
}

/// `kill`: `{id:I, signum:I}`; the answer has no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillRequest {
    /// The job.
    pub id: JobId,
    /// 1 to 64.
    pub signum: i64,
}

/// `killall`: `{dry_run:b, userid:I, signum:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillallRequest {
    /// Only count.
    pub dry_run: bool,
    /// Whose jobs; 4294967295 or -1 for all.
    #[serde(deserialize_with = "userid")]
    pub userid: u32,
    /// 1 to 64.
    pub signum: i64,
}

/// `memo`: `{id:I, memo:o, volatile?:b}`; null deletes a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoRequest {
    /// The job.
    pub id: JobId,
    /// Merged into `annotations.user`.
    pub memo: Map<String, Value>,
    /// Not part of the job's eventlog.
    #[serde(default)]
    pub volatile: bool,
}

/// `{seq:I}`: what changing methods answer that have nothing else to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeqResponse {
    /// The entry this answer rests on.
    pub seq: u64,
}

/// `wait`: `{id:I}`, -1 for any waitable job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRequest {
    /// The job.
    pub id: JobId,
}

/// `{id:I, success:b, errstr:s}`, when the job has ended. It is told once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitResponse<'a> {
    /// The job.
    pub id: JobId,
    /// It finished with status 0.
    pub success: bool,
    /// Empty on success, else why.
    #[serde(borrow)]
    pub errstr: Cow<'a, str>,
}

/// `list`: `{max_entries:I}`, 0 for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListRequest {
    /// At most so many.
    pub max_entries: i64,
}

/// `{max_jobid:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetinfoResponse {
    /// The highest id given out.
    pub max_jobid: JobId,
}

/// `history.get`: `{slice:s}`, python's notation, newest submission first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryGetRequest<'a> {
    /// `[:1]`.
    #[serde(borrow)]
    pub slice: Cow<'a, str>,
}

/// `{jobs:[I…]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryGetResponse {
    /// The caller's own jobs.
    pub jobs: Vec<JobId>,
}

/// `queue-status`: `{name?:s}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatusRequest<'a> {
    /// A named queue.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
}

/// `{enable:b, start:b, disable_reason?:s, stop_reason?:s, blocked?:s}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatusResponse<'a> {
    /// Jobs may be submitted.
    pub enable: bool,
    /// Jobs are given to the scheduler.
    pub start: bool,
    /// Why not.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub disable_reason: Option<Cow<'a, str>>,
    /// Why not.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Cow<'a, str>>,
    /// `scheduler`: it is the scheduler that is missing.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Cow<'a, str>>,
}

/// `queue-list` answers `{queues:[s…]}`: empty, only the anonymous queue is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueListResponse {
    /// Names.
    pub queues: Vec<String>,
}

/// `queue-enable`: `{enable:b, all:b, name?:s, reason?:s}`; answers `{seq:I}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEnableRequest<'a> {
    /// Take submissions.
    pub enable: bool,
    /// Every queue.
    pub all: bool,
    /// This queue.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// Why it is disabled; must be there then.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
}

/// `queue-start`: `{start:b, all:b, name?:s, reason?:s, nocheckpoint?:b}`; answers `{seq:I}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStartRequest<'a> {
    /// Give jobs to the scheduler.
    pub start: bool,
    /// Every queue.
    pub all: bool,
    /// This queue.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    /// Why it is stopped.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// Not to be remembered over a restart.
    #[serde(default)]
    pub nocheckpoint: bool,
}

/// `idle` answers `{pending:I}` once nothing runs and nothing is being scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleResponse {
    /// Jobs that wait.
    pub pending: u64,
}

/// `alloc-query` answers `{queue_length:I, alloc_pending:I, running:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocQueryResponse {
    /// Jobs that wait and are not with the scheduler.
    pub queue_length: u64,
    /// Jobs the scheduler was asked to find resources for.
    pub alloc_pending: u64,
    /// Jobs in RUN.
    pub running: u64,
}

/// `purge`: `{age_limit:f, num_limit:i, batch:i, force:b}`; -1.0 and -1 are no limits; (weir) `jobs?:[I…]` and `all?:b` in their place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PurgeRequest {
    /// Jobs go that ended more than so many seconds ago.
    pub age_limit: f64,
    /// Jobs go but for so many that ended last.
    pub num_limit: i64,
    /// At most so many go: 1 to 100.
    pub batch: i64,
    /// They do go; else they are only counted.
    pub force: bool,
    /// These, whatever the limits say.
    #[serde(
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub jobs: Option<Vec<JobId>>,
    /// All that ended, whatever the limits say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// `{count:i}`; (weir) with `seq`, `jobs` and `errors`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeResponse<'a> {
    /// How many went; without force, how many would in the end.
    pub count: u64,
    /// The entry this answer rests on.
    #[serde(default)]
    pub seq: u64,
    /// The jobs that went; without force, those that would first, at most `batch`.
    #[serde(default)]
    pub jobs: Cow<'a, [JobId]>,
    /// `[id, errnum, "text"]` of each that was named and cannot go.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub errors: Cow<'a, [(JobId, u32, Cow<'static, str>)]>,
}

/// `purge-id`: `{id:I, force:i}`; answers as `purge`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeIdRequest {
    /// The job.
    pub id: JobId,
    /// 0: only whether it could go.
    pub force: i64,
}

/// `lookup` (weir): `{id:I, keys:[s…]}` of `jobspec`, `J`, `R`, `eventlog`; answers `{id, userid, seq, KEY:s…}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupRequest<'a> {
    /// The job.
    pub id: JobId,
    /// What of it.
    #[serde(borrow)]
    pub keys: Vec<Cow<'a, str>>,
}

/// Answer of `lookup`: each key that was asked for as text, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupResponse<'a> {
    /// The job.
    pub id: JobId,
    /// Its owner.
    pub userid: u32,
    /// The entry this answer rests on.
    pub seq: u64,
    /// The jobspec without environment.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub jobspec: Option<Cow<'a, str>>,
    /// What was submitted.
    #[serde(rename = "J", borrow, default, skip_serializing_if = "Option::is_none")]
    pub j: Option<Cow<'a, str>>,
    /// R version 1.
    #[serde(rename = "R", borrow, default, skip_serializing_if = "Option::is_none")]
    pub r: Option<Cow<'a, str>>,
    /// JSON lines (RFC 18), without the live-only entries.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub eventlog: Option<Cow<'a, str>>,
    /// The key that it was submitted under.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    /// With `eventlog`: how many entries of the job there are, the live-only ones counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eventlog_seq: Option<u32>,
}

/// `events` (weir) (streaming): `{allow?:[s], deny?:[s], from?:s, after?:I, epoch?:s, ids?:[I]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsRequest {
    /// Only events of these names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// No events of these names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<String>>,
    /// `now`, `active` or `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Go on after this seq.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The epoch that seq is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<String>,
    /// Only these jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<JobId>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_result_is_a_pair_or_a_triple() {
        let text = r#"{"seq":7,"results":[[5,16],[6,22,"unknown job"]]}"#;
        let parsed: PriorityResponse = serde_json::from_str(text).unwrap();
        assert_eq!(
            parsed.results,
            [
                PriorityResult::Changed {
                    id: JobId(5),
                    old_urgency: 16
                },
                PriorityResult::Refused {
                    id: JobId(6),
                    errnum: 22,
                    text: "unknown job".into()
                }
            ]
        );
        assert_eq!(serde_json::to_string(&parsed).unwrap(), text);
    }

    #[test]
    fn a_prioritize_pair_has_a_number_or_default_and_its_result_is_a_pair_or_a_triple() {
        let text = r#"{"jobs":[[5,4294967295],[6,"default"],[7,4294967296],[8,-1],[9,1.5]]}"#;
        let parsed: PrioritizeRequest = serde_json::from_str(text).unwrap();
        let aims: Vec<PriorityAim> = parsed.jobs.iter().map(|(_, aim)| *aim).collect();
        let wrong = PriorityAim::Wrong;
        assert_eq!(
            aims,
            [
                PriorityAim::Absolute(u32::MAX),
                PriorityAim::Default,
                wrong,
                wrong,
                wrong
            ]
        );
        for bad in [
            r#"{"jobs":[[5,"high"]]}"#,
            r#"{"jobs":[[5,null]]}"#,
            r#"{"jobs":[[5]]}"#,
            r#"{"jobs":[[-2,5]]}"#,
        ] {
            assert!(
                serde_json::from_str::<PrioritizeRequest>(bad).is_err(),
                "{bad}"
            );
        }
        let text = r#"{"seq":7,"results":[[5,4294967295],[6,22,"unknown job"]]}"#;
        let parsed: PrioritizeResponse = serde_json::from_str(text).unwrap();
        assert_eq!(
            parsed.results[0],
            PrioritizeResult::Changed {
                id: JobId(5),
                old_priority: u32::MAX
            }
        );
        assert_eq!(serde_json::to_string(&parsed).unwrap(), text);
        for bad in [r#"[5]"#, r#"[5,1,"x",2]"#, r#"[5,-1]"#] {
            assert!(
                serde_json::from_str::<PrioritizeResult>(bad).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn minus_one_means_any_job_and_all_users() {
        let any: WaitRequest = serde_json::from_str(r#"{"id":-1}"#).unwrap();
        assert_eq!(any.id, JobId::ANY);
        assert!(serde_json::from_str::<WaitRequest>(r#"{"id":-2}"#).is_err());
        for all in ["-1", "4294967295"] {
            let text = format!(r#"{{"dry_run":true,"userid":{all},"signum":15}}"#);
            assert_eq!(
                serde_json::from_str::<KillallRequest>(&text)
                    .unwrap()
                    .userid,
                USERID_ALL
            );
        }
    }
}
