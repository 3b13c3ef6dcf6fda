//! The route stack: where a request came from, and so where its response goes.
//!
//! A hop is pushed on the way in and popped on the way out. Hops stand as on the wire, the newest first; the oldest one
//! names the client itself, and matches cancels and disconnects to what it asked for. Telling hops apart is `router`'s.

use bytes::Bytes;

/// Hops, the newest first.
pub type Routes = Vec<Bytes>;

/// Hops a message may carry. Flux needs at most one for each level of its tree, plus module and client.
pub const ROUTE_HOPS_MAX: usize = 64;

/// Adds `hop` as the newest one; gives a message without the route flag one.
pub fn push_hop(routes: &mut Option<Routes>, hop: Bytes) {
    routes
        .get_or_insert_with(|| Vec::with_capacity(1))
        .insert(0, hop);
}

/// Takes the newest hop off; `None` if there is none.
pub fn pop_hop(routes: &mut Option<Routes>) -> Option<Bytes> {
    match routes {
        Some(hops) if !hops.is_empty() => Some(hops.remove(0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_in_first_out() {
        let mut routes = None;
        push_hop(&mut routes, Bytes::from_static(b"client"));
        push_hop(&mut routes, Bytes::from_static(b"broker"));
        assert_eq!(pop_hop(&mut routes), Some(Bytes::from_static(b"broker")));
        assert_eq!(pop_hop(&mut routes), Some(Bytes::from_static(b"client")));
        assert_eq!(pop_hop(&mut routes), None);
        assert_eq!(routes, Some(vec![]));
    }
}
