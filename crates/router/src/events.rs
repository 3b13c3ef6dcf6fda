//! Who hears an event: subscriptions match the beginning of its topic.
//!
//! A private event goes to the owner and the user it is about. Each subscriber gets an event once, however many of his
//! subscriptions match.

use crate::{PeerId, Router};
use std::collections::BTreeMap;
use wire::{Cred, Event, Flags, errno};

/// Subscriptions a peer may hold; one more is refused with EMFILE.
pub const SUBSCRIPTIONS_PER_PEER_MAX: usize = 256;

/// Why a subscription was not added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The peer holds too many.
    #[error("a connection may hold {SUBSCRIPTIONS_PER_PEER_MAX} subscriptions at most")]
    TooMany,
    /// Nothing like it was subscribed.
    #[error("there is no such subscription")]
    NotHeld,
}

impl SubscribeError {
    /// The number it is answered with.
    #[must_use]
    pub fn errnum(&self) -> u32 {
        match self {
            SubscribeError::TooMany => errno::EMFILE,
            SubscribeError::NotHeld => errno::ENOENT,
        }
    }
}

/// An event with its sequence number and hops, and who gets it. Encode it once for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// What goes out.
    pub event: Event,
    /// To whom, in order of peer number.
    pub to: Vec<PeerId>,
}

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    prefixes: BTreeMap<PeerId, Vec<String>>,
    sequence: u32,
}

impl Subscriptions {
    pub(crate) fn add(&mut self, peer: PeerId, prefix: &str) -> Result<(), SubscribeError> {
        let held = self.prefixes.entry(peer).or_default();
        if held.len() >= SUBSCRIPTIONS_PER_PEER_MAX {
            return Err(SubscribeError::TooMany);
        }
        held.push(prefix.to_owned());
        Ok(())
    }

    pub(crate) fn remove(&mut self, peer: PeerId, prefix: &str) -> Result<(), SubscribeError> {
        let held = self
            .prefixes
            .get_mut(&peer)
            .ok_or(SubscribeError::NotHeld)?;
        let at = held
            .iter()
            .position(|one| one == prefix)
            .ok_or(SubscribeError::NotHeld)?;
        held.swap_remove(at);
        if held.is_empty() {
            self.prefixes.remove(&peer);
        }
        Ok(())
    }

    pub(crate) fn remove_peer(&mut self, peer: PeerId) {
        self.prefixes.remove(&peer);
    }

    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    pub(crate) fn matching(&self, topic: &str) -> impl Iterator<Item = PeerId> {
        self.prefixes
            .iter()
            .filter(move |(_, held)| held.iter().any(|prefix| topic.starts_with(prefix.as_str())))
            .map(|(&peer, _)| peer)
    }
}

impl Router {
    /// `event.subscribe`: `prefix` matches the beginning of topics, `""` all of them.
    /// # Errors
    /// [`SubscribeError::TooMany`].
    pub fn subscribe(&mut self, peer: PeerId, prefix: &str) -> Result<(), SubscribeError> {
        self.subscriptions.add(peer, prefix)
    }

    /// `event.unsubscribe`: must equal an earlier subscription.
    /// # Errors
    /// [`SubscribeError::NotHeld`].
    pub fn unsubscribe(&mut self, peer: PeerId, prefix: &str) -> Result<(), SubscribeError> {
        self.subscriptions.remove(peer, prefix)
    }

    /// Gives `event` the next sequence number and this broker's hop and says who gets it. Hops that its publisher wrote are taken
    /// off, and its own is not told: nobody learns the hop of another client. Whether the publisher may publish is the caller's
    /// to check.
    #[must_use]
    pub fn publish(&mut self, mut event: Event) -> Publication {
        event.sequence = self.subscriptions.next_sequence();
        event.routes = Some(vec![self.own_uuid()]);
        if event.cred.rolemask == 0 {
            event.cred = self.own_cred();
        }
        let private = event.flags.contains(Flags::PRIVATE);
        let may_hear = |cred: Cred| !private || cred.is_owner() || cred.userid == event.cred.userid;
        let to = self
            .subscriptions
            .matching(event.topic.as_str())
            .filter(|&peer| self.cred_of(peer).is_some_and(may_hear))
            .collect();
        Publication { event, to }
    }
}
