//! Following a job's guest logs: `guest.exec.eventlog` and `guest.output`, which are files beside the job.
//!
//! The place is an offset into the file; what is not sent stays there. Only whole lines are sent. The log is over when the
//! job's processes are (the last of its resources released, or the job over): all they wrote is in the file by then, so
//! whether it is over is looked at before the file is read, never after.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf};

use job::{JobId, State, eventlog};
use protocol::job_info::EventlogWatchResponse;
use wire::{errno, json_payload};

use crate::{
    core::Info,
    peer::{Caller, Refusal},
    streams::Step,
};

/// Bytes read in one step, unless one line is longer.
const STEP_BYTES: usize = 64 << 10;
/// Longest line of a guest log.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Following one guest log.
#[derive(Debug)]
pub(crate) struct GuestWatch {
    id: JobId,
    path: Box<str>,
    /// Where it is; `None` for a path no job has. It is opened for each step: a descriptor for each follower would be too many.
    place: Option<PathBuf>,
    /// It was there.
    met: bool,
    offset: u64,
    step_bytes: usize,
    sentinel: bool,
    wait: bool,
    /// The job was over when it was asked for.
    was_over: bool,
    /// The list has held the job since this began.
    was_listed: bool,
}

impl GuestWatch {
    pub(crate) fn new(
        id: JobId,
        path: &str,
        place: Option<PathBuf>,
        sentinel: bool,
        wait: bool,
        was_over: bool,
    ) -> Self {
        Self {
            id,
            path: path.into(),
            place,
            met: false,
            offset: 0,
            step_bytes: STEP_BYTES,
            sentinel,
            wait,
            was_over,
            was_listed: false,
        }
    }

    /// The list holds the job.
    pub(crate) fn is_listed(&mut self) {
        self.was_listed = true;
    }

    pub(crate) fn job(&self) -> JobId {
        self.id
    }

    /// The next whole lines; empty: none now. `None`: there is no such file.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(place) = &self.place else {
            return Ok(None);
        };
        match File::open(place) {
            Ok(file) => {
                self.met = true;
                self.read_from(&file).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_from(&mut self, file: &File) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; self.step_bytes];
        let mut length = 0;
        while length < buffer.len() {
            match file.read_at(&mut buffer[length..], self.offset + length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let full = length == buffer.len();
        buffer.truncate(length);
        let whole = eventlog::split_whole(&buffer).0.len();
        if whole == 0 && full {
            if self.step_bytes >= LINE_BYTES_MAX {
                return Err(io::Error::other("a line is too long"));
            }
            self.step_bytes *= 2;
            return self.read_from(file);
        }
        self.step_bytes = STEP_BYTES;
        self.offset += whole as u64;
        buffer.truncate(whole);
        Ok(buffer)
    }
}

impl Info {
    /// Whether a job that the list does not hold can never be in it. Ids rise: whoever is not there below the newest is gone.
    pub(crate) fn will_never_be(&self, id: JobId) -> bool {
        let jobs = self.projection.jobs();
        self.link.form == info::Form::Native
            && self.projection.is_live()
            && (id <= jobs.newest() || jobs.set_aside().contains(id))
    }

    /// Whether a job's processes are over and all they wrote is there. A job the list does not hold counts as over.
    pub(crate) fn is_over(&self, id: JobId) -> bool {
        self.projection.jobs().get(id).is_none_or(|record| {
            let job = record.job();
            job.state == State::Inactive || job.freed || job.start_done
        })
    }

    pub(crate) fn step_guest(&mut self, caller: &Caller, watch: &mut GuestWatch) -> Step {
        match self.may_read(caller, watch.id) {
            Some(false) => {
                self.out.refuse(caller, &Refusal::bare(errno::EPERM));
                return Step::Done;
            }
            // It is waited for, and not there yet.
            None if !watch.was_listed && !self.will_never_be(watch.id) => return Step::Idle,
            // Purged, or set aside. What was not sent yet is lost with it, so this is not the usual end.
            None => {
                self.out.refuse(caller, &self.absent(caller, watch.id));
                return Step::Done;
            }
            Some(true) => watch.was_listed = true,
        }
        let over = self.is_over(watch.id);
        let lines = match watch.read() {
            Ok(Some(lines)) => lines,
            Ok(None) => return self.step_absent(caller, watch, over),
            Err(error) => {
                let errnum = error
                    .raw_os_error()
                    .and_then(|errnum| u32::try_from(errnum).ok())
                    .unwrap_or(errno::EIO);
                self.out.refuse(
                    caller,
                    &Refusal::new(errnum, format!("{}: {error}", watch.path)),
                );
                return Step::Done;
            }
        };
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let event = String::from_utf8_lossy(line);
            self.out
                .respond(caller, Some(json_payload(&EventlogWatchResponse { event })));
        }
        if !lines.is_empty() {
            return Step::More;
        }
        if watch.sentinel {
            watch.sentinel = false;
            self.out.respond(caller, None);
        }
        if over {
            self.out.end(caller);
            return Step::Done;
        }
        Step::Idle
    }

    /// There is no such file (yet).
    fn step_absent(&mut self, caller: &Caller, watch: &GuestWatch, over: bool) -> Step {
        let started = self
            .projection
            .jobs()
            .get(watch.id)
            .is_some_and(|record| record.job().started);
        let refused = match &watch.place {
            // A path no job has: said as soon as the job has anything at all.
            None => over || started && !watch.wait,
            Some(_) => watch.was_over,
        };
        // It was there, and was removed: what was not sent of it is lost.
        if refused || watch.met {
            self.out.refuse(
                caller,
                &Refusal::new(errno::ENOENT, format!("{}: key not found", watch.path)),
            );
            return Step::Done;
        }
        if over {
            self.out.end(caller);
            return Step::Done;
        }
        Step::Idle
    }
}
