//! The methods the job-manager's core answers: topic and who may ask. What is not in this table is not built and is answered with errnum 38.
//!
//! The shell's own (`events`, `lookup`, `attr.get` …) are not here.

/// Who may call a method at all. Rights to a single job are decided by the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Owner and guests.
    User,
    /// The instance owner alone.
    Owner,
}

/// The methods of the core. One variant a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each is described where its payload is
pub enum Method {
    Submit,
    IngestGetinfo,
    Urgency,
    Priority,
    Prioritize,
    Raise,
    Raiseall,
    Kill,
    Killall,
    Memo,
    Wait,
    List,
    Getinfo,
    HistoryGet,
    QueueList,
    QueueStatus,
    QueueEnable,
    QueueStart,
    Idle,
    Drain,
    AllocQuery,
    ResourceStatus,
    ResourceAnnounce,
    ResourceEvent,
    Dispatch,
    StatsGet,
    SchedHello,
    SchedReady,
    Shutdown,
    ShutdownCancel,
    ExecHello,
    Disconnect,
    Purge,
    PurgeId,
}

/// Topic, method, role: sorted by topic.
pub const METHODS: &[(&str, Method, Role)] = &[
    ("job-ingest.getinfo", Method::IngestGetinfo, Role::Owner),
    ("job-ingest.submit", Method::Submit, Role::User),
    ("job-manager.alloc-query", Method::AllocQuery, Role::User),
    ("job-manager.disconnect", Method::Disconnect, Role::User),
    ("job-manager.dispatch", Method::Dispatch, Role::User),
    ("job-manager.drain", Method::Drain, Role::Owner),
    ("job-manager.exec-hello", Method::ExecHello, Role::Owner),
    ("job-manager.getinfo", Method::Getinfo, Role::User),
    ("job-manager.history.get", Method::HistoryGet, Role::User),
    ("job-manager.idle", Method::Idle, Role::Owner),
    ("job-manager.kill", Method::Kill, Role::User),
    ("job-manager.killall", Method::Killall, Role::User),
    ("job-manager.list", Method::List, Role::Owner),
    ("job-manager.memo", Method::Memo, Role::User),
    ("job-manager.prioritize", Method::Prioritize, Role::Owner),
    ("job-manager.priority", Method::Priority, Role::User),
    ("job-manager.purge", Method::Purge, Role::Owner),
    ("job-manager.purge-id", Method::PurgeId, Role::Owner),
    ("job-manager.queue-enable", Method::QueueEnable, Role::Owner),
    ("job-manager.queue-list", Method::QueueList, Role::User),
    ("job-manager.queue-start", Method::QueueStart, Role::Owner),
    ("job-manager.queue-status", Method::QueueStatus, Role::User),
    ("job-manager.raise", Method::Raise, Role::User),
    ("job-manager.raiseall", Method::Raiseall, Role::User),
    (
        "job-manager.resource-announce",
        Method::ResourceAnnounce,
        Role::Owner,
    ),
    (
        "job-manager.resource-event",
        Method::ResourceEvent,
        Role::Owner,
    ),
    (
        "job-manager.resource-status",
        Method::ResourceStatus,
        Role::Owner,
    ),
    ("job-manager.sched-hello", Method::SchedHello, Role::Owner),
    ("job-manager.sched-ready", Method::SchedReady, Role::Owner),
    ("job-manager.shutdown", Method::Shutdown, Role::Owner),
    (
        "job-manager.shutdown-cancel",
        Method::ShutdownCancel,
        Role::Owner,
    ),
    ("job-manager.stats-get", Method::StatsGet, Role::User),
    ("job-manager.urgency", Method::Urgency, Role::User),
    ("job-manager.wait", Method::Wait, Role::Owner),
];

/// The method of a topic, if it is built.
#[must_use]
pub fn find(topic: &str) -> Option<(Method, Role)> {
    let at = METHODS
        .binary_search_by_key(&topic, |(name, _, _)| name)
        .ok()?;
    METHODS.get(at).map(|(_, method, role)| (*method, *role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_found_and_no_other() {
        assert!(METHODS.is_sorted_by_key(|(topic, _, _)| topic));
        for (topic, method, role) in METHODS {
            assert_eq!(find(topic), Some((*method, *role)), "{topic}");
        }
        for topic in [
            "",
            "job-manager",
            "job-manager.",
            "job-manager.submit",
            "job-manager.nosuch",
            "job-ingest.zzz",
        ] {
            assert_eq!(find(topic), None, "{topic}");
        }
    }
}
