//! From a path and its parameters to the body of `views` that it asks for.

use views::{
    What,
    bodies::{List, ListParams, Query as Body},
    names,
};

use super::{
    app::{App, Call},
    query::{Query, Read},
    reply::Refused,
    routes::BodyId,
};

/// What is asked for.
pub(crate) fn what(
    app: &App,
    body: BodyId,
    call: &Call,
    query: &Query<'_>,
    read: &Read,
) -> Result<What, Refused> {
    let list = || {
        List::new(&ListParams {
            namespace: read.namespace.as_deref(),
            prefix: &read.prefix,
            filter: &read.filter,
            per_page: read.per_page,
            next_token: &read.next_token,
            reverse: read.reverse,
        })
    };
    let id = call.id.as_str();
    // There is one namespace: elsewhere there is no such job.
    let elsewhere = read
        .namespace
        .as_deref()
        .is_some_and(|name| !matches!(name, "*" | names::NAMESPACE));
    let job = || names::parse_job(id).filter(|_| !elsewhere);
    Ok(What::Body(match body {
        BodyId::Jobs => Body::Jobs {
            list: list()?,
            meta: query.bool("meta")?,
        },
        BodyId::Job => Body::Job(job()),
        BodyId::Summary => Body::Summary(job()),
        BodyId::JobAllocations => Body::JobAllocations(job(), list()?),
        BodyId::JobVersions => Body::JobVersions(job()),
        BodyId::JobDeployment => Body::JobDeployment,
        BodyId::JobDeployments
        | BodyId::Deployments
        | BodyId::JobEvaluations
        | BodyId::Evaluations => {
            // A filter that is none is an error here, too.
            list()?;
            Body::Empty
        }
        BodyId::Deployment => Body::Deployment,
        BodyId::Allocations => Body::Allocations {
            list: list()?,
            resources: query.bool("resources")?,
        },
        BodyId::Allocation => Body::Allocation(id.into()),
        BodyId::Nodes => Body::Nodes {
            list: list()?,
            resources: query.bool("resources")?,
            os: query.bool("os")?,
        },
        BodyId::Node => Body::Node(id.into()),
        BodyId::NodeAllocations => Body::NodeAllocations(id.into()),
        BodyId::NodePools => Body::NodePools(list()?),
        BodyId::Namespaces => Body::Namespaces(list()?),
        BodyId::Regions => Body::Regions,
        BodyId::StatusLeader => Body::Leader(app.agent.clone()),
        BodyId::StatusPeers => Body::Peers(app.agent.clone()),
        BodyId::AgentSelf => Body::AgentSelf(app.agent.clone()),
        BodyId::AgentMembers => Body::Members(app.agent.clone()),
    }))
}
