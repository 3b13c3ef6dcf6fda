//! How a command ends when it does not end well: one line on standard error, and an exit status.
//!
//! | status | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | refused, failed or incomplete; the line on standard error says what and what to do |
//! | 2 | the command line itself is wrong; a text where a job id should be, too |
//! | 75 | the instance was shut down while the command waited for something |
//! | other | the status of the job or command that was run (`run`, `job attach`, `job status`, `start CMD`) |
//!
//! With `--json` what went wrong is in the document as well (see [`crate::document`]).
//!
//! A reader that closes our output early (`weir jobs | head -1`) is no failure: the command ends quietly with status 0.

use crate::outage::Gone;
use std::fmt;
use std::io;
use std::sync::OnceLock;

/// The status of a command line that is wrong.
pub const USAGE: u8 = 2;

static COMMAND: OnceLock<String> = OnceLock::new();

/// Remembers which command this process runs, for messages of what all commands share.
pub fn set_command(name: &str) {
    // There is one a process; in tests the first stays.
    let _ = COMMAND.set(name.to_owned());
}

/// `wait: `, or nothing as long as no command is known.
#[must_use]
pub fn lead() -> String {
    COMMAND
        .get()
        .filter(|name| !name.is_empty())
        .map_or_else(String::new, |name| format!("{name}: "))
}

/// The status of a command whose instance was shut down while it waited (EX_TEMPFAIL): what it waited for is still to come.
pub const STATUS_GONE: u8 = 75;

/// A command ends with this status and has said all there is to say.
#[derive(Debug)]
pub struct Exit(pub u8);

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit status {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// An argument that clap took but that makes no sense; ends with status 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error with status 2, as [`anyhow::Error`].
#[must_use]
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Usage(text.into()))
}

/// Says what went wrong with `command` and gives the status to exit with.
pub fn report(command: &str, error: &anyhow::Error) -> u8 {
    if let Some(Exit(status)) = error.downcast_ref::<Exit>() {
        return *status;
    }
    if is_broken_pipe(error) {
        return 0;
    }
    let text = text(error);
    if command.is_empty() {
        crate::output::complain(&text);
    } else {
        crate::output::complain(&format!("{command}: {text}"));
    }
    if error.downcast_ref::<Usage>().is_some() {
        USAGE
    } else if error.downcast_ref::<Gone>().is_some() {
        STATUS_GONE
    } else {
        1
    }
}

/// True if the error is that nobody reads our output any more.
#[must_use]
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// The error and its causes as one line; a cause that the text before it ends with already is not said twice.
#[must_use]
pub fn text(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let cause = one_line(&cause.to_string());
        if said.is_empty() {
            said = cause;
        } else if !said.ends_with(&cause) {
            said.push_str(": ");
            said.push_str(&cause);
        }
    }
    said
}

/// The text with its line breaks turned into spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What clap says about a wrong command line, as one line with the remedy: `weir: jobs: unexpected argument '--x' found; see
/// 'weir jobs --help'`. With `--json` among the words the document says so, too.
pub fn report_usage(command: &str, words: &[String], error: &clap::Error) -> u8 {
    // What is not a command has no help of its own.
    let command = match (error.kind(), command.rsplit_once(' ')) {
        (clap::error::ErrorKind::InvalidSubcommand, Some((parent, _))) => parent,
        (clap::error::ErrorKind::InvalidSubcommand, None) => "",
        _ => command,
    };
    // The words of Rust's own parsers tell nobody what to type.
    let text = error
        .render()
        .to_string()
        .replace("invalid digit found in string", "expected a whole number")
        .replace(
            "cannot parse integer from empty string",
            "expected a whole number",
        )
        .replace(
            "number too large to fit in target type",
            "expected a smaller number",
        )
        .replace("invalid float literal", "expected a number");
    let mut said = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let line = line.strip_prefix("error:").unwrap_or(line).trim();
        if let Some(tip) = line.strip_prefix("tip:") {
            said.push(format!("({})", tip.trim()));
        } else if !line.is_empty() {
            said.push(line.to_owned());
        }
    }
    if error.kind() == clap::error::ErrorKind::InvalidSubcommand
        && let Some(word) = words.iter().skip(1).find(|word| !word.starts_with('-'))
        && let Some(place) = crate::cli::place_of(word)
    {
        crate::output::complain(&format!(
            "there is no command '{word}'; did you mean 'weir {place}'? See 'weir {place} --help'"
        ));
        return USAGE;
    }
    let see = if command.is_empty() {
        "weir --help".to_owned()
    } else {
        format!("weir {command} --help")
    };
    let lead = if command.is_empty() {
        String::new()
    } else {
        format!("{command}: ")
    };
    let said = one_line(&said.join(" "));
    if words.iter().any(|word| word == "--json") {
        crate::document::print_usage(command, said.clone());
    }
    crate::output::complain(&format!("{lead}{said}; see '{see}'"));
    USAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn an_error_is_one_line_and_a_closed_pipe_is_quiet() {
        assert_eq!(one_line("two\nlines  here"), "two lines here");
        let inner = io::Error::from(io::ErrorKind::NotFound);
        let outer = anyhow::Error::new(inner).context("cannot write x: entity not found");
        assert_eq!(
            text(&outer.context("y")),
            "y: cannot write x: entity not found"
        );
        let closed = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe))
            .context("failed to print")
            .unwrap_err();
        assert_eq!(report("jobs", &closed), 0);
        assert_eq!(report("jobs", &anyhow::Error::new(Exit(7))), 7);
        assert_eq!(report("jobs", &usage("x")), USAGE);
    }
}
