//! `/v1/jobs/statuses`: which jobs, in which order, in which form.

pub mod allocs;
pub(crate) mod assemble;
pub(crate) mod body;
pub(crate) mod filter;
mod post;
pub mod row;
pub(crate) mod rows;

use std::sync::Arc;

use job::JobId;

use crate::{answer::HttpError, filter::Compiled, names};

pub use post::{POST_JOBS_MAX, PostBody};

/// Most jobs of one page; more are asked for with the next token.
pub const PAGE_JOBS_MAX: u32 = 10_000;

/// How much a row says of its job's allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// Each of them.
    #[default]
    Full,
    /// `AllocCounts` by client status instead of `Allocs`.
    Counts,
}

/// What a request for statuses says, as its query and body have it.
#[derive(Debug, Clone, Default)]
pub struct StatusesParams {
    /// `namespace`.
    pub namespace: Option<String>,
    /// `per_page`; negative is refused.
    pub per_page: i32,
    /// `next_token`.
    pub next_token: Option<String>,
    /// `filter`.
    pub filter: Option<String>,
    /// `reverse`.
    pub reverse: bool,
    /// `include_children`.
    pub include_children: bool,
    /// `allocs=counts`: ours.
    pub shape: Shape,
}

/// A query for statuses. Two that ask for the same are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StatusesAsk {
    pub(crate) filter: Option<Compiled>,
    /// The listed jobs, ascending, each once; `None`: a page of all.
    pub(crate) ids: Option<Arc<[JobId]>>,
    /// Of a namespace that does not exist.
    pub(crate) nowhere: bool,
    pub(crate) include_children: bool,
    pub(crate) reverse: bool,
    /// 1 to [`PAGE_JOBS_MAX`]; of a list, its length.
    pub(crate) per_page: u32,
    pub(crate) next_token: Option<u64>,
    pub(crate) shape: Shape,
}

/// What holding one listed job takes, about: it is found by the jobs that change.
const LISTED_BYTES: usize = 96;

impl StatusesAsk {
    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Compiled::held_bytes);
        let listed = self.ids.as_ref().map_or(0, |ids| ids.len());
        filter + listed * LISTED_BYTES
    }

    /// The query that this request makes.
    ///
    /// # Errors
    /// [`HttpError`] 400: a filter that is none, a negative page.
    pub fn new(params: &StatusesParams, body: Option<PostBody>) -> Result<Self, HttpError> {
        let per_page = u32::try_from(params.per_page)
            .map_err(|_| HttpError::bad("Expect a number for `per_page` query string parameter"))?;
        let asked = params.namespace.as_deref().filter(|name| !name.is_empty());
        let elsewhere = !matches!(asked, None | Some("*" | names::NAMESPACE));
        let filter =
            Compiled::new(params.filter.as_deref().unwrap_or_default()).map_err(HttpError::bad)?;
        let (ids, nowhere, per_page, children) = match body {
            Some(body) => {
                let nowhere = elsewhere && !body.one_namespace;
                let len = u32::try_from(body.ids.len()).unwrap_or(u32::MAX).max(1);
                let children = body.include_children;
                (Some(body.ids.into()), nowhere, len, children)
            }
            None => {
                let page = if per_page == 0 {
                    PAGE_JOBS_MAX
                } else {
                    per_page
                };
                (None, elsewhere, page.min(PAGE_JOBS_MAX), false)
            }
        };
        Ok(Self {
            filter,
            ids,
            nowhere,
            include_children: params.include_children || children,
            reverse: params.reverse,
            per_page,
            next_token: params
                .next_token
                .as_deref()
                .filter(|token| !token.is_empty())
                .map(|token| token.parse().unwrap_or(0)),
            shape: params.shape,
        })
    }
}
