//! The write-ahead log, read without SQLite; and whether it lost commits that somebody was told of. SQLite reads a WAL up to the first frame that does not check, and says
//! nothing of what stands behind it.
//!
//! ```text
//! header │ frame frame frame* │ frame ✗ │ … frame*            * = ends a transaction
//!        └─ checksums add up ─┘  └ does not check   └ a commit of this WAL behind: it was written after all that is lost
//! ```
//! A process that is killed leaves none of that: frames are written one after the other, so behind the one that was being written there are only
//! those of the WAL's life before, under another salt. A power cut can, since what was not synced may be there in any part; then nobody can say
//! what was told, and to doubt is right.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number but for its last bit, which says in which order the bytes of the checksum's words stand.
const MAGIC: u32 = 0x377f_0682;
const PAGE_MIN: usize = 512;
const PAGE_MAX: usize = 65_536;

/// A WAL read frame by frame.
pub(crate) struct Frames<R> {
    file: R,
    salt: [u8; 8],
    big: bool,
    sum: (u32, u32),
    frame: Vec<u8>,
    /// Where the next frame begins.
    next: u64,
    /// Whether all so far add up.
    sound: bool,
}

/// What is said of one frame.
pub(crate) struct Frame {
    /// Its page.
    pub(crate) page: u32,
    /// Pages of the database if it ends a transaction, or else 0.
    pub(crate) commit: u32,
    /// Where the content of the page begins in the WAL.
    pub(crate) at: u64,
    /// Whether it was written in this life of the WAL.
    pub(crate) ours: bool,
    /// Whether it and all before it check: SQLite reads as far.
    pub(crate) sound: bool,
}

impl<R: Read> Frames<R> {
    /// None if the header does not check.
    pub(crate) fn begin(mut file: R) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if !fill(&mut file, &mut header)? {
            return Ok(None);
        }
        let (magic, page) = (word(&header, 0), word(&header, 8) as usize);
        let big = magic & 1 == 1;
        let sum = checksum(&header[..24], (0, 0), big);
        let known = magic & !1 == MAGIC
            && page.is_power_of_two()
            && (PAGE_MIN..=PAGE_MAX).contains(&page)
            && sum == (word(&header, 24), word(&header, 28));
        let mut salt = [0; 8];
        salt.copy_from_slice(&header[16..24]);
        Ok(known.then(|| Self {
            file,
            salt,
            big,
            sum,
            frame: vec![0; FRAME_HEADER + page],
            next: HEADER as u64,
            sound: true,
        }))
    }

    /// The size of a page.
    pub(crate) fn page_len(&self) -> usize {
        self.frame.len() - FRAME_HEADER
    }

    /// The next frame that is there whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        if !fill(&mut self.file, &mut self.frame)? {
            return Ok(None);
        }
        let frame = &self.frame;
        let ours = frame[8..16] == self.salt;
        if self.sound {
            self.sum = checksum(&frame[..8], self.sum, self.big);
            self.sum = checksum(&frame[FRAME_HEADER..], self.sum, self.big);
            self.sound = ours && self.sum == (word(frame, 16), word(frame, 20));
        }
        let at = self.next + FRAME_HEADER as u64;
        self.next += frame.len() as u64;
        Ok(Some(Frame {
            page: word(frame, 0),
            commit: word(frame, 4),
            at,
            ours,
            sound: self.sound,
        }))
    }
}

/// What a WAL holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Which life of the WAL it is: it begins anew with another number once all of it is in the main file.
    pub(crate) salt: [u8; 8],
    /// Commits that SQLite reads.
    pub(crate) commits: u64,
    /// Frames of this life behind the last of them: of a commit that is under way, or was when its process was killed. Told to nobody.
    pub(crate) torn: u64,
    /// Why commits may be missing, if they may.
    pub(crate) doubt: Option<String>,
}

/// Why commits may be missing, if they may. Reads the file once.
pub(crate) fn doubt(wal: &Path) -> io::Result<Option<String>> {
    Ok(look(wal)?.doubt)
}

/// Reads the file once, to its end. None at all is as one that is empty.
pub(crate) fn look(wal: &Path) -> io::Result<Look> {
    let mut look = Look::default();
    let file = match File::open(wal) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(look),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(look);
    }
    let Some(mut frames) = Frames::begin(BufReader::with_capacity(1 << 20, file))? else {
        // Of a length that nothing but frames give it.
        let has_frames = metadata.len() >= (HEADER + FRAME_HEADER + PAGE_MIN) as u64;
        look.doubt = has_frames.then(|| "its header does not check".to_owned());
        return Ok(look);
    };
    look.salt = frames.salt;
    let (mut number, mut bad) = (0_u64, None);
    while let Some(frame) = frames.next()? {
        number += 1;
        look.torn += u64::from(frame.ours);
        if frame.sound {
            if frame.commit != 0 {
                look.commits += 1;
                look.torn = 0;
            }
            continue;
        }
        match bad {
            None => bad = Some(number),
            Some(bad) if frame.ours && frame.commit != 0 => {
                look.doubt.get_or_insert_with(|| {
                    format!("frame {bad} does not check, and a commit stands behind it in frame {number}")
                });
            }
            Some(_) => {}
        }
    }
    Ok(look)
}

/// Fills the buffer; false if the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number in these four bytes; what is not there is 0.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    u32::from_be_bytes(word.unwrap_or_default())
}

/// SQLite's running checksum over words of 32 bits, two at a time.
fn checksum(bytes: &[u8], (mut first, mut second): (u32, u32), big: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let (mut left, mut right) = (word(pair, 0), word(pair, 4));
        if !big {
            (left, right) = (left.swap_bytes(), right.swap_bytes());
        }
        first = first.wrapping_add(left).wrapping_add(second);
        second = second.wrapping_add(right).wrapping_add(first);
    }
    (first, second)
}
