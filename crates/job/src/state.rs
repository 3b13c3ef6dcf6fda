//! States, results and flags of a job: numbers, long and short names.
//!
//! Numbers are bits, so that sets of states travel as masks (RFC 21). Names parse in any letter case.

use crate::json::clip;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Submitted, not yet validated.
    New = 1,
    /// Waits for its dependencies.
    Depend = 2,
    /// Waits for a priority.
    Priority = 4,
    /// Waits for resources.
    Sched = 8,
    /// Has resources.
    Run = 16,
    /// Ends: gives back what it holds.
    Cleanup = 32,
    /// Over.
    Inactive = 64,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JobResult {
    /// Its tasks returned 0 and nothing fatal came before that.
    Completed = 1,
    /// Anything else.
    Failed = 2,
    /// Ended by an exception of type `cancel`.
    Canceled = 4,
    /// Ended by an exception of type `timeout`.
    Timeout = 8,
}

/// A text or number that names nothing of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    /// Not the name of a state or a group of states.
    #[error("{met:?} is no job state: expected one of {STATE_NAMES}")]
    State {
        /// The text met, shortened.
        met: String,
    },
    /// Not the name of a result.
    #[error("{met:?} is no job result: expected one of {RESULT_NAMES}")]
    Result {
        /// The text met, shortened.
        met: String,
    },
    /// A mask with a bit that means nothing.
    #[error("mask {met} is out of range: expected 0 to {max}")]
    Mask {
        /// The mask met.
        met: i64,
        /// The mask with every bit that means something.
        max: u32,
    },
}

const STATE_NAMES: &str =
    "new, depend, priority, sched, run, cleanup, inactive, pending, running, active";
const RESULT_NAMES: &str = "completed, failed, canceled, timeout";

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [State; 7] = [
        State::New,
        State::Depend,
        State::Priority,
        State::Sched,
        State::Run,
        State::Cleanup,
        State::Inactive,
    ];

    /// The number of the state, one bit.
    #[must_use]
    pub fn bit(self) -> u32 {
        u32::from(self as u8)
    }

    /// The state of that number.
    #[must_use]
    pub fn from_bit(bit: u32) -> Option<State> {
        State::ALL.into_iter().find(|state| state.bit() == bit)
    }

    /// `DEPEND`
    #[must_use]
    pub fn long(self) -> &'static str {
        match self {
            State::New => "NEW",
            State::Depend => "DEPEND",
            State::Priority => "PRIORITY",
            State::Sched => "SCHED",
            State::Run => "RUN",
            State::Cleanup => "CLEANUP",
            State::Inactive => "INACTIVE",
        }
    }

    /// `D`
    #[must_use]
    pub fn short(self) -> &'static str {
        &self.long()[..1]
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.long())
    }
}

impl FromStr for State {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |state: &State| is_name(text, state.long(), state.short());
        State::ALL
            .into_iter()
            .find(named)
            .ok_or_else(|| UnknownName::State { met: clip(text) })
    }
}

impl JobResult {
    /// Every result, by its number.
    pub const ALL: [JobResult; 4] = [
        JobResult::Completed,
        JobResult::Failed,
        JobResult::Canceled,
        JobResult::Timeout,
    ];

    /// The number of the result, one bit.
    #[must_use]
    pub fn bit(self) -> u32 {
        u32::from(self as u8)
    }

    /// The result of that number.
    #[must_use]
    pub fn from_bit(bit: u32) -> Option<JobResult> {
        JobResult::ALL
            .into_iter()
            .find(|result| result.bit() == bit)
    }

    /// `COMPLETED`
    #[must_use]
    pub fn long(self) -> &'static str {
        match self {
            JobResult::Completed => "COMPLETED",
            JobResult::Failed => "FAILED",
            JobResult::Canceled => "CANCELED",
            JobResult::Timeout => "TIMEOUT",
        }
    }

    /// `CD`
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            JobResult::Completed => "CD",
            JobResult::Failed => "F",
            JobResult::Canceled => "CA",
            JobResult::Timeout => "TO",
        }
    }
}

impl fmt::Display for JobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.long())
    }
}

