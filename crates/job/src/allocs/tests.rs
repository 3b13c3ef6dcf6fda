//! The rules of allocations: each row of the table, and the runs against a model with one entry a rank.

use super::*;
use crate::event::{Event, EventKind, ExceptionEvent};
use crate::id::JobId;
use crate::job::Job;
use crate::priority::{Priority, Urgency};
use crate::state::JobFlags;
use proptest::prelude::*;

fn event(time: f64, kind: EventKind) -> Event {
    Event::new(Timestamp(time), kind)
}

fn exception(kind: &str, severity: u8) -> EventKind {
    EventKind::Exception(ExceptionEvent {
        kind: kind.to_owned(),
        severity,
        note: "words".to_owned(),
        userid: None,
        wait_status: None,
    })
}

fn finish(status: i32) -> EventKind {
    EventKind::Finish { status }
}

fn status(ranks: &str, status: AllocStatus) -> EventKind {
    EventKind::AllocStatus {
        allocs: vec![AllocReport::new(ranks.parse().unwrap(), status)],
    }
}

/// A job with resources, after these events.
fn job(events: &[EventKind]) -> Job {
    let submit = EventKind::Submit {
        userid: 1,
        urgency: Urgency::DEFAULT,
        flags: JobFlags::default(),
        version: 1,
    };
    let mut job = Job::new(JobId(1), &event(1.0, submit)).unwrap();
    let start = [
        EventKind::Validate,
        EventKind::Depend,
        EventKind::Priority {
            priority: Priority(16),
        },
        EventKind::Alloc { annotations: None },
    ];
    for (at, kind) in start.iter().chain(events).enumerate() {
        let seq = Seq(at as u64 + 100);
        let _ = job
            .apply_at(&event(at as f64 + 2.0, kind.clone()), seq)
            .unwrap();
    }
    job
}

/// Status, whether to stop, and why, of what the job's events imply.
fn shown(events: &[EventKind]) -> (AllocStatus, bool, String) {
    let job = job(events);
    let view = implied(&job).unwrap();
    let reason = view.reason.map(|reason| reason.to_string());
    (view.status, view.stop, reason.unwrap_or_default())
}

const LAST: EventKind = EventKind::Free;

fn released() -> EventKind {
    EventKind::Release {
        ranks: "all".to_owned(),
        last: true,
    }
}

#[test]
fn every_row_of_the_table_of_what_is_implied() {
    use AllocStatus::{Complete, Failed, Lost, Pending, Running};
    use EventKind::Start;
    for (events, status, stop, reason) in [
        (vec![], Pending, false, ""),
        (vec![Start], Running, false, ""),
        (vec![Start, finish(0)], Complete, false, ""),
        (vec![Start, finish(256)], Failed, false, "exit code 1"),
        (vec![Start, finish(9)], Failed, false, "signal 9 (Killed)"),
        (
            vec![Start, exception("cancel", 0)],
            Running,
            true,
            "canceled",
        ),
        (
            vec![Start, exception("cancel", 0), finish(15)],
            Complete,
            true,
            "canceled",
        ),
        (
            vec![Start, exception("cancel", 1), finish(15)],
            Failed,
            false,
            "signal 15 (Terminated)",
        ),
        (
            vec![Start, exception("timeout", 0), finish(15)],
            Failed,
            false,
            "timeout",
        ),
        (
            vec![Start, exception("node-fail", 0), finish(9)],
            Lost,
            false,
            "node-fail: words",
        ),
        (
            vec![Start, exception("node-fail", 1), finish(0)],
            Complete,
            false,
            "",
        ),
        (
            vec![Start, exception("x", 0), finish(0)],
            Failed,
            false,
            "x: words",
        ),
        (
            vec![Start, finish(0), exception("cancel", 0)],
            Complete,
            false,
            "",
        ),
        (vec![exception("cancel", 0)], Pending, true, "canceled"),
        (
            vec![exception("cancel", 0), LAST],
            Complete,
            true,
            "canceled",
        ),
        (
            vec![exception("exec", 0), LAST],
            Failed,
            false,
            "exec: words",
        ),
        (
            vec![Start, exception("x", 0), released(), LAST],
            Lost,
            false,
            "x: words",
        ),
    ] {
        assert_eq!(
            shown(&events),
            (status, stop, reason.to_owned()),
            "{events:?}"
        );
    }
}

#[test]
fn a_job_without_resources_has_no_allocation() {
    let submit = EventKind::Submit {
        userid: 1,
        urgency: Urgency::DEFAULT,
        flags: JobFlags::default(),
        version: 1,
    };
    let job = Job::new(JobId(1), &event(1.0, submit)).unwrap();
    let ranks: Idset = "0-3".parse().unwrap();
    assert_eq!((implied(&job), at(&job, 0)), (None, None));
    assert_eq!(runs(&job, &ranks).count(), 0);
}

