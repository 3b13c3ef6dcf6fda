//! What a wait status says. wait(2) style: exit code N is N*256, killed by signal N is N.

use std::fmt;

/// A wait status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitStatus(pub i32);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It returned this code.
    Exited(u8),
    /// This signal killed it.
    Signaled(u8),
}

/// Highest exit code that is not the report of a signal.
const EXIT_PLAIN_MAX: u8 = 128;

impl WaitStatus {
    /// The status of a process that returned `code`.
    #[must_use]
    pub fn exited(code: u8) -> WaitStatus {
        WaitStatus(i32::from(code) << 8)
    }

    /// The status of a process that `signal` killed.
    #[must_use]
    pub fn signaled(signal: u8) -> WaitStatus {
        WaitStatus(i32::from(signal & 0x7f))
    }

    /// How the process ended.
    #[must_use]
    pub fn ended(self) -> Ended {
        match (self.0 & 0x7f) as u8 {
            0 => Ended::Exited(((self.0 >> 8) & 0xff) as u8),
            signal => Ended::Signaled(signal),
        }
    }

    /// Whether the process returned 0.
    #[must_use]
    pub fn success(self) -> bool {
        self.0 == 0
    }

    /// What a command that ran this job returns: the code, or 128 and the signal.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self.ended() {
            Ended::Exited(code) => code,
            Ended::Signaled(signal) => EXIT_PLAIN_MAX + signal,
        }
    }
}

impl fmt::Display for WaitStatus {
    /// Empty for success; `task(s) exited with exit code 1`, `task(s) Terminated`, `job shell Killed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ended() {
            Ended::Exited(0) => Ok(()),
            Ended::Exited(code) if code > EXIT_PLAIN_MAX => {
                write!(f, "task(s) {}", signal_text(code - EXIT_PLAIN_MAX))
            }
            Ended::Exited(code) => write!(f, "task(s) exited with exit code {code}"),
            Ended::Signaled(signal) => write!(f, "job shell {}", signal_text(signal)),
        }
    }
}

/// What the system calls a signal.
#[must_use]
pub fn signal_text(signal: u8) -> &'static str {
    match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        16 => "Stack fault",
        17 => "Child exited",
        18 => "Continued",
        19 => "Stopped (signal)",
        20 => "Stopped",
        21 => "Stopped (tty input)",
        22 => "Stopped (tty output)",
        23 => "Urgent I/O condition",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        26 => "Virtual timer expired",
        27 => "Profiling timer expired",
        28 => "Window changed",
        29 => "I/O possible",
        30 => "Power failure",
        31 => "Bad system call",
        34..=64 => "Real-time signal",
        _ => "Unknown signal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_texts() {
        for (status, code, text) in [
            (0, 0, ""),
            (256, 1, "task(s) exited with exit code 1"),
            (32512, 127, "task(s) exited with exit code 127"),
            (36608, 143, "task(s) Terminated"),
            (36352, 142, "task(s) Alarm clock"),
            (9, 137, "job shell Killed"),
            (139, 139, "job shell Segmentation fault"),
        ] {
            assert_eq!(WaitStatus(status).exit_code(), code, "{status}");
            assert_eq!(WaitStatus(status).to_string(), text, "{status}");
        }
        assert_eq!(WaitStatus::exited(143), WaitStatus(36608));
        assert_eq!(WaitStatus::signaled(9), WaitStatus(9));
    }

    #[test]
    fn no_status_is_too_odd() {
        for status in [-1, i32::MIN, i32::MAX, 0x7f, 0xff, 0xffff] {
            let _ = (
                WaitStatus(status).exit_code(),
                WaitStatus(status).to_string(),
            );
        }
    }
}
