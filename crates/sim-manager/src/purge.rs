//! As `bin/job-manager/src/purge.rs`: searches of the store for jobs that ended. The simulator's jobs have no files, so none are removed.

use crate::reads::Lane;
use crate::shell::{Found, LOCAL, Shell};
use job::{JobId, Seq};
use manager::{Find, Input, Which};
use store::Ended;

impl Shell {
    /// Has the store looked through for jobs that ended.
    pub(crate) fn find_ended(&mut self, find: Find) {
        let asked = self.reads.ask(Lane::Lookup, LOCAL, move |reader| {
            let which = match find.which {
                Which::All => Ended::All,
                Which::Beyond { before, keep } => Ended::Beyond { before, keep },
            };
            let (jobs, total) = reader.ended(which, find.limit, find.count);
            Found::Ended(Ok(manager::Found { jobs, total }))
        });
        if !asked {
            let found = Err("too many look-ups wait; try again later".to_owned());
            self.late.push_back(Input::Found(found));
        }
    }

    /// Notes that there are no files of purged jobs.
    pub(crate) fn sweep(&mut self, batch: Seq, jobs: Vec<JobId>) {
        jobs.iter().for_each(|id| self.set_aside.remove(*id));
        let left = jobs.clone();
        let asked = self.reads.ask(Lane::Sweep, LOCAL, move |reader| {
            let left = jobs;
            let left = left
                .into_iter()
                .filter(|id| !matches!(reader.job(*id, false), Ok(None)))
                .collect();
            Found::Swept { batch, left }
        });
        if !asked {
            self.late.push_back(Input::Swept { batch, left });
        }
    }
}