#[test]
fn what_is_said_holds_until_the_job_is_over_and_what_is_terminal_for_good() {
    use AllocStatus::{Complete, Failed, Lost, Running, Unknown};
    let said = [
        EventKind::Start,
        status("1-2", Unknown),
        status("2-3", Failed),
        status("3", Complete),
        status("5", Running),
    ];
    let ranks: Idset = "0-5".parse().unwrap();
    let list = |job: &Job| -> Vec<(u32, u32, AllocStatus)> {
        runs(job, &ranks)
            .map(|(a, b, view)| (a, b, view.status))
            .collect()
    };
    let running = job(&said);
    assert_eq!(
        list(&running),
        [
            (0, 0, Running),
            (1, 1, Unknown),
            (2, 3, Failed),
            (4, 4, Running),
            (5, 5, Running)
        ]
    );
    let over = job(&[&said[..], &[finish(0)]].concat());
    assert_eq!(
        list(&over),
        [
            (0, 0, Complete),
            (1, 1, Complete),
            (2, 3, Failed),
            (4, 4, Complete),
            (5, 5, Complete)
        ]
    );
    let lost = job(&[&said[..], &[exception("node-fail", 0), finish(9)]].concat());
    assert_eq!(at(&lost, 1).unwrap().status, Lost);
    let seen = at(&over, 3).unwrap();
    let said = seen.said.unwrap();
    assert_eq!((said.seq, said.time), (Seq(106), Timestamp(8.0)));
    assert_eq!(at(&over, 1).unwrap().said, None);
}

#[test]
fn the_reason_is_what_was_said_else_the_wait_status() {
    let report = |reason: Option<&str>, wait_status| EventKind::AllocStatus {
        allocs: vec![AllocReport {
            ranks: Idset::from_range(0, 0),
            status: AllocStatus::Failed,
            reason: reason.map(Arc::from),
            wait_status,
        }],
    };
    let words = |kind| {
        let job = job(&[EventKind::Start, kind]);
        at(&job, 0).unwrap().reason.map(|reason| reason.to_string())
    };
    assert_eq!(
        words(report(Some("disk"), Some(256))).as_deref(),
        Some("disk")
    );
    assert_eq!(
        words(report(None, Some(512))).as_deref(),
        Some("exit code 2")
    );
    assert_eq!(words(report(None, None)), None);
}

#[test]
fn a_hundred_thousand_ranks_said_at_once_are_one_run() {
    let job = job(&[EventKind::Start, status("0-99999", AllocStatus::Lost)]);
    assert_eq!(job.allocs.as_ref().unwrap().len(), 1);
    let ranks = Idset::from_range(0, 99_999);
    assert_eq!(runs(&job, &ranks).count(), 1);
}

#[test]
fn a_hundred_thousand_ranks_said_one_by_one_take_no_quadratic_time() {
    let mut allocs = Allocs::default();
    for rank in (0..100_000).rev() {
        let report = AllocReport::new(Idset::from_range(rank, rank), AllocStatus::Complete);
        allocs.take(Seq(u64::from(rank)), Timestamp(1.0), &[report]);
    }
    assert_eq!(allocs.len(), 100_000);
    assert!(size_of::<Run>() <= 56, "{} bytes a run", size_of::<Run>());
}

#[test]
fn the_highest_ranks_do_not_overflow() {
    let mut allocs = Allocs::default();
    let top = crate::idset::IDSET_ID_MAX;
    for (first, said) in [(0, AllocStatus::Running), (top, AllocStatus::Lost)] {
        let report = AllocReport::new(Idset::from_range(first, top), said);
        allocs.take(Seq(1), Timestamp(1.0), &[report]);
    }
    assert_eq!(allocs.len(), 2);
    assert_eq!(allocs.at(top).unwrap().status, AllocStatus::Lost);
}

fn any_status() -> impl Strategy<Value = AllocStatus> {
    prop::sample::select(AllocStatus::ALL.to_vec())
}

proptest! {
    #[test]
    fn runs_say_what_a_list_with_an_entry_a_rank_says(
        events in prop::collection::vec(
            (prop::collection::vec(0u32..24, 1..10), any_status(), any::<bool>()), 0..30),
        asked in prop::collection::vec(0u32..24, 0..20),
    ) {
        let mut model: Vec<Option<(Seq, AllocStatus)>> = vec![None; 24];
        let mut job = job(&[EventKind::Start]);
        for (at, (ranks, said, merged)) in events.into_iter().enumerate() {
            // Some events repeat the place of the one before, so that neighbours merge.
            let seq = Seq(at as u64 - if merged { (at % 2) as u64 } else { 0 });
            let ranks: Idset = ranks.into_iter().collect();
            for rank in ranks.iter() {
                let cell = &mut model[rank as usize];
                if cell.is_none_or(|(_, status)| !status.is_terminal()) {
                    *cell = Some((seq, said));
                }
            }
            let kind = EventKind::AllocStatus { allocs: vec![AllocReport::new(ranks, said)] };
            let _ = job.apply_at(&event(50.0, kind), seq).unwrap();
        }
        let asked: Idset = asked.into_iter().collect();
        let mut ranks = asked.iter();
        for (first, last, view) in runs(&job, &asked) {
            for rank in first..=last {
                prop_assert_eq!(ranks.next(), Some(rank));
                let met = view.said.map(|said| (said.seq, said.status));
                prop_assert_eq!(met, model[rank as usize]);
                prop_assert_eq!(at(&job, rank), Some(view));
            }
        }
        prop_assert_eq!(ranks.next(), None);
        let all: Vec<_> = job.allocs.as_deref().map(|all| all.runs().collect()).unwrap_or_default();
        for pair in all.windows(2) {
            prop_assert!(pair[0].1 < pair[1].0);
            prop_assert!(pair[0].1 + 1 < pair[1].0 || pair[0].2 != pair[1].2, "not merged");
        }
    }
}
