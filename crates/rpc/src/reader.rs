//! The reading half of a connection: bytes in, whole messages out.
//!
//! The buffer grows with what arrives, never on a peer's word: a frame announced as 64 MiB takes memory as its bytes come.
//! A connection that is quiet holds a few KiB.

use crate::server::PartialShare;
use bytes::BytesMut;
use std::io;
use tokio::io::Interest;
use tokio::net::UnixStream;
use wire::{Decoder, Message, WireError};

/// Room made for a read at first.
const READ_LEN_MIN: usize = 8 << 10;
/// Room made for a read once a peer has shown that it fills it.
const READ_LEN_MAX: usize = 256 << 10;
/// With less room than this left, more is made.
const ROOM_LEN_MIN: usize = 2 << 10;
/// So many reads in a row that used little of the room shrink it again.
const SMALL_READS: u32 = 16;
/// Messages given out at once.
const MESSAGES_MAX: usize = 4096;

/// Why there is nothing more to read.
#[derive(Debug, thiserror::Error)]
pub enum ReadEnd {
    /// The peer closed the connection between two frames.
    #[error("the peer closed the connection")]
    Eof,
    /// The peer closed the connection within a frame.
    #[error("the peer closed the connection within a frame, {have} bytes into it")]
    CutFrame {
        /// Bytes of the frame that came.
        have: usize,
    },
    /// What came is no frame.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The socket broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug)]
pub(crate) struct FrameReader {
    buf: BytesMut,
    decoder: Decoder,
    read_len: usize,
    small_reads: u32,
    /// What was met is no frame: nothing after it can be understood.
    failed: Option<WireError>,
    /// Where the bytes of frames that are not whole are counted, if anywhere.
    share: Option<PartialShare>,
}

impl FrameReader {
    pub(crate) fn new(frame_len_max: usize) -> FrameReader {
        FrameReader {
            buf: BytesMut::new(),
            decoder: Decoder::new(frame_len_max),
            read_len: READ_LEN_MIN,
            small_reads: 0,
            failed: None,
            share: None,
        }
    }

    /// Counts bytes of frames that are not whole on `share`.
    pub(crate) fn counted(mut self, share: PartialShare) -> FrameReader {
        self.share = Some(share);
        self
    }

    /// Waits for at least one whole message and appends all that are there to `out`; how many bytes they took. What was
    /// read stays here when this is dropped while it waits.
    /// # Errors
    /// [`ReadEnd`], and again each time from then on; messages before the end are in `out` all the same.
    pub(crate) async fn read(
        &mut self,
        stream: &UnixStream,
        out: &mut Vec<Message>,
    ) -> Result<usize, ReadEnd> {
        loop {
            // From the last time, when there were more than fit.
            let bytes = self.decode_all(out)?;
            if let Some(share) = &mut self.share {
                share.set(self.buf.len());
            }
            if bytes > 0 {
                return Ok(bytes);
            }
            self.make_room();
            match self.read_once(stream) {
                Ok(0) if self.buf.is_empty() => return Err(ReadEnd::Eof),
                Ok(0) => {
                    return Err(ReadEnd::CutFrame {
                        have: self.buf.len(),
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.readable().await?
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn decode_all(&mut self, out: &mut Vec<Message>) -> Result<usize, WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let before = self.buf.len();
        for _ in 0..MESSAGES_MAX {
            match self.decoder.decode(&mut self.buf) {
                Ok(Some(message)) => out.push(message),
                Ok(None) => break,
                Err(error) => {
                    self.failed = Some(error);
                    return Err(error);
                }
            }
        }
        Ok(before - self.buf.len())
    }

    fn make_room(&mut self) {
        let room = self.buf.capacity() - self.buf.len();
        if room < ROOM_LEN_MIN.max(self.read_len / 4) {
            // Doubling: a long frame is copied a few times at most, and never has more than twice its memory.
            self.buf.reserve(self.read_len.max(self.buf.len()));
        }
    }

    fn read_once(&mut self, stream: &UnixStream) -> io::Result<usize> {
        let room = self.buf.capacity() - self.buf.len();
        let mut got = None;
        // A read that did not fill the room took all there was: that clears the readiness, and spares the next read.
        let result = stream.try_io(Interest::READABLE, || {
            let bytes = stream.try_read_buf(&mut self.buf)?;
            got = Some(bytes);
            if bytes > 0 && bytes < room {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        });
        let Some(bytes) = got else {
            return result.map(|()| 0);
        };
        if bytes == room {
            self.read_len = (self.read_len * 2).min(READ_LEN_MAX);
            self.small_reads = 0;
        } else if bytes < self.read_len / 8 {
            self.small_reads += 1;
            if self.small_reads >= SMALL_READS {
                self.read_len = READ_LEN_MIN;
                self.small_reads = 0;
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{FRAME_LEN_MAX_DEFAULT, Request, to_frame};

    async fn both() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    async fn write(stream: &UnixStream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            stream.writable().await.unwrap();
            match stream.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[tokio::test]
    async fn no_memory_on_a_peers_word() {
        let (ours, theirs) = both().await;
        let mut reader = FrameReader::new(FRAME_LEN_MAX_DEFAULT);
        let mut head = vec![0x12, 0, 0xee, 0xff];
        head.extend_from_slice(&(FRAME_LEN_MAX_DEFAULT as u32).to_be_bytes());
        write(&theirs, &head).await;
        drop(theirs);
        let end = reader.read(&ours, &mut Vec::new()).await;
        assert!(matches!(end, Err(ReadEnd::CutFrame { have: 8 })), "{end:?}");
        assert!(reader.buf.capacity() <= 2 * READ_LEN_MAX);
    }

    #[tokio::test]
    async fn every_split_gives_the_same_messages() {
        let small = Request::new("a.b", None, 1);
        let large = Request::new("a.b", Some(vec![7; 300_000].into()), 2);
        let want: Vec<Message> = (0..50)
            .map(|at| {
                if at % 10 == 9 {
                    large.clone()
                } else {
                    small.clone()
                }
                .into()
            })
            .collect();
        let whole: Vec<u8> = want
            .iter()
            .flat_map(|message| to_frame(message).to_vec())
            .collect();
        for step in [1009, 8192, 65_537, whole.len()] {
            let (ours, theirs) = both().await;
            let bytes = whole.clone();
            let writer = tokio::spawn(async move {
                for piece in bytes.chunks(step) {
                    write(&theirs, piece).await;
                }
            });
            let mut reader = FrameReader::new(FRAME_LEN_MAX_DEFAULT);
            let (mut have, mut bytes) = (Vec::new(), 0);
            let end = loop {
                match reader.read(&ours, &mut have).await {
                    Ok(count) => bytes += count,
                    Err(end) => break end,
                }
            };
            assert!(matches!(end, ReadEnd::Eof), "{end:?}");
            assert_eq!(
                (have == want, bytes),
                (true, whole.len()),
                "pieces of {step}"
            );
            writer.await.unwrap();
        }
    }
}
