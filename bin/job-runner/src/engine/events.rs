//! What happens on the nodes, and what is due some time after that.

use std::time::Instant;

use job::JobId;
use sched::{Input, Set};
use tracing::{debug, info, warn};

use crate::engine::nodes::NodeEvent;
use crate::engine::serve::{Engine, GATHER, now};
use crate::messages::FromNode;

impl Engine {
    /// Takes in what happened on nodes. The job-manager is told of nodes before it is told of jobs on them.
    pub(super) fn nodes(&mut self, events: Vec<NodeEvent>) {
        let mut done = Ok(());
        let mut changed = Set::new();
        let mut to = false;
        for event in &events {
            let (place, up) = match event {
                NodeEvent::Up(place) => (*place, true),
                NodeEvent::Down(place) => (*place, false),
                NodeEvent::Said(..) => continue,
            };
            if (place as usize) >= self.specs.len() {
                continue;
            }
            if up != to {
                let told = self.tell_nodes(&std::mem::take(&mut changed), to);
                done = done.and(told);
                to = up;
            }
            changed.insert(place);
        }
        done = done.and(self.tell_nodes(&changed, to));
        self.set_up(&events);
        for event in events {
            let heard = self.node(event);
            done = done.and(heard);
        }
        self.tell_soon();
        if let Err(reason) = done {
            // The reader of the connection finds out, too, and begins again.
            debug!("{reason:#}");
        }
    }

    fn node(&mut self, event: NodeEvent) -> anyhow::Result<()> {
        let mut out = Vec::new();
        match event {
            NodeEvent::Up(place) => {
                self.exec.node_up(place, &mut out);
            }
            NodeEvent::Down(place) => {
                warn!(node = place, "node down");
                self.exec.node_down(place, &mut out);
            }
            NodeEvent::Said(_, FromNode::Hello { name, pid, jobs }) => {
                info!(node = name, pid, jobs = jobs.len(), "node up");
                return Ok(());
            }
            NodeEvent::Said(place, FromNode::Job { id, fact }) => {
                self.exec.fact(JobId(id), place, fact, &mut out);
            }
            NodeEvent::Said(_, FromNode::Stdin { tag, errnum, .. }) => {
                return self.stdin_done(tag, errnum);
            }
        }
        self.perform(out)
    }

    /// Node processes that are not there after a while are down; others come later.
    pub(super) fn not_there(&mut self) {
        let mut out = Vec::new();
        for (place, up) in (0u32..).zip(&self.up) {
            if !up {
                self.exec.node_down(place, &mut out);
            }
        }
        if let Err(reason) = self.perform(out) {
            debug!("{reason:#}");
        }
    }

    /// If parts fare otherwise than their jobs, that is told in a moment.
    pub(super) fn tell_soon(&mut self) {
        if self.exec.has_untold() && self.session.is_some() {
            self.tell_at.get_or_insert(Instant::now() + GATHER);
        }
    }

    pub(super) fn due_at(&self) -> Option<Instant> {
        let times = [self.tell_at, self.resources.again_at()];
        times.into_iter().flatten().min()
    }

    /// Does what is due.
    pub(super) fn due(&mut self) {
        let now = Instant::now();
        let mut done = Ok(());
        if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_at = None;
            let mut out = Vec::new();
            self.exec.tell_parts(&mut out);
            done = self.perform(out);
        }
        if self.resources.again_at().is_some_and(|at| at <= now) {
            done = done.and(self.announce());
        }
        if let Err(reason) = done {
            debug!("{reason:#}");
        }
    }

    /// Tells the scheduler which nodes are there, all of them at once: a job on every node that is ready gets all that come together.
    fn set_up(&mut self, events: &[NodeEvent]) {
        let mut changed = Vec::new();
        for event in events {
            let (place, up) = match event {
                NodeEvent::Up(place) => (*place, true),
                NodeEvent::Down(place) => (*place, false),
                NodeEvent::Said(..) => continue,
            };
            // The scheduler knows only our own nodes; their places are their ranks.
            if let Some(state) = self.up.get_mut(place as usize) {
                *state = up;
                changed.push((place, up));
            }
        }
        if !changed.is_empty() {
            self.sched
                .handle(now(), Input::Nodes(changed), &mut self.actions);
        }
    }
}
