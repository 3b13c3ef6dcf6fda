//! The command line of weir: `weir submit`, `weir jobs`, `weir start` and the others, as a library so that tests can reach it.
//!
//! ```text
//! cli            which commands there are                cmd/*        one command a file, its doc is its help
//! connect uri    a session with an instance              attach/      following one job: output, input, status
//! listing row    asking for jobs, what a job is          format/      the columns of a listing
//! jobspec/       options to a jobspec                    supervise/   keeping the daemons of 'weir start' running
//! submission     many jobs over one connection         bulk/        inputs and blanks of bulksubmit
//! failure        one line and an exit status             output text  terminals, colours, widths
//! document       the one JSON document of --json, also of a failure
//! ```
//! A command is one short conversation over one connection on a single-threaded runtime; nothing is read or started that the
//! command does not need, so that the whole process takes a few milliseconds.
//!
//! Invariants: what comes from a job reaches a terminal escaped; an error is one line on standard error that names the thing
//! and the remedy; a JSON document has the same keys and types whatever was found.

pub mod attach;
pub mod backoff;
pub mod bar;
pub mod bulk;
pub mod cli;
pub mod cmd;
pub mod connect;
pub mod cursorfile;
pub mod described;
pub mod document;
pub mod each;
pub mod eventtext;
pub mod failure;
pub mod format;
pub mod ids;
pub mod jobspec;
pub mod limit;
pub mod listing;
pub mod locale;
pub mod lock;
pub mod nodes;
pub mod outage;
pub mod outcome;
pub mod output;
pub mod query;
pub mod queues;
pub mod row;
pub mod stats;
pub mod status;
pub mod submission;
pub mod supervise;
pub mod table;
pub mod text;
pub mod uri;
pub mod users;
pub mod when;

use clap::error::ErrorKind;

/// Runs the command line `words` (the program's name first) and gives the status to exit with.
#[must_use]
pub fn run(words: Vec<std::ffi::OsString>) -> u8 {
    let cli = match cli::parse(&words) {
        Ok(cli) => cli,
        Err(error) => {
            let shown = matches!(
                error.kind(),
                ErrorKind::DisplayHelp
                    | ErrorKind::DisplayVersion
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            if shown {
                // A closed pipe is all that can be wrong, and nobody is there to tell.
                let _ = error.print();
                return u8::try_from(error.exit_code()).unwrap_or(failure::USAGE);
            }
            let words: Vec<String> = words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            return failure::report_usage(&cli::command_words(&words), &words, &error);
        }
    };
    let name = cli.command.name();
    failure::set_command(name);
    match cli.command.run() {
        Ok(()) => 0,
        Err(error) => {
            if cli.command.json() {
                document::print_failure(name, &error);
            }
            failure::report(name, &error)
        }
    }
}
