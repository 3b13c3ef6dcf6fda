//! A frame on its way out: bytes, or a message about to be bytes. Lets every `send` take either.

use bytes::Bytes;
use wire::{Event, Message, Request, Response};

/// The bytes of one whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame(pub Bytes);

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Frame {
        Frame(bytes)
    }
}

impl From<&Message> for Frame {
    fn from(message: &Message) -> Frame {
        Frame(wire::to_frame(message))
    }
}

impl From<Message> for Frame {
    fn from(message: Message) -> Frame {
        Frame::from(&message)
    }
}

impl From<Request> for Frame {
    fn from(message: Request) -> Frame {
        Frame::from(Message::Request(message))
    }
}

impl From<Response> for Frame {
    fn from(message: Response) -> Frame {
        Frame::from(Message::Response(message))
    }
}

impl From<Event> for Frame {
    fn from(message: Event) -> Frame {
        Frame::from(Message::Event(message))
    }
}
