//! The client's end: [`Connection`] for services (raw messages, both ways), [`Client`] for commands (calls and streams).

mod calls;
mod connect;
mod connection;
mod error;
mod matchtags;
mod stream;

pub use calls::{Client, Reply};
pub use connect::{ConnectError, ConnectOptions, Retry};
pub use connection::{Connection, Receiver, SendError, Sender};
pub use error::RpcError;
pub use stream::{EVENTS_BUFFERED_MAX, STREAM_BUFFERED_MAX, Stream, Subscription};
