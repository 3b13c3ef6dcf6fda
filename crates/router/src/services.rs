//! Service names and who holds them.
//!
//! A name is held by one peer. When a peer gives a name up, it may still answer what it was asked under it, so the slot
//! stays until nobody hangs on it; the name is free at once. Rules:
//!
//! | name | who may take it |
//! |---|---|
//! | one of [`RESERVED_SERVICES`] | who shows the instance key |
//! | `UID-…` | the user with that id, and the owner |
//! | any other | the owner |

use crate::PeerId;
use std::collections::{BTreeSet, HashMap};
use wire::{Cred, errno};

/// weir's own services; taking one needs the instance key.
pub const RESERVED_SERVICES: [&str; 5] = ["job-list", "job-info", "sched", "job-exec", "resource"];
/// The longest service name, in bytes.
pub const SERVICE_NAME_LEN_MAX: usize = 128;
/// Names a peer may hold, those given up but not answered included; one more is refused with EMFILE.
pub const SERVICES_PER_PEER_MAX: usize = 64;

/// Topics of job shells go to this service's holder while nobody registered them.
const SHELL_FALLBACK: &str = "job-exec";

/// Why a name was not given or taken away.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Empty, too long, or with a dot or NUL.
    #[error("a service name has 1 to {SERVICE_NAME_LEN_MAX} bytes and no dot or NUL, got {name:?}")]
    BadName {
        /// The name asked for (its beginning).
        name: String,
    },
    /// weir's own, and the caller did not show the instance key.
    #[error(
        "service {name} belongs to the instance: `key` must be the text of the file key in the state directory"
    )]
    NeedsKey {
        /// The name asked for.
        name: String,
    },
    /// A guest may take names that begin with his user id only.
    #[error(
        "user {userid} may only register services whose name begins with {userid}-, not {name}"
    )]
    NotAllowed {
        /// Who asked.
        userid: u32,
        /// The name asked for.
        name: String,
    },
    /// Someone holds it.
    #[error("service {name} is registered already")]
    Taken {
        /// The name asked for.
        name: String,
    },
    /// The peer holds too many.
    #[error("a connection may register {SERVICES_PER_PEER_MAX} services at most")]
    TooMany,
    /// Nobody holds it, or someone else does.
    #[error("service {name} is not registered by this connection")]
    NotHeld {
        /// The name to be removed.
        name: String,
    },
}

impl RegisterError {
    /// The number it is answered with.
    #[must_use]
    pub fn errnum(&self) -> u32 {
        match self {
            RegisterError::BadName { .. } => errno::EINVAL,
            RegisterError::NeedsKey { .. } | RegisterError::NotAllowed { .. } => errno::EPERM,
            RegisterError::Taken { .. } => errno::EEXIST,
            RegisterError::TooMany => errno::EMFILE,
            RegisterError::NotHeld { .. } => errno::ENOENT,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlotId(usize);

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) owner: PeerId,
    /// The name still leads here.
    pub(crate) registered: bool,
    /// Peers with a link to it.
    pub(crate) clients: BTreeSet<PeerId>,
}

/// What a topic's first word leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) slot: SlotId,
    pub(crate) owner: PeerId,
    /// By way of the fallback for job shells, not by its own name.
    pub(crate) fallback: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Services {
    by_name: HashMap<String, SlotId>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
}

impl Services {
    pub(crate) fn get(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id.0).and_then(Option::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: SlotId) -> Option<&mut Slot> {
        self.slots.get_mut(id.0).and_then(Option::as_mut)
    }

    pub(crate) fn owner_of(&self, name: &str) -> Option<PeerId> {
        self.by_name
            .get(name)
            .and_then(|&id| self.get(id))
            .map(|slot| slot.owner)
    }

    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        let (id, fallback) = match self.by_name.get(name) {
            Some(&id) => (id, false),
            None if is_shell(name) => (*self.by_name.get(SHELL_FALLBACK)?, true),
            None => return None,
        };
        Some(Found {
            slot: id,
            owner: self.get(id)?.owner,
            fallback,
        })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, PeerId)> {
        self.slots
            .iter()
            .flatten()
            .filter(|slot| slot.registered)
            .map(|slot| (slot.name.as_str(), slot.owner))
    }

