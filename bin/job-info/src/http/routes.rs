//! Every path there is, once: what serves it, what it takes, what it says. The router, the metrics' names and `/openapi.json` are made
//! from this table.

/// What serves a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Id {
    Statuses,
    StatusesStream,
    EventStream,
    /// A body of `views`, by name.
    Body(BodyId),
    Session,
    TokenSelf,
    License,
    SearchFuzzy,
    Metrics,
    Health,
    OpenApi,
    Page,
    PageScript,
    PageStyle,
    EnterScript,
    Ui,
}

/// A body other than statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyId {
    Jobs,
    Job,
    Summary,
    JobAllocations,
    JobEvaluations,
    JobDeployments,
    JobDeployment,
    JobVersions,
    Allocations,
    Allocation,
    Evaluations,
    Deployments,
    Deployment,
    Nodes,
    Node,
    NodeAllocations,
    NodePools,
    Namespaces,
    Regions,
    StatusLeader,
    StatusPeers,
    AgentSelf,
    AgentMembers,
}

/// Which methods are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Methods {
    Get,
    /// Both mean the same: what matters is whether there is a body.
    GetPost,
    Post,
    PostDelete,
    Any,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Json,
    /// JSON, a line each.
    JsonLines,
    EventStream,
    Text,
    Html,
    Script,
    Style,
    /// No body.
    None,
}

/// One path.
#[derive(Debug)]
pub(crate) struct Route {
    /// As OpenAPI writes it.
    pub(crate) path: &'static str,
    pub(crate) id: Id,
    pub(crate) methods: Methods,
    /// No token is needed: nothing of any job is in it.
    pub(crate) free: bool,
    /// It takes the parameters of every read.
    pub(crate) read: bool,
    /// Parameters of its own.
    pub(crate) params: &'static [&'static str],
    pub(crate) content: Content,
    pub(crate) about: &'static str,
}

impl Route {
    const fn body(path: &'static str, id: BodyId, about: &'static str) -> Self {
        Self {
            path,
            id: Id::Body(id),
            methods: Methods::Get,
            free: false,
            read: true,
            params: &[],
            content: Content::Json,
            about,
        }
    }

    const fn with(self, params: &'static [&'static str]) -> Self {
        Self { params, ..self }
    }

    const fn free(path: &'static str, id: Id, content: Content, about: &'static str) -> Self {
        Self {
            path,
            id,
            methods: Methods::Get,
            free: true,
            read: false,
            params: &[],
            content,
            about,
        }
    }

    /// Whether a method is taken.
    pub(crate) fn takes(&self, method: &axum::http::Method) -> bool {
        match self.methods {
            Methods::Any => true,
            Methods::Get => method == "GET",
            Methods::GetPost => method == "GET" || method == "POST",
            Methods::Post => method == "POST",
            Methods::PostDelete => method == "POST" || method == "DELETE",
        }
    }

    /// What follows a job's or a node's id in this path, with its slash; `None` when the path has no id.
    pub(crate) fn suffix(&self, prefix: &str) -> Option<&'static str> {
        self.path.strip_prefix(prefix)?.strip_prefix("{id}")
    }
}

/// Paths that hold an id, which may hold slashes: the rest is decoded, then a known end is taken off.
pub(crate) const WITH_ID: [&str; 4] = [
    "/v1/job/",
    "/v1/node/",
    "/v1/allocation/",
    "/v1/deployment/",
];

/// Ends of a job's path that Nomad has and weir has not: never part of an id.
pub(crate) const NOT_BUILT: [&str; 11] = [
    "/submission",
    "/scale",
    "/services",
    "/actions",
    "/plan",
    "/dispatch",
    "/evaluate",
    "/stable",
    "/revert",
    "/periodic/force",
    "/action",
];

