//! The one JSON document that a command with `--json` prints: the same keys and types whatever was found, also when it fails.
//!
//! ```text
//! {"jobs":[…],"errors":[{"id":N|null,"f58":S|null,"text":S|null,"errnum":N|null,"error":S}…],"stale":null}
//! ```
//! A command prints its document with [`print()`]. One that ends without having printed one gets that of [`empty`], with the reason in
//! `errors`; so a script can read standard output whatever happened, and standard error says the same to a person.
//!
//! Left to others: `journal`, `job eventlog` and `job wait-event` print a line for each event, `submit` one for each job. They print a document
//! of a failure only if they fail before the first.

use crate::connect::CallError;
use crate::failure::{self, Exit};
use crate::ids::{self, Named, Problem};
use crate::output;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

static PRINTED: AtomicBool = AtomicBool::new(false);

/// Something was printed: there is to be no document of a failure behind it.
pub fn printed() {
    PRINTED.store(true, Ordering::Relaxed);
}

/// Prints the document.
///
/// # Errors
/// Standard output is gone.
pub fn print<T: Serialize + ?Sized>(document: &T) -> anyhow::Result<()> {
    printed();
    let mut out = output::stdout();
    serde_json::to_writer(&mut out, document).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// The document of a command that has nothing to show; `None` for one that prints no single document.
#[must_use]
pub fn empty(command: &str) -> Option<Value> {
    Some(match command {
        "jobs" => json!({"jobs": [], "errors": [], "stale": null, "queues": null}),
        "info" => json!({"jobs": [], "errors": [], "stale": null}),
        "cancel" => {
            json!({"count": 0, "canceled": 0, "dry_run": false, "jobs": [], "errors": []})
        }
        "submit" => {
            json!({"id": null, "f58": null, "seq": null, "known": null, "errnum": null, "error": null})
        }
        "journal" => json!({"errors": []}),
        "job kill" | "kill" | "job raise" => json!({"jobs": [], "errors": []}),
        "job status" => json!({"jobs": [], "status": null, "errors": []}),
        "job last" | "job id" => json!({"jobs": [], "errors": []}),
        "job info" => json!({"id": null, "f58": null, "keys": {}, "errors": []}),
        "bulksubmit" => json!({"jobs": [], "errors": []}),
        "wait" | "job wait" => json!({"jobs": [], "failed": [], "errors": []}),
        "job priority" => json!({"seq": 0, "changed": [], "errors": []}),
        "job prioritize" => json!({"seq": 0, "changed": [], "passed_over": 0, "errors": []}),
        "job purge" => {
            json!({"force": false, "count": 0, "jobs": [], "errors": [], "inactive": 0, "seq": 0})
        }
        "queue status" => json!({"queues": [], "errors": []}),
        "stats" => {
            json!({"epoch": null, "jobs": null, "job-manager": null, "job-list": null, "errors": {}})
        }
        "shutdown" => {
            json!({"shut_down": false, "waiting": null, "jobs": [], "elapsed": null, "errors": []})
        }
        "store check" => {
            json!({"file": null, "sound": null, "epoch": null, "schema": null, "seq": null, "floor": null,
            "entries": null, "jobs": null, "active": null, "set_aside": [], "problems": [], "more": 0, "errors": []})
        }
        "store backup" => {
            json!({"file": null, "bytes": null, "epoch": null, "seq": null, "errors": []})
        }
        "store recover" => {
            json!({"file": null, "kept": null, "epoch": null, "new_epoch": null, "seq": null, "floor": null,
            "jobs": null, "lost_jobs": [], "lost_entries": [], "errors": []})
        }
        "resource list" | "resource status" => json!({"nodes": [], "errors": []}),
        "resource drain" | "resource undrain" => json!({"seq": null, "nodes": [], "errors": []}),
        "dispatch" => json!({"id": null, "f58": null, "seq": null, "known": null, "errors": []}),
        "job clients" => {
            json!({"id": null, "f58": null, "clients": [], "counts": {}, "seq": null, "stale": null, "errors": []})
        }
        "job allocs" => json!({"id": null, "f58": null, "allocs": [], "errors": []}),
        "open" => json!({"url": null, "base": null, "token": null, "expires": null, "errors": []}),
        "job wait-event" => {
            json!({"timestamp": null, "name": null, "context": null, "errors": []})
        }
        "job eventlog" => json!({"errors": []}),
        _ => return None,
    })
}

/// The document of a command that failed, unless it has printed one.
pub fn print_failure(command: &str, error: &anyhow::Error) {
    if PRINTED.load(Ordering::Relaxed) || failure::is_broken_pipe(error) {
        return;
    }
    let text = match error.downcast_ref::<Exit>() {
        None => failure::text(error),
        // It has said why; `Exit(0)`: that there was nothing to do.
        Some(Exit(0)) => String::new(),
        Some(exit) => said(command).unwrap_or_else(|| exit.to_string()),
    };
    print_error(command, errnum(error), text);
}

/// The document of a command whose words could not be read.
pub fn print_usage(command: &str, text: String) {
    print_error(command, None, text);
}

/// The error, with what it is about if that is clear: the only job that was named, when the instance refused; a word that is no id.
fn problem(errnum: Option<u32>, text: String) -> Problem {
    match ids::named() {
        Named::Malformed(word) if errnum.is_none() => Problem::of_text(&word, text),
        Named::Job(id) if errnum.is_some() => Problem {
            errnum,
            ..Problem::of(id, text)
        },
        _ => Problem::of_all(errnum, text),
    }
}

fn print_error(command: &str, errnum: Option<u32>, text: String) {
    let Some(mut document) = empty(command) else {
        return;
    };
    if command == "submit" {
        document["errnum"] = json!(errnum);
        document["error"] = json!(text);
    }
    match document.get_mut("errors") {
        _ if text.is_empty() => {}
        Some(Value::Array(errors)) => errors.push(json!(problem(errnum, text))),
        Some(Value::Object(errors)) => {
            errors.insert("instance".to_owned(), json!(text));
        }
        _ => {}
    }
    // Whoever does not read it does not want it.
    let _ = print(&document);
}

/// What the command said last, without its own name before it.
fn said(command: &str) -> Option<String> {
    let said = output::said_last()?;
    let text = said
        .strip_prefix(command)
        .and_then(|rest| rest.strip_prefix(": "));
    Some(text.unwrap_or(&said).to_owned())
}

/// The number of a refusal.
#[must_use]
pub fn errnum(error: &anyhow::Error) -> Option<u32> {
    error.downcast_ref::<CallError>().and_then(errnum_of)
}

/// Likewise.
#[must_use]
pub fn errnum_of(error: &CallError) -> Option<u32> {
    match error {
        CallError::Refused { errnum, .. } => Some(*errnum),
        _ => None,
    }
}
