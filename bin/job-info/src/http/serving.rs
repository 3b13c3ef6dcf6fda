//! Whether and when HTTP is served: at once, or as soon as this process is the one that serves the instance, and until the end.
//!
//! Of several job-infos one holds the lock of `job-info.socket`. Where any port will do, only that one serves; one that was given a port
//! of its own serves in any case, and `STATEDIR/http` is the holder's.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use thiserror::Error;

use super::{Door, Http, Instance, Options, server::END_WAIT};
use crate::core::Info;

/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// An address that cannot be served; starting again does not help.
#[derive(Debug, Error)]
#[error(
    "cannot serve HTTP at {address}: {error}; choose another address with --http, or --http=off"
)]
pub struct AddressError {
    address: SocketAddr,
    #[source]
    error: io::Error,
}

/// HTTP, if it is served.
#[derive(Debug)]
pub(crate) struct Serving {
    options: Option<Options>,
    owner: u32,
    open: Option<(Http, Door)>,
    due: Instant,
    warned: bool,
    /// Our address is in the file.
    published: bool,
}

impl Serving {
    pub(crate) fn new(options: Option<Options>, owner: u32, now: Instant) -> Self {
        Self {
            options,
            owner,
            open: None,
            due: now,
            warned: false,
            published: false,
        }
    }

    /// When to try again; `None`: there is nothing to do.
    pub(crate) fn due(&self, holds: bool) -> Option<Instant> {
        let options = self.options?;
        let owed = match &self.open {
            Some(_) => holds && !self.published,
            None => holds || options.address.port() != 0,
        };
        owed.then_some(self.due)
    }

    /// Begins, if it is time; says where, if that is to be said by us. What may be mended (another has the port, the disk is full) is tried
    /// again: the sockets are served meanwhile.
    ///
    /// # Errors
    /// [`AddressError`].
    pub(crate) fn begin(
        &mut self,
        info: &mut Info,
        holds: bool,
        now: Instant,
    ) -> Result<(), AddressError> {
        let (Some(options), Some(due)) = (self.options, self.due(holds)) else {
            return Ok(());
        };
        if due > now {
            return Ok(());
        }
        if self.open.is_none() {
            let listener = match Http::listen(&options, &info.config.statedir) {
                Ok(listener) => listener,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let why = format!("{}: {error}", options.address);
                    self.later(&why, now);
                    return Ok(());
                }
                Err(error) => {
                    let address = options.address;
                    return Err(AddressError { address, error });
                }
            };
            let instance = Instance {
                statedir: &info.config.statedir,
                socket: &info.config.socket,
                owner: self.owner,
                private: info.config.private,
            };
            match Http::start(listener, &options, instance) {
                Ok((http, mut door, tokens)) => {
                    info.http_tokens = Some(Box::new(tokens));
                    info.projection.watch_changes(true);
                    // How the list is: nothing may come for a while that would have it said.
                    door.work(info);
                    self.open = Some((http, door));
                }
                Err(error) => {
                    self.later(&format!("{error:#}"), now);
                    return Ok(());
                }
            }
        }
        if let (Some((http, _)), true) = (&self.open, holds) {
            match http.publish(&info.config.statedir) {
                Ok(()) => {
                    self.published = true;
                    self.warned = false;
                }
                Err(error) => self.later(&format!("{error:#}"), now),
            }
        }
        Ok(())
    }

    /// Tries again in a while; why is said once.
    fn later(&mut self, why: &str, now: Instant) {
        if !self.warned {
            tracing::warn!(why, "HTTP is not served as it should be; it is tried again");
            self.warned = true;
        }
        self.due = now + RETRY_PAUSE;
    }

    /// Ready when [`Serving::work`] has something to do.
    pub(crate) async fn ready(&mut self) {
        let Some((http, door)) = &mut self.open else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = door.ready() => {}
            () = http.ended() => {
                // Nobody asked it to. What it was is not known any more; begin again.
                tracing::error!("HTTP ended by itself; it is begun again");
                self.open = None;
                self.published = false;
                self.due = Instant::now() + RETRY_PAUSE;
            }
        }
    }

    /// Does what there is to do, for a while; whether more is left.
    pub(crate) fn work(&mut self, info: &mut Info) -> bool {
        match &mut self.open {
            Some((_, door)) => door.work(info),
            None => false,
        }
    }

    /// Everybody who waits is answered, streams end, and then the thread does.
    pub(crate) async fn end(&mut self, info: &mut Info) {
        let Some((mut http, mut door)) = self.open.take() else {
            return;
        };
        door.work(info);
        // First: answers that go out from here on say that they are the last of their connection.
        http.stop();
        door.close(info);
        let late = tokio::time::sleep(END_WAIT + super::THREAD_WAIT * 2);
        tokio::pin!(late);
        loop {
            tokio::select! {
                () = http.ended() => break,
                () = &mut late => {
                    tracing::warn!("HTTP does not end; it ends with this process");
                    return;
                }
                () = door.ready() => while door.work(info) {},
            }
        }
        http.join();
    }
}
