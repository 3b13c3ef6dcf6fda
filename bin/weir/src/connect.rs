//! A session with an instance: connect, call, stream; every failure already a sentence for a person.
//!
//! One connection a session. What a refusal or a lost connection is called is decided here, what to do about it is the
//! commands'. The runtime is tokio's single-threaded one: a command is one short conversation.

use crate::failure;
use crate::lock::is_held;
use crate::output::complain;
use crate::uri::{self, Place};
use crate::when;
use bytes::Bytes;
use rpc::client::{ConnectError, ConnectOptions, Retry};
use rpc::{Client, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::{Topic, errno};

/// How long a restart of the job-manager is waited out: about three seconds.
const RESTART: Retry = Retry {
    attempts: 10,
    first: Duration::from_millis(16),
    max: Duration::from_millis(500),
};

/// How long an answer is waited for that is due at once; what waits for something to happen has no such limit.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long a job-manager may take to let us in, for those who can do something else.
pub const GREETED_BRIEFLY_WITHIN: Duration = Duration::from_secs(5);

/// Runs a command's conversation to its end.
///
/// # Errors
/// Those of the conversation, or no runtime (out of file descriptors).
pub fn block_on<T>(conversation: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(conversation)
}

/// Nobody answers where the instance should be.
#[derive(Debug)]
pub struct OpenError {
    place: Place,
    source: ConnectError,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = self.place.socket.display();
        match &self.source {
            ConnectError::NotThere { .. } => write!(
                f,
                "no instance at {socket} (there is no such socket): {}",
                self.place.remedy()
            ),
            ConnectError::NotServed { .. } => {
                write!(
                    f,
                    "no instance at {socket} (it has stopped, or is being restarted): {}",
                    self.place.remedy()
                )
            }
            ConnectError::Silent { waited, .. } => write!(
                f,
                "the job-manager at {socket} does not answer ({}): it is stopped or overloaded; its log is in the state directory",
                when::human(waited.as_secs_f64())
            ),
            other => other.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    /// True if the socket is served and says nothing: the job-manager is stopped or overloaded.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self.source, ConnectError::Silent { .. })
    }

    /// True if somebody may answer there a little later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match &self.source {
            ConnectError::NotServed { .. } | ConnectError::HungUp { .. } => true,
            // A job-manager that is starting holds the lock before it has a socket.
            ConnectError::NotThere { .. } => is_held(&self.place.statedir().join("lock")),
            _ => false,
        }
    }
}

/// A call that did not give what it should.
#[derive(Debug)]
pub enum CallError {
    /// The service said no.
    Refused {
        /// What was asked.
        topic: Topic,
        /// Its number.
        errnum: u32,
        /// Its words, if it had any besides the number's own.
        text: Option<String>,
    },
    /// The connection, or the service behind it, went away; a new one may do.
    Lost {
        /// What was asked.
        topic: Topic,
        /// What is known.
        text: String,
    },
    /// No answer came in time, the connection being there.
    Silent {
        /// What was asked.
        topic: Topic,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl CallError {
    /// The same refusal in other words.
    #[must_use]
    pub fn in_words(self, words: String) -> Self {
        match self {
            Self::Refused { topic, errnum, .. } => Self::Refused {
                topic,
                errnum,
                text: Some(words),
            },
            other => other,
        }
    }

    /// True if a new connection may do.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// True if no answer came in time.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Silent { .. })
    }

    /// True if the same call may do a little later: the connection was lost, or a daemon of the instance is away.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Refused { topic, .. } => {
                self.is_no_service() && daemon_of(topic.service()).is_some()
            }
            Self::Silent { .. } => false,
        }
    }

    fn is_no_service(&self) -> bool {
        matches!(self, Self::Refused { errnum: errno::ENOSYS, text, .. }
            if text.as_deref().is_none_or(|text| text.starts_with("No service")))
    }
}

impl From<RpcError> for CallError {
    fn from(error: RpcError) -> Self {
        if error.is_lost() {
            return Self::Lost {
                topic: error.topic,
                text: error.text,
            };
        }
        let text = Some(error.text).filter(|text| text != errno::text(error.errnum));
        Self::Refused {
            topic: error.topic,
            errnum: error.errnum,
            text,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { topic, .. } if self.is_no_service() => {
                let service = topic.service();
                match daemon_of(service) {
                    Some(daemon) => write!(
                        f,
                        "service {service} is not there: {daemon} is starting, or does not run (its log is in the state directory)"
                    ),
                    None => write!(f, "there is no service '{service}' in this instance"),
                }
            }
            Self::Refused {
                topic,
                errnum: errno::ENOSYS,
                ..
            } => write!(f, "this instance does not offer {topic}"),
            Self::Refused {
                topic,
                errnum: errno::EPROTO,
                text,
            } => {
                write!(f, "{topic}: {}", text.as_deref().unwrap_or("the answer is not understood; do weir and the instance have the same version?"))
            }
            Self::Refused {
                text: Some(text), ..
            } => f.write_str(text),
            Self::Refused {
                topic,
                errnum,
                text: None,
            } => write!(f, "{topic}: {}", errno::text(*errnum)),
            Self::Lost { text, .. } => f.write_str(text),
            Self::Silent { topic, waited } => {
                let who = who(topic.service());
                write!(
                    f,
                    "{who} does not answer ({}): it is stopped or overloaded; its log is in the state directory",
                    when::human(waited.as_secs_f64())
                )
            }
        }
    }
}

