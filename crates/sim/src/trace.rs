//! What happened, step by step: printed for a seed that is looked at, and summed up for every seed, so that a replay can be told from a run
//! that went another way.

/// See the module.
#[derive(Debug, Clone)]
pub struct Trace {
    on: bool,
    sum: u64,
}

impl Trace {
    /// Prints if `on`.
    #[must_use]
    pub fn new(on: bool) -> Trace {
        Trace {
            on,
            sum: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Whether it prints.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Takes a number into the sum.
    pub fn count(&mut self, number: u64) {
        self.sum = (self.sum ^ number).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// The sum of all.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Prints a line.
    #[expect(clippy::print_stdout, reason = "this is what --trace is for")]
    pub fn line(&self, now: f64, step: usize, line: &str) {
        if self.on {
            println!("{step:>6} {:>12.6} {line}", now - crate::world::START);
        }
    }
}

/// Adds a line to the trace of a world, made only if it is printed.
#[macro_export]
macro_rules! note {
    ($world:expr, $($arg:tt)*) => {
        if $world.trace.is_on() {
            $world.trace.line($world.now, $world.steps, &format!($($arg)*));
        }
    };
}
