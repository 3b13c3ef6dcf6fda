//! The examples of `rfc/6_store.md` are what the store writes.

use std::path::Path;

use job::{JobId, Source};
use store::{Batch, FILE_NAME};

use crate::world::World;

fn spec() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rfc/6_store.md"))
        .unwrap()
}

fn blocks(text: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    text.split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_lines_of_the_spec_are_the_lines_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let id = Source::Job(JobId(85_077_262_336));
    let mut batch = Batch::default();
    world.submit(85_077_262_336, 1000, 0, &mut batch);
    batch.entries.clear();
    world.seq = job::Seq(0);
    let events = [
        (
            id,
            1,
            r#"{"timestamp":1700000000.25,"name":"submit","context":{"userid":1000,"urgency":16,"flags":0,"version":1}}"#,
        ),
        (id, 2, r#"{"timestamp":1700000000.25,"name":"validate"}"#),
        (
            Source::Resource,
            1,
            r#"{"timestamp":1700000001.5,"name":"online","context":{"idset":"0"}}"#,
        ),
    ];
    for (source, eventlog_seq, json) in events {
        batch.entries.push(world.entry(source, eventlog_seq, json));
    }
    world.store(batch);
    let db = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let lines: String = db
        .query_row("SELECT lines FROM log", [], |row| row.get(0))
        .unwrap();
    assert_eq!(blocks(&spec(), "lines"), [lines]);
}

#[test]
fn the_tables_of_the_spec_are_the_tables_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let _world = World::open(dir.path());
    let db = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let mut names = db.prepare("SELECT type || ' ' || name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1").unwrap();
    let names: Vec<String> = names
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for name in &names {
        let name = name.split(' ').nth(1).unwrap();
        assert!(
            spec().contains(&format!("| `{name}` |")),
            "{name} is not in the spec"
        );
    }
    assert_eq!(names.len(), 14);
    let version: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert!(spec().contains(&format!("schema {version}")));
    let text = blocks(&spec(), "json").concat();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["user_version"], version);
    assert_eq!(parsed["application_id"], store::schema::APPLICATION_ID);
}
