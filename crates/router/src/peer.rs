//! One end that messages come from and go to: a connection, or a service in this process. To the router they are alike.
//!
//! What a peer asked and holds is kept here, so that all of it goes when the peer goes.

use crate::inflight::Link;
use crate::services::SlotId;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Cred, Routes};

/// The broker's number for a peer; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// Where a peer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// The other end of a socket.
    Connection,
    /// A service in this process. Also gets responses to its requests with matchtag 0.
    InProcess,
}

/// What the broker says about a new peer.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// Its number.
    pub id: PeerId,
    /// Its hop in route stacks: random, unguessable, unique (a UUID of 36 characters by custom).
    pub uuid: Bytes,
    /// Who it is, from the kernel; disconnect requests carry it.
    pub cred: Cred,
    /// Where it lives.
    pub kind: PeerKind,
}

/// A peer and all that hangs on it.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) uuid: Bytes,
    pub(crate) cred: Cred,
    pub(crate) kind: PeerKind,
    /// Names it holds, and names it gave up whose requests it may still answer.
    pub(crate) slots: Vec<SlotId>,
    /// What it asked of whom.
    pub(crate) links: BTreeMap<SlotId, Link>,
    /// Sum of the requests in flight over all links.
    pub(crate) inflight: usize,
    /// Sum of the remembered topics over all links.
    pub(crate) prefixes: usize,
    /// While its output queue is above high water: which streams were told to pause.
    pub(crate) paused: Option<BTreeSet<(SlotId, Routes)>>,
}

impl Peer {
    pub(crate) fn new(info: PeerInfo) -> Peer {
        Peer {
            uuid: info.uuid,
            cred: info.cred,
            kind: info.kind,
            slots: Vec::new(),
            links: BTreeMap::new(),
            inflight: 0,
            prefixes: 0,
            paused: None,
        }
    }
}
