//! `J`, the form in which a jobspec is submitted: `B64(header).B64(jobspec).none`.
//!
//! The header is alternating NUL-terminated keys and values; the first letter of a value is its type. Mechanism `none` means
//! that nothing is signed: the socket's peer credentials say who submits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Wraps the jobspec's JSON text for submission by `userid`.
#[must_use]
pub fn wrap(jobspec: &str, userid: u32) -> String {
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    let mut out = String::with_capacity((header.len() + jobspec.len()) * 4 / 3 + 16);
    STANDARD.encode_string(header, &mut out);
    out.push('.');
    STANDARD.encode_string(jobspec, &mut out);
    out.push_str(".none");
    out
}

/// The jobspec text inside a `J`; `None` if it is not one.
#[must_use]
pub fn unwrap_jobspec(j: &str) -> Option<String> {
    let mut parts = j.trim_end_matches('\n').split('.');
    let (_header, jobspec, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    String::from_utf8(STANDARD.decode(jobspec).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j_is_built_as_flux_builds_it_and_read_back() {
        let j = wrap("{\"version\":1}", 1000);
        let header = j.split('.').next().unwrap();
        assert_eq!(
            header,
            "dmVyc2lvbgBpMQB1c2VyaWQAaTEwMDAAbWVjaGFuaXNtAHNub25lAA=="
        );
        assert!(j.ends_with(".none"));
        assert_eq!(unwrap_jobspec(&j).unwrap(), "{\"version\":1}");
        assert_eq!(unwrap_jobspec("nothing"), None);
        assert_eq!(unwrap_jobspec("a.%%%.none"), None);
    }
}
