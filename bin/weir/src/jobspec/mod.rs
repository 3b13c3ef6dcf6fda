//! Jobspec V1 as `weir submit` and `weir run` write it, from options and from this process's surroundings.
//!
//! ```text
//! {"resources":[VERTEX],"tasks":[{"command":[…],"slot":"task","count":{"per_slot":1}}],
//!  "attributes":{"system":{"duration":0,"environment":{…},"cwd":"…","shell":{"options":{"rlimit":{…}}}}},"version":1}
//! VERTEX = {"type":"slot","count":N,"label":"task","with":[{"type":"core","count":C},{"type":"gpu","count":G}?]}
//!        | {"type":"node","count":N,"exclusive"?:true,"with":[slot]}
//! ```
//! [`options`] are the options both commands share, [`build`] makes the document, [`mod@env`] and [`rlimit`] are the two rule
//! languages, [`shellopt`] knows which options of `-o` mean something, [`sign`] wraps the text for the request. What is valid is for the job-manager to say: nothing is checked twice.

pub mod build;
pub mod env;
pub mod options;
pub mod rlimit;
pub mod shellopt;
pub mod sign;
