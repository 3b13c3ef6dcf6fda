//! `job-manager.memo`: what a user notes on a job; shown in listings under `annotations.user`.

use job::{Attach, EventKind, Job, Map};
use protocol::job_manager::MemoRequest;
use wire::errno;

use crate::action::Refusal;
use crate::decide::{Answer, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::write::json;

/// The longest memo taken, as JSON.
const MEMO_BYTES_MAX: usize = 64 << 10;
/// What a job shows of its memos, as JSON: merged, it is held in memory and is part of every listing.
pub(crate) const MEMOS_SHOWN_BYTES_MAX: usize = 256 << 10;
/// All memos of one job, with what each takes in its eventlog: they stay there until it is purged, and a look-up of it has to fit a frame.
pub(crate) const MEMOS_BYTES_MAX: usize = 56 << 20;
/// What a memo takes there beside its text.
const ENTRY_BYTES: usize = 128;

const _: () =
    assert!(MEMOS_SHOWN_BYTES_MAX < MEMOS_BYTES_MAX && MEMOS_BYTES_MAX < u32::MAX as usize);

/// What a memo counts for.
pub(crate) fn bytes_of(memo: &Map) -> usize {
    json(memo).len() + ENTRY_BYTES
}

impl Manager {
    /// Posts a memo; a volatile one is not part of the job's eventlog.
    pub(crate) fn memo(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: MemoRequest = parse(call)?;
        if call
            .payload
            .as_ref()
            .is_some_and(|payload| payload.len() > MEMO_BYTES_MAX)
        {
            return Err(Refusal::new(errno::EINVAL, "memo is longer than 64 KiB"));
        }
        self.may_change()?;
        let Some(record) = self.jobs.get(&request.id) else {
            return Err(self.absent(
                request.id,
                errno::ENOENT,
                "job is inactive",
                "unknown job id",
            ));
        };
        if !call.cred.may_act_for(record.job.userid) {
            return Err(Refusal::new(
                errno::EPERM,
                "guests can only add a memo to their own jobs",
            ));
        }
        let bytes = record.memo_bytes as usize + bytes_of(&request.memo);
        if bytes > MEMOS_BYTES_MAX {
            return Err(Refusal::new(
                errno::EINVAL,
                format!(
                    "the memos of job {} have {} bytes together: expected at most {MEMOS_BYTES_MAX}, and they stay until the job is purged",
                    request.id, record.memo_bytes
                ),
            ));
        }
        shown_fits(&record.job, &request.memo)?;
        if let Some(record) = self.jobs.get_mut(&request.id) {
            record.memo_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        match self.post(
            request.id,
            EventKind::Memo { memo: request.memo },
            !request.volatile,
            Attach::None,
        ) {
            Ok(_) => Ok(self.seq_answer()),
            Err(_) => Err(Refusal::new(errno::ENOENT, "unknown job id")),
        }
    }
}

/// # Errors
/// EINVAL: with this memo the job would show more than it may. What makes it less is taken however much it is.
fn shown_fits(job: &Job, memo: &Map) -> Result<(), Refusal> {
    let before = job.annotations.as_deref().and_then(|all| all.get("user"));
    let mut after = Map::new();
    after.extend(before.map(|user| ("user".to_owned(), user.clone())));
    job::annotations::merge_memo(&mut after, memo);
    let bytes = after.get("user").map_or(0, |user| json(user).len());
    if bytes <= MEMOS_SHOWN_BYTES_MAX || before.is_some_and(|user| bytes < json(user).len()) {
        return Ok(());
    }
    Err(Refusal::new(
        errno::EINVAL,
        format!(
            "with this memo job {} would have {bytes} bytes of them: expected at most {MEMOS_SHOWN_BYTES_MAX}; take keys out with null first",
            job.id
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Config, Recovered, StoredJob};
    use bytes::Bytes;
    use job::{Event, JobId, Seq, Timestamp};

    #[test]
    fn a_restart_knows_what_the_memos_of_a_job_count_for() {
        let config = Config {
            owner: 1,
            private: false,
        };
        let recovered = Recovered {
            newest_seq: Seq(4),
            max_jobid: JobId(7),
            last_timestamp: Timestamp(1.0),
            meta: Vec::new(),
        };
        let mut manager = Manager::new(config, recovered);
        let events = [
            r#"{"timestamp":1.0,"name":"submit","context":{"userid":1,"urgency":16,"flags":0}}"#,
            r#"{"timestamp":1.0,"name":"validate"}"#,
            r#"{"timestamp":1.0,"name":"memo","context":{"a":"ƒ"}}"#,
            r#"{"timestamp":1.0,"name":"memo","context":{"a":null}}"#,
        ];
        let events = events.map(|json| Event::parse(json.as_bytes()).unwrap());
        let stored = StoredJob {
            id: JobId(7),
            jobspec: Bytes::from_static(b"{}"),
            r: None,
            events: &events,
        };
        manager.restore_job(stored).unwrap();
        let counted = manager.jobs.get(&JobId(7)).unwrap().memo_bytes;
        let expected = [r#"{"a":"ƒ"}"#, r#"{"a":null}"#].map(|text| text.len() + ENTRY_BYTES);
        assert_eq!(counted as usize, expected.iter().sum::<usize>());
    }
}
