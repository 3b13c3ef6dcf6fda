//! `rfc/5_engine.md`: its examples, errors as `ERRNUM "TEXT"`, are played against the real engine, its table of verdicts is walked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use std::path::Path;

use common::World;
use job_runner::shepherd::claim::{Verdict, verdict};
use serde_json::Value;

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rfc/5_engine.md"))
        .unwrap()
}

/// Fenced blocks as (mark, lines).
fn blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks: Vec<(String, Vec<String>)> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(mark) => {
                blocks.push((mark.to_owned(), Vec::new()));
                open = true;
            }
            None if open => blocks.last_mut().unwrap().1.push(line.to_owned()),
            None => {}
        }
    }
    assert!(!open);
    blocks
}

/// Whether `met` is what is written, `"*"` being anything.
fn fits(written: &Value, met: &Value) -> bool {
    match (written, met) {
        (Value::String(star), _) if star == "*" => true,
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| fits(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fits(a, b))
        }
        (a, b) => a == b,
    }
}

fn read(line: &str) -> (String, Value) {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let line = line
        .replace("HOST", &job_runner::engine::machine::hostname())
        .replace("UID", &uid);
    let (topic, payload) = line.split_once(' ').unwrap();
    let json = |text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let error = payload
        .split_once(' ')
        .filter(|(errnum, _)| errnum.parse::<u32>().is_ok());
    let payload = match error {
        Some((errnum, text)) => {
            serde_json::json!({"errnum": json(errnum), "text": json(text)})
        }
        None => json(payload),
    };
    (topic.to_owned(), payload)
}

#[tokio::test]
async fn every_example_is_what_the_engine_says_and_writes() {
    let page = page();
    let mut world = World::new(&["--cores", "0-1", "--gpus", ""]).await;
    let mut job = 0;
    let (mut asked, mut logs) = (0, 0);
    for (mark, lines) in blocks(&page) {
        match mark.as_str() {
            "engine" => {
                for line in lines {
                    match line.split_at(2) {
                        ("> ", rest) => {
                            let (topic, payload) = read(rest);
                            match payload["id"].as_u64() {
                                Some(id) => {
                                    job = id;
                                    world.ask(&topic, &payload);
                                }
                                // What clients ask is answered by its matchtag.
                                None => world.ask_as(&topic, &payload, 1, common::owner()),
                            }
                        }
                        ("< ", rest) => {
                            let (topic, written) = read(rest);
                            let (met_topic, met) = world.any_answer().await;
                            assert!(
                                topic == met_topic && fits(&written, &met),
                                "written: {written}\nmet: {met}"
                            );
                        }
                        _ => panic!("neither > nor <: {line}"),
                    }
                    asked += 1;
                }
            }
            "exec" | "output" => {
                let name = format!("{mark}.eventlog");
                let met = world.log(job, &name);
                assert_eq!(met.len(), lines.len(), "{name}: {met:?}");
                for (line, (name, context)) in lines.iter().zip(met) {
                    let written = read(&format!("x {line}")).1;
                    assert_eq!(written["name"], name.as_str());
                    assert!(
                        fits(&written["context"], &context),
                        "written: {line}\nmet: {context}"
                    );
                }
                logs += 1;
            }
            "" => {}
            other => panic!("a block marked {other}"),
        }
    }
    assert!(asked > 10 && logs == 2);
}

#[test]
fn every_row_of_the_table_of_verdicts_is_what_the_code_says() {
    let page = page();
    let mut rows = page
        .lines()
        .skip_while(|line| *line != "| claim | lock | executing | status | verdict |")
        .skip(2);
    let mut walked = 0;
    while let Some(row) = rows.next().filter(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [claim, lock, executing, status, expected] = cells[..] else {
            panic!("{row}")
        };
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        let mut held = None;
        if claim == "yes" {
            let text = if executing == "yes" {
                "{\"boot\":\"b\",\"pid\":1}\nexecuting\n"
            } else {
                "{\"boot\":\"b\",\"pid\":1}\n"
            };
            std::fs::write(path.join("claim"), text).unwrap();
            if lock == "held" {
                let file = std::fs::File::open(path.join("claim")).unwrap();
                rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
                held = Some(file);
            }
        }
        match status {
            "yes" => std::fs::write(path.join("status"), "{\"status\":0}\n").unwrap(),
            "torn" => std::fs::write(path.join("status"), "{\"stat").unwrap(),
            _ => {}
        }
        let met = match verdict(path, 0, 1).unwrap() {
            Verdict::Free => "free",
            Verdict::Held(..) => "held",
            Verdict::Lost(_) => "lost",
            Verdict::Ended(_) => "ended",
        };
        assert_eq!(met, expected, "{row}");
        drop(held);
        walked += 1;
    }
    assert_eq!(walked, 9);
}
