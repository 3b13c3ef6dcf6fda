//! A client that asks for one stream and then leaves its socket alone, until it is told to go on.

use super::super::PATIENCE;
use anyhow::{Context as _, bail, ensure};
use rpc::client::{Connection, Receiver, Sender};
use serde_json::Value;
use std::path::Path;
use wire::{Flags, Message, Request, errno, json_payload};

const TAG: u32 = 1;

/// See the module.
pub(crate) struct Stopped {
    /// Held so that the connection stays.
    _sender: Sender,
    receiver: Receiver,
}

impl Stopped {
    /// Asks for a stream; reads nothing.
    pub(crate) async fn open(
        socket: &Path,
        topic: &'static str,
        ask: &Value,
    ) -> anyhow::Result<Stopped> {
        let (sender, receiver) = Connection::connect(socket).await?.split();
        let request = Request {
            flags: Flags::STREAMING,
            ..Request::new(topic, Some(json_payload(ask)), TAG)
        };
        sender.send_now(Message::Request(request))?;
        Ok(Stopped {
            _sender: sender,
            receiver,
        })
    }

    /// Goes on: the next response's payload; `None` at the normal end of the stream.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.receiver.recv())
                .await
                .context("nothing came for a client that goes on")??;
            let Message::Response(response) = message else {
                continue;
            };
            ensure!(response.matchtag == TAG, "a response to nothing");
            return match response.errnum {
                0 => Ok(Some(wire::parse_json(
                    &response.payload.unwrap_or_default(),
                )?)),
                errno::ENODATA => Ok(None),
                other => bail!("the stream ended with errno {other}"),
            };
        }
    }
}
