//! The loop's side of HTTP: takes what is asked to `views`, and what `views` gives to those who wait.
//!
//! Nothing here waits. What it does in one turn is bounded by [`WORK_SLICE`] and [`READY_TURN`], so that requests on the sockets have
//! theirs.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use views::{
    Limits, Reply, Views,
    stream::{self, Cursor, Events, Next, Subscription},
};

use super::{
    line::{Asked, Given, LoopEnd, Note, Status, Want},
    metrics::Facts,
};
use crate::core::Info;

/// Longest time that asks are taken in one turn.
const WORK_SLICE: Duration = Duration::from_millis(1);
/// Until when, in one turn, readers of events are served.
const READERS_SLICE: Duration = Duration::from_millis(2);
/// Most answers given to waiters in one turn.
const READY_TURN: usize = 512;

/// Who waits for the next line of events.
#[derive(Debug)]
struct Reader {
    wants: Arc<Subscription>,
    cursor: Cursor,
    answer: oneshot::Sender<Given>,
}

/// The loop's side.
#[derive(Debug)]
pub(crate) struct Door {
    end: LoopEnd,
    views: Views,
    /// An ask that `ready` has taken out.
    next: Option<Asked>,
    waiting: HashMap<u64, oneshot::Sender<Given>>,
    events: Events,
    readers: HashMap<u64, Reader>,
    /// Readers for whom something may have come.
    due: VecDeque<u64>,
    closing: bool,
    /// The other end is gone.
    over: bool,
}

impl Door {
    pub(crate) fn new(end: LoopEnd) -> Self {
        Self {
            end,
            views: Views::new(Limits::default()),
            next: None,
            waiting: HashMap::new(),
            events: Events::new(stream::Limits::default()),
            readers: HashMap::new(),
            due: VecDeque::new(),
            closing: false,
            over: false,
        }
    }

    /// Ready when [`Door::work`] has something to do.
    pub(crate) async fn ready(&mut self) {
        if self.next.is_some() {
            return;
        }
        tokio::select! {
            asked = self.end.asks.recv(), if !self.over => match asked {
                Some(asked) => self.next = Some(asked),
                None => self.over = true,
            },
            () = self.end.notes.come.notified() => {}
        }
    }

    /// Does what there is to do, for a while; whether more is left.
    pub(crate) fn work(&mut self, info: &mut Info) -> bool {
        let changes = info.projection.take_changes();
        if !changes.is_empty() {
            self.views.changed(&info.projection, &changes);
            self.events.changed(&info.projection, &changes);
            self.due = self.readers.keys().copied().collect();
        }
        let now = Instant::now();
        self.publish(info, now);
        for note in self.end.notes.take() {
            match note {
                Note::Cancel(token) => {
                    if self.waiting.remove(&token).is_some() {
                        self.views.cancel(token);
                    }
                    self.readers.remove(&token);
                }
                Note::Expire(token) => {
                    if let Some(reply) = self.views.expire(&info.projection, token) {
                        self.give(token, reply);
                    }
                }
            }
        }
        let mut more = true;
        while now.elapsed() < WORK_SLICE {
            let next = self.next.take().or_else(|| self.end.asks.try_recv().ok());
            let Some(asked) = next else {
                more = false;
                break;
            };
            self.take(info, asked);
        }
        while now.elapsed() < READERS_SLICE
            && let Some(token) = self.due.pop_front()
        {
            if let Some(reader) = self.readers.remove(&token) {
                self.read(info, token, reader);
            }
        }
        for (token, reply) in self.views.take_ready(&info.projection, READY_TURN) {
            self.give(token, reply);
        }
        more || self.views.has_ready() || !self.due.is_empty()
    }

    fn take(&mut self, info: &Info, asked: Asked) {
        if asked.answer.is_closed() {
            return;
        }
        match asked.want {
            Want::Facts => {
                let facts = Facts::of(info, &self.views, self.waiting.len() + self.readers.len());
                // Who asked may be gone.
                let _ = asked.answer.send(Given::Facts(Box::new(facts)));
            }
            Want::Subscribe(start, epoch) => {
                let projection = &info.projection;
                let place = self.events.subscribe(projection, start, epoch.as_deref());
                let _ = asked.answer.send(Given::Subscribed(place));
            }
            Want::Next(wants, cursor) => {
                let reader = Reader {
                    wants,
                    cursor,
                    answer: asked.answer,
                };
                self.read(info, asked.token, reader);
            }
            Want::View(mut ask) => {
                if self.closing {
                    ask.index = 0;
                }
                match self.views.ask(&info.projection, &ask, asked.token) {
                    Some(reply) => {
                        let _ = asked.answer.send(Given::View(reply));
                    }
                    None => {
                        self.waiting.insert(asked.token, asked.answer);
                    }
                }
            }
        }
    }

    /// The next line for a reader, or it waits.
    fn read(&mut self, info: &Info, token: u64, mut reader: Reader) {
        let Reader { wants, cursor, .. } = &mut reader;
        match self.events.next(&info.projection, wants, cursor) {
            Next::Line(line) => {
                let _ = reader.answer.send(Given::Line(line, reader.cursor, false));
            }
            Next::Over(line) => {
                let _ = reader.answer.send(Given::Line(line, reader.cursor, true));
            }
            Next::More => {
                self.readers.insert(token, reader);
                self.due.push_back(token);
            }
            Next::Idle => {
                self.readers.insert(token, reader);
            }
        }
    }

    fn give(&mut self, token: u64, reply: Reply) {
        if let Some(answer) = self.waiting.remove(&token) {
            let _ = answer.send(Given::View(reply));
        }
    }

    fn publish(&mut self, info: &Info, now: Instant) {
        let epoch = info.projection.cursor().map(|cursor| cursor.1);
        let status = Status {
            served: info.projection.is_served(),
            applied: info.projection.applied(),
            epoch: None,
            stale_since: info.link.stale_since(now),
            silent_at: info.link.silent_at(),
            set_aside: info.projection.jobs().set_aside().len(),
        };
        self.end.status.send_if_modified(|was| {
            if was.epoch.as_deref() != epoch {
                was.epoch = epoch.map(Arc::from);
            } else if *was
                == (Status {
                    epoch: was.epoch.clone(),
                    ..status.clone()
                })
            {
                return false;
            }
            let epoch = was.epoch.take();
            *was = Status { epoch, ..status };
            true
        });
    }

    /// The end is near: everybody who waits gets the body as it is, and whoever asks from here on, too.
    pub(crate) fn close(&mut self, info: &Info) {
        self.closing = true;
        // Streams of events end; those who wait for a line are told by that.
        self.readers.clear();
        for (token, reply) in self.views.close(&info.projection) {
            self.give(token, reply);
        }
    }
}
