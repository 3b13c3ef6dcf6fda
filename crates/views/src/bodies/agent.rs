//! Who answers: what clients ask before anything else, to see whether somebody is there and of which version.

use super::json::{self, Object};
use crate::names;

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Agent {
    /// Address without port.
    pub address: String,
    /// Port.
    pub port: u16,
    /// The machine's name.
    pub host: String,
    /// Whether a token is needed.
    pub tokens: bool,
}

impl Agent {
    fn name(&self) -> String {
        format!("{}.{}", self.host, names::REGION)
    }

    /// `host:port`
    fn at(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }
}

fn member(object: &mut Object<'_>, agent: &Agent) {
    object.text("Name", &agent.name());
    object.text("Addr", &agent.address);
    object.uint("Port", agent.port);
    object.text("Status", "alive");
    object.object("Tags", |tags| {
        tags.text("region", names::REGION);
        tags.text("dc", names::DATACENTER);
        tags.text("role", "weir");
        tags.text("build", env!("CARGO_PKG_VERSION"));
    });
    for key in [
        "ProtocolMin",
        "ProtocolMax",
        "ProtocolCur",
        "DelegateMin",
        "DelegateMax",
        "DelegateCur",
    ] {
        object.uint(key, 0_u64);
    }
}

pub(crate) fn agent_self(out: &mut Vec<u8>, agent: &Agent) {
    json::object(out, |object| {
        object.object("config", |config| {
            config.text("Region", names::REGION);
            config.text("Datacenter", names::DATACENTER);
            config.text("NodeName", &agent.host);
            config.text("BindAddr", &agent.address);
            config.object("Ports", |ports| ports.uint("HTTP", agent.port));
            config.object("ACL", |acl| acl.bool("Enabled", agent.tokens));
            config.raw("Server", br#"{"Enabled":true}"#);
            config.raw("Client", br#"{"Enabled":false}"#);
            config.object("Version", |version| {
                version.text("Version", env!("CARGO_PKG_VERSION"));
                version.text("VersionMetadata", "weir");
                version.blanks(&["VersionPrerelease", "Revision"]);
            });
        });
        object.object("member", |object| member(object, agent));
        object.raw(
            "stats",
            br#"{"nomad":{"server":"true","leader":"true","bootstrap":"true"}}"#,
        );
    });
}

pub(crate) fn members(out: &mut Vec<u8>, agent: &Agent) {
    json::object(out, |object| {
        object.text("ServerName", &agent.host);
        object.text("ServerRegion", names::REGION);
        object.text("ServerDC", names::DATACENTER);
        json::list(object.key("Members"), [agent], |out, agent| {
            json::object(out, |object| member(object, agent));
        });
    });
}

pub(crate) fn leader(out: &mut Vec<u8>, agent: &Agent) {
    info::row::text(out, &agent.at());
}

pub(crate) fn peers(out: &mut Vec<u8>, agent: &Agent) {
    json::list(out, [agent], leader);
}
