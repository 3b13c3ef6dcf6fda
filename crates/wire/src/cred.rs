//! Who sent a message: a user id and role bits, as the socket saw them.
//!
//! The kernel's peer credentials decide ([`Cred`] of a connection); what a frame claims counts only where
//! [`Cred::stamped`] lets it. Choosing the roles of a connection is left to the daemon's policy.

/// A user id nobody has; in a frame it means "not filled in".
pub const USERID_UNKNOWN: u32 = 0xffff_ffff;
/// The user who runs the instance.
pub const ROLE_OWNER: u32 = 1;
/// A guest: has rights to his own jobs.
pub const ROLE_USER: u32 = 2;
/// Came in over this machine's own socket.
pub const ROLE_LOCAL: u32 = 4;
/// A guest whom the configuration trusts with more.
pub const ROLE_ADMIN: u32 = 8;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cred {
    /// Numeric user id, or [`USERID_UNKNOWN`].
    pub userid: u32,
    /// Sum of `ROLE_…` bits; 0 means "not filled in".
    pub rolemask: u32,
}

impl Cred {
    /// What clients send: neither field filled in.
    pub const UNSET: Cred = Cred {
        userid: USERID_UNKNOWN,
        rolemask: 0,
    };

    /// The owner of the instance, on this machine.
    #[must_use]
    pub const fn owner(userid: u32) -> Cred {
        Cred {
            userid,
            rolemask: ROLE_OWNER | ROLE_LOCAL,
        }
    }

    /// A guest on this machine.
    #[must_use]
    pub const fn guest(userid: u32) -> Cred {
        Cred {
            userid,
            rolemask: ROLE_USER | ROLE_LOCAL,
        }
    }

    /// Has the owner bit.
    #[must_use]
    pub const fn is_owner(self) -> bool {
        self.rolemask & ROLE_OWNER != 0
    }

    /// May do to a job of `userid` what its owner may: the instance owner, or that user himself with the user role.
    #[must_use]
    pub const fn may_act_for(self, userid: u32) -> bool {
        self.is_owner()
            || (self.rolemask & ROLE_USER != 0
                && self.userid == userid
                && self.userid != USERID_UNKNOWN)
    }

    /// The credentials a message gets that came in on a connection with these ones and claims `sent`.
    ///
    /// A guest's claim counts for nothing; an owner's fills in just the fields he set.
    #[must_use]
    pub const fn stamped(self, sent: Cred) -> Cred {
        if !self.is_owner() {
            return self;
        }
        Cred {
            userid: if sent.userid == USERID_UNKNOWN {
                self.userid
            } else {
                sent.userid
            },
            rolemask: if sent.rolemask == 0 {
                self.rolemask
            } else {
                sent.rolemask
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_cannot_claim_to_be_another() {
        let guest = Cred::guest(1001);
        assert_eq!(guest.stamped(Cred::owner(1000)), guest);
        assert_eq!(guest.stamped(Cred::UNSET), guest);
    }

    #[test]
    fn an_owner_fills_in_each_field_alone() {
        let owner = Cred::owner(1000);
        assert_eq!(owner.stamped(Cred::UNSET), owner);
        assert_eq!(
            owner.stamped(Cred {
                userid: 7,
                rolemask: 0
            }),
            Cred {
                userid: 7,
                rolemask: 5
            }
        );
        assert_eq!(
            owner.stamped(Cred {
                userid: USERID_UNKNOWN,
                rolemask: 2
            }),
            Cred {
                userid: 1000,
                rolemask: 2
            }
        );
    }

    #[test]
    fn rights_to_a_job() {
        assert!(Cred::owner(1).may_act_for(2));
        assert!(Cred::guest(2).may_act_for(2));
        assert!(!Cred::guest(2).may_act_for(3));
        assert!(
            !Cred {
                userid: USERID_UNKNOWN,
                rolemask: ROLE_USER
            }
            .may_act_for(USERID_UNKNOWN)
        );
        assert!(
            !Cred {
                userid: 2,
                rolemask: ROLE_LOCAL
            }
            .may_act_for(2)
        );
    }
}
