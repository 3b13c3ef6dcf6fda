//! What a journal request asks for, read from its payload: both forms, `rfc/3_journal.md`.

use crate::builtin::{self, Refused};
use job::Seq;
use journal::{Filter, Format, Rights, Spec, Start};
use protocol::job_manager::EventsRequest;
use serde_json::{Map, Value};
use wire::{Cred, ROLE_USER, Request, errno};

/// Names in `allow` or `deny`, bytes of one of them, and ids in `ids`, at most.
const NAMES_MAX: usize = 256;
const NAME_LEN_MAX: usize = 128;
const IDS_MAX: usize = 65_536;

/// `{allow?, deny?, from?, after?, epoch?, ids?}`
/// # Errors
/// EPERM: neither owner nor guest; EPROTO: not that; EINVAL: too much of it, or what excludes each other.
pub(crate) fn native(request: &Request) -> Result<Spec, Refused> {
    let rights = rights(request.cred)?;
    let ask: EventsRequest = builtin::payload(request)?;
    let ids = ask.ids.as_ref().map_or(0, Vec::len);
    if ids > IDS_MAX {
        return Err(invalid(format!(
            "ids: expected {IDS_MAX} at most, got {ids}"
        )));
    }
    if ask.after.is_none() && ask.epoch.is_some() {
        // Also `"after":null`: a cursor that was lost must not become "from now on".
        let text = "epoch: expected together with after, a number; there is none";
        return Err(invalid(text.into()));
    }
    let start = match (ask.from.as_deref(), ask.after) {
        (None, Some(after)) => Start::After {
            seq: Seq(after),
            epoch: ask.epoch,
        },
        (Some(_), Some(_)) => return Err(invalid("from and after exclude each other".into())),
        (None | Some("now"), None) => Start::Now,
        (Some("active"), None) => Start::Active,
        (Some("all"), None) => Start::All,
        (Some(other), None) => {
            let other: String = other.chars().take(NAME_LEN_MAX).collect();
            return Err(invalid(format!(
                "from: expected \"now\", \"active\" or \"all\", got {other:?}"
            )));
        }
    };
    let mut filter = Filter::all(rights);
    if let Some(names) = ask.allow {
        filter = filter.allow(bounded("allow", names)?);
    }
    if let Some(names) = ask.deny {
        filter = filter.deny(bounded("deny", names)?);
    }
    if let Some(ids) = ask.ids {
        filter = filter.of_jobs(ids);
    }
    Ok(Spec {
        format: Format::Native,
        filter,
        start,
    })
}

/// `{full?b, allow?o, deny?o}`; the keys of allow and deny are the names.
/// # Errors
/// EPERM: not the owner; EPROTO: not that; EINVAL: too much of it.
pub(crate) fn flux(request: &Request) -> Result<Spec, Refused> {
    if !request.cred.is_owner() {
        return Err(builtin::owner_only());
    }
    let mut ask: Map<String, Value> = builtin::payload(request)?;
    let full = match ask.get("full") {
        None => false,
        Some(Value::Bool(full)) => *full,
        Some(_) => {
            let text = "job-manager.events full should be true or false";
            return Err((errno::EPROTO, Some(text.into())));
        }
    };
    let mut names = |key: &str| match ask.remove(key) {
        None => Ok(None),
        Some(Value::Object(names)) => {
            bounded(key, names.into_iter().map(|(name, _)| name).collect()).map(Some)
        }
        Some(_) => {
            let text = format!("job-manager.events {key} should be an object");
            Err((errno::EPROTO, Some(text)))
        }
    };
    let mut filter = Filter::all(Rights::Owner);
    if let Some(names) = names("allow")? {
        filter = filter.allow(names);
    }
    if let Some(names) = names("deny")? {
        filter = filter.deny(names);
    }
    Ok(Spec {
        format: Format::Flux,
        filter,
        start: if full { Start::All } else { Start::Active },
    })
}

fn rights(cred: Cred) -> Result<Rights, Refused> {
    if cred.is_owner() {
        Ok(Rights::Owner)
    } else if cred.rolemask & ROLE_USER != 0 {
        Ok(Rights::User(cred.userid))
    } else {
        let text = "Request rejected due to insufficient privilege";
        Err((errno::EPERM, Some(text.into())))
    }
}

fn bounded(what: &str, names: Vec<String>) -> Result<Vec<String>, Refused> {
    if names.len() > NAMES_MAX {
        let text = format!(
            "{what}: expected {NAMES_MAX} names at most, got {}",
            names.len()
        );
        return Err(invalid(text));
    }
    if let Some(long) = names.iter().find(|name| name.len() > NAME_LEN_MAX) {
        let text = format!(
            "{what}: a name has {NAME_LEN_MAX} bytes at most, one has {}",
            long.len()
        );
        return Err(invalid(text));
    }
    Ok(names)
}

fn invalid(text: String) -> Refused {
    (errno::EINVAL, Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(payload: &str) -> Result<Spec, Refused> {
        let payload = Some(wire::nul_terminated(payload.as_bytes()));
        let mut request = Request::new("job-manager.events", payload, 1);
        request.cred = Cred::owner(7);
        native(&request)
    }

    #[test]
    fn an_epoch_without_a_seq_does_not_become_from_now_on() {
        for payload in [
            r#"{"after":null,"epoch":"00112233445566aa"}"#,
            r#"{"epoch":"bad"}"#,
            r#"{"epoch":"00112233445566aa","from":"all"}"#,
        ] {
            let (errnum, text) = ask(payload).err().unwrap_or_default();
            assert_eq!(errnum, errno::EINVAL, "{payload}");
            assert!(text.unwrap_or_default().starts_with("epoch: "), "{payload}");
        }
        assert!(ask(r#"{"after":3,"epoch":"00112233445566aa"}"#).is_ok());
        assert!(ask("{}").is_ok());
    }
}
