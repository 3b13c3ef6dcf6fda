//! The event stream of `/v1/event/stream`: what one fold changed, as lines.
