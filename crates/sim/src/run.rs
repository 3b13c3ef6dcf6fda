//! Many seeds, over some threads; and the directory that job-info reads its key from.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::violation::Violation;
use crate::world::{Counts, KEY, World};

/// What became of a seed.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Which.
    pub seed: u64,
    /// Steps taken.
    pub steps: usize,
    /// What was counted.
    pub counts: Counts,
    /// The sum of its trace.
    pub sum: u64,
    /// What it found.
    pub violation: Option<Violation>,
}

impl Ran {
    /// For people: what became of it, and the line that runs it again.
    #[must_use]
    pub fn told(&self) -> String {
        match &self.violation {
            None => format!(
                "seed {}: all promises kept in {} steps; {:?}; trace {:016x}",
                self.seed, self.steps, self.counts, self.sum
            ),
            Some(violation) => format!(
                "seed {} broke a promise at step {}: {violation}\n  cargo run -p sim -- --seed {} --trace",
                self.seed, self.steps, self.seed
            ),
        }
    }
}

/// A directory of this process with the key of every simulated instance in it; gone when dropped.
#[derive(Debug)]
pub struct KeyDir(PathBuf);

impl KeyDir {
    /// Makes it.
    /// # Errors
    /// Those of the file system.
    pub fn make() -> std::io::Result<KeyDir> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-sim-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path)?;
        std::fs::write(path.join("key"), KEY)?;
        Ok(KeyDir(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for KeyDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs one seed. With `rounds`, no more than so many; `trace` prints every step.
#[must_use]
pub fn one(seed: u64, dir: &Path, trace: bool) -> Ran {
    let mut world = World::new(seed, dir.to_owned(), trace);
    let violation = world.run().err();
    Ran {
        seed,
        steps: world.steps(),
        counts: world.counts(),
        sum: world.sum(),
        violation,
    }
}

/// How many seeds are run, and when to stop.
#[derive(Debug, Clone)]
pub struct Soak {
    /// Which.
    pub seeds: RangeInclusive<u64>,
    /// Not after this.
    pub until: Option<Instant>,
    /// Threads.
    pub threads: usize,
    /// Go on after a violation.
    pub keep_going: bool,
}

/// Runs them; `ran` is told of each as it ends, in no order. The violations come back, by seed.
pub fn many(soak: &Soak, dir: &Path, ran: impl Fn(&Ran) + Sync) -> Vec<Ran> {
    let next = AtomicU64::new(*soak.seeds.start());
    let stop = AtomicBool::new(false);
    let found: Mutex<Vec<Ran>> = Mutex::new(Vec::new());
    let work = || {
        while !stop.load(Ordering::Relaxed) && soak.until.is_none_or(|until| Instant::now() < until)
        {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > *soak.seeds.end() {
                return;
            }
            let one = one(seed, dir, false);
            ran(&one);
            if one.violation.is_some() {
                if !soak.keep_going {
                    stop.store(true, Ordering::Relaxed);
                }
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.push(one);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..soak.threads.max(1) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|one| one.seed);
    found
}
