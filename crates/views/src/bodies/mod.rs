//! Bodies other than statuses: summary, jobs, one job, allocations, nodes and what stands beside them.
//!
//! Each is a [`Query`]: what it depends on ([`Query::watch`]) and its text ([`Query::make`]). Blocking, sharing and the index are
//! `watch`'s. There are no deployments and no evaluations: those lists are empty, and nothing is made up.

mod agent;
mod alloc;
mod job;
pub(crate) mod json;
mod list;
mod node;
pub mod subject;
mod summary;

use std::sync::Arc;

use ::job::JobId;
use info::{Allocs, Projection, Record};

use crate::{
    answer::HttpError,
    ask::Viewer,
    facts, names,
    watch::{Jobs, Made, Nodes, Watch},
};

use self::subject::{AllocSubject, NodeSubject};

pub use agent::Agent;
pub(crate) use alloc::{Form, alloc_name, write as write_alloc};
pub use job::with_command;
pub(crate) use job::{full as write_job, gone as write_gone};
use list::Looks;
pub use list::{LOOK_MAX, LOOKS_MAX, List, ListParams, PAGE_MAX};
pub(crate) use node::{attributes, full as write_node};
pub use summary::CLIENT_STATUS_KEY;

/// `Driver` of a task.
pub const DRIVER: &str = "raw_exec";

/// A body that is asked for. A job is `None` when the path's text is no id of one: it is not there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Query {
    /// `/v1/jobs`.
    Jobs {
        /// Which.
        list: List,
        /// With `Meta`.
        meta: bool,
    },
    /// `/v1/job/:id`.
    Job(Option<JobId>),
    /// `/v1/job/:id/summary`.
    Summary(Option<JobId>),
    /// `/v1/job/:id/allocations`.
    JobAllocations(Option<JobId>, List),
    /// `/v1/job/:id/versions`.
    JobVersions(Option<JobId>),
    /// `/v1/job/:id/deployment`: always `null`.
    JobDeployment,
    /// `/v1/job/:id/deployments`, `/v1/deployments`, `/v1/job/:id/evaluations`, `/v1/evaluations`: always empty.
    Empty,
    /// `/v1/deployment/:id`: never there.
    Deployment,
    /// `/v1/allocations`.
    Allocations {
        /// Which.
        list: List,
        /// With what they hold.
        resources: bool,
    },
    /// `/v1/allocation/:id`.
    Allocation(Box<str>),
    /// `/v1/nodes`.
    Nodes {
        /// Which.
        list: List,
        /// With what they have.
        resources: bool,
        /// With their attributes.
        os: bool,
    },
    /// `/v1/node/:id`, by id or name.
    Node(Box<str>),
    /// `/v1/node/:id/allocations`.
    NodeAllocations(Box<str>),
    /// `/v1/node/pools`.
    NodePools(List),
    /// `/v1/namespaces`.
    Namespaces(List),
    /// `/v1/regions`.
    Regions,
    /// `/v1/status/leader`.
    Leader(Arc<Agent>),
    /// `/v1/status/peers`.
    Peers(Arc<Agent>),
    /// `/v1/agent/self`.
    AgentSelf(Arc<Agent>),
    /// `/v1/agent/members`.
    Members(Arc<Agent>),
}

