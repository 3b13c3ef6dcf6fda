//! Writes to a file of the job in a thread of its own: a FIFO whose reader stopped, a file system that went away, hold up that thread only.
//!
//! Bounded: beyond [`WAITING_LEN_MAX`] bytes the streams that feed it are not read, and the tasks wait as they would for the file itself.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes that may wait for one file.
const WAITING_LEN_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<u8>,
    /// So many bytes are being written.
    writing: usize,
    closed: bool,
    failed: Option<io::Error>,
    /// Bytes that were not written.
    lost: usize,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way to one file.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) path: String,
    shared: Arc<Shared>,
}

/// Output that a file did not take.
#[derive(Debug)]
pub(crate) struct Missed {
    pub(crate) bytes: usize,
    /// None if it just does not take it.
    pub(crate) error: Option<io::Error>,
}

impl Writer {
    pub(crate) fn start(file: File, path: String) -> io::Result<Writer> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || write(file, &theirs))?;
        Ok(Writer { path, shared })
    }

    /// Whether more should be given to it.
    pub(crate) fn has_room(&self) -> bool {
        let queue = self.shared.lock();
        queue.waiting.len() + queue.writing < WAITING_LEN_MAX
    }

    /// Adds to what is to be written.
    pub(crate) fn push(&self, data: &[u8]) {
        let mut queue = self.shared.lock();
        if queue.failed.is_some() {
            queue.lost += data.len();
        } else {
            queue.waiting.extend_from_slice(data);
            self.shared.changed.notify_all();
        }
    }

    /// Waits until all is written, at most until `deadline`; then nothing more is.
    pub(crate) fn finish(&self, deadline: Instant) -> Result<(), Missed> {
        let mut queue = self.shared.lock();
        while queue.failed.is_none() && queue.waiting.len() + queue.writing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = match self.shared.changed.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        queue.closed = true;
        self.shared.changed.notify_all();
        let bytes = queue.lost + std::mem::take(&mut queue.waiting).len() + queue.writing;
        let error = queue.failed.take();
        if bytes == 0 && error.is_none() {
            return Ok(());
        }
        Err(Missed { bytes, error })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

fn write(mut file: File, shared: &Shared) {
    let mut data = Vec::new();
    loop {
        data.clear();
        let mut queue = shared.lock();
        queue.writing = 0;
        shared.changed.notify_all();
        while queue.waiting.is_empty() {
            if queue.closed {
                return;
            }
            queue = match shared.changed.wait(queue) {
                Ok(queue) => queue,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        std::mem::swap(&mut queue.waiting, &mut data);
        queue.writing = data.len();
        drop(queue);
        if let Err(error) = file.write_all(&data) {
            let mut queue = shared.lock();
            queue.lost += queue.writing + std::mem::take(&mut queue.waiting).len();
            queue.writing = 0;
            queue.failed = Some(error);
            shared.changed.notify_all();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::time::Duration;

    #[test]
    fn what_a_file_does_not_take_is_waited_for_no_longer_than_said() {
        let (read, write) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(write));
        let writer = Writer::start(file, "f".into()).unwrap();
        writer.push(b"first");
        let far = Instant::now() + Duration::from_secs(30);
        writer.finish(far).unwrap();
        let mut five = [0; 5];
        (&read).read_exact(&mut five).unwrap();
        // Nobody reads.
        let (_read, write) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(write));
        let writer = Writer::start(file, "f".into()).unwrap();
        writer.push(&vec![b'x'; 2 * WAITING_LEN_MAX]);
        assert!(!writer.has_room());
        let missed = writer.finish(Instant::now()).unwrap_err();
        assert!(missed.bytes > 0 && missed.error.is_none());
        // Nobody can.
        let (read, write) = std::os::unix::net::UnixStream::pair().unwrap();
        drop(read);
        let file = File::from(std::os::fd::OwnedFd::from(write));
        let writer = Writer::start(file, "f".into()).unwrap();
        writer.push(b"x");
        let missed = writer.finish(far).unwrap_err();
        assert!(missed.bytes == 1 && missed.error.is_some());
    }
}
