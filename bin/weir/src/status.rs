//! What a wait status means to a person, and which exit status stands for it.
//!
//! A status is what wait(2) gives: exit code N is `N << 8`, death by signal N is N. A shell reports a task's death by a signal
//! as exit code 128 + N; that is shown as the signal it was.

use job::waitstatus::{Ended, WaitStatus, signal_text};

/// The exit status of a command that reports this job's status: the code, or 128 + signal.
#[must_use]
pub fn exit_status(status: i32) -> u8 {
    WaitStatus(status).exit_code()
}

/// `Exit 3`, `Signaled: Killed`: for a column.
#[must_use]
pub fn describe(status: i32) -> String {
    match by_signal(status) {
        Ended::Signaled(signal) => format!("Signaled: {}", signal_text(signal)),
        Ended::Exited(code) => format!("Exit {code}"),
    }
}

/// A whole sentence part: `exited with exit code 3`, `was killed by signal 9 (Killed)`; `None` for success.
#[must_use]
pub fn sentence(status: i32) -> Option<String> {
    match by_signal(status) {
        Ended::Signaled(signal) => Some(format!(
            "was killed by signal {signal} ({})",
            signal_text(signal)
        )),
        Ended::Exited(0) => None,
        Ended::Exited(126) => {
            Some("exited with exit code 126 (the command cannot be executed)".to_owned())
        }
        Ended::Exited(127) => {
            Some("exited with exit code 127 (the command was not found)".to_owned())
        }
        Ended::Exited(code) => Some(format!("exited with exit code {code}")),
    }
}

/// How it ended, an exit code that reports a signal being taken as that signal.
fn by_signal(status: i32) -> Ended {
    match WaitStatus(status).ended() {
        Ended::Exited(code @ 129..=192) => Ended::Signaled(code - 128),
        ended => ended,
    }
}

/// A signal from its name, with or without SIG, or its number.
///
/// # Errors
/// The text names no signal.
pub fn signal_number(text: &str) -> Result<i64, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((number, _)) = NAMES.iter().find(|(_, known)| *known == name) {
        return Ok(i64::from(*number));
    }
    match text.parse() {
        Ok(number) if (1..=64).contains(&number) => Ok(number),
        _ => Err(format!(
            "'{text}' is no signal; expected a name such as TERM or USR1, or a number from 1 to 64"
        )),
    }
}

/// Number and name of Linux's signals.
const NAMES: [(u8, &str); 31] = [
    (1, "HUP"),
    (2, "INT"),
    (3, "QUIT"),
    (4, "ILL"),
    (5, "TRAP"),
    (6, "ABRT"),
    (7, "BUS"),
    (8, "FPE"),
    (9, "KILL"),
    (10, "USR1"),
    (11, "SEGV"),
    (12, "USR2"),
    (13, "PIPE"),
    (14, "ALRM"),
    (15, "TERM"),
    (16, "STKFLT"),
    (17, "CHLD"),
    (18, "CONT"),
    (19, "STOP"),
    (20, "TSTP"),
    (21, "TTIN"),
    (22, "TTOU"),
    (23, "URG"),
    (24, "XCPU"),
    (25, "XFSZ"),
    (26, "VTALRM"),
    (27, "PROF"),
    (28, "WINCH"),
    (29, "IO"),
    (30, "PWR"),
    (31, "SYS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_shown_and_returned_as_a_shell_would() {
        assert_eq!(
            (
                exit_status(0),
                exit_status(3 << 8),
                exit_status(9),
                exit_status(143 << 8)
            ),
            (0, 3, 137, 143)
        );
        assert_eq!(describe(3 << 8), "Exit 3");
        assert_eq!(describe(9), "Signaled: Killed");
        assert_eq!(describe(143 << 8), "Signaled: Terminated");
        assert_eq!(sentence(0), None);
        assert_eq!(
            sentence(127 << 8).unwrap(),
            "exited with exit code 127 (the command was not found)"
        );
        assert_eq!(sentence(255 << 8).unwrap(), "exited with exit code 255");
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(
            (
                signal_number("TERM"),
                signal_number("sigusr1"),
                signal_number("9")
            ),
            (Ok(15), Ok(10), Ok(9))
        );
        assert!(signal_number("0").is_err());
        assert!(
            signal_number("65")
                .unwrap_err()
                .contains("'65' is no signal")
        );
        assert!(signal_number("NOPE").is_err());
    }
}