impl Query {
    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Jobs { list, .. }
            | Self::JobAllocations(_, list)
            | Self::Allocations { list, .. }
            | Self::Nodes { list, .. }
            | Self::NodePools(list)
            | Self::Namespaces(list) => list.held_bytes(),
            Self::Allocation(text) | Self::Node(text) | Self::NodeAllocations(text) => text.len(),
            _ => 0,
        }
    }

    /// What the body depends on.
    #[must_use]
    pub fn watch(&self, projection: &Projection) -> Watch {
        let one = |id: &Option<JobId>| id.map_or(Jobs::None, Jobs::One);
        let named = |text: &str| {
            find_node(projection, text).map_or(Nodes::All, |node| Nodes::One(node.name.clone()))
        };
        let (jobs, nodes) = match self {
            Self::Jobs { .. } => (Jobs::All, Nodes::None),
            Self::Job(id) | Self::JobVersions(id) | Self::JobAllocations(id, _) => {
                (one(id), Nodes::None)
            }
            Self::Summary(id) => (one(id), Nodes::All),
            Self::Allocations { .. } => (Jobs::All, Nodes::None),
            Self::Allocation(id) => match names::parse_allocation(id) {
                Some((id, ..)) => (Jobs::One(id), Nodes::None),
                None => (Jobs::None, Nodes::None),
            },
            Self::Nodes { .. } | Self::NodePools(_) => (Jobs::None, Nodes::All),
            Self::Node(text) => (Jobs::None, named(text)),
            Self::NodeAllocations(text) => (Jobs::All, named(text)),
            Self::JobDeployment
            | Self::Empty
            | Self::Deployment
            | Self::Namespaces(_)
            | Self::Regions
            | Self::Leader(_)
            | Self::Peers(_)
            | Self::AgentSelf(_)
            | Self::Members(_) => (Jobs::None, Nodes::None),
        };
        Watch { jobs, nodes }
    }

    /// The body as it is now.
    ///
    /// # Errors
    /// [`HttpError`]: what was asked for is not there, or the filter asks what cannot be answered.
    pub fn make(&self, projection: &Projection, viewer: Viewer) -> Result<Made, HttpError> {
        let mut out = Vec::new();
        let mut next_token = None;
        let nodes = projection.nodes();
        let job = |id: &Option<JobId>| {
            id.and_then(|id| list::visible(projection, viewer, id))
                .ok_or_else(|| HttpError::absent("job not found"))
        };
        match self {
            Self::Jobs { list, meta } => {
                let page = list::jobs(projection, list, viewer)?;
                next_token = page
                    .next
                    .map(|id| match list::visible(projection, viewer, id) {
                        Some(record) => facts::job_id(record),
                        // Where a page that looked at enough jobs goes on.
                        None => id.f58(true),
                    })
                    .map(|id| format!("{}.{id}", names::NAMESPACE));
                json::list(&mut out, page.rows, |out, record| {
                    job::stub(out, projection, record, *meta);
                });
            }
            Self::Job(id) => job::full(&mut out, job(id)?),
            Self::Summary(id) => summary::write(&mut out, projection, job(id)?, true),
            Self::JobVersions(id) => {
                let record = job(id).map_err(|_| HttpError::absent("job versions not found"))?;
                out.extend_from_slice(b"{\"Versions\":[");
                job::full(&mut out, record);
                out.extend_from_slice(b"],\"Diffs\":null}");
            }
            Self::JobAllocations(id, list) => match job(id) {
                Ok(record) if !list.nowhere => {
                    next_token = job_allocations(&mut out, projection, record, list)?;
                }
                _ => out.extend_from_slice(b"[]"),
            },
            Self::Allocations { list, resources } => {
                let (rows, next) = list::allocations(projection, list, viewer)?;
                next_token = next;
                write_rows(
                    &mut out,
                    projection,
                    rows,
                    Form::Stub {
                        resources: *resources,
                    },
                );
            }
            Self::Allocation(text) => {
                let absent = || HttpError::absent("alloc not found");
                let (id, _, rank) = names::parse_allocation(text).ok_or_else(absent)?;
                let record = job(&Some(id)).map_err(|_| absent())?;
                let allocs = Allocs::of(record, nodes);
                let met = allocs
                    .iter()
                    .enumerate()
                    .find(|(_, alloc)| alloc.rank == rank);
                let (number, alloc) = met.ok_or_else(absent)?;
                alloc::write(&mut out, nodes, record, &alloc, number, Form::Full);
            }
            Self::Nodes {
                list,
                resources,
                os,
            } => {
                next_token = node_list(&mut out, projection, list, *resources, *os)?;
            }
            Self::Node(text) => {
                let node = find_node(projection, text);
                node::full(
                    &mut out,
                    node.ok_or_else(|| HttpError::absent("node not found"))?,
                );
            }
            Self::NodeAllocations(text) => {
                let node = find_node(projection, text);
                let node = node.ok_or_else(|| HttpError::absent("node not found"))?;
                node_allocations(&mut out, projection, &node.name, viewer);
            }
            Self::NodePools(list) => node::pools(&mut out, nodes, &list.prefix),
            Self::Namespaces(list) => node::namespaces(&mut out, &list.prefix),
            Self::Regions => json::list(&mut out, [names::REGION], info::row::text),
            Self::JobDeployment => out.extend_from_slice(b"null"),
            Self::Empty => out.extend_from_slice(b"[]"),
            Self::Deployment => return Err(HttpError::absent("deployment not found")),
            Self::Leader(agent) => agent::leader(&mut out, agent),
            Self::Peers(agent) => agent::peers(&mut out, agent),
            Self::AgentSelf(agent) => agent::agent_self(&mut out, agent),
            Self::Members(agent) => agent::members(&mut out, agent),
        }
        Ok(Made {
            next_token: next_token.map(Into::into),
            ..Made::text(out)
        })
    }
}

