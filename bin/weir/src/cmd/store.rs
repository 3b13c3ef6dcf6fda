//! `weir store …`: look at the store of an instance, copy it, or make a new one from what is left of it.
//!
//! Works on the files of a state directory, not through the instance: `check` and `backup` beside a running one, `recover` only on one that is
//! stopped (it takes the lock). Who may read the directory may do it: its owner.

use crate::document;
use crate::failure::Exit;
use crate::output;
use crate::text::escape;
use crate::{ids, uri};
use anyhow::Context as _;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The status of a check that found damage, and of a recovery that lost something.
const DAMAGED: u8 = 3;

/// Check, back up or recover the store of an instance
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
EXAMPLES
  weir store check
  weir store backup /backup/weir.sqlite
  weir store recover --statedir=/var/lib/weir

EXIT STATUS
  0  done; 1 refused, or no instance; 2 the command line is wrong
  The --help of each command says more.")]
#[allow(missing_docs, reason = "each is described where its arguments are")]
pub enum StoreCommand {
    Check(Check),
    Backup(Backup),
    Recover(Recover),
}

/// Which store; the argument all share.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// State directory [default: that of WEIR_URI's instance, else the default one]
    #[arg(long, value_name = "DIR")]
    statedir: Option<PathBuf>,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Look at all of a store and name what is damaged
///
/// What the schema has, the write-ahead log frame by frame and whether it lost its end, every page of the file, every line of the log, and
/// every job: that its columns, jobspec, resources and eventlog can be read, that its events apply one after the other, and that log
/// and archive say the same. Nothing is changed. A running instance is not
/// held up. Jobs that cannot be used are set aside by the instance when it meets them: neither listed nor run. 'weir job purge ID'
/// removes one; 'weir store recover' makes a new store of all that can be read.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir store check
  weir store check --json | jq '.problems[] | select(.id)'

