//! Every target over the corpus kept in the tree, and over random bytes for a few seconds: what `make check` runs of the fuzzers.

#![allow(clippy::unwrap_used, clippy::panic)]

use fuzzed::{TARGETS, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// All corpora together may have so many bytes.
const CORPORA_BYTES_MAX: u64 = 512 << 10;
/// How long each target gets random bytes.
const RANDOM_FOR: Duration = Duration::from_millis(1500);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder().join("corpus").join(target.name);
    let mut inputs: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn the_corpora_are_replayed_without_a_finding() {
    let mut bytes = 0;
    for target in &TARGETS {
        let inputs = inputs(target);
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for (path, input) in inputs {
            bytes += input.len() as u64;
            let met = std::panic::catch_unwind(|| (target.check)(&input));
            assert!(met.is_ok(), "finding: {}", path.display());
        }
    }
    assert!(
        bytes <= CORPORA_BYTES_MAX,
        "{bytes} bytes of corpora: minimise them (cargo fuzz cmin)"
    );
}

#[test]
fn random_bytes_and_inputs_cut_and_joined_are_no_finding() {
    for target in &TARGETS {
        let corpus: Vec<Vec<u8>> = inputs(target).into_iter().map(|(_, input)| input).collect();
        let random = prop::collection::vec(any::<u8>(), 0..200);
        let piece = (
            prop::sample::select(corpus),
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
        )
            .prop_map(|(input, a, b)| {
                let (a, b) = (a.index(input.len() + 1), b.index(input.len() + 1));
                input[a.min(b)..a.max(b)].to_vec()
            });
        let joined = prop::collection::vec(prop_oneof![3 => piece, 1 => random], 1..4)
            .prop_map(|pieces| pieces.concat());
        let started = Instant::now();
        while started.elapsed() < RANDOM_FOR {
            let mut runner = TestRunner::new(Config {
                cases: 64,
                failure_persistence: None,
                ..Config::default()
            });
            let met = runner.run(&joined, |input| {
                (target.check)(&input);
                Ok(())
            });
            met.unwrap_or_else(|error| panic!("{}: {error}", target.name));
        }
    }
}

#[test]
fn every_target_has_its_program_and_its_words() {
    for target in &TARGETS {
        let program = folder().join(format!("fuzz_targets/{}.rs", target.name));
        let text = std::fs::read_to_string(&program).unwrap();
        assert!(
            text.contains(&format!("fuzzed::{}::check", target.name)),
            "{}",
            program.display()
        );
        let words = folder().join(format!("dict/{}", target.name));
        assert!(words.exists(), "{} is not there", words.display());
    }
}
