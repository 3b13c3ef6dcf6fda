//! Whether some process holds a lock on a file, seen without taking it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// So often is looked before it is believed that nobody holds a lock.
const LOOKS: usize = 5;
/// Room for the list of locks: what is read in one piece is of one moment.
const LOCKS_BYTES: usize = 64 << 10;

/// True if some process holds a lock on the file. Looks only: taking the lock, however shortly, could stop a daemon from starting.
///
/// The kernel gives a long list in pieces, each from a place counted from the front: when a lock in front goes in between, another one is
/// in no piece. So that a lock is there is true, and that it is not is looked at again.
pub(crate) fn is_held(lock: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(lock) else {
        return false;
    };
    let inode = format!(":{}", metadata.ino());
    (0..LOOKS).any(|_| is_listed(&inode))
}

/// Whether a lock on this inode is in the list: `1: FLOCK  ADVISORY  WRITE 4711 fe:01:1234567 0 EOF`
fn is_listed(inode: &str) -> bool {
    let mut locks = Vec::with_capacity(LOCKS_BYTES);
    let read = File::open("/proc/locks").and_then(|mut file| file.read_to_end(&mut locks));
    read.is_ok()
        && String::from_utf8_lossy(&locks).lines().any(|line| {
            line.contains("FLOCK") && line.split_whitespace().any(|word| word.ends_with(inode))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_a_lock_that_is_held_is_seen_while_others_come_and_go() {
        use rustix::fs::{FlockOperation, flock};
        use std::sync::atomic::{AtomicBool, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(dir.path().join(name)).unwrap();
        let others: Vec<_> = (0..20).map(|at| file(&at.to_string())).collect();
        let lock = file("lock");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let enough = AtomicBool::new(false);
        let missed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    for how in [FlockOperation::LockExclusive, FlockOperation::Unlock] {
                        others.iter().for_each(|other| flock(other, how).unwrap());
                    }
                }
            });
            let path = dir.path().join("lock");
            let missed = (0..5000).filter(|_| !is_held(&path)).count();
            enough.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0);
        drop(lock);
        assert!(!is_held(&dir.path().join("lock")));
    }
}
