//! What happened to a daemon, and how that is said.

use crate::output::complain;
use crate::when;
use anyhow::bail;
use std::path::PathBuf;
use std::time::Duration;

/// So many ends without being well in between, and it is said where to look.
pub(super) const ENDS_TOLD: u32 = 5;

/// Something happened to a daemon.
#[derive(Debug)]
pub enum Report {
    /// It ended and is started again after this wait.
    Ended {
        /// Its name.
        name: &'static str,
        /// How it ended.
        how: String,
        /// What it said last, if anything.
        said: Option<String>,
        /// When it is started again.
        again_in: Duration,
        /// How often it has ended of late.
        ends: Ends,
    },
    /// It says something that whoever started the instance should know.
    Note {
        /// Its name.
        name: &'static str,
        /// What.
        text: String,
    },
    /// It refuses to start, or cannot be started at all, and is not started again.
    Final {
        /// Its name.
        name: &'static str,
        /// What it said last, or why it cannot be started.
        said: String,
        /// How often it was tried, if the instance was ready before.
        ends: Option<Ends>,
    },
    /// The job-manager ended because the instance was asked to shut down.
    ShutDown,
}

/// Ends of a daemon that was not well in between.
#[derive(Debug)]
pub struct Ends {
    /// How many.
    pub count: u32,
    /// Since the first of them.
    pub within: Duration,
    /// Its log.
    pub log: PathBuf,
}

impl Report {
    /// Says it on standard error, if there is something to go on after.
    ///
    /// # Errors
    /// A daemon that is given up on; an instance that was shut down.
    pub fn tell(self) -> anyhow::Result<()> {
        match self {
            Self::Ended {
                name,
                how,
                said,
                again_in,
                ends,
            } => {
                let said = said.map_or_else(String::new, |said| format!(": {said}"));
                let often = if ends.count >= ENDS_TOLD {
                    format!(
                        " (it has ended {} times in {}; its log is {})",
                        ends.count,
                        when::human(ends.within.as_secs_f64()),
                        ends.log.display()
                    )
                } else {
                    String::new()
                };
                complain(&format!(
                    "start: {name} {how}, starting it again in {}{often}{said}",
                    when::human(again_in.as_secs_f64())
                ));
                Ok(())
            }
            Self::Note { name, text } => {
                complain(&format!("start: {name}: {text}"));
                Ok(())
            }
            Self::Final {
                name,
                said,
                ends: None,
            } => bail!("{name}: {said}"),
            Self::Final {
                name,
                said,
                ends: Some(ends),
            } => bail!(
                "giving up: {name} cannot be started again, {} attempts in {}: {said}; mend that and start the instance again, jobs that run go on meanwhile; \
                 its log is {}",
                ends.count,
                when::human(ends.within.as_secs_f64()),
                ends.log.display()
            ),
            Self::ShutDown => bail!("the instance was shut down before it was ready"),
        }
    }
}
