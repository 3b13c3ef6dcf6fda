//! The simulator's program: many seeds, or one with every step printed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use sim::run::{self, KeyDir, Soak};

/// Runs job-manager, job-info and an engine in one thread with a faulty disk and cut links, and checks the promises of the journal.
///
/// What happens follows from the seed alone: a seed that fails can be run again, with --trace to see every step.
#[derive(Debug, Parser)]
#[command(name = "sim")]
struct Args {
    /// Seeds to run, as FROM..TO (TO included); or FROM.. for as long as --minutes says
    #[arg(long, value_name = "FROM..TO", default_value = "1..300", value_parser = seeds)]
    seeds: (u64, u64),
    /// Run this seed only
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print every step (with --seed)
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Go on after a seed that fails
    #[arg(long)]
    keep_going: bool,
    /// Stop after so many minutes
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Break the cores: fsync-wait, fan-out-before-commit, forget-epoch or skip-purge-entry
    #[cfg(feature = "sabotage")]
    #[arg(long, value_name = "WHAT")]
    sabotage: Option<String>,
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("expected FROM..TO, got {text:?}");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let from = from.parse().map_err(|_| wrong())?;
    let to = if to.is_empty() {
        u64::MAX
    } else {
        to.parse().map_err(|_| wrong())?
    };
    if to < from {
        return Err(format!("{to} is before {from}"));
    }
    Ok((from, to))
}

#[expect(clippy::print_stdout, reason = "a program")]
fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let dir = KeyDir::make().context("no place for the key of the simulated instances")?;
    if let Some(seed) = args.seed {
        let ran = run::one(seed, dir.path(), args.trace);
        println!("{}", ran.told());
        return Ok(code(ran.violation.is_none()));
    }
    let (from, to) = args.seeds;
    let until = args
        .minutes
        .map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    anyhow::ensure!(
        to < u64::MAX || until.is_some(),
        "--seeds {from}.. has no end: say --minutes too"
    );
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into))
        .unwrap_or(1);
    let soak = Soak {
        seeds: from..=to,
        until,
        threads,
        keep_going: args.keep_going,
    };
    let bar = bar(&args);
    let (steps, entries, faults) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicU64::new(0);
    let begun = Instant::now();
    let found = run::many(&soak, dir.path(), |ran| {
        steps.fetch_add(ran.steps as u64, Ordering::Relaxed);
        entries.fetch_add(ran.counts.entries, Ordering::Relaxed);
        faults.fetch_add(ran.counts.faults, Ordering::Relaxed);
        done.fetch_add(1, Ordering::Relaxed);
        bar.inc(1);
        if ran.violation.is_some() {
            bar.suspend(|| println!("{}", ran.told()));
        }
    });
    bar.finish_and_clear();
    let seconds = begun.elapsed().as_secs_f64();
    let count = done.into_inner();
    println!(
        "{count} seeds in {seconds:.1} s ({:.0} a minute): {} steps, {} entries, {} faults; {} failed",
        count as f64 / seconds * 60.0,
        steps.into_inner(),
        entries.into_inner(),
        faults.into_inner(),
        found.len()
    );
    Ok(code(found.is_empty()))
}

fn bar(args: &Args) -> ProgressBar {
    let bar = match args.seeds {
        (_, u64::MAX) => ProgressBar::new_spinner(),
        (from, to) => ProgressBar::new(to - from + 1),
    };
    let template = if args.seeds.1 == u64::MAX {
        "{pos} seeds, {per_sec}, {elapsed_precise}"
    } else {
        "{wide_bar} {pos}/{len} seeds, {per_sec}, {eta} left"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
