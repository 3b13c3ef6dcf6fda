//! The engines of a random world: they answer truly, late or twice.

use job::JobId;
use manager::Token;
use wire::Cred;

use super::{Asked, EXEC, Run, SCHED};
use crate::world::{OWNER, R};

impl Run {
    pub(super) fn sched_hello(&mut self, limit: Option<usize>) {
        if self.peers.sched {
            return;
        }
        // Everything is durable first, so that the answers to hello arrive before anything else is decided.
        self.durable(usize::MAX);
        self.peers.sched = true;
        self.peers.limit = limit.unwrap_or(usize::MAX);
        self.peers.holding.clear();
        self.peers
            .asked
            .insert(Token(self.world.next_token + 1), Asked::Hello);
        let owner = Cred::owner(OWNER);
        let actions = self
            .world
            .call(SCHED, owner, "job-manager.sched-hello", None, true);
        let ready = match limit {
            Some(limit) => format!(r#"{{"mode":"limited","limit":{limit}}}"#),
            None => r#"{"mode":"unlimited"}"#.to_owned(),
        };
        self.saw(actions, false);
        self.engine_call(SCHED, "job-manager.sched-ready", &ready, false);
    }

    pub(super) fn sched_answers(&mut self, pick: usize, kind: u8) {
        let open: Vec<(JobId, bool)> = self
            .peers
            .open
            .iter()
            .map(|(id, cancelled)| (*id, *cancelled))
            .collect();
        let Some((id, cancelled)) = open.get(pick % open.len().max(1)).copied() else {
            return;
        };
        let payload = match kind {
            0 => {
                self.peers.holding.insert(id);
                format!(r#"{{"id":{},"type":0,"R":{R}}}"#, id.0)
            }
            1 => format!(
                r#"{{"id":{},"type":1,"annotations":{{"sched":{{"x":{pick}}}}}}}"#,
                id.0
            ),
            2 => format!(r#"{{"id":{},"type":2,"note":"no"}}"#, id.0),
            _ if !cancelled => return,
            _ => format!(r#"{{"id":{},"type":3}}"#, id.0),
        };
        if kind != 1 {
            self.peers.open.remove(&id);
        }
        self.report(SCHED, "sched.alloc", &payload);
    }

    pub(super) fn exec_hello(&mut self) {
        if self.peers.exec {
            return;
        }
        self.durable(usize::MAX);
        self.peers.exec = true;
        self.engine_call(
            EXEC,
            "job-manager.exec-hello",
            r#"{"service":"job-exec"}"#,
            false,
        );
    }

    pub(super) fn exec_answers(&mut self, pick: usize, kind: u8) {
        let open: Vec<JobId> = self.peers.exchanges.iter().copied().collect();
        let Some(id) = open.get(pick % open.len().max(1)).copied() else {
            return;
        };
        let (kind, data, over) = match kind {
            0 | 1 => ("start", "{}", false),
            2 => ("finish", r#"{"status":0}"#, false),
            3 => (
                "finish",
                r#"{"status":256,"release":{"ranks":"all","final":true}}"#,
                true,
            ),
            4 => ("release", r#"{"ranks":"all","final":true}"#, true),
            5 => (
                "exception",
                r#"{"severity":0,"type":"exec","note":"x"}"#,
                false,
            ),
            6 => ("release", r#"{"ranks":"0","final":false}"#, false),
            7 => (
                "alloc-status",
                r#"{"allocs":[{"ranks":"0-3","status":"running"}]}"#,
                false,
            ),
            8 => (
                "alloc-status",
                r#"{"allocs":[{"ranks":"0","status":"unknown","reason":"x"}]}"#,
                false,
            ),
            9 => (
                "alloc-status",
                r#"{"allocs":[{"ranks":"0","status":"lost"}]}"#,
                false,
            ),
            _ => (
                "alloc-status",
                r#"{"allocs":[{"ranks":"0","status":"failed","wait_status":256},{"ranks":"0","status":"complete"}]}"#,
                false,
            ),
        };
        if kind == "start" {
            self.peers.started.insert(id);
        }
        if over {
            self.peers.exchanges.remove(&id);
        }
        self.report(
            EXEC,
            "job-exec.start",
            &format!(r#"{{"id":{},"type":"{kind}","data":{data}}}"#, id.0),
        );
    }

    /// Reports that no engine keeping the protocol sends now: said again after the exchange, or by a stranger.
    pub(super) fn nonsense(&mut self, pick: usize, kind: u8) {
        let id = self.pick(pick);
        // An engine cannot answer what has not reached it: let it be asked first.
        self.durable(usize::MAX);
        if kind < 4 {
            let from = if self.peers.open.contains_key(&id) {
                9
            } else {
                SCHED
            };
            let extra = [
                format!(r#","R":{R}"#),
                r#","annotations":{"a":1}"#.to_owned(),
                String::new(),
                String::new(),
            ];
            self.report(
                from,
                "sched.alloc",
                &format!(
                    r#"{{"id":{},"type":{kind}{}}}"#,
                    id.0,
                    extra[usize::from(kind)]
                ),
            );
        } else {
            let from = if self.peers.exchanges.contains(&id) {
                9
            } else {
                EXEC
            };
            let (kind, data) = [
                ("start", "{}"),
                (
                    "finish",
                    r#"{"status":0,"release":{"ranks":"all","final":true}}"#,
                ),
                ("release", r#"{"ranks":"all","final":true}"#),
                ("exception", r#"{"severity":0,"type":"exec"}"#),
            ][usize::from(kind - 4)];
            self.report(
                from,
                "job-exec.start",
                &format!(r#"{{"id":{},"type":"{kind}","data":{data}}}"#, id.0),
            );
        }
    }
}