/// Writes allocations by job, rank and number; those of one job come together.
fn write_rows(
    out: &mut Vec<u8>,
    projection: &Projection,
    rows: Vec<list::AllocRow<'_>>,
    form: Form,
) {
    let nodes = projection.nodes();
    let mut of: Option<(JobId, Allocs<'_>)> = None;
    json::list(out, rows, |out, (record, rank, number)| {
        if of.as_ref().is_none_or(|(id, _)| *id != record.id()) {
            of = Some((record.id(), Allocs::of(record, nodes)));
        }
        let alloc = of.as_ref().and_then(|(_, allocs)| allocs.get(rank));
        if let Some(alloc) = alloc {
            alloc::write(out, nodes, record, &alloc, number, form);
        }
    });
}

/// Writes a job's allocations, by id; the next token is an id.
fn job_allocations(
    out: &mut Vec<u8>,
    projection: &Projection,
    record: &Record,
    list: &List,
) -> Result<Option<String>, HttpError> {
    let nodes = projection.nodes();
    let allocs = Allocs::of(record, nodes);
    let from = match list.token.as_deref() {
        None => None,
        Some(token) => match names::parse_allocation(token) {
            Some((id, _, rank)) if id == record.id() => Some(rank),
            _ => {
                return Err(HttpError::bad(format!(
                    "next_token {token:?} is none of this list"
                )));
            }
        },
    };
    let mut all: Vec<_> = allocs.iter().enumerate().collect();
    if list.reverse {
        all.reverse();
    }
    let mut rows = Vec::new();
    let mut next = None;
    let looks = Looks::default();
    for (number, alloc) in &all {
        let before = from.is_some_and(|rank| {
            if list.reverse {
                alloc.rank > rank
            } else {
                alloc.rank < rank
            }
        });
        let subject = AllocSubject {
            record,
            nodes,
            alloc,
            number: *number,
        };
        let is_over = looks.are_over();
        if before || !is_over && !list.passes(&subject, &looks)? {
            continue;
        }
        if is_over || rows.len() == list.per_page as usize {
            let id = names::allocation(record.id(), 0, alloc.rank);
            next = Some(names::text(&id).to_owned());
            break;
        }
        rows.push((*number, alloc));
    }
    let form = Form::Stub { resources: false };
    json::list(out, rows, |out, (number, alloc)| {
        alloc::write(out, nodes, record, alloc, number, form);
    });
    Ok(next)
}

/// Writes the nodes, by id; the next token is an id.
fn node_list(
    out: &mut Vec<u8>,
    projection: &Projection,
    list: &List,
    resources: bool,
    os: bool,
) -> Result<Option<String>, HttpError> {
    let nodes = projection.nodes();
    let keys: Vec<_> = nodes
        .listed()
        .map(|(at, node)| (names::node(&node.name), at))
        .collect();
    let from = match list.token.as_deref() {
        None => None,
        Some(token) => {
            let id = names::parse_uuid(token).map(names::uuid);
            let id = id.ok_or_else(|| {
                HttpError::bad(format!(
                    "next_token {token:?} is none of this list: expected the id of a node"
                ))
            })?;
            // The least, or from the other side the greatest, of all that begin with it.
            let at = if list.reverse { u32::MAX } else { 0 };
            Some((id, info::NodeIx(at)))
        }
    };
    let looks = Looks::default();
    let page = list::page(keys, list, from, &looks, |(id, at)| {
        let Some(node) = nodes.get(at) else {
            return Ok(None);
        };
        let prefixed = names::text(&id).starts_with(&*list.prefix);
        Ok((prefixed && list.passes(&NodeSubject(node), &looks)?).then_some(node))
    })?;
    json::list(out, page.rows, |out, node| {
        node::stub(out, node, resources, os)
    });
    Ok(page.next.map(|(id, _)| names::text(&id).to_owned()))
}

/// Writes the allocations on one node, by id, whole.
fn node_allocations(out: &mut Vec<u8>, projection: &Projection, name: &str, viewer: Viewer) {
    let nodes = projection.nodes();
    let at = nodes.find(name);
    let mut records: Vec<&Record> = projection
        .jobs()
        .on_node(name)
        .filter(|record| viewer.sees(record))
        .collect();
    records.sort_unstable_by_key(|record| record.id());
    let newest = records.len().saturating_sub(PAGE_MAX as usize);
    let mut rows = Vec::new();
    for record in records.into_iter().skip(newest) {
        let allocs = Allocs::of(record, nodes);
        let on = allocs
            .iter()
            .enumerate()
            .filter(|(_, alloc)| Some(alloc.node) == at);
        rows.extend(on.map(|(number, alloc)| (record, alloc.rank, number)));
    }
    write_rows(out, projection, rows, Form::Full);
}

/// A node by its id, or by its name.
fn find_node<'p>(projection: &'p Projection, text: &str) -> Option<&'p info::Node> {
    let nodes = projection.nodes();
    nodes.by_name(text).or_else(|| {
        let id = names::uuid(names::parse_uuid(text)?);
        let mut listed = nodes.iter();
        listed
            .find(|(_, node)| names::node(&node.name) == id)
            .map(|(_, node)| node)
    })
}

#[cfg(test)]
mod tests;
