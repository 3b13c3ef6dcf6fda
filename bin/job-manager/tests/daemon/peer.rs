//! A raw connection: sends any message, gets all that comes in order. Plays services and ill-mannered clients.

use crate::world::{World, soon};
use bytes::Bytes;
use rpc::client::{Receiver, Sender};
use serde_json::{Value, json};
use std::collections::VecDeque;
use wire::{Cred, Flags, Message, Request, Response, json_payload};

pub(crate) struct Peer {
    pub(crate) sender: Sender,
    receiver: Receiver,
    tag: u32,
    /// What came before what was waited for.
    held: VecDeque<Message>,
    /// What the frames claim.
    pub(crate) cred: Cred,
}

impl Peer {
    pub(crate) async fn new(world: &World) -> Peer {
        let (sender, receiver) = world.connection().await.split();
        Peer {
            sender,
            receiver,
            tag: 0,
            held: VecDeque::new(),
            cred: Cred::UNSET,
        }
    }

    /// One whose frames claim these credentials.
    pub(crate) async fn acting_as(world: &World, cred: Cred) -> Peer {
        Peer {
            cred,
            ..Peer::new(world).await
        }
    }

    /// A connection that is the service `name`, one of weir's own or not.
    pub(crate) async fn service(world: &World, name: &str) -> Peer {
        let mut peer = Peer::new(world).await;
        peer.add_service(world, name).await;
        peer
    }

    pub(crate) async fn add_service(&mut self, world: &World, name: &str) {
        let payload = json!({"service": name, "key": world.key()});
        let response = self.ask("service.add", &payload).await;
        assert_eq!(response.errnum, 0, "{response:?}");
    }

    pub(crate) fn tag(&mut self) -> u32 {
        self.tag += 1;
        self.tag
    }

    pub(crate) fn send(&self, message: impl Into<Message>) {
        self.sender.send_now(message.into()).unwrap();
    }

    /// Sends a request and says under which matchtag.
    pub(crate) fn request(&mut self, topic: &str, payload: Option<Bytes>, flags: Flags) -> u32 {
        let tag = self.tag();
        let request = Request {
            flags,
            cred: self.cred,
            ..Request::new(topic.to_owned(), payload, tag)
        };
        self.send(request);
        tag
    }

    /// Opens a stream and says under which matchtag.
    pub(crate) fn open(&mut self, topic: &str, payload: &Value) -> u32 {
        self.request(topic, Some(json_payload(payload)), Flags::STREAMING)
    }

    /// Calls, and keeps everything else that comes meanwhile.
    pub(crate) async fn ask(&mut self, topic: &str, payload: &Value) -> Response {
        let tag = self.request(topic, Some(json_payload(payload)), Flags::NONE);
        self.response(tag).await
    }

    /// Calls: the answer, or errno and text.
    pub(crate) async fn call(
        &mut self,
        topic: &str,
        payload: Value,
    ) -> Result<Value, (u32, String)> {
        result(&self.ask(topic, &payload).await)
    }

    /// The next response under a matchtag.
    pub(crate) async fn response(&mut self, tag: u32) -> Response {
        let of_tag = |message: &Message| matches!(message, Message::Response(response) if response.matchtag == tag);
        match self.find(of_tag).await {
            Message::Response(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// The next request of someone.
    pub(crate) async fn next_request(&mut self) -> Request {
        match self
            .find(|message| matches!(message, Message::Request(_)))
            .await
        {
            Message::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    /// The first message that is wanted, of those that came and that will come; the others stay.
    async fn find(&mut self, wanted: impl Fn(&Message) -> bool) -> Message {
        // What came before was passed over by whoever waited for something else.
        if let Some(at) = self.held.iter().position(&wanted)
            && let Some(found) = self.held.remove(at)
        {
            return found;
        }
        loop {
            let message = soon(self.receive()).await.expect("connected");
            if wanted(&message) {
                return message;
            }
            self.held.push_back(message);
        }
    }

    /// The next message, whatever it is; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        match self.held.pop_front() {
            Some(message) => Some(message),
            None => soon(self.receive()).await,
        }
    }

    /// What comes; the broker's own pings are answered, as every service does.
    async fn receive(&mut self) -> Option<Message> {
        loop {
            match self.receiver.recv().await.ok()? {
                Message::Request(request) if request.matchtag == u32::MAX => {
                    assert_eq!(request.topic.method(), "ping");
                    self.respond(&request, &json!({}));
                }
                message => return Some(message),
            }
        }
    }

    /// Whether a response under this matchtag has come.
    pub(crate) fn has(&self, tag: u32) -> bool {
        self.held.iter().any(
            |message| matches!(message, Message::Response(response) if response.matchtag == tag),
        )
    }

    /// Takes in one message more, and keeps it.
    pub(crate) async fn take_one(&mut self) {
        let message = soon(self.receive()).await.expect("connected");
        self.held.push_back(message);
    }

    /// A request that came before what was waited for, if there is one.
    pub(crate) fn heard(&mut self) -> Option<Request> {
        let at = self
            .held
            .iter()
            .position(|message| matches!(message, Message::Request(_)))?;
        match self.held.remove(at) {
            Some(Message::Request(request)) => Some(request),
            _ => None,
        }
    }

    /// Waits until the daemon has ended the connection.
    pub(crate) async fn closed(&mut self) {
        while self.next().await.is_some() {}
    }

    /// Answers a request that came here.
    pub(crate) fn respond(&self, request: &Request, payload: &Value) {
        self.send(request.respond(Some(json_payload(payload))));
    }

    pub(crate) fn fail(&self, request: &Request, errnum: u32) {
        self.send(request.error(errnum, None));
    }
}

/// A response as the answer, or errno and text.
pub(crate) fn result(response: &Response) -> Result<Value, (u32, String)> {
    let payload = response.payload.as_deref();
    if response.errnum == 0 {
        Ok(payload.map_or(Value::Null, |json| wire::parse_json(json).unwrap()))
    } else {
        let text = payload.and_then(wire::text_of).unwrap_or_default();
        Err((response.errnum, text.to_owned()))
    }
}

/// The payload of a request or response.
pub(crate) fn body(payload: &Option<Bytes>) -> Value {
    wire::parse_json(payload.as_deref().expect("a payload")).unwrap()
}
