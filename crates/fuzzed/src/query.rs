//! A filter as it stands after `weir jobs -f`: what the command line makes of it, job-info takes.

use crate::constraint::found;
use crate::instance::listing;
use info::{Constraint, ConstraintError, Query};
use weir_cli::query::{is_impossible, parse};

/// What relative times count from.
const NOW: f64 = 1_700_000_000.0;
/// Nodes of the instance.
const NODES: usize = 4;
/// The longest text a refusal may have beside the filter itself.
const ERROR_BYTES_MAX: usize = 2048;

/// Reads a filter, and has it answered.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // Names of users are looked up in the system's own database, which is no part of this.
    if text.contains("user") && text.contains(|c: char| c.is_alphabetic() && !"user".contains(c)) {
        return;
    }
    let filter = match parse(text, NOW) {
        Ok(filter) => filter,
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.len() <= ERROR_BYTES_MAX + text.len(),
                "{} bytes of error",
                error.len()
            );
            assert!(
                !error.contains('\n') || text.contains('\n'),
                "an error of two lines"
            );
            return;
        }
    };
    let json = filter.constraint.to_string();
    match Constraint::parse(&filter.constraint, NODES) {
        Ok(constraint) => {
            if is_impossible(&filter.constraint) {
                let query = Query {
                    constraint: constraint.clone(),
                    ..Query::default()
                };
                let met = query.run(listing().jobs());
                assert_eq!(met.ok(), Some(Vec::new()), "{json} was called impossible");
            }
            found(&constraint);
        }
        // Those two are texts that the command line passes on as they are; the bounds are job-info's own.
        Err(ConstraintError::Value { operator, .. })
            if matches!(&*operator, "hostlist" | "ranks") => {}
        Err(ConstraintError::Depth | ConstraintError::Values | ConstraintError::Hosts { .. }) => {}
        Err(error) => assert_eq!(
            error.to_string(),
            "",
            "job-info refuses {json}, made of {text:?}"
        ),
    }
}