/// All of them.
pub(crate) static ROUTES: [Route; 39] = [
    Route {
        methods: Methods::GetPost,
        id: Id::Statuses,
        ..Route::body(
            "/v1/jobs/statuses",
            BodyId::Jobs,
            "Jobs with their allocations, newest change first: a page of all, or those a body lists. With index it waits until something on the page changes",
        )
    }
    .with(&["include_children", "allocs"]),
    Route {
        methods: Methods::GetPost,
        id: Id::StatusesStream,
        content: Content::EventStream,
        ..Route::body(
            "/v1/jobs/statuses/stream",
            BodyId::Jobs,
            "The same as server-sent events: a first page, then what changed on it",
        )
    }
    .with(&["include_children", "allocs"]),
    Route::body("/v1/jobs", BodyId::Jobs, "All jobs, by id").with(&["meta"]),
    Route::body("/v1/job/{id}", BodyId::Job, "One job, whole"),
    Route {
        methods: Methods::Any,
        ..Route::body(
            "/v1/job/{id}/summary",
            BodyId::Summary,
            "A job's allocations counted by group and status, and its status on every node",
        )
    },
    Route::body("/v1/job/{id}/allocations", BodyId::JobAllocations, "A job's allocations, by id").with(&["all"]),
    Route::body("/v1/job/{id}/evaluations", BodyId::JobEvaluations, "Always empty: weir has no evaluations"),
    Route::body("/v1/job/{id}/deployments", BodyId::JobDeployments, "A job's deployments").with(&["all"]),
    Route::body("/v1/job/{id}/deployment", BodyId::JobDeployment, "A job's newest deployment, or null"),
    Route::body("/v1/job/{id}/versions", BodyId::JobVersions, "A job's versions: one"),
    Route::body("/v1/allocations", BodyId::Allocations, "Allocations of all jobs").with(&["resources"]),
    Route::body("/v1/allocation/{id}", BodyId::Allocation, "One allocation"),
    Route::body("/v1/evaluations", BodyId::Evaluations, "Always empty: weir has no evaluations"),
    Route::body("/v1/deployments", BodyId::Deployments, "Deployments of all jobs"),
    Route::body("/v1/deployment/{id}", BodyId::Deployment, "One deployment"),
    Route::body("/v1/nodes", BodyId::Nodes, "All nodes, by id").with(&["resources", "os"]),
    Route::body("/v1/node/{id}", BodyId::Node, "One node"),
    Route::body("/v1/node/{id}/allocations", BodyId::NodeAllocations, "Allocations on one node"),
    Route::body("/v1/node/pools", BodyId::NodePools, "The pools: queues, and default"),
    Route::body("/v1/namespaces", BodyId::Namespaces, "The one namespace"),
    Route::body("/v1/regions", BodyId::Regions, "The one region"),
    Route::body("/v1/status/leader", BodyId::StatusLeader, "The address that answers"),
    Route::body("/v1/status/peers", BodyId::StatusPeers, "The addresses that answer"),
    Route::body("/v1/agent/self", BodyId::AgentSelf, "What answers, and its version"),
    Route::body("/v1/agent/members", BodyId::AgentMembers, "The one server"),
    Route {
        free: false,
        ..Route::free("/v1/acl/token/self", Id::TokenSelf, Content::Json, "Whose the token is that was sent")
    },
    Route {
        path: "/v1/event/stream",
        id: Id::EventStream,
        methods: Methods::Get,
        free: false,
        read: false,
        params: &["index", "topic", "namespace"],
        content: Content::JsonLines,
        about: "Changes as they happen, a line for all events of one change",
    },
    Route {
        path: "/v1/weir/session",
        id: Id::Session,
        methods: Methods::PostDelete,
        free: true,
        read: false,
        params: &[],
        content: Content::None,
        about: "POST: takes a token in a header and gives a cookie for it. DELETE: takes the cookie back",
    },
    Route {
        path: "/v1/operator/license",
        id: Id::License,
        methods: Methods::Get,
        free: false,
        read: false,
        params: &[],
        content: Content::None,
        about: "204: there is none",
    },
    Route {
        path: "/v1/search/fuzzy",
        id: Id::SearchFuzzy,
        methods: Methods::Post,
        free: false,
        read: false,
        params: &[],
        content: Content::Text,
        about: "Not built: 501",
    },
    Route {
        free: false,
        ..Route::free("/metrics", Id::Metrics, Content::Text, "Counters for Prometheus")
    },
    Route::free("/healthz", Id::Health, Content::Json, "200 while the list follows its journal, else 503"),
    Route::free("/openapi.json", Id::OpenApi, Content::Json, "This description"),
    Route::free("/", Id::Page, Content::Html, "A page that shows the jobs, live"),
    Route::free("/page.js", Id::PageScript, Content::Script, "The page's script"),
    Route::free("/page.css", Id::PageStyle, Content::Style, "The page's style"),
    Route::free("/enter.js", Id::EnterScript, Content::Script, "The script of the page that a browser gets with a 403"),
    Route::free("/ui", Id::Ui, Content::None, "307: to the page"),
    Route::free("/ui/{rest}", Id::Ui, Content::None, "307: to the page"),
];

