//! Bodies from pieces: what is small is copied together, what is large is shared.

use bytes::Bytes;

use crate::answer::Body;

/// From this many bytes on a piece is shared and not copied.
const SHARED_BYTES_MIN: usize = 16 << 10;
/// A block of copied pieces is closed beyond this.
const BLOCK_BYTES: usize = 128 << 10;

/// Puts a body together.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    pieces: Vec<Bytes>,
    block: Vec<u8>,
}

impl Assembler {
    /// Appends text.
    pub(crate) fn text(&mut self, text: &[u8]) {
        if self.block.len() + text.len() > BLOCK_BYTES {
            self.close();
        }
        self.block.extend_from_slice(text);
    }

    /// Appends a piece, shared if it is large.
    pub(crate) fn push(&mut self, piece: &Bytes) {
        if piece.len() < SHARED_BYTES_MIN {
            return self.text(piece);
        }
        self.close();
        self.pieces.push(piece.clone());
    }

    fn close(&mut self) {
        if !self.block.is_empty() {
            self.pieces.push(std::mem::take(&mut self.block).into());
        }
    }

    /// The body.
    pub(crate) fn finish(mut self) -> Body {
        self.close();
        Body::new(self.pieces)
    }
}
