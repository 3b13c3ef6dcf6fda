//! A damaged row or line is named and stops nothing else.

use job::{JobId, Seq, Source};
use rusqlite::Connection;
use store::{Batch, CURSOR_START, FILE_NAME, Scope};

use crate::world::{World, lines, plain, time};

#[test]
fn a_damaged_line_names_its_job_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    for id in 1..=9 {
        world.submit(id, 1000, 0, &mut batch);
    }
    world.store(batch);
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let wrong = [
        "UPDATE job SET eventlog = replace(eventlog, 'validate', 'vali\"date') WHERE id = 2",
        "UPDATE job SET eventlog = substr(eventlog, 1, length(eventlog) - 4) WHERE id = 3",
        "UPDATE job SET eventlog = '' WHERE id = 4",
        "UPDATE job SET eventlog = x'ff00ff0a' WHERE id = 5",
        "UPDATE job SET eventlog = 12 WHERE id = 6",
        "UPDATE job SET userid = 'alice' WHERE id = 7",
        "UPDATE job SET spec = 4711 WHERE id = 8",
        "UPDATE job SET eventlog = (SELECT eventlog FROM job WHERE id = 1) WHERE id = 9",
    ];
    for sql in wrong {
        assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
    }
    let reader = world.reader();
    for scope in [Scope::Active { at: Seq(18) }, Scope::All] {
        let (mut cursor, mut good, mut bad) = (Some(CURSOR_START), Vec::new(), Vec::new());
        while let Some(at) = cursor {
            let page = reader.jobs_page(scope, at, 2, 1 << 20).unwrap();
            good.extend(page.jobs.iter().map(|job| job.id.0));
            bad.extend(page.damaged.iter().map(|damage| damage.job.unwrap().0));
            cursor = page.next;
        }
        bad.dedup();
        assert_eq!(good, [1], "{scope:?}");
        assert_eq!(bad, [2, 3, 4, 5, 6, 7, 8, 9], "{scope:?}");
    }
    let text = reader
        .job(JobId(3), false)
        .unwrap()
        .unwrap()
        .unwrap_err()
        .to_string();
    assert_eq!(text, "job 3: the last line is cut");
}

/// Entries of three jobs and of the system log, one commit each, with jobs in each state.
fn some(dir: &std::path::Path) -> World {
    let mut world = World::open(dir);
    for id in 1..=5 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 4, &mut batch);
        world.store(batch);
    }
    for id in [1, 2] {
        let mut batch = Batch::default();
        batch
            .entries
            .push(world.entry(Source::Job(JobId(id)), 3, &plain("alloc", time(7))));
        batch.jobs.push(store::JobWrite::SetR {
            id: JobId(id),
            r: r#"{"version":1}"#.into(),
        });
        batch
            .entries
            .push(world.entry(Source::System, 1, &plain("note", time(7))));
        world.store(batch);
        let mut batch = Batch::default();
        world.clean(id, 4, &mut batch);
        world.store(batch);
    }
    world
}

fn seqs(page: &store::LogPage) -> Vec<u64> {
    page.entries.iter().map(|entry| entry.seq.0).collect()
}

#[test]
fn fault_an_unreadable_row_of_the_log_hides_nothing() {
    let whole = tempfile::tempdir().unwrap();
    let world = some(whole.path());
    let expected = lines(&world.log());
    let newest = world.seq.0;
    world.writer.close().unwrap();
    for sql in [
        "UPDATE log SET lines = 'nonsense' || char(10) WHERE last_seq = 4",
        "UPDATE log SET lines = substr(lines, 1, length(lines) - 9)",
        "UPDATE log SET lines = replace(lines, 'validate', 'vali\"date')",
        "UPDATE log SET lines = x'ff00ff0a' WHERE last_seq IN (2, 10, 16)",
        "UPDATE log SET lines = 12",
        "UPDATE log SET lines = ''",
        "UPDATE log SET first_seq = 'x', lines = ''",
        "UPDATE log SET lines = (SELECT lines FROM log WHERE last_seq = 2) WHERE last_seq > 2",
        "DELETE FROM log WHERE last_seq IN (4, 6)",
        "DELETE FROM log WHERE last_seq < 9",
        "DELETE FROM log WHERE last_seq > 9",
        "DELETE FROM log",
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(whole.path().join(FILE_NAME), dir.path().join(FILE_NAME)).unwrap();
        let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
        assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
        drop(db);
        let world = World::open(dir.path());
        assert_eq!(
            world.recovered.newest_seq,
            Seq(newest),
            "{sql}: no seq is given twice"
        );
        let reader = world.reader();
        for size in [1, 3, 100] {
            let (mut after, mut all, mut damaged) = (Seq(0), Vec::new(), 0);
            loop {
                let page = reader.log_after(after, size, 1 << 20).unwrap();
                damaged += page.damaged.len();
                if page.upto == after {
                    break;
                }
                after = page.upto;
                all.extend(page.entries);
            }
            assert_eq!(lines(&all), expected, "{sql}, {size} at a time");
            assert!(damaged > 0, "{sql}: nobody was told");
        }
    }
}

