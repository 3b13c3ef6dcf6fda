//! `log.append`: what clients have to say goes into our log, within bounds: a line, lines of a connection, lines of a user.
//!
//! ```text
//!  a line         2 KiB as it is written, the rest counted
//!  a connection   100 lines at once, then 5 a second
//!  a user         200 lines at once, then 10 a second, over all connections
//! ```
//! What does not fit is dropped: the caller hears EAGAIN, if it asked for an answer, and the log says every so often whose lines were dropped,
//! how many, and how long they were. So nobody fills the disk or pushes the daemon's own words out of the files that are kept (`logs`).

use crate::builtin::Answer;
use job::Timestamp;
use router::PeerId;
use std::collections::HashMap;
use wire::errno;

/// The longest line as it is written, in bytes.
pub(crate) const LINE_LEN_MAX: usize = 2048;
/// Lines a connection may write at once, and how many more a second.
pub(crate) const CONNECTION_LINES_MAX: usize = 100;
const CONNECTION_LINES_PER_SECOND: f64 = 5.0;
/// Lines a user may write at once, and how many more a second.
pub(crate) const USER_LINES_MAX: usize = 200;
const USER_LINES_PER_SECOND: f64 = 10.0;
/// Between two lines about what was dropped.
const TELL_SECONDS: f64 = 1.0;

/// Room for lines, which comes back with time.
#[derive(Debug, Clone, Copy)]
struct Room {
    lines: f64,
    at: Timestamp,
}

impl Room {
    fn whole(lines: usize, now: Timestamp) -> Room {
        Room {
            lines: lines as f64,
            at: now,
        }
    }

    fn refill(&mut self, most: usize, a_second: f64, now: Timestamp) {
        let gained = (now.0 - self.at.0).max(0.0) * a_second;
        self.lines = (self.lines + gained).min(most as f64);
        self.at = now;
    }
}

#[derive(Debug)]
struct User {
    room: Room,
    dropped_lines: u64,
    dropped_bytes: u64,
}

/// What was dropped of all users, and who lost most.
#[derive(Debug, PartialEq, Eq)]
struct Dropped {
    userid: u32,
    users: usize,
    lines: u64,
    bytes: u64,
}

/// Who has how much room.
#[derive(Debug, Default)]
pub(crate) struct ClientLog {
    connections: HashMap<PeerId, Room>,
    users: HashMap<u32, User>,
    /// When what was dropped was last told.
    told: Option<Timestamp>,
}

impl ClientLog {
    /// Writes the line, or counts it as dropped. `userid`: whom the connection belongs to, not whom a request names.
    pub(crate) fn append(
        &mut self,
        from: PeerId,
        userid: u32,
        line: &[u8],
        now: Timestamp,
    ) -> Answer {
        if self.admit(from, userid, line.len(), now) {
            tracing::info!(target: "weir::client_log", userid, line = %written(line));
            return Ok(None);
        }
        let text = format!(
            "lines of clients come too fast: {CONNECTION_LINES_PER_SECOND} a second from one connection, {USER_LINES_PER_SECOND} from \
             one user; this one was dropped"
        );
        Err((errno::EAGAIN, Some(text)))
    }

    fn admit(&mut self, from: PeerId, userid: u32, len: usize, now: Timestamp) -> bool {
        let of_user = self.users.entry(userid).or_insert_with(|| User {
            room: Room::whole(USER_LINES_MAX, now),
            dropped_lines: 0,
            dropped_bytes: 0,
        });
        let of_connection = self
            .connections
            .entry(from)
            .or_insert_with(|| Room::whole(CONNECTION_LINES_MAX, now));
        of_user
            .room
            .refill(USER_LINES_MAX, USER_LINES_PER_SECOND, now);
        of_connection.refill(CONNECTION_LINES_MAX, CONNECTION_LINES_PER_SECOND, now);
        let admitted = of_user.room.lines >= 1.0 && of_connection.lines >= 1.0;
        if admitted {
            of_user.room.lines -= 1.0;
            of_connection.lines -= 1.0;
        } else {
            of_user.dropped_lines += 1;
            of_user.dropped_bytes += len as u64;
        }
        admitted
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.connections.remove(&peer);
    }

    /// Says what was dropped since the last time, in one line for all users, and forgets who has all the room again.
    pub(crate) fn tell(&mut self, now: Timestamp) {
        if let Some(Dropped {
            userid,
            users,
            lines,
            bytes,
        }) = self.take_dropped(now)
        {
            tracing::warn!(target: "weir::client_log", userid, users, lines, bytes, "lines of clients were dropped: they came too fast; most of this user");
        }
        self.users.retain(|_, user| {
            user.room.refill(USER_LINES_MAX, USER_LINES_PER_SECOND, now);
            user.dropped_lines > 0 || user.room.lines < USER_LINES_MAX as f64
        });
    }

