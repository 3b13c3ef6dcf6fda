//! Our standard input, forwarded to a job as it asks for it.
//!
//! A thread reads (reading a terminal cannot be waited for otherwise) and hands over chunks through a short queue. The job's
//! exec log names the service that takes them; each chunk waits for the answer to the one before, so a job that does not
//! read holds up the reading here and nothing else. A chunk that was not acknowledged when the connection broke is sent again.

use super::{line, watch};
use crate::connect::{CallError, Session};
use crate::eventtext::LogEvent;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use job::JobId;
use serde_json::{Value, json};
use std::io::{self, Read as _};
use std::time::Duration;
use tokio::sync::mpsc;
use wire::errno;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks read ahead.
const CHUNKS_AHEAD_MAX: usize = 4;
/// Time to wait before asking a service again that could not take a chunk.
const BUSY_RETRY: Duration = Duration::from_millis(50);

/// The reading thread's end of the queue, and the chunk on its way.
#[derive(Debug)]
pub struct Stdin {
    chunks: mpsc::Receiver<Vec<u8>>,
    /// `None` inside: the end of the input.
    unacknowledged: Option<Option<Vec<u8>>>,
    done: bool,
}

impl Stdin {
    /// Starts the reading thread. It ends with the process.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start() -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD_MAX);
        std::thread::Builder::new()
            .name("stdin".to_owned())
            .spawn(move || {
                let mut input = io::stdin().lock();
                let mut buffer = vec![0; CHUNK_BYTES];
                loop {
                    match input.read(&mut buffer) {
                        Ok(0) => break,
                        Ok(length) => {
                            if sender.blocking_send(buffer[..length].to_vec()).is_err() {
                                break;
                            }
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
            })?;
        Ok(Self {
            chunks,
            unacknowledged: None,
            done: false,
        })
    }
}

/// Forwards until the end of the input, or until the job takes no more.
///
/// # Errors
/// The connection is lost, or the service refuses data.
pub async fn forward(
    session: &Session,
    id: JobId,
    stdin: Option<&mut Stdin>,
) -> anyhow::Result<()> {
    let Some(stdin) = stdin else { return Ok(()) };
    if stdin.done {
        return Ok(());
    }
    let Some(service) = service(session, id).await? else {
        return Ok(());
    };
    let topic = format!("{service}.stdin");
    loop {
        let chunk = match stdin.unacknowledged.take() {
            Some(chunk) => chunk,
            None => stdin.chunks.recv().await,
        };
        let payload = payload(chunk.as_deref());
        let is_end = chunk.is_none();
        stdin.unacknowledged = Some(chunk);
        loop {
            match session.call_unit_patiently(&topic, &payload).await {
                Ok(()) => break,
                Err(CallError::Refused {
                    errnum: errno::EAGAIN,
                    ..
                }) => tokio::time::sleep(BUSY_RETRY).await,
                // It takes no input, reads no more, or has ended: what a pipe's writer is not told either.
                Err(CallError::Refused {
                    errnum: errno::ENOSYS | errno::EPIPE | errno::ENOENT | errno::ESRCH,
                    ..
                }) => {
                    stdin.done = true;
                    return Ok(());
                }
                Err(error) => {
                    stdin.done = !error.is_lost();
                    return Err(error.into());
                }
            }
        }
        stdin.unacknowledged = None;
        if is_end {
            stdin.done = true;
            return Ok(());
        }
    }
}

/// Waits until the job's exec log says which service takes its input; `None` if it never does.
async fn service(session: &Session, id: JobId) -> anyhow::Result<Option<String>> {
    let mut exec = watch(session, id, "guest.exec.eventlog", 0).await?;
    loop {
        match exec.next().await {
            Ok(Some(payload)) => {
                let Some(line) = line(&payload)? else {
                    continue;
                };
                let event = LogEvent::parse(&line)?;
                if event.name == "shell.init" {
                    let service = event.text("service").map(str::to_owned);
                    exec.cancel();
                    return Ok(service);
                }
            }
            Ok(None)
            | Err(CallError::Refused {
                errnum: errno::ENOENT,
                ..
            }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// `{stream:"stdin", rank:"all", data, encoding?}`, or `{stream:"stdin", rank:"all", eof:true}`.
fn payload(chunk: Option<&[u8]>) -> Value {
    match chunk.map(std::str::from_utf8) {
        None => json!({"stream": "stdin", "rank": "all", "eof": true}),
        Some(Ok(text)) => json!({"stream": "stdin", "rank": "all", "data": text}),
        Some(Err(_)) => {
            json!({"stream": "stdin", "rank": "all", "data": STANDARD.encode(chunk.unwrap_or_default()), "encoding": "base64"})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_travel_as_base64() {
        assert_eq!(
            payload(Some(b"hi\n")),
            json!({"stream":"stdin","rank":"all","data":"hi\n"})
        );
        assert_eq!(
            payload(Some(b"\xff\x00")),
            json!({"stream":"stdin","rank":"all","data":"/wA=","encoding":"base64"})
        );
        assert_eq!(
            payload(None),
            json!({"stream":"stdin","rank":"all","eof":true})
        );
    }
}
