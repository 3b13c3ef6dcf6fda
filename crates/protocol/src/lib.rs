//! Payloads of the RPCs: what each request and response holds, one struct a payload, one line of its shape above it.
//!
//! Optional keys are marked `?`, `I` is an integer, `F` a number, `f` a number always written as a real, `b` a boolean, `s` a string,
//! `o` any JSON. Keys that are not named here are ignored wherever they come. What a method may answer, its texts and its errnos are in
//! `rfc/`. No behaviour in here: deciding is for `manager` and `info`, bytes and messages for `wire`.

#![forbid(unsafe_code)]

pub mod dispatch;
pub mod exec;
pub mod job_info;
pub mod job_ingest;
pub mod job_list;
pub mod job_manager;
pub mod method;
pub mod resource;
pub mod sched;
pub mod service;
pub mod shutdown;

use serde::{Deserialize, Deserializer};

/// Reads an optional key that is there. `null` is not the same as leaving it out: it is of the wrong type.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}
