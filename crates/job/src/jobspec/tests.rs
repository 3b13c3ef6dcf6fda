//! Tests of jobspecs.
