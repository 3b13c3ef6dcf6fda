//! Request, Response, Event, Control: what a frame says once its parts are told apart.
//!
//! Each type holds just what exists in it; topic, payload and route flags follow from what is there. Invariant: every
//! value of these types can be encoded. Payloads are kept as they travel: JSON and text *with* their final NUL.

use crate::{Cred, Flags, Routes, Topic, text_payload};
use bytes::Bytes;

/// "Whoever is nearest": the usual nodeid of a request.
pub const NODEID_ANY: u32 = 0xffff_ffff;
/// "My parent" in client interfaces; on the wire it is [`Flags::UPSTREAM`] instead.
pub const NODEID_UPSTREAM: u32 = 0xffff_fffe;
/// The matchtag of requests that expect no answer.
pub const MATCHTAG_NONE: u32 = 0;

/// Any message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks a service for something.
    Request(Request),
    /// Answers a request.
    Response(Response),
    /// Tells all who subscribed.
    Event(Event),
    /// Between a broker and its modules; never needed on the local socket.
    Control(Control),
}

/// Asks a service for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which service and method.
    pub topic: Topic,
    /// As it travels, final NUL included.
    pub payload: Option<Bytes>,
    /// `None` = no route flag; empty = delimiter only.
    pub routes: Option<Routes>,
    /// Who asks.
    pub cred: Cred,
    /// What a sender chooses.
    pub flags: Flags,
    /// [`NODEID_ANY`] or a rank.
    pub nodeid: u32,
    /// Chosen by the client, unique among its outstanding requests; [`MATCHTAG_NONE`] = expects no answer.
    pub matchtag: u32,
}

/// Answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The request's.
    pub topic: Topic,
    /// As it travels, final NUL included; an error's is its text.
    pub payload: Option<Bytes>,
    /// The request's.
    pub routes: Option<Routes>,
    /// Who answers. Clients drop a response whose rolemask is 0.
    pub cred: Cred,
    /// The request's.
    pub flags: Flags,
    /// 0 = success, else a POSIX number (see [`crate::errno`]).
    pub errnum: u32,
    /// The request's.
    pub matchtag: u32,
}

/// Tells all who subscribed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened; subscriptions match its beginning.
    pub topic: Topic,
    /// As it travels, final NUL included.
    pub payload: Option<Bytes>,
    /// Broker and publisher.
    pub routes: Option<Routes>,
    /// Who published it. Receivers want the owner bit.
    pub cred: Cred,
    /// What a sender chooses.
    pub flags: Flags,
    /// Given by the broker, one after the other.
    pub sequence: u32,
}

/// Between a broker and its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// `None` = no route flag.
    pub routes: Option<Routes>,
    /// Who sent it.
    pub cred: Cred,
    /// What a sender chooses.
    pub flags: Flags,
    /// Which control message.
    pub kind: u32,
    /// Its one argument.
    pub status: u32,
}

impl Request {
    /// A request as a client sends it: no hops, no credentials, to any node.
    #[must_use]
    pub fn new(topic: impl Into<Topic>, payload: Option<Bytes>, matchtag: u32) -> Request {
        Request {
            topic: topic.into(),
            payload,
            routes: Some(Routes::new()),
            cred: Cred::UNSET,
            flags: Flags::NONE,
            nodeid: NODEID_ANY,
            matchtag,
        }
    }

    /// Someone waits for an answer: a matchtag is there and [`Flags::NORESPONSE`] is not.
    #[must_use]
    pub fn expects_response(&self) -> bool {
        self.matchtag != MATCHTAG_NONE && !self.flags.contains(Flags::NORESPONSE)
    }

    /// More than one response may come.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        self.flags.contains(Flags::STREAMING)
    }

    /// A success answer: topic, routes, matchtag and flags are the request's. Credentials are left unset, for the
    /// connection or broker it goes through to fill in.
    #[must_use]
    pub fn respond(&self, payload: Option<Bytes>) -> Response {
        Response {
            topic: self.topic.clone(),
            payload,
            routes: self.routes.clone(),
            cred: Cred::UNSET,
            flags: self.flags.without(Flags::NORESPONSE),
            errnum: 0,
            matchtag: self.matchtag,
        }
    }

    /// An error answer, with its text if there is one. `errnum` 0 would be a success; it is sent as EPROTO.
    #[must_use]
    pub fn error(&self, errnum: u32, text: Option<&str>) -> Response {
        let errnum = if errnum == 0 {
            crate::errno::EPROTO
        } else {
            errnum
        };
        Response {
            errnum,
            ..self.respond(text.map(text_payload))
        }
    }

    /// ENOSYS from a service that has no such method.
    #[must_use]
    pub fn unknown_method(&self) -> Response {
        self.error(
            crate::errno::ENOSYS,
            Some(&unknown_method_text(&self.topic)),
        )
    }
}

/// The longest beginning of a topic that error texts quote, in bytes.
const TOPIC_QUOTED_MAX: usize = 1024;

fn quoted(topic: &Topic) -> &str {
    let text = topic.as_str();
    let mut end = text.len().min(TOPIC_QUOTED_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The text of ENOSYS when nobody registered the topic's service.
#[must_use]
pub fn no_service_text(topic: &Topic) -> String {
    format!("No service matching {} is registered", quoted(topic))
}

/// The text of ENOSYS when the service is there and has no such method.
#[must_use]
pub fn unknown_method_text(topic: &Topic) -> String {
    format!("Unknown service method '{}'", quoted(topic))
}

impl Message {
    /// The topic; a control message has none.
    #[must_use]
    pub fn topic(&self) -> Option<&Topic> {
        match self {
            Message::Request(message) => Some(&message.topic),
            Message::Response(message) => Some(&message.topic),
            Message::Event(message) => Some(&message.topic),
            Message::Control(_) => None,
        }
    }

    /// The payload as it travels.
    #[must_use]
    pub fn payload(&self) -> Option<&Bytes> {
        match self {
            Message::Request(message) => message.payload.as_ref(),
            Message::Response(message) => message.payload.as_ref(),
            Message::Event(message) => message.payload.as_ref(),
            Message::Control(_) => None,
        }
    }

    /// The route stack.
    #[must_use]
    pub fn routes(&self) -> &Option<Routes> {
        match self {
            Message::Request(message) => &message.routes,
            Message::Response(message) => &message.routes,
            Message::Event(message) => &message.routes,
            Message::Control(message) => &message.routes,
        }
    }

    /// The sender.
    #[must_use]
    pub fn cred(&self) -> Cred {
        match self {
            Message::Request(message) => message.cred,
            Message::Response(message) => message.cred,
            Message::Event(message) => message.cred,
            Message::Control(message) => message.cred,
        }
    }

    /// The sender, to be stamped.
    pub fn cred_mut(&mut self) -> &mut Cred {
        match self {
            Message::Request(message) => &mut message.cred,
            Message::Response(message) => &mut message.cred,
            Message::Event(message) => &mut message.cred,
            Message::Control(message) => &mut message.cred,
        }
    }
}

impl From<Request> for Message {
    fn from(message: Request) -> Message {
        Message::Request(message)
    }
}

impl From<Response> for Message {
    fn from(message: Response) -> Message {
        Message::Response(message)
    }
}

impl From<Event> for Message {
    fn from(message: Event) -> Message {
        Message::Event(message)
    }
}

impl From<Control> for Message {
    fn from(message: Control) -> Message {
        Message::Control(message)
    }
}
