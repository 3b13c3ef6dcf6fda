//! A bar for long work, on standard error: only on a terminal, and only when there is much to do.

use crate::output;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// From this many pieces on there is a bar.
pub const PIECES_FROM: usize = 100;

/// A bar, cleared when it is dropped; or none.
#[derive(Debug)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar over so many pieces; `what` is their name (`jobs`).
    #[must_use]
    pub fn over(pieces: usize, what: &str, from: usize) -> Self {
        if pieces < from.max(1) || !output::stderr_is_terminal() {
            return Self(None);
        }
        let template =
            format!("{{bar:40}} {{human_pos}}/{{human_len}} {what}, {{rate}}/s, {{eta}} left");
        let Ok(style) = ProgressStyle::with_template(&template) else {
            return Self(None);
        };
        let style = style.with_key(
            "rate",
            |state: &ProgressState, to: &mut dyn std::fmt::Write| {
                // Whole ones: digits behind the point only flicker.
                let _ = write!(to, "{:.0}", state.per_sec());
            },
        );
        Self(Some(ProgressBar::new(pieces as u64).with_style(style)))
    }

    /// No bar.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// One piece is done.
    pub fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Prints so that the bar does not get in the way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}