#[test]
fn fault_entries_that_are_in_no_copy_are_told_as_lost() {
    let dir = tempfile::tempdir().unwrap();
    let world = some(dir.path());
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    db.execute_batch("DELETE FROM log WHERE last_seq = 6; DELETE FROM job WHERE id = 3")
        .unwrap();
    let page = world.reader().log_after(Seq(0), 100, 1 << 20).unwrap();
    let told: Vec<String> = page.damaged.iter().map(ToString::to_string).collect();
    assert_eq!(page.upto, world.seq);
    assert!(!seqs(&page).contains(&5));
    assert!(
        told.iter()
            .any(|text| text
                .contains("2 of their entries are neither in the log nor in the archive")),
        "{told:?}"
    );
}

/// Every column of a job, each with everything that cannot stand there: the store opens, the row is named, and the others are served.
#[test]
fn fault_a_bad_column_sets_one_job_aside() {
    let whole = tempfile::tempdir().unwrap();
    some(whole.path()).writer.close().unwrap();
    let columns = [
        "userid",
        "flags",
        "t_submit",
        "active",
        "waitable",
        "done_seq",
        "t_inactive",
        "result",
        "spec",
        "j",
        "r",
        "eventlog",
    ];
    let values = [
        "NULL",
        "'x'",
        "x'00ff'",
        "-1",
        "9223372036854775807",
        "-0.5",
        "9e999",
        "zeroblob(300000)",
        "2",
    ];
    for column in columns {
        for value in values {
            // An active job, and an inactive one.
            for id in [3, 1] {
                let sql = format!("UPDATE job SET {column} = {value} WHERE id = {id}");
                let dir = tempfile::tempdir().unwrap();
                std::fs::copy(whole.path().join(FILE_NAME), dir.path().join(FILE_NAME)).unwrap();
                let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
                // NOT NULL does not hold off a bad page.
                db.execute_batch(
                    "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'job'",
                )
                .unwrap();
                drop(db);
                let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
                db.execute(&sql, []).unwrap();
                drop(db);
                let world = World::open(dir.path());
                let newest = world.recovered.newest_seq;
                assert_eq!(newest, world.seq);
                let reader = world.reader();
                let mut named: Vec<u64> = reader
                    .strays(newest, 10)
                    .unwrap()
                    .iter()
                    .map(|damage| damage.job.unwrap().0)
                    .collect();
                let mut good = Vec::new();
                for scope in [
                    Scope::Inactive { upto: newest },
                    Scope::Active { at: newest },
                ] {
                    let (mut cursor, mut pages) = (Some(CURSOR_START), 0);
                    while let Some(at) = cursor {
                        let page = reader.jobs_page(scope, at, 1, 1 << 20).unwrap();
                        good.extend(page.jobs.iter().map(|job| job.id.0));
                        named.extend(page.damaged.iter().map(|damage| damage.job.unwrap().0));
                        cursor = page.next;
                        pages += 1;
                        assert!(pages < 20, "{sql}: a scan that does not end");
                    }
                }
                named.sort_unstable();
                named.dedup();
                good.sort_unstable();
                let others: Vec<u64> = (1..=5).filter(|other| *other != id).collect();
                // Some values may stand there (waitable = 0 or 1, another number of flags, …): then the job is served.
                assert!(
                    (named == [id] && good == others)
                        || (named.is_empty() && good == [1, 2, 3, 4, 5]),
                    "{sql}: named {named:?}, served {good:?}"
                );
                let may_stand = matches!(
                    (column, value),
                    ("flags" | "result", "2" | "4711")
                        | (
                            "t_submit" | "t_inactive",
                            "2" | "4711" | "9223372036854775807" | "1e308"
                        )
                        | ("r", "NULL")
                        | ("j", _)
                ) || (id == 3
                    && value == "NULL"
                    && matches!(column, "done_seq" | "t_inactive" | "result"))
                    || (id == 3 && matches!(column, "t_inactive" | "result"))
                    || (column == "spec" && value == "2");
                assert!(may_stand || named == [id], "{sql}: nobody was told");
                let known: Vec<u64> = reader
                    .owners(None, 100)
                    .unwrap()
                    .iter()
                    .map(|(_, id)| id.0)
                    .collect();
                assert!(others.iter().all(|id| known.contains(id)), "{sql}");
            }
        }
    }
}