impl std::error::Error for CallError {}

fn daemon_of(service: &str) -> Option<&'static str> {
    match service {
        "job-list" | "job-info" => Some("weir-job-info"),
        "sched" | "job-exec" | "resource" => Some("weir-job-runner"),
        _ => None,
    }
}

/// A connection to an instance.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    place: Place,
}

impl Session {
    /// Connects to the instance the environment names. A socket that nobody serves is tried again for some seconds: the
    /// job-manager may be on its way back.
    ///
    /// # Errors
    /// [`OpenError`], or an environment variable that names no socket.
    pub async fn open() -> anyhow::Result<Self> {
        Self::open_retrying(RESTART, ANSWER_WITHIN).await
    }

    /// Like [`Self::open`], with less patience: for those who can do something else.
    ///
    /// # Errors
    /// Likewise.
    pub async fn open_briefly() -> anyhow::Result<Self> {
        Self::open_retrying(Retry::USUAL, GREETED_BRIEFLY_WITHIN).await
    }

    /// Like [`Self::open`]; an instance that says nothing is waited for no longer than this.
    ///
    /// # Errors
    /// Likewise.
    pub async fn open_within(wait: Duration) -> anyhow::Result<Self> {
        Self::open_retrying(RESTART, wait).await
    }

    async fn open_retrying(retry: Retry, wait: Duration) -> anyhow::Result<Self> {
        let place = Place::find()?;
        match connect(&place, Retry::NONE, wait).await {
            Err(error) if error.is_passing() => Ok(connect(&place, retry, wait).await?),
            other => Ok(other?),
        }
    }

    /// Connects to that instance, once.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open_at(place: &Place) -> anyhow::Result<Self> {
        Ok(connect(place, Retry::NONE, ANSWER_WITHIN).await?)
    }

    /// Connects to another socket in the state directory of the instance the environment names, once.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open_beside(name: &str, wait: Duration) -> anyhow::Result<Self> {
        let place = Place::find()?;
        let socket = place.statedir().join(name);
        Ok(connect(&Place { socket, ..place }, Retry::NONE, wait).await?)
    }

    /// Where it is connected to.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The URI of where it is connected to.
    #[must_use]
    pub fn uri(&self) -> String {
        uri::of_socket(&self.place.socket)
    }

    /// Calls and reads the answer, which is due at once; no payload is read as `{}`.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call<Q: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        topic: &str,
        request: &Q,
    ) -> Result<T, CallError> {
        within(ANSWER_WITHIN, topic, self.call_patiently(topic, request)).await
    }

    /// Calls for the effect alone; the answer is due at once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call_unit<Q: Serialize + ?Sized>(
        &self,
        topic: &str,
        request: &Q,
    ) -> Result<(), CallError> {
        within(
            ANSWER_WITHIN,
            topic,
            self.call_unit_patiently(topic, request),
        )
        .await
    }

    /// Calls something that waits until something has happened, however long that takes.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call_patiently<Q: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        topic: &str,
        request: &Q,
    ) -> Result<T, CallError> {
        Ok(self.client.call_as(topic.to_owned(), request).await?)
    }

    /// Likewise, for the effect alone.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call_unit_patiently<Q: Serialize + ?Sized>(
        &self,
        topic: &str,
        request: &Q,
    ) -> Result<(), CallError> {
        self.client.call(topic.to_owned(), request).await?;
        Ok(())
    }

    /// Sends a request and comes back while the answer is on its way.
    ///
    /// # Errors
    /// [`CallError::Lost`].
    pub async fn start<Q: Serialize + ?Sized>(
        &self,
        topic: &str,
        request: &Q,
    ) -> Result<Pending, CallError> {
        let reply = within(ANSWER_WITHIN, topic, async {
            Ok(self.client.begin(topic.to_owned(), request).await?)
        })
        .await?;
        Ok(Pending {
            reply,
            topic: topic.to_owned(),
        })
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// [`CallError::Lost`]; a refusal is the stream's first item.
    pub async fn stream<Q: Serialize + ?Sized>(
        &self,
        topic: &str,
        request: &Q,
    ) -> Result<Stream, CallError> {
        Ok(Stream {
            stream: self.client.stream(topic.to_owned(), request).await?,
            topic: topic.to_owned(),
        })
    }
}

