//! Tests of the whole: a journal in, replies out.

mod blocking;
mod heavy;
mod model;
mod pages;
mod rows;
mod spec;
mod stream;
mod world;
