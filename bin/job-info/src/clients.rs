//! `job-info.clients`: a job's status on each node. What it is and why is `info::clients`' matter.

use info::{ClientStatus, clients, row};
use job::JobId;
use protocol::job_info::ClientsRequest;
use wire::errno;

use crate::{
    core::{Info, finish_json, parse},
    list::{ANSWER_BYTES_MAX, Row, What},
    peer::{Caller, Refusal},
    streams::Body,
};

/// Room for the text of one node.
const NODE_BYTES_USUAL: usize = 96;

impl Info {
    pub(crate) fn clients(&mut self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let ClientsRequest { id } = parse(payload)?;
        if self.out.has_room(caller.via) {
            return self.write_clients(caller, id);
        }
        let what = What::Clients;
        self.open(caller, Body::Row(Row { id, what })).map(|_| ())
    }

    /// # Errors
    /// There is no such job for the caller, or the answer is too long.
    pub(crate) fn write_clients(&self, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        let jobs = self.projection.jobs();
        let record = jobs.get(id).filter(|record| record.status().is_some());
        let record = record.filter(|record| self.may_see(caller, record.job().userid));
        let record = record.ok_or_else(|| self.absent(caller, id))?;
        let nodes = self.projection.nodes();
        let per_client = clients::per_client(record, nodes);
        let mut out = Vec::with_capacity(256 + per_client.total() * NODE_BYTES_USUAL);
        out.extend_from_slice(b"{\"id\":");
        row::integer(&mut out, id.0);
        out.extend_from_slice(b",\"clients\":[");
        for (at, client) in per_client.rows.iter().enumerate() {
            let Some(node) = nodes.get(client.node) else {
                continue;
            };
            out.extend_from_slice(if at == 0 { b"{" } else { b",{" });
            out.extend_from_slice(b"\"node\":");
            row::text(&mut out, &node.name);
            out.extend_from_slice(b",\"status\":");
            row::text(&mut out, client.status.name());
            if let Some(reason) = &client.reason {
                out.extend_from_slice(b",\"reason\":");
                row::text(&mut out, reason);
            }
            out.extend_from_slice(b",\"allocs\":");
            row::integer(&mut out, u64::from(client.allocs));
            for (key, time) in [
                (&b",\"created\":"[..], client.created),
                (b",\"modified\":", client.modified),
            ] {
                if let Some(time) = time {
                    out.extend_from_slice(key);
                    row::real(&mut out, time.0);
                }
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"],\"counts\":{");
        for (at, status) in ClientStatus::ALL.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            row::text(&mut out, status.name());
            out.push(b':');
            row::integer(&mut out, u64::from(per_client.count(status)));
        }
        out.push(b'}');
        if out.len() > ANSWER_BYTES_MAX {
            let text = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
            return Err(Refusal::new(errno::EOVERFLOW, text));
        }
        self.write_freshness(&mut out);
        self.out.respond(caller, Some(finish_json(out)));
        Ok(())
    }
}