impl FromStr for JobResult {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |result: &JobResult| is_name(text, result.long(), result.short());
        let found = JobResult::ALL.into_iter().find(named);
        found.ok_or_else(|| UnknownName::Result { met: clip(text) })
    }
}

fn is_name(text: &str, long: &str, short: &str) -> bool {
    text.eq_ignore_ascii_case(long) || text.eq_ignore_ascii_case(short)
}

/// A set of states, as the mask that travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct StateSet(pub u32);

impl StateSet {
    /// Nothing.
    pub const EMPTY: StateSet = StateSet(0);
    /// Not yet running: DEPEND, PRIORITY, SCHED.
    pub const PENDING: StateSet = StateSet(14);
    /// RUN and CLEANUP.
    pub const RUNNING: StateSet = StateSet(48);
    /// PENDING and RUNNING.
    pub const ACTIVE: StateSet = StateSet(62);
    /// Active or inactive.
    pub const ANY: StateSet = StateSet(126);
    /// Every bit that means something.
    pub const ALL: StateSet = StateSet(127);

    /// Whether the state is among them.
    #[must_use]
    pub fn contains(self, state: State) -> bool {
        self.0 & state.bit() != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set a mask names.
    /// # Errors
    /// [`UnknownName::Mask`] when a bit means nothing.
    pub fn from_mask(mask: i64) -> Result<StateSet, UnknownName> {
        in_mask(mask, StateSet::ALL.0).map(StateSet)
    }
}

impl From<State> for StateSet {
    fn from(state: State) -> Self {
        StateSet(state.bit())
    }
}

impl BitOr for StateSet {
    type Output = StateSet;

    fn bitor(self, other: StateSet) -> StateSet {
        StateSet(self.0 | other.0)
    }
}

impl FromStr for StateSet {
    type Err = UnknownName;

    /// One state or one group: `pending` (`PD`), `running` (`RU`), `active` (`A`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let groups = [
            (StateSet::PENDING, "PENDING", "PD"),
            (StateSet::RUNNING, "RUNNING", "RU"),
            (StateSet::ACTIVE, "ACTIVE", "A"),
        ];
        match groups
            .into_iter()
            .find(|(_, long, short)| is_name(text, long, short))
        {
            Some((set, _, _)) => Ok(set),
            None => text.parse::<State>().map(StateSet::from),
        }
    }
}

/// A set of results, as the mask that travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct ResultSet(pub u32);

impl ResultSet {
    /// Every bit that means something.
    pub const ALL: ResultSet = ResultSet(15);

    /// Whether the result is among them.
    #[must_use]
    pub fn contains(self, result: JobResult) -> bool {
        self.0 & result.bit() != 0
    }

    /// The set a mask names.
    /// # Errors
    /// [`UnknownName::Mask`] when a bit means nothing.
    pub fn from_mask(mask: i64) -> Result<ResultSet, UnknownName> {
        in_mask(mask, ResultSet::ALL.0).map(ResultSet)
    }
}

impl From<JobResult> for ResultSet {
    fn from(result: JobResult) -> Self {
        ResultSet(result.bit())
    }
}

impl BitOr for ResultSet {
    type Output = ResultSet;

    fn bitor(self, other: ResultSet) -> ResultSet {
        ResultSet(self.0 | other.0)
    }
}

fn in_mask(mask: i64, max: u32) -> Result<u32, UnknownName> {
    match u32::try_from(mask) {
        Ok(bits) if bits & !max == 0 => Ok(bits),
        _ => Err(UnknownName::Mask { met: mask, max }),
    }
}

/// What a job was submitted with, and what `set-flags` adds later. The low four bits travel in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobFlags(pub u32);

impl JobFlags {
    /// Posts `debug.*` events.
    pub const DEBUG: JobFlags = JobFlags(2);
    /// Its result is kept for one `wait`.
    pub const WAITABLE: JobFlags = JobFlags(4);
    /// Was not validated at submission.
    pub const NOVALIDATE: JobFlags = JobFlags(8);
    /// Resources are not the scheduler's to give.
    pub const ALLOC_BYPASS: JobFlags = JobFlags(1 << 16);
    /// Its jobspec may no longer be updated by a guest.
    pub const IMMUTABLE: JobFlags = JobFlags(1 << 17);

