//! A small disk that can be filled up: a tmpfs, where one may be mounted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Unmounted when it is dropped.
pub struct Disk {
    dir: PathBuf,
}

impl Disk {
    /// Mounts it at `dir`. None, and the reason on standard error, where that is not allowed.
    pub fn mount(dir: &Path, kib: u32) -> Option<Disk> {
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={kib}k,mode=700"),
                "none",
            ])
            .arg(dir)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Disk {
                dir: dir.to_owned(),
            });
        }
        eprintln!("skipped: a tmpfs cannot be mounted here, which needs root");
        None
    }

    /// Fills it to the last block but so many. Filling again changes nothing.
    pub fn fill(&self, but: usize) {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.dir.join("filler"))
            .unwrap();
        while file.write_all(&[b'x'; 4096]).is_ok() {}
        let len = file.metadata().unwrap().len() & !4095;
        file.set_len(len.saturating_sub(but as u64 * 4096)).unwrap();
    }

    /// Gives the room back.
    pub fn empty(&self) {
        std::fs::remove_file(self.dir.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}
