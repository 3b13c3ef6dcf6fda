//! HTTP: what the list shows, to browsers, scripts and Nomad's clients.
//!
//! ```text
//!  job-info's loop                        a thread of its own, one runtime
//!    door ── views ── Projection   line    server ─ connection ─ app ─┬─ auth, host
//!      ▲        asks (bounded)  ◄────────                             ├─ query, bodies ─► views::Ask
//!      └──────── answers, status ───────►                             ├─ coding, sending
//!                                                                     └─ live, events (streams), page, metrics, openapi
//! ```
//! The loop never waits for HTTP: asks come through a bounded channel, answers go out by channels that are never full, and all times,
//! clients and compressed copies are on the thread. What is in a body is `views`' matter; what is answered is specified in
//! `rfc/9_http.md`. Only reads: nothing here changes a job.

mod address;
mod app;
mod auth;
mod bodies;
mod coding;
mod commands;
mod door;
mod duration;
mod events;
mod host;
mod line;
mod live;
mod metrics;
mod nofile;
mod openapi;
mod page;
mod pretty;
mod query;
mod reply;
mod routes;
mod sending;
mod server;
mod serving;
mod stall;
mod tokens;
mod watched;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context as _;
use tokio::sync::{oneshot, watch};

pub use address::parse as parse_address;
use door::Door;
pub use server::Bounds;
pub use serving::AddressError;
pub(crate) use serving::Serving;

/// How HTTP is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Where; port 0: the one used before, else any.
    pub address: SocketAddr,
    /// Whoever reaches the address may read, without a token.
    pub open: bool,
    /// What a connection may take.
    pub bounds: Bounds,
}

/// Threads that compress and indent large bodies.
const WORKERS_MAX: usize = 2;
/// How long the thread may take to end when its connections have.
const THREAD_WAIT: Duration = Duration::from_secs(1);

/// The thread that serves.
#[derive(Debug)]
pub(crate) struct Http {
    reached: SocketAddr,
    stop: watch::Sender<bool>,
    done: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

/// What the thread needs to know of the instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instance<'a> {
    pub(crate) statedir: &'a Path,
    /// The job-manager's.
    pub(crate) socket: &'a Path,
    pub(crate) owner: u32,
    pub(crate) private: bool,
}

impl Http {
    /// Listens. Split from [`Http::start`] so that what is wrong with an address is known before anything else begins.
    ///
    /// # Errors
    /// As `bind`.
    pub(crate) fn listen(options: &Options, statedir: &Path) -> io::Result<TcpListener> {
        address::listen(options.address, statedir)
    }

    /// Serves on a thread of its own; the loop's side of it, and what makes tokens.
    ///
    /// # Errors
    /// The token file cannot be made, or the thread not.
    pub(crate) fn start(
        listener: TcpListener,
        options: &Options,
        instance: Instance<'_>,
    ) -> anyhow::Result<(Self, Door, tokens::Tokens)> {
        let secret =
            auth::Secret::of_instance(instance.statedir, instance.owner).with_context(|| {
                format!(
                    "cannot make {}",
                    instance.statedir.join(auth::TOKEN_FILE).display()
                )
            })?;
        let bound = listener.local_addr()?;
        let reached = address::reached(bound);
        let connections = nofile::raise(options.bounds.connections);
        tracing::info!(address = %bound, connections, open = options.open, "serving HTTP");
        if !bound.ip().is_loopback() {
            tracing::warn!(address = %bound, "HTTP is served to other machines, and nothing of it is encrypted");
        }
        let bounds = Bounds {
            connections,
            ..options.bounds
        };
        let (line, end) = line::line(bounds.list_wait);
        let (stop, stopped) = watch::channel(false);
        let names = host::Names::of_machine();
        let agent = views::bodies::Agent {
            address: reached.ip().to_string(),
            port: reached.port(),
            host: names.machine().to_owned(),
            tokens: !options.open,
        };
        let app = Arc::new(app::App {
            line,
            agent: Arc::new(agent),
            commands: commands::Commands::new(instance.socket),
            secret: secret.clone(),
            names,
            open: options.open,
            private: instance.private,
            cookie: format!("weir_{}", bound.port()),
            forms: coding::Forms::default(),
            sending: Arc::default(),
            receiving: tokio::sync::Semaphore::new(app::BODIES_BYTES_MAX),
            counters: metrics::Counters::default(),
            stop: stopped.clone(),
            jitter: AtomicU64::new(auth::now() ^ u64::from(std::process::id()) << 32),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS_MAX)
            .build()
            .context("cannot make a runtime")?;
        let (tell, done) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                let served = async {
                    match tokio::net::TcpListener::from_std(listener) {
                        Ok(listener) => {
                            let router = app::router(&app);
                            server::serve(listener, app, router, bounds, stopped).await;
                        }
                        Err(error) => tracing::error!(%error, "cannot serve HTTP"),
                    }
                };
                runtime.block_on(served);
                runtime.shutdown_timeout(THREAD_WAIT);
                // Nobody may be left to hear it.
                let _ = tell.send(());
            })
            .context("cannot make a thread")?;
        let http = Self {
            reached,
            stop,
            done,
            thread,
        };
        Ok((http, Door::new(end), tokens::Tokens::new(secret, reached)))
    }

    /// Says in the state directory where it is.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn publish(&self, statedir: &Path) -> anyhow::Result<()> {
        address::publish(statedir, self.reached).with_context(|| {
            format!(
                "cannot write {}",
                statedir.join(address::ADDRESS_FILE).display()
            )
        })
    }

    /// Asks it to end.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Ready when it has ended.
    pub(crate) async fn ended(&mut self) {
        // An error says the same: the thread is gone.
        let _ = (&mut self.done).await;
    }

    /// Waits for the thread, which has ended.
    pub(crate) fn join(self) {
        let _ = self.thread.join();
    }
}
