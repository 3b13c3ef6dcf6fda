//! One job as job-list describes it, and what follows from that: status, run time, return code, reason.
//!
//! Attributes that are not defined (or were not asked for) are `None`; nothing here guesses. The JSON form always has the same
//! keys with values of the same type, `null` where a thing is not defined.

use crate::{ids, users};
use job::waitstatus::{Ended, WaitStatus};
use job::{JobId, JobResult, State};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The dependency of a job that others are dispatched from.
const DISPATCH: &str = "dispatch";

/// The priority of a job of urgency 31: before all others.
pub const PRIORITY_MAX: u64 = 4_294_967_295;

/// The exception for a node that went away: of a job whose parts are independent it is not fatal.
const NODE_FAIL: &str = "node-fail";
/// The status of a part that went away with its node: as if it had been killed.
const STATUS_LOST: i32 = (128 + 9) << 8;

/// What `returncode` says of a job that never ran.
const RETURNCODE_NEVER_RAN: i64 = -128;

/// A job of a `job-list` response.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the attributes of job-list, by their names
pub struct Row {
    pub id: u64,
    pub userid: Option<u32>,
    pub urgency: Option<u8>,
    pub priority: Option<u64>,
    pub state: Option<u32>,
    pub result: Option<u32>,
    pub t_submit: Option<f64>,
    pub t_depend: Option<f64>,
    pub t_priority: Option<f64>,
    pub t_sched: Option<f64>,
    pub t_run: Option<f64>,
    pub t_cleanup: Option<f64>,
    pub t_inactive: Option<f64>,
    pub name: Option<String>,
    pub cwd: Option<String>,
    pub queue: Option<String>,
    pub project: Option<String>,
    pub bank: Option<String>,
    pub ntasks: Option<u64>,
    pub ncores: Option<u64>,
    pub nnodes: Option<u64>,
    pub duration: Option<f64>,
    pub expiration: Option<f64>,
    pub ranks: Option<String>,
    pub nodelist: Option<String>,
    pub waitstatus: Option<i32>,
    pub success: Option<bool>,
    pub exception_occurred: Option<bool>,
    pub exception_severity: Option<i64>,
    pub exception_type: Option<String>,
    pub exception_note: Option<String>,
    pub annotations: Option<Map<String, Value>>,
    pub dependencies: Option<Vec<String>>,
    pub parent: Option<u64>,
    /// Why it is not started, if somebody found that out: no attribute of job-list.
    #[serde(skip)]
    pub waits: Option<Arc<str>>,
}

