//! What `weir bulksubmit` makes jobs from: inputs, and texts into which they are filled.

pub mod inputs;
pub mod jobs;
pub mod template;