    /// What was dropped and not told yet; once in [`TELL_SECONDS`] at most.
    fn take_dropped(&mut self, now: Timestamp) -> Option<Dropped> {
        if self.told.is_some_and(|told| now.0 - told.0 < TELL_SECONDS) {
            return None;
        }
        let of = self.users.iter().filter(|(_, user)| user.dropped_lines > 0);
        let worst = of.clone().max_by_key(|(_, user)| user.dropped_lines)?;
        let dropped = Dropped {
            userid: *worst.0,
            users: of.clone().count(),
            lines: of.clone().map(|(_, user)| user.dropped_lines).sum(),
            bytes: of.map(|(_, user)| user.dropped_bytes).sum(),
        };
        for user in self.users.values_mut() {
            (user.dropped_lines, user.dropped_bytes) = (0, 0);
        }
        self.told = Some(now);
        Some(dropped)
    }
}

/// The line as it is written: one line, whatever is in it, and not too long.
fn written(line: &[u8]) -> String {
    // So much can be written in any case; what follows need not be looked at.
    let looked_at = &line[..line.len().min(LINE_LEN_MAX)];
    let text = String::from_utf8_lossy(looked_at);
    let mut out = String::with_capacity(text.len() + 16);
    let mut taken = 0;
    for char in text.chars() {
        let before = out.len();
        out.extend(char.escape_debug());
        if out.len() > LINE_LEN_MAX {
            out.truncate(before);
            break;
        }
        taken += char.len_utf8();
    }
    // Bytes that are no text are written longer than they are.
    let left = line.len().saturating_sub(taken);
    if left > 0 {
        out.push_str(&format!(" … and {left} bytes more"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(log: &mut ClientLog, peer: u64, userid: u32, lines: usize, now: f64) -> usize {
        (0..lines)
            .filter(|_| log.admit(PeerId(peer), userid, 10, Timestamp(now)))
            .count()
    }

    #[test]
    fn invariant_7_a_connection_and_a_user_write_so_many_lines_and_no_more() {
        let mut log = ClientLog::default();
        assert_eq!(count(&mut log, 1, 7, 1000, 0.0), CONNECTION_LINES_MAX);
        assert_eq!(count(&mut log, 2, 7, 1000, 0.0), CONNECTION_LINES_MAX);
        assert_eq!(count(&mut log, 3, 7, 1000, 0.0), 0, "the user has no more");
        assert_eq!(
            count(&mut log, 4, 8, 50, 0.0),
            50,
            "another user has all of it"
        );
        assert_eq!(count(&mut log, 1, 7, 1000, 2.0), 10);
        assert_eq!(count(&mut log, 3, 7, 1000, 2.0), 10);
        let dropped = &log.users[&7];
        assert_eq!(dropped.dropped_lines, 900 + 900 + 1000 + 990 + 990);
        assert_eq!(dropped.dropped_bytes, dropped.dropped_lines * 10);
        log.tell(Timestamp(3.0));
        assert_eq!(log.users[&7].dropped_lines, 0);
        log.tell(Timestamp(1000.0));
        for peer in 1..5 {
            log.forget(PeerId(peer));
        }
        assert!(log.users.is_empty() && log.connections.is_empty());
        assert_eq!(count(&mut log, 1, 7, 1000, 500.0), CONNECTION_LINES_MAX);
    }

    #[test]
    fn invariant_7_what_was_dropped_is_one_line_a_second_however_many_users_it_is_of() {
        let mut log = ClientLog::default();
        for user in 0..1000 {
            count(
                &mut log,
                u64::from(user),
                user,
                101 + usize::from(user == 7),
                0.0,
            );
        }
        let told = Dropped {
            userid: 7,
            users: 1000,
            lines: 1001,
            bytes: 10_010,
        };
        assert_eq!(log.take_dropped(Timestamp(0.0)), Some(told));
        assert_eq!(count(&mut log, 1, 1, 10, 0.0), 0);
        assert_eq!(log.take_dropped(Timestamp(0.5)), None, "too soon");
        let later = log.take_dropped(Timestamp(1.0));
        assert_eq!(later.map(|dropped| dropped.lines), Some(10));
        assert_eq!(log.take_dropped(Timestamp(9.0)), None, "nothing new");
    }

    #[test]
    fn a_line_is_one_line_of_bounded_length_and_says_what_is_missing() {
        assert_eq!(written(b"a\nb\x1b[31m"), "a\\nb\\u{1b}[31m");
        let long = vec![b'x'; 10_000];
        let text = written(&long);
        assert!(text.ends_with("x … and 7952 bytes more"), "{text}");
        let worst = [1u8; 10_000];
        let text = written(&worst);
        assert!(text.len() < LINE_LEN_MAX + 32);
        assert!(text.ends_with(" bytes more"));
    }
}
