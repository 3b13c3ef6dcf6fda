//! A jobspec: four ways to read one that must agree, and what is left when the environment is cut out.

use job::jobspec::{COUNT_MAX, apply_updates, strip_environment, without_environment};
use job::{Jobspec, Map};
use serde_json::Value;

/// The longest text a refusal may have, whatever was sent.
const ERROR_BYTES_MAX: usize = 2048;

/// Reads a jobspec.
pub fn check(data: &[u8]) {
    let parsed = Jobspec::parse(data);
    let ingested = Jobspec::ingest(data);
    let launched = Jobspec::parse_for_launch(data);
    match (&parsed, &ingested, &launched) {
        (Ok(jobspec), Ok((other, stripped)), Ok((third, launch))) => {
            assert_eq!(jobspec, other);
            assert_eq!(jobspec, third);
            for text in jobspec.command.iter().chain(&jobspec.cwd) {
                assert!(!text.contains('\0'), "a NUL in what is to be executed");
            }
            for (name, value) in &launch.environment {
                let clean =
                    !name.is_empty() && !name.contains(['\0', '=']) && !value.contains('\0');
                assert!(clean, "a variable that cannot be set: {name:?}");
            }
            bounded(jobspec);
            // What goes to the journal is the same job, and asks no more.
            let again = Jobspec::ingest(stripped);
            assert!(
                again.is_ok(),
                "the stripped jobspec is refused: {:?}",
                again.err()
            );
            if let Ok((again, twice)) = again {
                assert_eq!(&again, jobspec);
                assert_eq!(&twice, stripped);
            }
            let launch = Jobspec::parse_for_launch(stripped).map(|(_, launch)| launch.environment);
            assert!(launch.is_ok_and(|environment| environment.is_empty()));
        }
        (Err(error), Err(other), Err(third)) => {
            let text = error.to_string();
            assert!(
                text.len() <= ERROR_BYTES_MAX,
                "{} bytes of error",
                text.len()
            );
            assert_eq!(text, other.to_string());
            assert_eq!(text, third.to_string());
        }
        _ => assert_eq!(
            [parsed.is_ok(), ingested.is_ok(), launched.is_ok()],
            [true; 3],
            "one of three ways to read it refuses it"
        ),
    }
    let stripped = strip_environment(data);
    if let (Ok(stripped), Ok(value)) = (&stripped, serde_json::from_slice::<Value>(data)) {
        let met = serde_json::from_slice::<Value>(stripped);
        assert_eq!(
            met.ok().as_ref(),
            Some(&without_environment(&value)),
            "cut out of the bytes, and of the value"
        );
        let pointer = "/attributes/system/environment";
        assert!(without_environment(&value).pointer(pointer).is_none());
        update(value);
    }
}

fn bounded(jobspec: &Jobspec) {
    assert!(
        (1..=COUNT_MAX).contains(&jobspec.nslots),
        "{}",
        jobspec.nslots
    );
    assert!(
        (1..=COUNT_MAX).contains(&jobspec.ntasks),
        "{}",
        jobspec.ntasks
    );
    assert!(
        jobspec
            .nodes
            .is_none_or(|nodes| (1..=jobspec.nslots).contains(&nodes))
    );
    assert!(jobspec.ncores().is_none_or(|cores| cores > 0));
    assert!(!jobspec.command.is_empty());
    assert!(jobspec.duration.is_finite() && jobspec.duration >= 0.0);
}

/// Two updates: one may fail, and then nothing is changed.
fn update(mut value: Value) {
    let before = value.clone();
    let updates: Map = [("attributes.system.duration", 5), ("a.b.c", 6)]
        .map(|(path, value)| (path.to_owned(), Value::from(value)))
        .into_iter()
        .collect();
    match apply_updates(&mut value, &updates) {
        Ok(()) => {
            assert_eq!(
                value.pointer("/attributes/system/duration"),
                Some(&Value::from(5))
            );
            assert_eq!(value.pointer("/a/b/c"), Some(&Value::from(6)));
        }
        Err(_) => assert_eq!(value, before, "a refused update changed something"),
    }
}
