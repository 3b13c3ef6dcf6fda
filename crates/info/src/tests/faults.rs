//! Journals that are damaged, disordered or incomplete: what it costs one job, and what poisons the stream.

use job::JobId;
use proptest::prelude::*;

use super::{
    feed::{EPOCH, Feed, Sent, batch, everything, fold, list, live, play, row, spec},
    storm::{act, config, entries},
};
use crate::{
    allocs::Allocs,
    changes::What,
    clients::per_client,
    constraint::Constraint,
    place::ModifyKey,
    projection::{FoldError, Form, Projection},
};

fn all(projection: &Projection) -> Vec<u64> {
    list(projection, Constraint::everything())
}

fn why(projection: &Projection, id: u64) -> String {
    let why = projection.jobs().set_aside().why(JobId(id));
    why.map(ToString::to_string).unwrap_or_default()
}

fn refused(projection: &mut Projection, text: &str) -> FoldError {
    let before = (everything(projection), projection.applied());
    let error = projection
        .fold_native(text.as_bytes(), &mut |_| panic!("nothing is shown"))
        .expect_err("a poisoned stream");
    let after = (everything(projection), projection.applied());
    assert_eq!(before, after, "a refused batch leaves nothing behind");
    error
}

/// Ways to damage one job's entries: what is sent, and what is said of it.
fn damages(feed: &mut Feed, id: u64) -> Vec<(&'static str, Vec<Sent>)> {
    let begun = feed.clone();
    let mut all = Vec::new();
    let mut damage = |what, make: &dyn Fn(&mut Feed) -> Vec<Sent>| {
        let mut one = begun.clone();
        all.push((what, make(&mut one)));
    };
    damage("its jobspec is not a JSON object", &|feed| {
        feed.submit(id, 1000, 16, "\"no jobspec\"")
    });
    damage("entry 2 cannot be read: ", &|feed| {
        let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
        entries[1].json = entries[1]
            .json
            .replace(r#""name":"validate""#, r#""name":7"#);
        entries
    });
    damage("entry 4 cannot be read: ", &|feed| {
        let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
        entries[3].json = entries[3]
            .json
            .replace(r#""priority":16"#, r#""priority":"x""#);
        entries
    });
    damage(
        "entry 5: event validate does not fit a job in state",
        &|feed| {
            let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
            entries.push(feed.entry(id, "validate", "", ""));
            entries
        },
    );
    damage(
        "entry 5: event submit does not fit a job in state",
        &|feed| {
            let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
            let context = r#"{"userid":1,"urgency":1,"flags":0,"version":1}"#;
            entries.push(feed.entry(id, "submit", context, ""));
            entries
        },
    );
    damage("entry 5 carries an R that cannot be read", &|feed| {
        let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
        entries.push(feed.entry(id, "alloc", "", r#""R":{"version":1,"execution":7}"#));
        entries.push(feed.entry(id, "start", "", ""));
        entries
    });
    damage("entry 1 is the first of it, and no submit", &|feed| {
        vec![feed.entry(id, "clean", "", "")]
    });
    damage("entry 1: ", &|feed| {
        let mut entries = feed.submit(id, 1000, 16, &spec("x", None));
        entries[0].json = entries[0].json.replace(r#""flags":0"#, r#""flags":-1"#);
        entries.retain(|entry| entry.json.contains("submit"));
        entries
    });
    all
}

#[test]
fn fault_an_entry_that_cannot_be_folded_costs_its_job_and_no_other() {
    let mut feed = Feed::default();
    let before = feed.submit(1, 1000, 16, &spec("x", None));
    let (mut whole, mut after) = (feed.clone(), feed.clone());
    let _ = whole.submit(9, 1000, 16, &spec("x", None));
    for (expected, damaged) in damages(&mut feed, 2) {
        // Another job's entries come between and after, in the same batch and in the next.
        after.seq = damaged
            .last()
            .map_or(0, |_| feed.seq + damaged.len() as u64);
        let mut later = after.clone();
        let good = later.submit(3, 1000, 20, &spec("y", None));
        let more = later.urgency(1, 31);
        for live_phase in [true, false] {
            let mut projection = live();
            if !live_phase {
                projection.begin_fresh(Form::Native);
            }
            let seq = |at: u64| {
                if live_phase {
                    format!("\"seq\":{at}")
                } else {
                    "\"backlog\":true".to_owned()
                }
            };
            let _ = fold(&mut projection, &batch(&before, &seq(4)));
            let mut mixed = damaged.clone();
            mixed.extend(good.iter().cloned());
            let _ = fold(&mut projection, &batch(&mixed, &seq(later.seq - 2)));
            let _ = fold(&mut projection, &batch(&more, &seq(later.seq)));
            if !live_phase {
                let caught_up = format!("\"seq\":{},\"caught_up\":true", later.seq);
                assert!(fold(&mut projection, &batch(&[], &caught_up)).swapped);
            }
            assert_eq!(all(&projection), [1, 3], "{expected}");
            let met = why(&projection, 2);
            assert!(
                met.starts_with(expected)
                    || expected == "entry 1: " && met.starts_with("entry 1 cannot be read"),
                "expected {expected:?}, got {met:?}"
            );
            assert_eq!(projection.counters().invalid, 1, "{expected}");
            assert_eq!(projection.applied(), later.seq);
            assert_eq!(projection.jobs().counts().all().total(), 2);
            // It stays aside, and its further entries are passed over without a word.
            let on = feed_entry(&mut later, 2, 40);
            if live_phase {
                play(&mut projection, &[on]);
                assert_eq!(
                    (all(&projection), projection.counters().invalid),
                    (vec![1, 3], 1)
                );
                assert!(projection.counters().aside > 0);
                // … until it is purged; then the id is as free as any.
                let purge = later.system("purge", r#"{"jobs":[2]}"#);
                play(&mut projection, &[purge]);
                assert!(projection.jobs().set_aside().is_empty());
            }
        }
    }
}

fn feed_entry(feed: &mut Feed, id: u64, eventlog_seq: u32) -> Sent {
    let sent = feed.entry(id, "memo", r#"{"a":1}"#, "");
    let mut value: serde_json::Value = serde_json::from_str(&sent.json).expect("JSON");
    value["eventlog_seq"] = eventlog_seq.into();
    Sent {
        json: value.to_string(),
    }
}

#[test]
fn fault_a_stream_that_is_not_this_journals_poisons_and_changes_nothing() {
    let mut feed = Feed::default();
    let mut projection = live();
    play(&mut projection, &feed.submit(1, 1000, 16, &spec("x", None)));
    play(&mut projection, &feed.submit(2, 1000, 16, &spec("x", None)));
    let good = feed.clone();
    let next = |make: &dyn Fn(&mut Feed) -> Vec<Sent>| {
        let mut feed = good.clone();
        let entries = make(&mut feed);
        (entries, feed.seq)
    };

    let (entries, seq) = next(&|feed| feed.urgency(1, 20));
    let text = batch(&entries, &format!("\"seq\":{seq}"));
    // A seq that does not rise: an entry from before that was never told, two in the wrong order, a batch from before.
    let old = text.replace(r#""seq":9,"id""#, r#""seq":8,"id""#);
    assert!(matches!(
        refused(&mut projection, &old),
        FoldError::Order { met: 8, after: 8 }
    ));
    let swapped = text.replace(r#""seq":10,"id""#, r#""seq":9,"id""#);
    assert!(matches!(
        refused(&mut projection, &swapped),
        FoldError::Order { met: 9, after: 9 }
    ));
    let back = batch(&[], "\"seq\":5");
    assert!(matches!(
        refused(&mut projection, &back),
        FoldError::Order { met: 5, after: 8 }
    ));
    let early = batch(&entries, "\"seq\":9");
    assert!(matches!(
        refused(&mut projection, &early),
        FoldError::Order { met: 9, after: 10 }
    ));

    // Entries of a job are missing.
    let (entries, _) = next(&|feed| feed.urgency(1, 20).split_off(1));
    let gap = batch(&entries, "\"seq\":10");
    assert!(matches!(
        refused(&mut projection, &gap),
        FoldError::Gap {
            id: JobId(1),
            expected: 5,
            met: 6
        }
    ));
    let (entries, _) = next(&|feed| feed.submit(3, 1000, 16, &spec("x", None)).split_off(1));
    let headless = batch(&entries, "\"seq\":12");
    assert!(matches!(
        refused(&mut projection, &headless),
        FoldError::Gap {
            id: JobId(3),
            expected: 1,
            met: 2
        }
    ));

    // Another epoch; no JSON; an entry without what every entry has; a purge of nobody knows whom.
    let foreign = batch(&[], "\"seq\":9").replace(EPOCH, "00000000000000e2");
    assert!(matches!(
        refused(&mut projection, &foreign),
        FoldError::Epoch { .. }
    ));
    for bad in [
        "[]",
        "",
        "{\"epoch\":7}",
        &text[..text.len() - 9],
        &text.replace(r#""seq":9,"#, ""),
    ] {
        assert!(
            matches!(refused(&mut projection, bad), FoldError::Malformed(_)),
            "{bad}"
        );
    }
    for context in [r#"{"jobs":["x"]}"#, r#"{"jobs":1}"#, "{}"] {
        let (entries, _) = next(&|feed| vec![feed.system("purge", context)]);
        let text = batch(&entries, "\"seq\":9");
        assert!(matches!(
            refused(&mut projection, &text),
            FoldError::Purge { seq: 9 }
        ));
    }
    // The journal itself still fits.
    let _ = fold(&mut projection, &text);
    assert_eq!(row(&projection, 1)["priority"], 20);
}

#[test]
fn fault_a_backlog_that_ends_elsewhere_than_it_says_is_not_swapped_in() {
    let mut feed = Feed::default();
    let mut projection = live();
    play(&mut projection, &feed.submit(1, 1000, 16, &spec("x", None)));
    let backlog = batch(
        &feed.submit(2, 1000, 16, &spec("x", None)),
        "\"backlog\":true",
    );
    for (end, expected) in [
        (batch(&[], r#""seq":7,"caught_up":true"#), "comes after 8"),
        (batch(&[], r#""caught_up":true"#), "without a seq"),
        (
            batch(&[], r#""seq":8,"caught_up":true"#).replace(EPOCH, "x"),
            "expected 0000",
        ),
    ] {
        projection.begin_fresh(Form::Native);
        let _ = fold(&mut projection, &backlog);
        let error = refused(&mut projection, &end).to_string();
        assert!(error.contains(expected), "{error}");
        projection.cut();
        assert_eq!(projection.cursor(), Some((4, EPOCH)), "the last list stays");
    }
    // Resumed somewhere else than asked: what is between would be missing, or come twice.
    for seq in [3, 5] {
        projection.cut();
        projection.begin_resume();
        let end = batch(&[], &format!("\"seq\":{seq},\"caught_up\":true"));
        let error = refused(&mut projection, &end);
        assert!(matches!(
            error,
            FoldError::Resumed {
                expected: 4,
                met: 5
            } | FoldError::Order { met: 3, after: 4 }
        ));
        assert!(!projection.is_live());
    }
}

#[test]
fn fault_jobs_that_the_job_manager_sets_aside_have_no_row_also_after_a_resume() {
    let mut feed = Feed::default();
    let mut projection = Projection::new();
    projection.begin_fresh(Form::Native);
    let mut entries = feed.submit(1, 1000, 16, &spec("x", None));
    entries.extend(feed.submit(2, 1000, 16, &spec("x", None)));
    let _ = fold(&mut projection, &batch(&entries, "\"backlog\":true"));
    // 2 was found damaged while the backlog was read; 7 was never sent at all.
    let _ = fold(
        &mut projection,
        &batch(&[], r#""seq":8,"caught_up":true,"set_aside":[7,2]"#),
    );
    assert_eq!(
        (all(&projection), why(&projection, 2)),
        (vec![1], "the job-manager cannot read it".into())
    );
    assert_eq!(projection.jobs().set_aside().len(), 2);
    let key = projection.jobs().by_modify().get(0).copied();
    assert_eq!(key.map(ModifyKey::seq), Some(2), "the one that is left");
    projection.watch_changes(true);
    // A restart of the job-manager finds another one.
    projection.cut();
    projection.begin_resume();
    let folded = fold(
        &mut projection,
        &batch(&[], r#""seq":8,"caught_up":true,"set_aside":[1,2,7]"#),
    );
    assert_eq!((folded.changed, all(&projection)), (vec![JobId(1)], vec![]));
    let told = projection.take_changes();
    let [gone] = &told.jobs[..] else {
        panic!("one change, not {told:?}");
    };
    assert_eq!(
        (gone.id, gone.seq, gone.before, gone.after),
        (JobId(1), 8, key, None)
    );
    assert_eq!((gone.what, told.reset), (What::REMOVED, false));
    assert!(projection.jobs().by_modify().is_empty());
    assert_eq!(projection.jobs().counts().all().total(), 0);
    // A job-manager that has not come across one of them yet says nothing of it: it stays aside.
    projection.cut();
    projection.begin_resume();
    let caught_up = batch(&[], r#""seq":8,"caught_up":true,"set_aside":[1]"#);
    assert!(fold(&mut projection, &caught_up).changed.is_empty());
    assert_eq!(projection.jobs().set_aside().len(), 3);
}

#[test]
fn entries_of_purged_jobs_that_come_again_make_no_ghost() {
    let (mut feed, mut projection) = (Feed::default(), live());
    let mut entries = feed.submit(1, 1000, 16, &spec("x", None));
    entries.push(feed.exception(1, "cancel"));
    entries.push(feed.entry(1, "clean", "", ""));
    let purge = feed.system("purge", r#"{"jobs":[1]}"#);
    play(&mut projection, &entries);
    play(&mut projection, std::slice::from_ref(&purge));
    entries.push(purge);
    for again in [&entries[..], &entries[..1], &entries[3..]] {
        let _ = fold(&mut projection, &batch(again, "\"seq\":7"));
        assert!(all(&projection).is_empty());
        assert_eq!(projection.jobs().counts().all().purged(), 1);
    }
    assert_eq!(projection.jobs().newest(), JobId(1));
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn fault_no_change_of_bytes_makes_it_panic(
        acts in proptest::collection::vec(act(), 1..60),
        flips in proptest::collection::vec((any::<usize>(), 32u8..127), 1..24),
    ) {
        let entries = entries(&acts);
        let seq = entries.len();
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for part in entries.chunks(5) {
            texts.push(batch(part, &format!("\"seq\":{seq}")).into_bytes());
        }
        let base = r#"{"seq":3,"define":{"method":"x","R":{"version":1,"execution":{"R_lite":[{"rank":"0-2","children":{"core":"0"}}],"nodelist":["n[0-2]"],"starttime":0.0,"expiration":0.0}},"pools":{"a":"0"}},"up":"0-1","drained":[{"idset":"1","nodelist":"n1","reason":"x","timestamp":1.5}]}"#;
        texts.push(batch(&[], &format!(r#""seq":{seq},"caught_up":true,"resources":{base}"#)).into_bytes());
        let total: usize = texts.iter().map(Vec::len).sum();
        for (at, byte) in flips {
            let mut at = at % total.max(1);
            for text in &mut texts {
                if let Some(place) = text.get_mut(at) {
                    *place = byte;
                    break;
                }
                at -= text.len();
            }
        }
        for aside in [false, true] {
            let mut projection = live();
            projection.watch_changes(true);
            if aside {
                projection.begin_fresh(Form::Native);
            }
            for text in &texts {
                if projection.fold_native(text, &mut |_| {}).is_err() {
                    projection.cut();
                    projection.begin_fresh(Form::Native);
                }
                let _ = projection.take_changes();
            }
            let jobs = projection.jobs();
            for key in jobs.by_modify().iter() {
                let record = jobs.record(key.slot()).expect("a record");
                let allocs = Allocs::of(record, projection.nodes());
                assert!(allocs.iter().all(|alloc| projection.nodes().get(alloc.node).is_some()));
                let clients = per_client(record, projection.nodes());
                assert!(clients.total() <= projection.nodes().len());
            }
        }
    }
}
