//! A damaged row or line is named and stops nothing else.

use job::{JobId, Seq};
use rusqlite::Connection;
use store::{Batch, CURSOR_START, FILE_NAME, Scope};

use crate::world::World;

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

#[test]
fn a_damaged_log_row_is_named_and_passed() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    for id in 1..=3 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
    }
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    db.execute(
        "UPDATE log SET lines = 'nonsense' || char(10) WHERE last_seq = 4",
        [],
    )
    .unwrap();
    let page = world.reader().log_after(Seq(0), 100, 1 << 20).unwrap();
    assert_eq!(
        page.entries
            .iter()
            .map(|entry| entry.seq.0)
            .collect::<Vec<_>>(),
        [1, 2, 5, 6]
    );
    assert_eq!(page.upto, Seq(6));
    assert_eq!(page.damaged[0].seq, Some(Seq(4)));
    assert!(
        page.damaged[0]
            .to_string()
            .starts_with("log row 4: line 1 cannot be read")
    );
}
