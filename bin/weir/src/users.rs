//! User names and ids, as the system's user database knows them; each looked up once a process.

use crate::failure::usage;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

thread_local! {
    static NAMES: RefCell<HashMap<u32, Rc<str>>> = RefCell::new(HashMap::new());
}

/// The user this process runs as.
#[must_use]
pub fn me() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The name of a user; the number as text when nobody knows it.
#[must_use]
pub fn name(uid: u32) -> Rc<str> {
    NAMES.with_borrow_mut(|names| names.entry(uid).or_insert_with(|| look_up(uid)).clone())
}

fn look_up(uid: u32) -> Rc<str> {
    match nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)) {
        Ok(Some(user)) => Rc::from(user.name),
        _ => Rc::from(uid.to_string()),
    }
}

/// The id of a user, given by name or by number.
///
/// # Errors
/// No user has that name.
pub fn uid(text: &str) -> anyhow::Result<u32> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    match nix::unistd::User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        _ => Err(usage(format!("unknown user '{text}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_name_and_by_number() {
        assert_eq!(uid("root").unwrap(), 0);
        assert_eq!(uid("4711").unwrap(), 4711);
        assert_eq!(&*name(0), "root");
        assert_eq!(&*name(3_999_999_999), "3999999999");
        assert_eq!(
            uid("no such user").unwrap_err().to_string(),
            "unknown user 'no such user'"
        );
    }
}
