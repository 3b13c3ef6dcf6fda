//! Waiting longer each time something fails: 0.1 s, doubling up to 5 s.

use std::time::Duration;

/// The first wait.
pub const FIRST: Duration = Duration::from_millis(100);
/// The longest.
pub const LONGEST_MAX: Duration = Duration::from_secs(5);

/// How long to wait next.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// The wait that is due, and a longer one next time.
    pub fn take(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST_MAX);
        wait
    }

    /// Waits as long as is due.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.take()).await;
    }

    /// It went well for a while: short waits again.
    pub fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| backoff.take().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.take(), FIRST);
    }
}
