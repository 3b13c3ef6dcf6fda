//! The two ends of the terminal: a buffered standard output, colours, and one line on standard error.
//!
//! Colours only when the stream is a terminal, `NO_COLOR` is empty or unset and `TERM` is not `dumb`. A closed pipe shows up
//! as an error of kind `BrokenPipe` from the writer and ends the program quietly (see [`crate::failure`]).

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, PoisonError};

/// Bytes gathered before a write to standard output.
const STDOUT_BUFFER_BYTES: usize = 64 * 1024;
/// Columns assumed when the terminal does not say.
const COLUMNS_DEFAULT: usize = 80;

/// Standard output, buffered whatever it is connected to. The caller flushes.
pub type Out = BufWriter<StdoutLock<'static>>;

/// Locks standard output for the rest of the command.
#[must_use]
pub fn stdout() -> Out {
    BufWriter::with_capacity(STDOUT_BUFFER_BYTES, io::stdout().lock())
}

/// What was said last on standard error, for the document of `--json`.
static SAID: Mutex<Option<String>> = Mutex::new(None);

/// What [`complain`] said last.
#[must_use]
pub fn said_last() -> Option<String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// One line on standard error, `weir: TEXT`; control characters are escaped, so it stays one line.
pub fn complain(text: &str) {
    *SAID.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    let _ = writeln!(io::stderr().lock(), "weir: {}", crate::text::escape(text));
}

/// True if standard output is a terminal.
#[must_use]
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// True if standard error is a terminal.
#[must_use]
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Columns of the terminal at standard output.
#[must_use]
pub fn columns() -> usize {
    let said = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    said.or_else(|| {
        rustix::termios::tcgetwinsize(io::stdout())
            .ok()
            .map(|size| usize::from(size.ws_col))
    })
    .filter(|columns| *columns > 0)
    .unwrap_or(COLUMNS_DEFAULT)
}

/// When to colour: the argument of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum When {
    /// When standard output is a terminal and NO_COLOR is not set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl When {
    /// The answer for standard output.
    #[must_use]
    pub fn for_stdout(self) -> Palette {
        Palette {
            on: match self {
                Self::Always => true,
                Self::Never => false,
                Self::Auto => stdout_is_terminal() && environment_allows(),
            },
        }
    }
}

fn environment_allows() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A colour of the palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Headings.
    Bold,
    /// What is less important.
    Dim,
    /// Running.
    Green,
    /// Waiting.
    Yellow,
    /// Went wrong.
    Red,
    /// Names of things.
    Cyan,
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    on: bool,
}

impl Palette {
    /// No colours.
    pub const PLAIN: Self = Self { on: false };

    /// Appends the text in that colour.
    pub fn paint(self, out: &mut String, paint: Paint, text: &str) {
        out.push_str(self.start(paint));
        out.push_str(text);
        out.push_str(self.end());
    }

    /// The sequence that starts a colour; empty without colours.
    #[must_use]
    pub fn start(self, paint: Paint) -> &'static str {
        if !self.on {
            return "";
        }
        match paint {
            Paint::Bold => "\x1b[1m",
            Paint::Dim => "\x1b[2m",
            Paint::Green => "\x1b[32m",
            Paint::Yellow => "\x1b[33m",
            Paint::Red => "\x1b[31m",
            Paint::Cyan => "\x1b[36m",
        }
    }

    /// The sequence that ends a colour; empty without colours.
    #[must_use]
    pub fn end(self) -> &'static str {
        if self.on { "\x1b[0m" } else { "" }
    }
}
