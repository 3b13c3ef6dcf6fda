//! What a seed decides before anything happens: who takes part, how large things are, which faults there are and how often.
//!
//! Every seed leaves some kinds of faults out, so that what only shows while another kind is absent has its runs too.

use crate::rng::Rng;

/// The user who runs the instance.
pub const OWNER: u32 = 1000;
/// Others.
pub const GUESTS: [u32; 2] = [2001, 2002];

/// How likely each kind of fault is, as a weight among all that can happen; 0: never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A connection is cut.
    pub cut: usize,
    /// A connection carries nothing for a while.
    pub stall: usize,
    /// A listener or client reads nothing for a while.
    pub deaf: usize,
    /// The job-manager is killed.
    pub crash_manager: usize,
    /// job-info is killed.
    pub crash_info: usize,
    /// The engine is killed.
    pub crash_engine: usize,
    /// The disk is full, or has space again.
    pub full: usize,
    /// The disk breaks under a commit.
    pub broken: usize,
    /// Somebody sets the clock.
    pub clock: usize,
    /// The log forgets its oldest entries at a restart.
    pub trim: bool,
    /// A job's row cannot be read after a restart.
    pub damage: bool,
    /// The state directory is replaced by another, or by a copy, at a restart.
    pub replace: bool,
}

/// One run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Clients.
    pub clients: usize,
    /// Listeners.
    pub listeners: usize,
    /// Entries in the journal's ring.
    pub ring_entries: usize,
    /// Seconds over which a busy listener's events are gathered.
    pub batch_interval: f64,
    /// Entries of the log that are kept.
    pub log_entries: u64,
    /// Jobs that stay of those that ended.
    pub inactive_num: Option<u64>,
    /// Batches that the store's writer takes.
    pub queue_max: usize,
    /// The slowest commit, in seconds.
    pub commit_max: f64,
    /// Cores of each of the engine's nodes.
    pub cores: u32,
    /// Nodes that an engine comes with, at most.
    pub nodes: u32,
    /// The longest job, in seconds.
    pub job_max: f64,
    /// Steps between two quiet points.
    pub round: usize,
    /// Quiet points.
    pub rounds: usize,
    /// Of a client doing something new, against everything else.
    pub eager: usize,
    /// How often purges are asked for.
    pub purges: usize,
    /// How often somebody asks for a shutdown, and takes it back.
    pub shutdowns: usize,
    /// Whether some of them do not wait for jobs.
    pub forces: bool,
    /// Faults.
    pub faults: Faults,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn new(rng: &mut Rng) -> Plan {
        let mut fault = |weight: usize| if rng.one_in(3) { 0 } else { 1 + weight };
        let faults = Faults {
            cut: fault(5),
            stall: fault(5),
            deaf: fault(3),
            crash_manager: fault(2),
            crash_info: fault(1),
            crash_engine: fault(1),
            full: fault(2),
            broken: fault(0),
            clock: fault(1),
            trim: fault(0) > 0,
            damage: fault(0) > 0,
            replace: fault(0) > 0,
        };
        Plan {
            clients: rng.between(1, 4),
            listeners: rng.between(2, 6),
            ring_entries: *rng.pick(&[4, 12, 40, 100, 1000]).unwrap_or(&100),
            batch_interval: *rng.pick(&[0.0, 0.01, 0.2]).unwrap_or(&0.01),
            log_entries: *rng.pick(&[20, 100, 1 << 20, 1 << 20]).unwrap_or(&100),
            inactive_num: *rng.pick(&[None, None, None, Some(3)]).unwrap_or(&None),
            queue_max: *rng.pick(&[1, 3, 1024]).unwrap_or(&1024),
            commit_max: *rng.pick(&[0.0, 0.002, 0.5]).unwrap_or(&0.002),
            cores: u32::try_from(rng.between(1, 4)).unwrap_or(1),
            nodes: u32::try_from(rng.between(1, 3)).unwrap_or(1),
            job_max: *rng.pick(&[0.05, 2.0, 30.0]).unwrap_or(&2.0),
            round: rng.between(60, 220),
            rounds: rng.between(1, 4),
            eager: rng.between(2, 14),
            purges: rng.below(3),
            shutdowns: if rng.one_in(2) { rng.between(1, 3) } else { 0 },
            forces: rng.one_in(3),
            faults,
        }
    }
}