    /// Whether all of `other` are set.
    #[must_use]
    pub fn contains(self, other: JobFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flag a `set-flags` event names; unknown names have none.
    #[must_use]
    pub fn named(name: &str) -> Option<JobFlags> {
        match name {
            "debug" => Some(JobFlags::DEBUG),
            "alloc-bypass" => Some(JobFlags::ALLOC_BYPASS),
            "immutable" => Some(JobFlags::IMMUTABLE),
            _ => None,
        }
    }
}

impl BitOr for JobFlags {
    type Output = JobFlags;

    fn bitor(self, other: JobFlags) -> JobFlags {
        JobFlags(self.0 | other.0)
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.bit())
    }
}

impl Serialize for JobResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.bit())
    }
}

impl<'de> Deserialize<'de> for State {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BitOrName("a job state", State::from_bit))
    }
}

impl<'de> Deserialize<'de> for JobResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BitOrName("a job result", JobResult::from_bit))
    }
}

struct BitOrName<T>(&'static str, fn(u32) -> Option<T>);

impl<T: FromStr<Err = UnknownName>> Visitor<'_> for BitOrName<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, as its number or its name", self.0)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<T, E> {
        let found = u32::try_from(value).ok().and_then(self.1);
        found.ok_or_else(|| E::custom(format_args!("{value} is not {}", self.0)))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<T, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::custom(format_args!("{value} is not {}", self.0))),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_short_names_are_those_of_rfc_21() {
        let states: Vec<_> = State::ALL.map(|s| (s.bit(), s.short())).into();
        assert_eq!(
            states,
            [
                (1, "N"),
                (2, "D"),
                (4, "P"),
                (8, "S"),
                (16, "R"),
                (32, "C"),
                (64, "I")
            ]
        );
        let results: Vec<_> = JobResult::ALL.map(|r| (r.bit(), r.short())).into();
        assert_eq!(results, [(1, "CD"), (2, "F"), (4, "CA"), (8, "TO")]);
    }

    #[test]
    fn names_parse_in_any_case() {
        for state in State::ALL {
            for text in [state.long(), state.short()] {
                assert_eq!(text.parse(), Ok(state));
                assert_eq!(text.to_lowercase().parse(), Ok(state));
                assert_eq!(text.parse(), Ok(StateSet::from(state)));
            }
            assert_eq!(State::from_bit(state.bit()), Some(state));
        }
        for result in JobResult::ALL {
            assert_eq!(result.long().to_lowercase().parse(), Ok(result));
            assert_eq!(result.short().to_lowercase().parse(), Ok(result));
        }
        assert_eq!("pd".parse(), Ok(StateSet(14)));
        assert_eq!("Running".parse(), Ok(StateSet(48)));
        assert_eq!("a".parse(), Ok(StateSet(62)));
        assert!("pending".parse::<State>().is_err());
        assert_eq!(
            "foo".parse::<StateSet>().unwrap_err().to_string(),
            "\"foo\" is no job state: expected one of new, depend, priority, sched, run, cleanup, \
             inactive, pending, running, active"
        );
    }

    #[test]
    fn masks_outside_the_range_are_refused() {
        assert_eq!(StateSet::from_mask(126), Ok(StateSet::ANY));
        assert!(StateSet::from_mask(128).is_err() && StateSet::from_mask(-1).is_err());
        assert!(ResultSet::from_mask(16).is_err());
        assert!(
            StateSet::PENDING.contains(State::Sched) && !StateSet::PENDING.contains(State::Run)
        );
        assert!(!StateSet::ACTIVE.contains(State::New));
    }

    #[test]
    fn json_is_the_number_and_reads_names_too() {
        assert_eq!(serde_json::to_string(&State::Sched).unwrap(), "8");
        assert_eq!(serde_json::from_str::<State>("8").unwrap(), State::Sched);
        assert_eq!(
            serde_json::from_str::<State>("\"sched\"").unwrap(),
            State::Sched
        );
        assert_eq!(
            serde_json::from_str::<JobResult>("\"TO\"").unwrap(),
            JobResult::Timeout
        );
        for bad in ["3", "0", "-1", "\"x\"", "null", "8.0"] {
            assert!(serde_json::from_str::<State>(bad).is_err(), "{bad}");
        }
    }
}
