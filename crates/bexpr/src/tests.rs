//! The language as clients use it, and its laws.

mod cases;
mod laws;