async fn connect(place: &Place, retry: Retry, wait: Duration) -> Result<Session, OpenError> {
    let options = ConnectOptions {
        retry,
        handshake_wait: wait,
        ..ConnectOptions::default()
    };
    let service = match place.socket.file_name() {
        Some(name) if name == "job-info.socket" => "job-info",
        _ => "",
    };
    // While nobody serves the socket there is nobody to name.
    let wait = if retry == Retry::NONE {
        wait
    } else {
        Duration::ZERO
    };
    let connecting = Client::connect_with(&place.socket, &options);
    match aloud(wait, service, connecting).await {
        Ok(client) => Ok(Session {
            client,
            place: place.clone(),
        }),
        Err(source) => Err(OpenError {
            place: place.clone(),
            source,
        }),
    }
}

/// After so long it is said for whom is waited.
const SAID_AFTER: Duration = Duration::from_secs(2);

/// Waits, and says for whom if that takes a while; once a process.
async fn aloud<T>(wait: Duration, service: &str, answer: impl Future<Output = T>) -> T {
    static SAID: AtomicBool = AtomicBool::new(false);
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => return answer,
        () = tokio::time::sleep(SAID_AFTER) => {}
    }
    // 'weir start' has words of its own for what it waits for.
    let lead = failure::lead();
    if wait > SAID_AFTER && lead != "start: " && !SAID.swap(true, Ordering::Relaxed) {
        complain(&format!(
            "{lead}waiting for {} to answer: it is stopped, overloaded or starting",
            who(service)
        ));
    }
    answer.await
}

/// The daemon behind a service, as people call it.
fn who(service: &str) -> &'static str {
    daemon_of(service).map_or("the job-manager", |daemon| {
        daemon.strip_prefix("weir-").unwrap_or(daemon)
    })
}

/// Waits for an answer, at most so long.
async fn within<T>(
    wait: Duration,
    topic: &str,
    answer: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let service = topic.split('.').next().unwrap_or_default();
    match tokio::time::timeout(wait, aloud(wait, service, answer)).await {
        Ok(result) => result,
        Err(_) => Err(CallError::Silent {
            topic: Topic::from(topic.to_owned()),
            waited: wait,
        }),
    }
}

/// An answer on its way.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    reply: rpc::client::Reply,
    topic: String,
}

impl Pending {
    /// Waits for the answer, which is due at once, and reads it.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn answer<T: DeserializeOwned>(self) -> Result<T, CallError> {
        self.answer_within(ANSWER_WITHIN).await
    }

    /// Likewise, with another limit.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn answer_within<T: DeserializeOwned>(self, wait: Duration) -> Result<T, CallError> {
        let topic = self.topic.clone();
        within(wait, &topic, self.answer_patiently()).await
    }

    /// Waits for an answer that comes when something has happened, however long that takes.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn answer_patiently<T: DeserializeOwned>(self) -> Result<T, CallError> {
        Ok(self.reply.json_as().await?)
    }

    /// Waits for an answer in which nothing is of interest; it is due at once.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn unit(self) -> Result<(), CallError> {
        within(ANSWER_WITHIN, &self.topic, async {
            self.reply.json().await?;
            Ok(())
        })
        .await
    }
}

/// A stream of answers; dropping it cancels it.
#[derive(Debug)]
pub struct Stream {
    stream: rpc::client::Stream,
    topic: String,
}

impl Stream {
    /// The next answer's JSON, empty for one without payload; `None` at the normal end. May be dropped while it waits.
    ///
    /// # Errors
    /// [`CallError`]; the stream is over then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        Ok(self.stream.next().await.transpose()?)
    }

    /// Likewise, waiting at most so long: for a stream that does not follow anything.
    ///
    /// # Errors
    /// Likewise.
    pub async fn next_within(&mut self, wait: Duration) -> Result<Option<Bytes>, CallError> {
        let stream = &mut self.stream;
        within(wait, &self.topic, async {
            Ok(stream.next().await.transpose()?)
        })
        .await
    }

    /// Asks for its end.
    pub fn cancel(&self) {
        self.stream.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(topic: &'static str, errnum: u32, text: &str) -> String {
        CallError::from(RpcError {
            errnum,
            text: text.to_owned(),
            topic: Topic::from(topic),
        })
        .to_string()
    }

    #[test]
    fn a_refusal_reads_like_a_sentence_and_names_the_thing() {
        assert_eq!(
            shown("job-manager.urgency", 22, "unknown job"),
            "unknown job"
        );
        assert_eq!(
            shown("job-list.list-id", 2, errno::text(2)),
            "job-list.list-id: No such file or directory"
        );
        assert_eq!(
            shown(
                "job-list.list",
                38,
                "No service matching job-list.list is registered"
            ),
            "service job-list is not there: weir-job-info is starting, or does not run (its log is in the state directory)"
        );
        assert_eq!(
            shown("x.ping", 38, "No service matching x.ping is registered"),
            "there is no service 'x' in this instance"
        );
        assert_eq!(
            shown(
                "job-manager.purge",
                38,
                "Unknown service method 'job-manager.purge'"
            ),
            "this instance does not offer job-manager.purge"
        );
    }
}
