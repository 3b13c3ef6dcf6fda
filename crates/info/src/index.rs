//! Secondary indexes: which jobs a user, queue, name, state, result, host or rank has, without looking at any job.
//!
//! They are exact at every moment a query runs. Strings live once: the text of a name is the key here and is shared by
//! every job of that name.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use job::{JobResult, State};

use crate::slots::{Slot, Slots};

/// All secondary indexes of one table.
#[derive(Debug, Clone, Default)]
pub struct Index {
    users: HashMap<u32, Slots>,
    names: HashMap<Arc<str>, Slots>,
    queues: HashMap<Arc<str>, Slots>,
    hosts: HashMap<Arc<str>, Slots>,
    ranks: HashMap<u32, Slots>,
    states: [Slots; 7],
    results: [Slots; 4],
}

fn add<K: Hash + Eq>(map: &mut HashMap<K, Slots>, key: K, slot: Slot) {
    map.entry(key).or_default().insert(slot);
}

fn take<K, Q>(map: &mut HashMap<K, Slots>, key: &Q, slot: Slot)
where
    K: Hash + Eq + std::borrow::Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    if let Some(slots) = map.get_mut(key) {
        slots.remove(slot);
        if slots.is_empty() {
            map.remove(key);
        }
    }
}

fn shared(map: &HashMap<Arc<str>, Slots>, text: &str) -> Arc<str> {
    map.get_key_value(text)
        .map_or_else(|| text.into(), |(key, _)| key.clone())
}

fn bit(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

impl Index {
    /// The shared text of a name.
    pub(crate) fn name_text(&self, name: &str) -> Arc<str> {
        shared(&self.names, name)
    }

    /// The shared text of a queue.
    pub(crate) fn queue_text(&self, queue: &str) -> Arc<str> {
        shared(&self.queues, queue)
    }

    pub(crate) fn add_user(&mut self, user: u32, slot: Slot) {
        add(&mut self.users, user, slot);
    }

    pub(crate) fn remove_user(&mut self, user: u32, slot: Slot) {
        take(&mut self.users, &user, slot);
    }

    pub(crate) fn add_name(&mut self, name: Option<&Arc<str>>, slot: Slot) {
        if let Some(name) = name {
            add(&mut self.names, name.clone(), slot);
        }
    }

    pub(crate) fn remove_name(&mut self, name: Option<&Arc<str>>, slot: Slot) {
        if let Some(name) = name {
            take(&mut self.names, name.as_ref(), slot);
        }
    }

    pub(crate) fn add_queue(&mut self, queue: Option<&Arc<str>>, slot: Slot) {
        if let Some(queue) = queue {
            add(&mut self.queues, queue.clone(), slot);
        }
    }

    pub(crate) fn remove_queue(&mut self, queue: Option<&Arc<str>>, slot: Slot) {
        if let Some(queue) = queue {
            take(&mut self.queues, queue.as_ref(), slot);
        }
    }

    pub(crate) fn add_host(&mut self, host: &Arc<str>, slot: Slot) {
        if let Some(slots) = self.hosts.get_mut(host.as_ref()) {
            slots.insert(slot);
        } else {
            add(&mut self.hosts, host.clone(), slot);
        }
    }

    pub(crate) fn remove_host(&mut self, host: &str, slot: Slot) {
        take(&mut self.hosts, host, slot);
    }

    pub(crate) fn add_rank(&mut self, rank: u32, slot: Slot) {
        add(&mut self.ranks, rank, slot);
    }

    pub(crate) fn remove_rank(&mut self, rank: u32, slot: Slot) {
        take(&mut self.ranks, &rank, slot);
    }

    pub(crate) fn add_state(&mut self, state: State, slot: Slot) {
        if let Some(slots) = self.states.get_mut(bit(state.bit())) {
            slots.insert(slot);
        }
    }

    pub(crate) fn remove_state(&mut self, state: State, slot: Slot) {
        if let Some(slots) = self.states.get_mut(bit(state.bit())) {
            slots.remove(slot);
        }
    }

    pub(crate) fn add_result(&mut self, result: Option<JobResult>, slot: Slot) {
        if let Some(slots) = result.and_then(|result| self.results.get_mut(bit(result.bit()))) {
            slots.insert(slot);
        }
    }

    pub(crate) fn remove_result(&mut self, result: Option<JobResult>, slot: Slot) {
        if let Some(slots) = result.and_then(|result| self.results.get_mut(bit(result.bit()))) {
            slots.remove(slot);
        }
    }

    /// Jobs of a user.
    #[must_use]
    pub fn user(&self, user: u32) -> Option<&Slots> {
        self.users.get(&user)
    }

    /// Jobs of a name.
    #[must_use]
    pub fn name(&self, name: &str) -> Option<&Slots> {
        self.names.get(name)
    }

    /// Jobs of a queue.
    #[must_use]
    pub fn queue(&self, queue: &str) -> Option<&Slots> {
        self.queues.get(queue)
    }

    /// Jobs that have or had resources on a host.
    #[must_use]
    pub fn host(&self, host: &str) -> Option<&Slots> {
        self.hosts.get(host)
    }

    /// Jobs that have or had resources on a rank.
    #[must_use]
    pub fn rank(&self, rank: u32) -> Option<&Slots> {
        self.ranks.get(&rank)
    }

    /// Jobs in a state.
    #[must_use]
    pub fn state(&self, state: State) -> Option<&Slots> {
        self.states.get(bit(state.bit()))
    }

    /// Jobs of a result.
    #[must_use]
    pub fn result(&self, result: JobResult) -> Option<&Slots> {
        self.results.get(bit(result.bit()))
    }

    /// How many hosts some job has resources on.
    #[must_use]
    pub fn hosts_len(&self) -> usize {
        self.hosts.len()
    }

    /// Bytes held, about.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        fn texts(map: &HashMap<Arc<str>, Slots>) -> usize {
            let entry = size_of::<(Arc<str>, Slots)>() + 1;
            map.capacity() * entry
                + map
                    .iter()
                    .map(|(text, slots)| 16 + text.len() + slots.heap_bytes())
                    .sum::<usize>()
        }
        fn numbers(map: &HashMap<u32, Slots>) -> usize {
            map.capacity() * (size_of::<(u32, Slots)>() + 1)
                + map.values().map(Slots::heap_bytes).sum::<usize>()
        }
        texts(&self.names)
            + texts(&self.queues)
            + texts(&self.hosts)
            + numbers(&self.users)
            + numbers(&self.ranks)
            + self
                .states
                .iter()
                .chain(&self.results)
                .map(Slots::heap_bytes)
                .sum::<usize>()
    }
}
