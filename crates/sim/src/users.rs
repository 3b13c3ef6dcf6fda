//! Clients and listeners: what they ask, and when.

use job::{JobId, Seq};
use wire::{Cred, Flags, Request, json_payload};

use crate::client::Op;
use crate::link::Actor;
use crate::listener::Want;
use crate::note;
use crate::plan::{GUESTS, OWNER};
use crate::world::{World, cred};

impl World {
    /// A listener asks for its stream, on its connection or a new one.
    pub(crate) fn listen(&mut self, at: usize) {
        let Some(listener) = self.listeners.get(at) else {
            return;
        };
        let guest = listener.want.guest;
        let link = match listener.link {
            Some(link) => Some(link),
            None => {
                let cred = guest.map_or_else(|| cred(OWNER), Cred::guest);
                self.connect(Actor::Listener(at), cred)
            }
        };
        let (Some(link), Some(broker)) = (link, &self.broker) else {
            return;
        };
        let durable = Seq(broker.durable());
        let jobs: Vec<JobId> = self.truth.of_job.keys().copied().collect();
        let fresh = self.rng.one_in(12);
        let new = Want::any(&mut self.rng, &GUESTS, &jobs);
        let Some(listener) = self.listeners.get_mut(at) else {
            return;
        };
        // Sometimes it wants something else from now on.
        if fresh && listener.cursor.is_none() && new.guest == listener.want.guest {
            listener.want = new;
        }
        listener.link = Some(link);
        listener.tag += 1;
        let tag = listener.tag;
        let (topic, ask) = listener.ask(durable);
        note!(self, "  listener {at} asks {topic} {ask}");
        self.send(link, topic, &ask, true, tag);
    }

    pub(crate) fn send(
        &mut self,
        link: u64,
        topic: &'static str,
        ask: &serde_json::Value,
        streaming: bool,
        tag: u32,
    ) {
        let mut request = Request::new(topic, Some(json_payload(ask)), tag);
        if streaming {
            request.flags = Flags::STREAMING;
        }
        if let Some(link) = self.links.get(&link) {
            let _ = sim_io::client::Sender::new(link.up.clone()).send_now(request);
        }
    }

    /// A client asks something, or several things at once.
    pub(crate) fn ask(&mut self, at: usize) {
        let burst = if self.rng.one_in(8) {
            self.rng.between(2, 20)
        } else {
            1
        };
        let first = self.some_op(at);
        for _ in 0..burst {
            let op = if matches!(first, Op::Submit { key: None }) {
                first.clone()
            } else {
                self.some_op(at)
            };
            self.ask_one(at, op);
        }
    }

    pub(crate) fn ask_one(&mut self, at: usize, op: Op) {
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        let listed = matches!(
            op,
            Op::List(_) | Op::ListId(..) | Op::Rank(_) | Op::JobStats
        );
        let link = match client.direct.filter(|_| listed) {
            Some(direct) if self.rng.one_in(2) => Some(direct),
            _ => client.link,
        };
        let Some(link) = link else { return };
        let (topic, mut ask, streaming) = crate::client::request(&op, client.userid, &mut self.rng);
        let tag = client.tag();
        let mut current = client.direct != Some(link);
        // A rank is told from the list as it is, also of a job that it does not hold yet.
        if !current && !matches!(op, Op::Rank(_)) && self.rng.one_in(2) {
            current = true;
            ask["after"] = serde_json::json!(client.told);
        }
        if let Op::Submit { key: Some(key) } | Op::Dispatch { key: Some(key), .. } = &op {
            client.keys.entry(key.clone()).or_insert(None);
        }
        client.sent(link, tag, op, current);
        note!(self, "  client {at} asks {topic} {ask}");
        self.send(link, topic, &ask, streaming, tag);
    }

    pub(crate) fn some_op(&mut self, at: usize) -> Op {
        let userid = self.clients.get(at).map_or(OWNER, |client| client.userid);
        let owner = userid == OWNER;
        let jobs = self
            .clients
            .get(at)
            .map_or(&[][..], |client| &client.jobs[..]);
        // Mostly new ones, sometimes any.
        let recent = jobs.len().saturating_sub(12);
        let pool = if self.rng.one_in(4) {
            jobs
        } else {
            &jobs[recent..]
        };
        let job = self.rng.pick(pool).copied();
        let many: Vec<(JobId, i64)> = (0..self.rng.between(1, 10))
            .filter_map(|_| self.rng.pick(jobs).copied())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|id| (id, self.rng.below(if owner { 32 } else { 17 }) as i64))
            .collect();
        let urgency = self.rng.below(if owner { 32 } else { 17 }) as i64;
        let newest = self.truth.newest().0;
        let fresh = format!("k{at}-{}", self.rng.below(1 << 16));
        let open = self.clients.get(at).map(|client| &client.keys);
        let open: Vec<&String> = open.into_iter().flatten().map(|(key, _)| key).collect();
        let key = self.rng.pick(&open).map_or(&fresh, |key| *key).clone();
        let Some(id) = job else {
            return Op::Submit { key: None };
        };
        let parents = self.clients.get(at).map(|client| &client.parents[..]);
        // From one that is none, it is refused.
        let first = self.rng.pick(parents.unwrap_or_default()).copied();
        let parent = first.filter(|_| !self.rng.one_in(8)).unwrap_or(id);
        match self.rng.below(76) {
            0..=17 => Op::Submit { key: None },
            18..=20 => Op::Urgency(id, urgency),
            21..=24 => Op::Priority(many),
            25..=26 => Op::Raise(id),
            27 if self.rng.one_in(6) => Op::RaiseAll,
            28 => Op::Kill(id),
            29..=30 if owner => Op::Wait(id),
            31 => Op::Active,
            32..=33 => Op::Memo(id),
            34..=35 => Op::Lookup(id),
            36 if owner => Op::Queue(self.rng.one_in(2)),
            37 if owner && self.rng.one_in(3) => Op::Enable(!self.rng.one_in(3)),
            38 => Op::QueueStatus,
            39 => Op::Stats,
            40..=41 if owner && self.plan.purges > 0 => {
                Op::Purge(many.into_iter().map(|(id, _)| id).collect())
            }
            42 if owner && self.plan.purges > 1 => Op::PurgeAll,
            43..=46 => Op::List(self.rng.one_in(2)),
            47..=52 => Op::ListId(id, self.rng.one_in(5)),
            53..=54 => Op::Rank(id),
            55 => Op::JobStats,
            56 => {
                let ahead = newest + self.rng.between(1, 50) as u64 + 1_000_000;
                Op::BadCursor(ahead, None)
            }
            57 => Op::BadCursor(self.rng.below(5) as u64, Some("00000000deadbeef".into())),
            58 => Op::Submit { key: Some(fresh) },
            59 => Op::Submit { key: Some(key) },
            60 | 61 if owner && self.rng.below(4) < self.plan.shutdowns => Op::ShutDown {
                now: self.rng.one_in(2),
                force: self.plan.forces && self.rng.one_in(3),
            },
            62 if owner && self.plan.shutdowns > 1 => Op::GoOn,
            64 => Op::SubmitParent,
            65..=75 if first.is_none() && !self.rng.one_in(4) => Op::SubmitParent,
            65..=69 => Op::Dispatch { parent, key: None },
            70..=73 => {
                let key = Some(format!("{key}-of-{}", parent.0));
                Op::Dispatch { parent, key }
            }
            _ => Op::Submit { key: None },
        }
    }
}
