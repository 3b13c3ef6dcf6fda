//! What a job runs, for who may know: the owner, and the job's user. The list does not hold it, so it is asked of the job-manager, over a
//! connection of HTTP's own, and put into the body; when it cannot be had in time, the body has none.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use job::JobId;
use rpc::Client;
use serde::Deserialize;
use tokio::{
    sync::{Mutex, Semaphore},
    time::{Instant, timeout},
};
use views::{Answer, Body, What, bodies};

use super::auth::Who;

/// Most lookups on their way at a time; who comes when there are so many gets the body without.
const LOOKUPS_MAX: usize = 64;
/// How long one may take, the connection included.
const LOOKUP_WAIT: Duration = Duration::from_secs(2);

/// How long nobody is made to wait after one that was not answered.
const LOOKUP_PAUSE: Duration = Duration::from_secs(5);

/// The connection to the job-manager, made when it is needed.
#[derive(Debug)]
pub(crate) struct Commands {
    socket: PathBuf,
    link: Mutex<Link>,
    slots: Semaphore,
}

#[derive(Debug, Default)]
struct Link {
    client: Option<Client>,
    /// Nothing is asked before.
    pause: Option<Instant>,
}

#[derive(Deserialize)]
struct Found {
    userid: u32,
    jobspec: String,
}

impl Commands {
    pub(crate) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            link: Mutex::default(),
            slots: Semaphore::new(LOOKUPS_MAX),
        }
    }

    /// The job whose command belongs into an answer.
    pub(crate) fn of(what: &What) -> Option<JobId> {
        match what {
            What::Body(bodies::Query::Job(id) | bodies::Query::JobVersions(id)) => *id,
            _ => None,
        }
    }

    /// The answer with the job's command, if this one may know it and it can be had.
    pub(crate) async fn add(&self, who: Who, id: JobId, answer: Answer) -> Answer {
        let Ok(_slot) = self.slots.try_acquire() else {
            return answer;
        };
        let found = match timeout(LOOKUP_WAIT, self.look_up(id)).await {
            Ok(Some(found)) => found,
            Ok(None) => return answer,
            Err(_) => {
                // A connection that says nothing is not asked again.
                *self.link.lock().await = Link {
                    client: None,
                    pause: Some(Instant::now() + LOOKUP_PAUSE),
                };
                return answer;
            }
        };
        if !who.owner && who.userid != found.userid {
            return answer;
        }
        match bodies::with_command(&answer.body.to_vec(), &found.jobspec) {
            Some(text) => Answer {
                body: Body::new(vec![text.into()]),
                ..answer
            },
            None => answer,
        }
    }

    async fn look_up(&self, id: JobId) -> Option<Found> {
        let client = {
            let mut link = self.link.lock().await;
            if link.pause.is_some_and(|until| Instant::now() < until) {
                return None;
            }
            match &link.client {
                Some(client) => client.clone(),
                None => {
                    let client = Client::connect(&self.socket).await.ok()?;
                    link.client.insert(client).clone()
                }
            }
        };
        let ask = serde_json::json!({ "id": id.0, "keys": ["jobspec"] });
        match client.call_as("job-manager.lookup", &ask).await {
            Ok(found) => Some(found),
            Err(error) => {
                // No such job is an answer; anything else may be the connection's.
                if error.errnum != wire::errno::ENOENT {
                    self.link.lock().await.client = None;
                }
                None
            }
        }
    }
}
