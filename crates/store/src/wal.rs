//! Whether a write-ahead log lost commits that somebody was told of. SQLite reads a WAL up to the first frame that does not check, and says
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
const PAGE_MAX: usize = 65_536;

/// Why commits may be missing, if they may. Reads the file once.
pub(crate) fn doubt(wal: &Path) -> io::Result<Option<String>> {
    let file = match File::open(wal) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(None);
    }
    let magic = word(&header, 0);
    let page = word(&header, 8) as usize;
    let big = magic & 1 == 1;
    let mut sum = checksum(&header[..24], (0, 0), big);
    let known = magic & !1 == MAGIC && page.is_power_of_two() && (512..=PAGE_MAX).contains(&page);
    if !known || sum != (word(&header, 24), word(&header, 28)) {
        // Of a length that nothing but frames give it.
        let rest = io::copy(&mut file, &mut io::sink())?;
        return Ok(
            (rest >= FRAME_HEADER as u64 + 512).then(|| "its header does not check".to_owned())
        );
    }
    let salt = &header[16..24];
    let mut frame = vec![0; FRAME_HEADER + page];
    let (mut number, mut bad) = (0_u64, None);
    while fill(&mut file, &mut frame)? {
        number += 1;
        let ours = &frame[8..16] == salt;
        if let Some(bad) = bad {
            if ours && word(&frame, 4) != 0 {
                return Ok(Some(format!(
                    "frame {bad} does not check, and a commit stands behind it in frame {number}"
                )));
            }
            continue;
        }
        sum = checksum(&frame[..8], sum, big);
        sum = checksum(&frame[FRAME_HEADER..], sum, big);
        if !ours || sum != (word(&frame, 16), word(&frame, 20)) {
            bad = Some(number);
        }
    }
    Ok(None)
}

/// Fills the buffer; false if the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
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