impl Row {
    /// Its id.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        JobId(self.id)
    }

    /// Its state, if it was asked for.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.state.and_then(State::from_bit)
    }

    /// True if others are dispatched from it: it never runs, and waits until it is canceled.
    #[must_use]
    pub fn is_parameterized(&self) -> bool {
        let dependencies = self.dependencies.as_deref();
        dependencies.is_some_and(|list| *list == [DISPATCH])
    }

    /// True if it waits to be started.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state().is_some_and(|state| state < State::Run)
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn result(&self) -> Option<JobResult> {
        self.result.and_then(JobResult::from_bit)
    }

    /// The result of a job that ended, else its state: `COMPLETED`, `RUN`.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (self.result(), self.state()) {
            (Some(result), _) => result.long(),
            (None, Some(state)) => state.long(),
            (None, None) => "",
        }
    }

    /// [`Self::status`] in one or two letters.
    #[must_use]
    pub fn status_abbrev(&self) -> &'static str {
        match (self.result(), self.state()) {
            (Some(result), _) => result.short(),
            (None, Some(state)) => state.short(),
            (None, None) => "",
        }
    }

    /// How long it ran or has been running, in seconds; `None` if it never started.
    #[must_use]
    pub fn runtime(&self, now: f64) -> Option<f64> {
        let start = self.t_run?;
        let end = self.t_cleanup.or(self.t_inactive).unwrap_or(now);
        Some((end - start).max(0.0))
    }

    /// The exit code; minus the signal if one ended it; -128 if it ended without having run.
    #[must_use]
    pub fn returncode(&self) -> Option<i64> {
        match self.waitstatus {
            Some(status) => Some(match WaitStatus(status).ended() {
                Ended::Signaled(signal) => -i64::from(signal),
                Ended::Exited(code) => i64::from(code),
            }),
            None if self.result.is_some() => Some(RETURNCODE_NEVER_RAN),
            None => None,
        }
    }

    /// Why it did not end well; empty if it did, or has not ended.
    #[must_use]
    pub fn reason(&self) -> String {
        let note = self.exception_note.as_deref().unwrap_or_default();
        match self.result() {
            None | Some(JobResult::Completed) => String::new(),
            Some(JobResult::Canceled) if note.is_empty() => "Canceled".to_owned(),
            Some(JobResult::Canceled) => format!("Canceled: {note}"),
            Some(JobResult::Timeout) => "Timeout".to_owned(),
            Some(JobResult::Failed) => match (
                &self.exception_type,
                self.exception_severity,
                self.waitstatus,
            ) {
                (Some(kind), Some(0), _) if note.is_empty() => format!("Exception: {kind}"),
                (Some(kind), Some(0), _) => format!("Exception: {kind}: {note}"),
                (Some(kind), _, Some(STATUS_LOST)) if kind == NODE_FAIL && !note.is_empty() => {
                    format!("A part was lost: {note}")
                }
                (_, _, Some(status)) => crate::status::describe(status),
                _ => String::new(),
            },
        }
    }

    /// What a person wants to know next: what it waits for, where it runs, why it failed.
    #[must_use]
    pub fn info(&self) -> Cow<'_, str> {
        match self.state() {
            Some(State::Depend) if self.is_parameterized() => Cow::Borrowed("parameterized"),
            Some(State::Depend) => match &self.dependencies {
                Some(list) if !list.is_empty() => Cow::Owned(format!("depends:{}", list.join(","))),
                _ => Cow::Borrowed(""),
            },
            Some(State::Priority) => Cow::Borrowed("priority-wait"),
            Some(State::Sched) if self.urgency == Some(0) || self.priority == Some(0) => {
                Cow::Borrowed("held")
            }
            Some(State::Sched) => match self
                .annotation("sched.reason_pending")
                .or_else(|| self.annotation("user.reason"))
            {
                Some(Value::String(text)) => Cow::Borrowed(text),
                _ => match self.annotation("sched.t_estimate").and_then(Value::as_f64) {
                    Some(at) => Cow::Owned(format!("starts by {}", crate::when::zoned_seconds(at))),
                    None => Cow::Borrowed(self.waits.as_deref().unwrap_or_default()),
                },
            },
            Some(State::Inactive) if self.result() != Some(JobResult::Completed) => {
                Cow::Owned(self.reason())
            }
            _ => Cow::Borrowed(self.nodelist.as_deref().unwrap_or_default()),
        }
    }

    /// A value of the annotations by its dotted path.
    #[must_use]
    pub fn annotation(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let mut at = self.annotations.as_ref()?.get(names.next()?)?;
        for name in names {
            at = at.get(name)?;
        }
        Some(at)
    }

    /// The JSON form.
    #[must_use]
    pub fn json(&self, now: f64) -> RowJson<'_> {
        RowJson {
            id: self.id,
            f58: self.job_id().to_string(),
            userid: self.userid,
            username: self.userid.map(|uid| users::name(uid).to_string()),
            urgency: self.urgency,
            priority: self.priority,
            state: self.state().map(State::long),
            result: self.result().map(JobResult::long),
            status: self.status(),
            name: self.name.as_deref(),
            queue: self.queue.as_deref(),
            project: self.project.as_deref(),
            bank: self.bank.as_deref(),
            cwd: self.cwd.as_deref(),
            ntasks: self.ntasks,
            ncores: self.ncores,
            nnodes: self.nnodes,
            duration: self.duration,
            expiration: self.expiration,
            ranks: self.ranks.as_deref(),
            nodelist: self.nodelist.as_deref(),
            t_submit: self.t_submit,
            t_depend: self.t_depend,
            t_priority: self.t_priority,
            t_sched: self.t_sched,
            t_run: self.t_run,
            t_cleanup: self.t_cleanup,
            t_inactive: self.t_inactive,
            runtime: self.runtime(now),
            waitstatus: self.waitstatus,
            returncode: self.returncode(),
            success: self.success,
            reason: Some(self.reason()).filter(|reason| !reason.is_empty()),
            exception: ExceptionJson {
                occurred: self.exception_occurred,
                severity: self.exception_severity,
                kind: self.exception_type.as_deref(),
                note: self.exception_note.as_deref(),
            },
            dependencies: self.dependencies.as_deref().unwrap_or_default(),
            parent: self.parent,
            annotations: self.annotations.as_ref(),
        }
    }

    /// `ƒ… (name)`, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{} ({name})", ids::show(self.job_id())),
            None => ids::show(self.job_id()),
        }
    }
}

