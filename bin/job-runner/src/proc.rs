//! What the kernel says about processes: boot id, children, sessions, environments.
//!
//! Everything here is a snapshot and may be out of date when it is returned; callers loop until `wait` says that nobody is left.

use std::fs;
use std::io::Read;

/// The id of this boot of the machine. Tests play another boot with a file that `WEIR_BOOT_ID_FILE` names.
#[must_use]
pub fn boot_id() -> String {
    let file = std::env::var_os("WEIR_BOOT_ID_FILE")
        .unwrap_or_else(|| "/proc/sys/kernel/random/boot_id".into());
    fs::read_to_string(file)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// When this process started, in clock ticks since boot.
#[must_use]
pub fn own_start() -> u64 {
    static START: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *START.get_or_init(|| {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        stat(pid).map_or(0, |stat| stat.start)
    })
}

/// Continues a process if it is stopped. True if it was.
pub fn go_on(pid: i32) -> bool {
    let is_stopped = stat(pid).is_some_and(|stat| stat.state == b'T');
    if let (true, Some(pid)) = (is_stopped, rustix::process::Pid::from_raw(pid)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::CONT);
    }
    is_stopped
}

/// Fields of `/proc/PID/stat` that we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: i32,
    /// State letter: `Z` is a zombie.
    pub state: u8,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
}

/// Reads `/proc/PID/stat`.
#[must_use]
pub fn stat(pid: i32) -> Option<Stat> {
    let mut text = [0u8; 512];
    let len = fs::File::open(format!("/proc/{pid}/stat"))
        .ok()?
        .read(&mut text)
        .ok()?;
    let text = String::from_utf8_lossy(&text[..len]);
    // The name, in parentheses, may hold anything: fields are counted from the last one.
    let rest = &text[text.rfind(')')? + 2..];
    let mut fields = rest.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = || fields.next()?.parse::<i64>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // tty_nr is the next; starttime is field 22 of the line, the 20th after the name.
    let start = fields.nth(15)?.parse().ok()?;
    let narrow = |value: i64| i32::try_from(value).ok();
    Some(Stat {
        pid,
        state,
        parent: narrow(parent)?,
        group: narrow(group)?,
        session: narrow(session)?,
        start,
    })
}

/// Direct children of a process, of all its threads.
#[must_use]
pub fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return found;
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            // A kernel without CONFIG_PROC_CHILDREN.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && stat(pid).is_some() => {
                return all()
                    .into_iter()
                    .filter(|stat| stat.parent == pid)
                    .map(|stat| stat.pid)
                    .collect();
            }
            Err(_) => {}
        }
    }
    found
}

/// All descendants of a process, parents before children.
#[must_use]
pub fn descendants(pid: i32) -> Vec<i32> {
    let mut found = children(pid);
    let mut at = 0;
    while at < found.len() {
        for child in children(found[at]) {
            if !found.contains(&child) {
                found.push(child);
            }
        }
        at += 1;
    }
    found
}

/// All processes.
#[must_use]
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(stat)
        .collect()
}

/// Whether a process's environment holds all these `NAME=VALUE` settings, as it was when it was started.
#[must_use]
pub fn environment_has(pid: i32, settings: &[String]) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    settings.iter().all(|setting| {
        environment
            .split(|byte| *byte == 0)
            .any(|one| one == setting.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_us_and_our_children() {
        let me = std::process::id() as i32;
        let mine = stat(me).unwrap();
        assert_eq!(mine.pid, me);
        assert!(mine.start > 0 && mine.state != b'Z');
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .env("WEIR_MARK", "x")
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert!(children(me).contains(&pid) && descendants(me).contains(&pid));
        assert_eq!(stat(pid).unwrap().parent, me);
        // An exec is seen by the one who started it a moment before its environment is.
        let has = |value: &str| environment_has(pid, &[format!("WEIR_MARK={value}")]);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !has("x") && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(has("x") && !has("y"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!boot_id().is_empty());
    }
}