#[test]
fn fault_a_jobspec_or_r_that_is_no_json_is_left_out_of_log_and_archive() {
    let whole = tempfile::tempdir().unwrap();
    some(whole.path()).writer.close().unwrap();
    for value in [
        "'{\"version\":1'",
        "'[]'",
        "'7'",
        "x'7b22ff227d'",
        "'{}{}'",
        "''",
        "x'00'",
    ] {
        for sql in [
            format!("UPDATE job SET r = {value} WHERE id = 1"),
            format!(
                "UPDATE blob SET data = {value} WHERE id = (SELECT spec FROM job WHERE id = 1)"
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::copy(whole.path().join(FILE_NAME), dir.path().join(FILE_NAME)).unwrap();
            let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
            assert_eq!(db.execute(&sql, []).unwrap(), 1, "{sql}");
            let world = World::open(dir.path());
            let reader = world.reader();
            assert!(
                reader.job(JobId(1), false).unwrap().unwrap().is_err(),
                "{sql}"
            );
            assert!(
                reader.job(JobId(3), false).unwrap().unwrap().is_ok(),
                "{sql}"
            );
            let page = reader.log_after(Seq(0), 100, 1 << 20).unwrap();
            assert!(
                page.damaged
                    .iter()
                    .any(|damage| damage.job == Some(JobId(1))),
                "{sql}"
            );
            for entry in &page.entries {
                let mut json = Vec::new();
                entry.encode_native(&mut json);
                assert!(
                    serde_json::from_slice::<serde_json::Value>(&json).is_ok(),
                    "{sql}"
                );
            }
            assert!(seqs(&page).contains(&5), "{sql}: others are there");
        }
    }
}

/// Pages of the file overwritten with zeros, each in turn, but for the first and those of indexes and the schema: what is on a page of
/// the job table is set aside, what is on one of the log is taken from the archive.
#[test]
fn fault_a_zeroed_page_costs_no_more_than_the_jobs_on_it() {
    let whole = tempfile::tempdir().unwrap();
    let mut world = World::open(whole.path());
    for id in 1..=60 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
        if id % 2 == 0 {
            let mut batch = Batch::default();
            world.clean(id, 3, &mut batch);
            world.store(batch);
        }
    }
    let expected = lines(&world.log());
    world.writer.close().unwrap();
    let bytes = std::fs::read(whole.path().join(FILE_NAME)).unwrap();
    let leaves = |table: &str| -> Vec<usize> {
        let db = Connection::open(whole.path().join(FILE_NAME)).unwrap();
        let root: i64 = db
            .query_row(
                "SELECT rootpage FROM sqlite_master WHERE name = ?1",
                [table],
                |row| row.get(0),
            )
            .unwrap();
        let root = root as usize - 1;
        assert_eq!(bytes[root * 4096], 5, "{table} has an inner page");
        let cells = usize::from(u16::from_be_bytes([
            bytes[root * 4096 + 3],
            bytes[root * 4096 + 4],
        ]));
        (0..cells)
            .map(|cell| {
                let at = root * 4096 + 12 + 2 * cell;
                let offset = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
                let at = root * 4096 + offset;
                u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
            })
            .collect()
    };
    for (table, pages) in [("log", leaves("log")), ("job", leaves("job"))] {
        assert!(pages.len() > 2, "{table}");
        for number in pages {
            let dir = tempfile::tempdir().unwrap();
            let mut hurt = bytes.clone();
            hurt[(number - 1) * 4096..number * 4096].fill(0);
            std::fs::write(dir.path().join(FILE_NAME), hurt).unwrap();
            let world = World::open(dir.path());
            assert_eq!(world.recovered.newest_seq, Seq(150));
            let reader = world.reader();
            let (mut good, mut bad) = (Vec::new(), Vec::new());
            for scope in [
                Scope::Inactive { upto: Seq(150) },
                Scope::Active { at: Seq(150) },
            ] {
                let mut cursor = Some(CURSOR_START);
                while let Some(at) = cursor {
                    let page = reader.jobs_page(scope, at, 7, 1 << 20).unwrap();
                    good.extend(page.jobs.iter().map(|job| job.id.0));
                    bad.extend(page.damaged.iter().map(|damage| damage.job.unwrap().0));
                    cursor = page.next;
                }
            }
            assert_eq!(good.len() + bad.len(), 60, "{table} page {number}");
            let (mut after, mut log) = (Seq(0), Vec::new());
            while let page = reader.log_after(after, 50, 1 << 20).unwrap()
                && page.upto > after
            {
                after = page.upto;
                log.extend(page.entries);
            }
            if table == "log" {
                assert!(bad.is_empty());
                assert_eq!(lines(&log), expected, "page {number}");
            } else {
                assert!(!bad.is_empty() && bad.len() < 30, "page {number}: {bad:?}");
                assert!(
                    log.iter().all(
                        |entry| !matches!(entry.source, Source::Job(id) if bad.contains(&id.0))
                    )
                );
                assert_eq!(after, Seq(150));
            }
        }
    }
}