/// A job in the documents of `--json`.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct RowJson<'a> {
    pub id: u64,
    pub f58: String,
    pub userid: Option<u32>,
    pub username: Option<String>,
    pub urgency: Option<u8>,
    pub priority: Option<u64>,
    pub state: Option<&'static str>,
    pub result: Option<&'static str>,
    pub status: &'static str,
    pub name: Option<&'a str>,
    pub queue: Option<&'a str>,
    pub project: Option<&'a str>,
    pub bank: Option<&'a str>,
    pub cwd: Option<&'a str>,
    pub ntasks: Option<u64>,
    pub ncores: Option<u64>,
    pub nnodes: Option<u64>,
    pub duration: Option<f64>,
    pub expiration: Option<f64>,
    pub ranks: Option<&'a str>,
    pub nodelist: Option<&'a str>,
    pub t_submit: Option<f64>,
    pub t_depend: Option<f64>,
    pub t_priority: Option<f64>,
    pub t_sched: Option<f64>,
    pub t_run: Option<f64>,
    pub t_cleanup: Option<f64>,
    pub t_inactive: Option<f64>,
    pub runtime: Option<f64>,
    pub waitstatus: Option<i32>,
    pub returncode: Option<i64>,
    pub success: Option<bool>,
    pub reason: Option<String>,
    pub exception: ExceptionJson<'a>,
    pub dependencies: &'a [String],
    /// The job that it was dispatched from.
    pub parent: Option<u64>,
    pub annotations: Option<&'a Map<String, Value>>,
}

/// The exception of a job in the documents of `--json`.
#[derive(Debug, Serialize)]
#[allow(missing_docs)]
pub struct ExceptionJson<'a> {
    pub occurred: Option<bool>,
    pub severity: Option<i64>,
    #[serde(rename = "type")]
    pub kind: Option<&'a str>,
    pub note: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Row {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a07_a_job_that_never_started_has_no_start_and_no_run_time() {
        let job = row(
            r#"{"id":5,"state":64,"result":2,"t_submit":1.0,"t_inactive":9.0,"exception_occurred":true,"exception_severity":0,
                "exception_type":"alloc","exception_note":"cannot be satisfied"}"#,
        );
        assert_eq!(job.runtime(100.0), None);
        assert_eq!(job.status_abbrev(), "F");
        assert_eq!(job.info(), "Exception: alloc: cannot be satisfied");
        let json = serde_json::to_value(job.json(100.0)).unwrap();
        assert_eq!(
            (&json["t_run"], &json["runtime"], &json["returncode"]),
            (&Value::Null, &Value::Null, &Value::from(-128))
        );
    }

    #[test]
    fn the_json_form_has_every_key_whatever_is_defined() {
        let keys = |json: &str| match serde_json::to_value(row(json).json(0.0)).unwrap() {
            Value::Object(map) => map.keys().cloned().collect::<Vec<_>>(),
            other => panic!("{other}"),
        };
        assert_eq!(
            keys(r#"{"id":1}"#),
            keys(r#"{"id":2,"state":16,"t_run":1.0,"annotations":{"sched":{}},"queue":"q"}"#)
        );
    }

    #[test]
    fn what_a_person_wants_to_know_next() {
        assert_eq!(
            row(r#"{"id":1,"state":8,"urgency":0,"priority":0}"#).info(),
            "held"
        );
        assert_eq!(
            row(r#"{"id":1,"state":2,"dependencies":["dispatch"]}"#).info(),
            "parameterized"
        );
        assert_eq!(
            row(r#"{"id":1,"state":2,"dependencies":["after-success=ƒ1","x"]}"#).info(),
            "depends:after-success=ƒ1,x"
        );
        assert_eq!(
            row(r#"{"id":1,"state":16,"nodelist":"node0"}"#).info(),
            "node0"
        );
        assert_eq!(
            row(r#"{"id":1,"state":64,"result":1,"nodelist":"node0"}"#).info(),
            "node0"
        );
        assert_eq!(
            row(r#"{"id":1,"state":64,"result":4,"exception_note":"no"}"#).info(),
            "Canceled: no"
        );
        let failed = row(r#"{"id":1,"state":64,"result":2,"waitstatus":768}"#);
        assert_eq!(
            (failed.info().as_ref(), failed.returncode()),
            ("Exit 3", Some(3))
        );
        let lost = r#"{"id":1,"state":64,"result":2,"waitstatus":35072,"exception_severity":1,"exception_type":"node-fail","exception_note":"the node process of h-2 went away"}"#;
        assert_eq!(
            row(lost).info(),
            "A part was lost: the node process of h-2 went away"
        );
        let other = lost.replace("35072", "768");
        assert_eq!(row(&other).info(), "Exit 3");
        let fine = row(r#"{"id":1,"state":64,"result":1,"waitstatus":0}"#);
        assert_eq!(
            (failed.json(0.0).reason.as_deref(), fine.json(0.0).reason),
            (Some("Exit 3"), None)
        );
        let reserved =
            r#"{"id":1,"state":8,"priority":16,"annotations":{"sched":{"t_estimate":86400.0}}}"#;
        assert!(row(reserved).info().starts_with("starts by 1970-01-0"));
        let killed = row(r#"{"id":1,"state":64,"result":2,"waitstatus":9}"#);
        assert_eq!(killed.returncode(), Some(-9));
    }
}
