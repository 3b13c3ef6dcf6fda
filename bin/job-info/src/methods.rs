//! The methods of the two services, who may call them, and the answers that need no list.

use wire::{Cred, ROLE_OWNER, ROLE_USER, errno};

use crate::peer::Refusal;

/// The services, in the order in which their names are asked for.
pub(crate) const SERVICES: [&str; 2] = ["job-list", "job-info"];

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Any,
    User,
    Owner,
}

impl Role {
    pub(crate) fn check(self, cred: Cred) -> Result<(), Refusal> {
        match self {
            Role::Any => Ok(()),
            Role::User if cred.rolemask & (ROLE_OWNER | ROLE_USER) != 0 => Ok(()),
            Role::User => Err(Refusal::new(
                errno::EPERM,
                "Request rejected due to insufficient privilege",
            )),
            Role::Owner if cred.is_owner() => Ok(()),
            Role::Owner => Err(Refusal::new(
                errno::EPERM,
                "Request requires owner credentials",
            )),
        }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    // At once, whatever the state of the list.
    Ping,
    Pause,
    Resume,
    Disconnect,
    Cancel,
    ListAttrs,
    ListStatsGet,
    InfoStatsGet,
    HttpToken,
    // From the list, so they may be held.
    List,
    ListId,
    Rank,
    JobStats,
    Clients,
    Lookup,
    EventlogWatch,
    UpdateLookup,
    UpdateWatch,
}

impl Method {
    /// Whether it is never answered.
    pub(crate) fn is_notice(self) -> bool {
        matches!(
            self,
            Method::Pause | Method::Resume | Method::Disconnect | Method::Cancel
        )
    }

    /// Whether it is answered at once.
    pub(crate) fn is_immediate(self) -> bool {
        use Method::{
            Cancel, Disconnect, HttpToken, InfoStatsGet, ListAttrs, ListStatsGet, Pause, Ping,
            Resume,
        };
        matches!(
            self,
            Ping | Pause
                | Resume
                | Disconnect
                | Cancel
                | ListAttrs
                | ListStatsGet
                | InfoStatsGet
                | HttpToken
        )
    }
}

/// The method of a topic; `None` is ENOSYS.
pub(crate) fn find(topic: &str) -> Option<(Method, Role)> {
    let (service, method) = topic.split_once('.')?;
    Some(match (service, method) {
        ("job-list" | "job-info", "ping") => (Method::Ping, Role::Any),
        ("job-list" | "job-info", "pause") => (Method::Pause, Role::Any),
        ("job-list" | "job-info", "resume") => (Method::Resume, Role::Any),
        ("job-list" | "job-info", "disconnect") => (Method::Disconnect, Role::Any),
        ("job-list", "list-cancel" | "job-stats-cancel") => (Method::Cancel, Role::Any),
        ("job-info", "eventlog-watch-cancel" | "update-watch-cancel") => {
            (Method::Cancel, Role::Any)
        }
        ("job-list", "list") => (Method::List, Role::User),
        ("job-list", "list-id") => (Method::ListId, Role::User),
        ("job-list", "list-attrs") => (Method::ListAttrs, Role::User),
        ("job-list", "rank") => (Method::Rank, Role::User),
        ("job-list", "job-stats") => (Method::JobStats, Role::User),
        ("job-list", "stats-get") => (Method::ListStatsGet, Role::User),
        ("job-info", "clients") => (Method::Clients, Role::User),
        ("job-info", "lookup") => (Method::Lookup, Role::User),
        ("job-info", "eventlog-watch") => (Method::EventlogWatch, Role::User),
        ("job-info", "update-lookup") => (Method::UpdateLookup, Role::User),
        ("job-info", "update-watch") => (Method::UpdateWatch, Role::User),
        ("job-info", "http-token") => (Method::HttpToken, Role::User),
        ("job-info", "stats-get") => (Method::InfoStatsGet, Role::Owner),
        _ => return None,
    })
}
