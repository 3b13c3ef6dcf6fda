//! The jobs that are submitted: small jobspecs without environment, unsigned.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// What `job-ingest.submit` takes, for a job of one core.
pub(crate) fn submit(command: &[&str]) -> Value {
    json!({"J": unsigned(&jobspec(command)), "urgency": 16, "flags": 0})
}

/// A jobspec as clients make it with `--env=-*`.
fn jobspec(command: &[&str]) -> Value {
    json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "environment": {}, "cwd": "/"}}
    })
}

fn unsigned(jobspec: &Value) -> String {
    let userid = rustix::process::getuid().as_raw();
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    format!(
        "{}.{}.none",
        STANDARD.encode(header),
        STANDARD.encode(jobspec.to_string())
    )
}
