//! What is noted of changes for whoever watches ([`crate::changes`]).

use std::collections::HashMap;

use job::JobId;

use super::{IdBuild, Jobs, settle::Removed};
use crate::{
    changes::{CHANGES_MAX, JobChange, What},
    place::ModifyKey,
    slots::Slot,
};

impl Jobs {
    /// Whether what changes is noted.
    pub(crate) fn watch(&mut self, on: bool) {
        self.notices = on.then(Vec::new);
        self.nodes.changed = on.then(Vec::new);
    }

    /// What was noted since last asked; `None` when it is more than is kept.
    pub(crate) fn take_notices(&mut self) -> Option<Vec<JobChange>> {
        self.noted_before = 0;
        let notices = self
            .notices
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        (notices.len() <= CHANGES_MAX).then_some(notices)
    }

    pub(super) fn notice(&mut self, change: JobChange) {
        if let Some(notices) = &mut self.notices
            && notices.len() <= CHANGES_MAX
        {
            notices.push(change);
        }
    }

    /// Notes a job that changed.
    pub(super) fn tell(
        &mut self,
        slot: Slot,
        before: Option<ModifyKey>,
        after: Option<ModifyKey>,
        what: What,
    ) {
        let Some(record) = self.record(slot) else {
            return;
        };
        let what = what.without(What::TOUCHED);
        let what = match before {
            None => What::CREATED.and(What::STATUS).and(what),
            Some(_) => what,
        };
        self.notice(JobChange {
            id: record.id(),
            seq: record.touched_seq(),
            userid: record.job().userid,
            before,
            after,
            what,
        });
    }

    /// Notes the jobs that are gone, those that were listed; their parents, each with the entry that took the child.
    pub(super) fn tell_removed(&mut self, removed: Vec<Removed>) -> Vec<(JobId, u64)> {
        let mut parents = Vec::new();
        if self.notices.is_none() {
            return parents;
        }
        for gone in removed {
            let Some(before) = gone.before else { continue };
            self.notice(JobChange {
                id: gone.id,
                seq: gone.seq,
                userid: gone.userid,
                before: Some(before),
                after: None,
                what: What::REMOVED,
            });
            parents.extend(gone.parent.map(|parent| (parent, gone.seq)));
        }
        parents
    }

    /// Notes that children of these changed: in the change that is noted of the parent already, else in one of its own.
    pub(super) fn tell_parents(&mut self, parents: Vec<(JobId, u64)>) {
        if parents.is_empty() {
            return;
        }
        let mut newest: HashMap<JobId, u64, IdBuild> = HashMap::default();
        for (parent, seq) in parents {
            let known = newest.entry(parent).or_default();
            *known = seq.max(*known);
        }
        let noted_from = self.noted_before;
        let notices = self
            .notices
            .iter_mut()
            .flat_map(|all| all.iter_mut().skip(noted_from));
        for change in notices {
            if let Some(seq) = newest.remove(&change.id) {
                change.what = change.what.and(What::CHILDREN);
                change.seq = change.seq.max(seq);
            }
        }
        let mut rest: Vec<(JobId, u64)> = newest.into_iter().collect();
        rest.sort_unstable();
        for (id, seq) in rest {
            let Some(&slot) = self.by_id.get(&id) else {
                continue;
            };
            let Some(record) = self.record(slot) else {
                continue;
            };
            let key = record.modify_key(slot);
            self.notice(JobChange {
                id,
                seq,
                userid: record.job().userid,
                before: key,
                after: key,
                what: What::CHILDREN,
            });
        }
    }
}
