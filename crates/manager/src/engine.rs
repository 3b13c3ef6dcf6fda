//! The links to the two engines, and what arrives from them.
//!
//! A report counts only if it comes on the connection that said hello last; a peer that breaks the protocol is forgotten and its connection
//! closed. A report that is late or came before changes nothing and is counted.

mod allocs;
mod exec;
mod sched;

use bytes::Bytes;
use wire::Topic;

use crate::action::Action;
use crate::input::{Report, Sender};
use crate::manager::Manager;
use crate::no_space::REPORTS_MAX;

pub(crate) use exec::ExecLink;
pub(crate) use sched::SchedLink;

/// Why an engine's connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the engine answered with an errnum")]
    Errnum,
    #[error("the engine's report is malformed")]
    Malformed,
    #[error("the store has no room for more reports")]
    NoSpace,
}

impl Broken {
    fn why(self) -> &'static str {
        match self {
            Broken::Errnum => "the engine answered a request with an errnum",
            Broken::Malformed => "the engine's report is malformed",
            Broken::NoSpace => {
                "the store has no room for more reports; the engine may come back and report again"
            }
        }
    }
}

impl Manager {
    /// Takes a report of an engine.
    pub(crate) fn report(&mut self, report: Report) {
        let from_sched = self.sched.sender() == Some(report.from);
        let from_exec = self
            .exec
            .as_ref()
            .is_some_and(|link| link.sender == report.from);
        let taken = match () {
            () if from_sched && report.topic.service() == "sched" => {
                if report.topic == "sched.alloc" {
                    self.within_space()
                        .and_then(|()| self.sched_report(&report))
                } else {
                    Ok(())
                }
            }
            () if from_exec => {
                let start = self
                    .exec
                    .as_ref()
                    .is_some_and(|link| link.start == report.topic);
                if start {
                    self.within_space().and_then(|()| self.exec_report(&report))
                } else {
                    Ok(())
                }
            }
            () => {
                self.stats.late_reports += 1;
                Ok(())
            }
        };
        if let Err(broken) = taken {
            self.turn.at_once.push(Action::Close {
                sender: report.from,
                why: broken.why(),
            });
            self.disconnect(report.from);
        }
    }

    /// While the store has no room, reports are taken up to a bound.
    fn within_space(&mut self) -> Result<(), Broken> {
        match &mut self.no_space {
            None => Ok(()),
            Some(taken) if *taken < REPORTS_MAX => {
                *taken += 1;
                Ok(())
            }
            Some(_) => Err(Broken::NoSpace),
        }
    }

    /// A connection is gone.
    pub(crate) fn disconnect(&mut self, sender: Sender) {
        self.waits.forget(sender);
        self.forget_shutdown(sender);
        if self.sched.sender() == Some(sender) {
            self.sched_gone();
        }
        if self.exec.as_ref().is_some_and(|link| link.sender == sender) {
            self.exec_gone();
        }
    }
}

/// R as it is kept, shown and given back: without the key `scheduling`. One that is no JSON was never taken.
pub(crate) fn without_scheduling(r: Bytes) -> Bytes {
    job::r::without_scheduling(&r).unwrap_or(r)
}

/// A topic of the exec service.
fn service_topic(service: &str, method: &str) -> Topic {
    Topic::from(format!("{service}.{method}"))
}
