//! `weir job prioritize`: what is asked of the instance.

use super::fake::{Answer, Fake};
use super::{at, run};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What an instance answers that sets all of them.
fn all_set(asked: &Value) -> Value {
    let jobs = asked["jobs"].as_array().unwrap();
    let results: Vec<Value> = jobs.iter().map(|pair| json!([pair[0], 16])).collect();
    json!({"seq": 9, "results": results})
}

#[test]
fn bounds_a_long_list_goes_in_requests_of_a_bounded_size_and_all_of_it_goes() {
    const JOBS: u64 = 20_000;
    let (requests, pairs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, sum) = (requests.clone(), pairs.clone());
    let fake = Fake::start(move |_, asked| {
        let some = asked["jobs"].as_array().unwrap().len();
        assert!(some <= 8192, "{some} in one request");
        seen.fetch_add(1, Relaxed);
        sum.fetch_add(some, Relaxed);
        Answer::Ok(all_set(asked))
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines: String = (1..=JOBS).map(|id| format!("{id} {}\n", id + 7)).collect();
    std::fs::write(file.path(), lines).unwrap();
    let from = file.path().to_str().unwrap();
    let ran = run(&mut at(
        &fake,
        ["job", "prioritize", "--json", "--from", from],
    ));
    let document: Value = serde_json::from_str(ran.succeeds()).unwrap();
    let changed = document["changed"].as_array().unwrap();
    assert_eq!(changed.len() as u64, JOBS, "one document for all requests");
    assert_eq!(
        changed[19_999],
        json!({"id": JOBS, "f58": "ƒ6wq", "old_priority": 16, "priority": JOBS + 7})
    );
    assert_eq!((requests.load(Relaxed), pairs.load(Relaxed)), (3, 20_000));
}

#[test]
fn default_and_numbers_are_asked_for_as_they_are_and_a_job_named_twice_is_meant_once() {
    let fake = Fake::start(|_, asked| Answer::Ok(all_set(asked)));
    let ran = run(&mut at(
        &fake,
        ["job", "prioritize", "-v", "1234,57", "ƒNH", "default"],
    ));
    assert_eq!(ran.succeeds(), "ƒNH: 16 -> default\nƒz: 16 -> default\n");
    assert_eq!(
        fake.asked_for("job-manager.prioritize"),
        json!({"jobs": [[1234, "default"], [57, "default"]]})
    );
}

#[test]
fn an_instance_of_flux_is_told_from_a_mistake() {
    let fake = Fake::start(|topic, _| {
        Answer::Refuse(
            38,
            Some(&*format!("Unknown service method '{topic}'").leak()),
        )
    });
    run(&mut at(&fake, ["job", "prioritize", "1234", "5"]))
        .fails(1, &["this instance does not offer job-manager.prioritize"]);
}
