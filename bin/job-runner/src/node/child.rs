//! One shepherd as its node process sees it: a child with a socket.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::messages::{FromShepherd, from_line};
use crate::shepherd;

/// Messages on their way to one shepherd.
const QUEUE_LEN_MAX: usize = 1024;

/// Names one shepherd for as long as the node process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) u64);

/// What a shepherd's socket brings.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It said this.
    Said(FromShepherd),
    /// It will say nothing more.
    Hung,
}

/// A shepherd.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) key: Key,
    pub(crate) pid: i32,
    lines: mpsc::Sender<Vec<u8>>,
    /// It was stopped, and is continued then.
    pub(crate) go_on_at: Option<Instant>,
    /// When it was continued, of late.
    pub(crate) stops: Vec<Instant>,
    /// It ends with the job it has.
    pub(crate) leaving: bool,
    /// Seen to have exited.
    pub(crate) exited: bool,
    /// Its socket has ended.
    pub(crate) hung: bool,
}

impl Child {
    /// Starts a shepherd; what it says goes to `heard`.
    pub(crate) fn spawn(key: Key, heard: mpsc::Sender<(Key, Heard)>) -> io::Result<Child> {
        let (ours, theirs) = StdStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg0("weir-shepherd")
            .arg(shepherd::ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        ours.set_nonblocking(true)?;
        let (lines, queue) = mpsc::channel(QUEUE_LEN_MAX);
        tokio::spawn(talk(key, UnixStream::from_std(ours)?, queue, heard));
        Ok(Child::new(key, pid, lines))
    }

    fn new(key: Key, pid: i32, lines: mpsc::Sender<Vec<u8>>) -> Child {
        Child {
            key,
            pid,
            lines,
            go_on_at: None,
            stops: Vec::new(),
            leaving: false,
            exited: false,
            hung: false,
        }
    }

    /// A process that is no shepherd, and what is sent to it.
    #[cfg(test)]
    pub(crate) fn fake(key: Key, pid: i32) -> (Child, mpsc::Receiver<Vec<u8>>) {
        let (lines, queue) = mpsc::channel(QUEUE_LEN_MAX);
        (Child::new(key, pid, lines), queue)
    }

    /// Sends a line. False if the shepherd does not take any more.
    pub(crate) fn send(&self, line: Vec<u8>) -> bool {
        self.lines.try_send(line).is_ok()
    }

    /// Whether it is over and nothing it said is still unread.
    pub(crate) fn is_gone(&self) -> bool {
        self.exited && self.hung
    }
}

/// Moves lines both ways until the shepherd hangs up.
async fn talk(
    key: Key,
    mut socket: UnixStream,
    mut queue: mpsc::Receiver<Vec<u8>>,
    heard: mpsc::Sender<(Key, Heard)>,
) {
    let (read, mut write) = socket.split();
    let mut read = BufReader::with_capacity(1024, read);
    let mut line = Vec::new();
    loop {
        tokio::select! {
            // read_until keeps what it has in `line`, so being interrupted loses nothing.
            got = read.read_until(b'\n', &mut line) => {
                match got {
                    Ok(len) if len > 0 && line.ends_with(b"\n") => {
                        if let Ok(message) = from_line(&line)
                            && heard.send((key, Heard::Said(message))).await.is_err() {
                                return;
                            }
                        line.clear();
                    }
                    _ => break,
                }
            }
            next = queue.recv() => {
                match next {
                    // A shepherd that does not read cannot be told anything; its end is noticed by the other arm.
                    Some(line) => { let _ = write.write_all(&line).await; }
                    // It was dropped: nothing more is to be said or heard.
                    None => return,
                }
            }
        }
    }
    let _ = heard.send((key, Heard::Hung)).await;
}
