//! The walk over all combinations.