JSON
  {\"file\":…,\"sound\":bool,\"epoch\":…,\"schema\":N,\"seq\":N,\"floor\":N,\"entries\":N,\"jobs\":N,
   \"active\":N,\"set_aside\":[ID…],\"problems\":[{\"place\":…,\"id\":ID|null,\"what\":…}…],
   \"more\":N,\"errors\":[…]}
  set_aside: jobs that cannot be used
  place is one of schema, wal, pages, log, job, tail, instancelog, blob, meta

EXIT STATUS
  0  the store is sound
  1  it cannot be looked at: not there, not readable, of a newer release
  2  the command line is wrong
  3  damage was found; of each kind a thousand are named, 'more' counts the rest")]
pub struct Check {
    #[command(flatten)]
    which: Which,
}

/// Copy a store into one file
///
/// The copy is of one moment; a running instance goes on meanwhile. To restore it, stop the instance and put the file in place of
/// 'store.sqlite', without -wal and -shm beside it (with one, the start is refused). The restored store has a new epoch: what happened after the copy is not in
/// it, so listeners are told to read it anew. Outputs of jobs are files below 'jobs' and are not part of the copy.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir store backup /backup/weir-$(date +%F).sqlite

JSON
  {\"file\":…,\"bytes\":N,\"epoch\":…,\"seq\":N,\"errors\":[…]}

EXIT STATUS
  0  copied and synced
  1  not: no store, a file of that name is there, no room; nothing is left of it
  2  the command line is wrong")]
pub struct Backup {
    /// The file to make; it must not be there yet
    #[arg(value_name = "FILE")]
    to: PathBuf,

    #[command(flatten)]
    which: Which,
}

/// Make a new store from all that can be read of a damaged one
///
/// For an instance that is stopped. Every page of the old file is read; an entry that is lost in one place is taken from another. The new
/// store takes the old one's place, the old one is kept as 'store.sqlite.damaged-1' (-2 …). What is lost is named. If an entry is
/// missing, the file is a copy put in place, or its own structure was broken, the new store has a new epoch: listeners are told to
/// read it anew. It needs as much room as the old one, twice. Killed at any moment, it can be run again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir store check || weir store recover

JSON
  {\"file\":…,\"kept\":…,\"epoch\":…,\"new_epoch\":bool,\"seq\":N,\"floor\":N,\"jobs\":N,
   \"lost_jobs\":[{\"id\":ID,\"why\":…}…],\"lost_entries\":[[FIRST,LAST]…],\"errors\":[…]}

EXIT STATUS
  0  recovered, nothing is lost
  1  nothing was recovered, the old store is as it was: in use, no store, no room
  2  the command line is wrong
  3  recovered but for what is named")]
pub struct Recover {
    #[command(flatten)]
    which: Which,
}

impl StoreCommand {
    /// The command's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Check(_) => "store check",
            Self::Backup(_) => "store backup",
            Self::Recover(_) => "store recover",
        }
    }

    /// True if one JSON document is asked for.
    #[must_use]
    pub fn json(&self) -> bool {
        match self {
            Self::Check(args) => args.which.json,
            Self::Backup(args) => args.which.json,
            Self::Recover(args) => args.which.json,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// The store cannot be read, or the copy not be written.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Check(args) => check(args),
            Self::Backup(args) => backup(args),
            Self::Recover(args) => recover(args),
        }
    }
}

impl Which {
    fn statedir(&self) -> anyhow::Result<PathBuf> {
        let dir = match &self.statedir {
            Some(dir) => dir.clone(),
            None => uri::Place::find()?.statedir().to_owned(),
        };
        let metadata = std::fs::metadata(&dir).with_context(|| {
            format!(
                "{}: no state directory; name one with --statedir",
                dir.display()
            )
        })?;
        anyhow::ensure!(
            metadata.is_dir(),
            "{}: not a directory; name a state directory with --statedir",
            dir.display()
        );
        let user = rustix::process::geteuid().as_raw();
        anyhow::ensure!(
            metadata.uid() == user,
            "{}: belongs to user {}, and you are user {user}: this is for its owner",
            dir.display(),
            metadata.uid()
        );
        Ok(dir)
    }
}

/// How far it is, on a terminal.
struct Bar(Option<ProgressBar>);

impl Bar {
    fn new() -> anyhow::Result<Self> {
        if !output::stderr_is_terminal() {
            return Ok(Self(None));
        }
        let style = ProgressStyle::with_template("{msg:<8} {wide_bar} {percent}%")?;
        Ok(Self(Some(ProgressBar::new(0).with_style(style))))
    }

    fn at(&self, what: &str, done: u64, of: u64) {
        if let Some(bar) = &self.0 {
            if bar.message() != what {
                bar.set_message(what.to_owned());
            }
            bar.set_length(of);
            bar.set_position(done);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn check(args: &Check) -> anyhow::Result<()> {
    let file = args.which.statedir()?.join(store::FILE_NAME);
    let bar = Bar::new()?;
    let report = store::check(&file, &mut |what, done, of| bar.at(what, done, of))?;
    drop(bar);
    let mut out = output::stdout();
    if args.which.json {
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|one| match one.job {
                Some(id) => json!({"place": one.place, "id": id, "what": one.what}),
                None => json!({"place": one.place, "id": null, "what": one.what}),
            })
            .collect();
        let document = json!({
            "file": file, "sound": report.problems.is_empty(), "epoch": report.epoch, "schema": report.schema,
            "seq": report.newest_seq.0, "floor": report.floor.0, "entries": report.entries, "jobs": report.jobs,
            "active": report.active, "set_aside": report.set_aside(), "problems": problems, "more": report.more, "errors": [],
        });
        document::print(&document)?;
    } else {
        writeln!(
            out,
            "{}: epoch {}, schema {}, seq {} (log from {}), {} jobs, {} active",
            escape(&file.to_string_lossy()),
            escape(&report.epoch),
            report.schema,
            report.newest_seq,
            report.floor.next(),
            report.jobs,
            report.active
        )?;
        for one in &report.problems {
            let job = one
                .job
                .map_or_else(String::new, |id| format!(" {}:", ids::show(id)));
            writeln!(out, "{}:{job} {}", one.place, escape(&one.what))?;
        }
        if report.more > 0 {
            writeln!(out, "and {} more", report.more)?;
        }
        if report.wal_torn > 0 {
            writeln!(
                out,
                "the write-ahead log ends with {} pages of a commit that is not whole: told to nobody, no damage",
                report.wal_torn
            )?;
        }
        let aside = report.set_aside().len();
        if report.problems.is_empty() {
            writeln!(out, "sound")?;
        } else if aside > 0 {
            writeln!(
                out,
                "damaged; {}: 'weir job purge ID' removes one, or stop the instance and try 'weir store recover'",
                if aside == 1 {
                    "1 job cannot be used and is set aside".to_owned()
                } else {
                    format!("{aside} jobs cannot be used and are set aside")
                }
            )?;
        } else {
            writeln!(
                out,
                "damaged; stop the instance and try 'weir store recover'"
            )?;
        }
    }
    out.flush()?;
    if report.problems.is_empty() {
        Ok(())
    } else {
        Err(Exit(DAMAGED).into())
    }
}

fn backup(args: &Backup) -> anyhow::Result<()> {
    let file = args.which.statedir()?.join(store::FILE_NAME);
    let copied = store::backup(&file, &args.to)?;
    let mut out = output::stdout();
    if args.which.json {
        let document = json!({"file": args.to, "bytes": copied.bytes, "epoch": copied.epoch, "seq": copied.newest_seq.0, "errors": []});
        document::print(&document)?;
    } else {
        writeln!(
            out,
            "{}: {} bytes, up to seq {}",
            escape(&args.to.to_string_lossy()),
            copied.bytes,
            copied.newest_seq
        )?;
    }
    out.flush()?;
    Ok(())
}

fn recover(args: &Recover) -> anyhow::Result<()> {
    let dir = args.which.statedir()?;
    let bar = Bar::new()?;
    let done = store::salvage(&dir, &mut |what, done, of| bar.at(what, done, of))?;
    drop(bar);
    let file = dir.join(store::FILE_NAME);
    let mut out = output::stdout();
    if args.which.json {
        let lost_jobs: Vec<_> = done
            .lost_jobs
            .iter()
            .map(|(id, why)| json!({"id": id, "why": why}))
            .collect();
        let lost_entries: Vec<_> = done
            .lost_entries
            .iter()
            .map(|(first, last)| json!([first.0, last.0]))
            .collect();
        let document = json!({
            "file": file, "kept": done.kept, "epoch": done.epoch, "new_epoch": done.new_epoch, "seq": done.newest_seq.0,
            "floor": done.floor.0, "jobs": done.jobs, "lost_jobs": lost_jobs, "lost_entries": lost_entries, "errors": [],
        });
        document::print(&document)?;
    } else {
        say(&mut out, &file, &done)?;
    }
    out.flush()?;
    if done.lost_jobs.is_empty() && done.lost_entries.is_empty() {
        Ok(())
    } else {
        Err(Exit(DAMAGED).into())
    }
}

fn say(out: &mut output::Out, file: &Path, done: &store::Salvaged) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: {} jobs, up to seq {}; the old one is {}",
        escape(&file.to_string_lossy()),
        done.jobs,
        done.newest_seq,
        escape(&done.kept.to_string_lossy())
    )?;
    for (id, why) in &done.lost_jobs {
        writeln!(out, "lost: job {}: {}", ids::show(*id), escape(why))?;
    }
    for (first, last) in &done.lost_entries {
        writeln!(out, "lost: entries {first} to {last}")?;
    }
    if done.new_epoch {
        writeln!(
            out,
            "the new store has epoch {}: listeners are told to read it anew",
            done.epoch
        )?;
    }
    Ok(())
}
