//! Bodies on their way: shared pieces, cut into frames, and a bound on how many different ones are held by those who read slowly.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use hyper::body::{Frame, SizeHint};

/// Most bytes of different bodies on their way at a time; one larger body alone is let through.
pub(crate) const SENDING_BYTES_MAX: usize = 512 << 20;
/// Pieces shorter than this are put together.
const PIECE_BYTES_MIN: usize = 16 << 10;
/// Into frames of about this.
const FRAME_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    /// By the place of the pieces: how many send it, and its bytes.
    bodies: HashMap<usize, (usize, usize)>,
    bytes: usize,
}

/// All bodies on their way.
#[derive(Debug, Default)]
pub(crate) struct Sending(Mutex<State>);

/// One answer on its way.
#[derive(Debug)]
struct Ticket {
    of: Arc<Sending>,
    key: usize,
}

impl Sending {
    fn enter(self: &Arc<Self>, key: usize, length: usize, most: usize) -> Option<Ticket> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = state.bodies.get_mut(&key) {
            *count += 1;
        } else {
            if state.bytes > 0 && state.bytes + length > most {
                return None;
            }
            state.bytes += length;
            state.bodies.insert(key, (1, length));
        }
        Some(Ticket {
            of: self.clone(),
            key,
        })
    }

    /// Bytes of different bodies on their way.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// A body of shared pieces; `None` when too much is on its way.
    pub(crate) fn pieces(self: &Arc<Self>, pieces: Arc<[Bytes]>, length: usize) -> Option<Body> {
        let ticket = self.enter(pieces.as_ptr().addr(), length, SENDING_BYTES_MAX)?;
        Some(Body::new(Pieces {
            pieces,
            next: 0,
            rest: Bytes::new(),
            left: length,
            _ticket: ticket,
        }))
    }

    /// A body of one shared piece; `None` when too much is on its way.
    pub(crate) fn piece(self: &Arc<Self>, piece: Bytes) -> Option<Body> {
        let length = piece.len();
        let ticket = self.enter(piece.as_ptr().addr(), length, SENDING_BYTES_MAX)?;
        Some(Body::new(Pieces {
            pieces: Arc::new([piece]),
            next: 0,
            rest: Bytes::new(),
            left: length,
            _ticket: ticket,
        }))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, length)) = state.bodies.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                let length = *length;
                state.bodies.remove(&self.key);
                state.bytes = state.bytes.saturating_sub(length);
            }
        }
    }
}

/// Frames are taken as the socket has room, so this lives, and counts, until nearly all is written.
struct Pieces {
    pieces: Arc<[Bytes]>,
    next: usize,
    /// What is left of a long piece.
    rest: Bytes,
    left: usize,
    _ticket: Ticket,
}

impl Pieces {
    fn take(&mut self) -> Option<Bytes> {
        if !self.rest.is_empty() {
            let length = self.rest.len().min(FRAME_BYTES);
            return Some(self.rest.split_to(length));
        }
        let mut first = self.pieces.get(self.next)?.clone();
        self.next += 1;
        if first.len() >= PIECE_BYTES_MIN {
            let frame = first.split_to(first.len().min(FRAME_BYTES));
            self.rest = first;
            return Some(frame);
        }
        let mut frame = BytesMut::with_capacity(FRAME_BYTES.min(self.left));
        frame.extend_from_slice(&first);
        while let Some(piece) = self.pieces.get(self.next) {
            if piece.len() >= PIECE_BYTES_MIN || frame.len() + piece.len() > FRAME_BYTES {
                break;
            }
            frame.extend_from_slice(piece);
            self.next += 1;
        }
        Some(frame.freeze())
    }
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.take();
        if let Some(frame) = &frame {
            self.left = self.left.saturating_sub(frame.len());
        }
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.next >= self.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_pieces_travel_together_and_long_ones_as_they_are() {
        let long = Bytes::from(vec![b'l'; FRAME_BYTES * 2 + 1]);
        let mut all = vec![Bytes::from_static(b"short"); 30_000];
        all.insert(10, long.clone());
        let whole = all.concat();
        let sending = Arc::new(Sending::default());
        let ticket = sending.enter(1, whole.len(), usize::MAX).expect("room");
        let mut body = Pieces {
            pieces: all.into(),
            next: 0,
            rest: Bytes::new(),
            left: whole.len(),
            _ticket: ticket,
        };
        let mut frames = Vec::new();
        while let Some(frame) = body.take() {
            frames.push(frame);
        }
        assert_eq!(frames[1].as_ptr(), long.as_ptr(), "not copied");
        assert!(frames.iter().all(|frame| frame.len() <= FRAME_BYTES));
        assert!(frames.len() < 10, "{}", frames.len());
        assert_eq!(frames.concat(), whole);
    }

    #[test]
    fn different_bodies_are_bounded_and_one_body_counts_once() {
        let sending = Arc::new(Sending::default());
        let one = sending.enter(1, 60, 100).expect("room");
        let same = sending.enter(1, 60, 100).expect("the same one");
        assert_eq!(sending.bytes(), 60);
        assert!(sending.enter(2, 50, 100).is_none());
        drop(one);
        assert!(sending.enter(2, 50, 100).is_none());
        drop(same);
        assert_eq!(sending.bytes(), 0);
        let huge = sending.enter(3, 500, 100).expect("alone");
        assert!(sending.enter(4, 1, 100).is_none());
        drop(huge);
        assert!(sending.enter(4, 1, 100).is_some());
    }
}
