//! The socket between a shepherd and its node process: JSON lines both ways.
//!
//! Once the order is there only [`Control::wait_for_line`] blocks: what came behind it in the same read is found in `unread`, and
//! whether there is more is asked without waiting. Writing may block, for as long as the node process is stopped: what a shepherd says is
//! little, and the kernel holds it.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use serde::Serialize;

use crate::messages::{ToShepherd, to_line};
use crate::order::ORDER_LEN_MAX;

/// Bytes read at once.
const READ_LEN_MAX: usize = 64 << 10;

/// The shepherd's side of the socket.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    unread: Vec<u8>,
    closed: bool,
}

impl Control {
    /// Takes the socket that standard input is.
    pub(crate) fn of_stdin() -> io::Result<Control> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Control {
            socket,
            unread: Vec::new(),
            closed: false,
        })
    }

    /// Waits for the next line; none if the other side is gone, or says more than an order can be.
    pub(crate) fn wait_for_line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(line) = self.take_line() {
                return Some(line);
            }
            self.fill(RecvFlags::empty());
            if self.closed || self.unread.len() > ORDER_LEN_MAX {
                return None;
            }
        }
    }

    /// Waits until there is something to read, or the other side is gone, or `limit` is over. What comes is left unread.
    pub(crate) fn wait_for_more(&mut self, limit: Duration) {
        if self.has_line() || self.closed {
            return;
        }
        let limit = Timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut fds, Some(&limit)).is_ok_and(|ready| ready > 0) {
            self.fill(RecvFlags::DONTWAIT);
        }
    }

    /// Whether the other side is there, as far as that can be told without waiting.
    pub(crate) fn look(&mut self) -> bool {
        self.fill(RecvFlags::DONTWAIT);
        !self.closed
    }

    /// All messages that can be read without waiting.
    pub(crate) fn take_messages(&mut self) -> Vec<ToShepherd> {
        self.fill(RecvFlags::DONTWAIT);
        let mut messages = Vec::new();
        while let Some(line) = self.take_line() {
            if let Ok(message) = crate::messages::from_line(&line) {
                messages.push(message);
            }
        }
        self.closed |= self.unread.len() > ORDER_LEN_MAX;
        messages
    }

    /// Whether an unread line is already here.
    pub(crate) fn has_line(&self) -> bool {
        self.unread.contains(&b'\n')
    }

    /// Whether the other side is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Says something; not being heard is found out by reading.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T) {
        let _ = self.socket.write_all(&to_line(message));
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let rest = self.unread.split_off(end + 1);
        Some(std::mem::replace(&mut self.unread, rest))
    }

    fn fill(&mut self, flags: RecvFlags) {
        let before = self.unread.len();
        self.unread.resize(before + READ_LEN_MAX, 0);
        let read = loop {
            match rustix::net::recv(&self.socket, &mut self.unread[before..], flags) {
                Err(Errno::INTR) => {}
                other => break other.map(|(len, _)| len),
            }
        };
        self.unread.truncate(before + read.unwrap_or(0));
        match read {
            Ok(0) => self.closed = true,
            Ok(_) => {}
            Err(error) => self.closed = error != Errno::AGAIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_one_piece_with_the_order_is_taken_without_waiting_for_more() {
        let (mut node, socket) = UnixStream::pair().unwrap();
        let mut control = Control {
            socket,
            unread: Vec::new(),
            closed: false,
        };
        let mut both = b"{\"an\":\"order\"}\n".to_vec();
        both.extend(to_line(&ToShepherd::Cancel {}));
        node.write_all(&both).unwrap();
        assert!(control.wait_for_line().is_some());
        assert!(control.has_line());
        // Nothing more comes: were this to wait, it would wait for ever.
        assert!(matches!(
            control.take_messages()[..],
            [ToShepherd::Cancel {}]
        ));
        assert!(control.take_messages().is_empty() && !control.is_closed());
        drop(node);
        assert!(control.take_messages().is_empty() && control.is_closed());
    }
}