/// The route of a path with an id, and the id.
pub(crate) enum Found<'a> {
    Route(&'static Route, &'a str),
    /// Nomad has it, weir has not.
    NotBuilt,
    Unknown,
}

/// Finds the route of what follows one of [`WITH_ID`], decoded.
pub(crate) fn find<'a>(prefix: &str, rest: &'a str) -> Found<'a> {
    let of_prefix = || {
        ROUTES
            .iter()
            .filter_map(|route| Some((route, route.suffix(prefix)?)))
    };
    for (route, suffix) in of_prefix().filter(|(_, suffix)| !suffix.is_empty()) {
        if let Some(id) = rest.strip_suffix(suffix).filter(|id| !id.is_empty()) {
            return Found::Route(route, id);
        }
    }
    if prefix == "/v1/job/" && NOT_BUILT.iter().any(|suffix| rest.ends_with(suffix)) {
        return Found::NotBuilt;
    }
    let whole = of_prefix().find(|(_, suffix)| suffix.is_empty());
    match whole {
        // A slash at the end is another path; ids hold neither spaces nor NUL.
        Some((route, _))
            if !rest.is_empty() && !rest.ends_with('/') && !rest.contains([' ', '\0']) =>
        {
            Found::Route(route, rest)
        }
        _ => Found::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(prefix: &str, rest: &str) -> String {
        match find(prefix, rest) {
            Found::Route(route, id) => format!("{} {id}", route.path),
            Found::NotBuilt => "not built".into(),
            Found::Unknown => "unknown".into(),
        }
    }

    #[test]
    fn an_id_may_hold_slashes_and_a_known_end_is_no_part_of_it() {
        for (rest, expected) in [
            ("f2", "/v1/job/{id} f2"),
            ("f2/summary", "/v1/job/{id}/summary f2"),
            ("f2/dispatch-1-f3", "/v1/job/{id} f2/dispatch-1-f3"),
            (
                "f2/dispatch-1-f3/allocations",
                "/v1/job/{id}/allocations f2/dispatch-1-f3",
            ),
            ("f2/deployment", "/v1/job/{id}/deployment f2"),
            ("f2/deployments", "/v1/job/{id}/deployments f2"),
            ("f2/dispatch", "not built"),
            ("f2/periodic/force", "not built"),
            ("", "unknown"),
            ("f2/", "unknown"),
            ("f 2", "unknown"),
        ] {
            assert_eq!(found("/v1/job/", rest), expected, "{rest}");
        }
        assert_eq!(
            found("/v1/node/", "x/allocations"),
            "/v1/node/{id}/allocations x"
        );
        assert_eq!(found("/v1/deployment/", "x"), "/v1/deployment/{id} x");
    }

    #[test]
    fn every_path_is_there_once() {
        let mut paths: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), ROUTES.len());
    }
}
