//! Standard input: a client's request goes to every part of its job, and is answered when the data is in the tasks' pipes.
//!
//! Whoever sends waits for that answer or does not; what may be on its way is bounded, here by requests, in each shepherd by bytes.

use base64::Engine as _;
use job::JobId;
use sched::Set;
use wire::{Request, errno, parse_json};

use crate::engine::requests::{self, StdinRequest};
use crate::engine::serve::Engine;
use crate::messages::ToShepherd;

/// Requests whose data is on its way.
const STDIN_PENDING_MAX: usize = 4096;

/// A stdin request whose data is on its way to shepherds.
pub(super) struct PendingStdin {
    id: JobId,
    request: Request,
    left: usize,
    errnum: u32,
}

impl Engine {
    pub(super) fn stdin(&mut self, request: Request) -> anyhow::Result<()> {
        let gone = format!(
            "No service matching {} is registered",
            request.topic.as_str()
        );
        let Some(id) = requests::shell_job(request.topic.service()) else {
            return Ok(());
        };
        let Some((userid, parts)) = self.exec.owner(id) else {
            return self.refuse(&request, errno::ENOSYS, Some(&gone));
        };
        if !request.cred.may_act_for(userid) {
            return self.refuse(
                &request,
                errno::EPERM,
                Some("guests may only write to their own jobs"),
            );
        }
        let asked: Result<StdinRequest, _> =
            parse_json(request.payload.as_deref().unwrap_or_default());
        let Ok(asked) = asked else {
            return self.refuse(&request, errno::EPROTO, None);
        };
        let ranks = match asked.rank.as_str() {
            "" | "all" => None,
            ranks => match Set::parse(ranks) {
                Some(ranks) => Some(ranks.iter().collect()),
                None => return self.refuse(&request, errno::EPROTO, Some("rank is not an idset")),
            },
        };
        if !(asked.stream.is_empty() || asked.stream == "stdin") {
            return self.refuse(
                &request,
                errno::EPROTO,
                Some("only stream stdin can be written"),
            );
        }
        if self.stdin.len() >= STDIN_PENDING_MAX {
            return self.refuse(
                &request,
                errno::EAGAIN,
                Some("too much input is on its way"),
            );
        }
        let data = asked.data.map(|data| match asked.encoding.as_deref() {
            Some("base64") => data,
            _ => base64::engine::general_purpose::STANDARD.encode(data),
        });
        self.next_stdin += 1;
        let tag = self.next_stdin;
        self.stdin.insert(
            tag,
            PendingStdin {
                id,
                request,
                left: parts,
                errnum: 0,
            },
        );
        let mut out = Vec::new();
        self.exec.tell(
            id,
            &ToShepherd::Stdin {
                tag,
                ranks,
                data,
                eof: asked.eof,
            },
            &mut out,
        );
        self.perform(out)
    }

    pub(super) fn stdin_done(&mut self, tag: u64, errnum: u32) -> anyhow::Result<()> {
        let Some(pending) = self.stdin.get_mut(&tag) else {
            return Ok(());
        };
        pending.left = pending.left.saturating_sub(1);
        pending.errnum = pending.errnum.max(errnum);
        if pending.left > 0 {
            return Ok(());
        }
        let Some(pending) = self.stdin.remove(&tag) else {
            return Ok(());
        };
        match pending.errnum {
            0 if pending.request.expects_response() => self.respond(&pending.request, None),
            0 => Ok(()),
            errnum => self.refuse(&pending.request, errnum, None),
        }
    }

    /// A job is over: input that is still on its way goes where input goes then, nowhere.
    pub(super) fn stdin_too_late(&mut self, id: JobId) -> anyhow::Result<()> {
        if self.stdin.is_empty() {
            return Ok(());
        }
        let late = self.stdin.iter().filter(|(_, pending)| pending.id == id);
        let late: Vec<u64> = late.map(|(tag, _)| *tag).collect();
        for tag in late {
            if let Some(pending) = self.stdin.get_mut(&tag) {
                pending.left = 1;
            }
            self.stdin_done(tag, 0)?;
        }
        Ok(())
    }
}
