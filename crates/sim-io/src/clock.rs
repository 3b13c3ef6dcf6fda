//! The clock of one simulation, which has one thread: seconds since 1970, set by whoever moves time.

use std::cell::Cell;

thread_local! {
    static MONOTONIC: Cell<f64> = const { Cell::new(0.0) };
    static WALL: Cell<f64> = const { Cell::new(0.0) };
}

/// Sets both readings.
pub fn set(monotonic: f64, wall: f64) {
    MONOTONIC.set(monotonic);
    WALL.set(wall);
}

/// A time that never goes back.
#[must_use]
pub fn monotonic() -> f64 {
    MONOTONIC.get()
}

/// What a clock on the wall shows, to the microsecond.
#[must_use]
pub fn wall() -> f64 {
    (WALL.get() * 1e6).round() / 1e6
}