    /// Registers `name` for `owner`, who has `held` already.
    pub(crate) fn add(
        &mut self,
        owner: PeerId,
        held: &mut Vec<SlotId>,
        cred: Cred,
        name: &str,
        key_ok: bool,
    ) -> Result<(), RegisterError> {
        if name.is_empty() || name.len() > SERVICE_NAME_LEN_MAX || name.contains(['.', '\0']) {
            let name = name.chars().take(SERVICE_NAME_LEN_MAX).collect();
            return Err(RegisterError::BadName { name });
        }
        if RESERVED_SERVICES.contains(&name) && !key_ok {
            return Err(RegisterError::NeedsKey {
                name: name.to_owned(),
            });
        }
        if !cred.is_owner() && !key_ok && !is_of_user(name, cred.userid) {
            return Err(RegisterError::NotAllowed {
                userid: cred.userid,
                name: name.to_owned(),
            });
        }
        if self.by_name.contains_key(name) {
            return Err(RegisterError::Taken {
                name: name.to_owned(),
            });
        }
        let again = held
            .iter()
            .copied()
            .find(|&id| self.get(id).is_some_and(|slot| slot.name == name));
        let id = match again {
            Some(id) => id,
            None if held.len() >= SERVICES_PER_PEER_MAX => return Err(RegisterError::TooMany),
            None => {
                let slot = Slot {
                    name: name.to_owned(),
                    owner,
                    registered: false,
                    clients: BTreeSet::new(),
                };
                let id = self.insert(slot);
                held.push(id);
                id
            }
        };
        if let Some(slot) = self.get_mut(id) {
            slot.registered = true;
        }
        self.by_name.insert(name.to_owned(), id);
        Ok(())
    }

    fn insert(&mut self, slot: Slot) -> SlotId {
        if let Some(at) = self.free.pop() {
            self.slots[at] = Some(slot);
            return SlotId(at);
        }
        self.slots.push(Some(slot));
        SlotId(self.slots.len() - 1)
    }

    /// Gives `name` up. Returns its slot if nobody hangs on it, so that the peer forgets it too.
    pub(crate) fn remove(
        &mut self,
        owner: PeerId,
        name: &str,
    ) -> Result<Option<SlotId>, RegisterError> {
        let held = self
            .by_name
            .get(name)
            .copied()
            .filter(|&id| self.get(id).is_some_and(|slot| slot.owner == owner));
        let Some(id) = held else {
            let name = name.chars().take(SERVICE_NAME_LEN_MAX).collect();
            return Err(RegisterError::NotHeld { name });
        };
        self.by_name.remove(name);
        if let Some(slot) = self.get_mut(id) {
            slot.registered = false;
        }
        Ok(self.drop_if_idle(id).then_some(id))
    }

    /// Frees a slot that has neither a name nor a client; true if it did.
    pub(crate) fn drop_if_idle(&mut self, id: SlotId) -> bool {
        let idle = self
            .get(id)
            .is_some_and(|slot| !slot.registered && slot.clients.is_empty());
        if idle {
            self.slots[id.0] = None;
            self.free.push(id.0);
        }
        idle
    }

    /// Frees a slot whose holder is gone.
    pub(crate) fn take(&mut self, id: SlotId) -> Option<Slot> {
        let slot = self.slots.get_mut(id.0)?.take()?;
        self.free.push(id.0);
        if slot.registered {
            self.by_name.remove(&slot.name);
        }
        Some(slot)
    }
}

/// `UID-…`, the user's own part of the name space.
fn is_of_user(name: &str, userid: u32) -> bool {
    matches!(name.split_once('-'), Some((uid, rest)) if !rest.is_empty() && uid == userid.to_string())
}

/// `UID-shell-F58`, the service a job's shell would register.
fn is_shell(name: &str) -> bool {
    matches!(name.split_once("-shell-"), Some((uid, job))
        if !uid.is_empty() && uid.bytes().all(|byte| byte.is_ascii_digit()) && !job.is_empty())
}
