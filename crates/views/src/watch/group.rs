//! Pages that ask the same of a job: for each changed job that is asked once, not once a page.

use std::{collections::HashMap, sync::Arc};

use info::{Projection, Record};

use super::view::ViewId;
use crate::{answer::HttpError, filter::Compiled, statuses};

/// What is asked of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) filter: Option<Compiled>,
    pub(crate) children: bool,
    /// Only this user's.
    pub(crate) only: Option<u32>,
    pub(crate) reverse: bool,
}

impl Terms {
    /// Whether a job belongs. Who may not see it, and whether it is a child, comes first: a filter is only asked about jobs that could
    /// be shown. What that took is added to `looks`.
    ///
    /// # Errors
    /// [`HttpError`]: the filter asks what cannot be said of it.
    pub(crate) fn belongs(
        &self,
        projection: &Projection,
        record: &Record,
        looks: &mut usize,
    ) -> Result<bool, HttpError> {
        if record.status().is_none()
            || self.only.is_some_and(|user| user != record.job().userid)
            || (!self.children && record.parent().is_some())
        {
            return Ok(false);
        }
        match &self.filter {
            None => Ok(true),
            Some(filter) => statuses::filter::passes(filter, projection, record, looks),
        }
    }
}

/// Its place among the groups.
pub(crate) type GroupId = u32;

#[derive(Debug)]
struct Group {
    terms: Arc<Terms>,
    /// Pages of all jobs; those of listed jobs are found by the job.
    pages: Vec<ViewId>,
    users: usize,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    by_terms: HashMap<Arc<Terms>, GroupId>,
}

impl Groups {
    /// The group of these terms, with one user more.
    pub(crate) fn join(&mut self, terms: Terms, page: Option<ViewId>) -> GroupId {
        let id = match self.by_terms.get(&terms) {
            Some(&id) => id,
            None => {
                let terms = Arc::new(terms);
                let id = self.free.pop().unwrap_or_else(|| {
                    self.groups.push(None);
                    GroupId::try_from(self.groups.len() - 1).unwrap_or(GroupId::MAX)
                });
                self.by_terms.insert(terms.clone(), id);
                if let Some(place) = self.groups.get_mut(id as usize) {
                    *place = Some(Group {
                        terms,
                        pages: Vec::new(),
                        users: 0,
                    });
                }
                id
            }
        };
        if let Some(Some(group)) = self.groups.get_mut(id as usize) {
            group.users += 1;
            group.pages.extend(page);
        }
        id
    }

    /// One user less.
    pub(crate) fn leave(&mut self, id: GroupId, page: ViewId) {
        let Some(place) = self.groups.get_mut(id as usize) else {
            return;
        };
        let Some(group) = place else { return };
        if let Some(at) = group.pages.iter().position(|other| *other == page) {
            group.pages.swap_remove(at);
        }
        group.users = group.users.saturating_sub(1);
        if group.users == 0 {
            self.by_terms.remove(&group.terms);
            *place = None;
            self.free.push(id);
        }
    }

    /// The terms of a group.
    pub(crate) fn terms(&self, id: GroupId) -> Option<Arc<Terms>> {
        let group = self.groups.get(id as usize)?.as_ref()?;
        Some(group.terms.clone())
    }

    /// Every group with its pages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &Terms, &[ViewId])> + '_ {
        self.groups.iter().enumerate().filter_map(|(at, group)| {
            let group = group.as_ref()?;
            let id = GroupId::try_from(at).ok()?;
            Some((id, &*group.terms, group.pages.as_slice()))
        })
    }
}
