//! A connection: bytes both ways, in order, as late and in as small pieces as the simulator likes.
//!
//! ```text
//!  actor ── up (its output queue) ──▶ up_buf ─ frames ─▶ server
//!        ◀─ frames ─ down_buf ◀── down (the server's output queue) ──
//! ```

use bytes::BytesMut;
use sim_io::Outbox;
use wire::{Cred, FRAME_LEN_MAX_DEFAULT, Message};

use crate::violation::{Promise, Violation};

/// Who connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A client.
    Client(usize),
    /// A client of job-info's own socket.
    Direct(usize),
    /// A listener.
    Listener(usize),
    /// job-info.
    Info,
    /// The engine.
    Engine,
}

impl Actor {
    /// Whether it connects to job-info's own socket and not to the broker.
    #[must_use]
    pub fn is_direct(self) -> bool {
        matches!(self, Actor::Direct(_))
    }
}

/// One connection.
#[derive(Debug)]
pub struct Link {
    /// Its number at the server.
    pub id: u64,
    /// Who connected.
    pub actor: Actor,
    /// As the kernel says.
    pub cred: Cred,
    /// The server's output queue.
    pub down: Outbox,
    /// The actor's output queue.
    pub up: Outbox,
    down_buf: BytesMut,
    up_buf: BytesMut,
    /// Nothing arrives at the server before this time.
    pub up_at: f64,
    /// Nothing arrives at the actor before this time.
    pub down_at: f64,
    /// The actor reads nothing before this time.
    pub deaf_until: f64,
    /// The actor is gone; the server is not told yet.
    pub cut: bool,
}

impl Link {
    /// A new one.
    #[must_use]
    pub fn new(id: u64, actor: Actor, cred: Cred, down: Outbox, up: Outbox) -> Link {
        Link {
            id,
            actor,
            cred,
            down,
            up,
            down_buf: BytesMut::new(),
            up_buf: BytesMut::new(),
            up_at: 0.0,
            down_at: 0.0,
            deaf_until: 0.0,
            cut: false,
        }
    }

    /// Whether something can arrive at the server now.
    #[must_use]
    pub fn has_up(&self, now: f64) -> bool {
        now >= self.up_at && self.up.queued_bytes() > 0
    }

    /// Whether something can arrive at the actor now.
    #[must_use]
    pub fn has_down(&self, now: f64) -> bool {
        !self.cut && now >= self.down_at.max(self.deaf_until) && self.down.queued_bytes() > 0
    }

    /// Moves up to `bytes` bytes to the server: whole messages that are there with that, credentials stamped, and whether the queue drained.
    /// # Errors
    /// What came are no frames.
    pub fn arrive_up(&mut self, bytes: usize) -> Result<(Vec<Message>, bool), Violation> {
        let drained = self.up.take(bytes, &mut self.up_buf);
        let mut messages = decode(&mut self.up_buf)?;
        for message in &mut messages {
            *message.cred_mut() = self.cred.stamped(message.cred());
        }
        Ok((messages, drained))
    }

    /// Moves up to `bytes` bytes to the actor, likewise.
    /// # Errors
    /// What came are no frames.
    pub fn arrive_down(&mut self, bytes: usize) -> Result<(Vec<Message>, bool), Violation> {
        let drained = self.down.take(bytes, &mut self.down_buf);
        Ok((decode(&mut self.down_buf)?, drained))
    }
}

fn decode(buf: &mut BytesMut) -> Result<Vec<Message>, Violation> {
    let mut messages = Vec::new();
    loop {
        match wire::decode(buf, FRAME_LEN_MAX_DEFAULT) {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return Ok(messages),
            Err(error) => return Err(Violation::of(Promise::Ordered, format!("frame: {error}"))),
        }
    }
}
