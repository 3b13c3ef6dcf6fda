//! `J` with mechanism `none`: `base64(header) . base64(jobspec) . none`.
//!
//! The header is `key\0value\0…` with exactly the keys version, userid and mechanism, in any order; a value starts with the letter of its
//! type. Who may sign for whom is decided by the caller.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What a `J` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unwrapped {
    /// Who signed.
    pub(crate) userid: u32,
    /// The jobspec, JSON text that was not looked at.
    pub(crate) jobspec: Vec<u8>,
}

/// What is wrong with a `J`. The caller answers all of them with one text, as Flux does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnwrapError {
    #[error("expected three fields with a dot between")]
    Fields,
    #[error("a field is not base64")]
    Base64,
    #[error("the header is malformed")]
    Header,
    #[error("the signature is not none")]
    Mechanism,
}

/// A `J` that this user signed.
pub(crate) fn wrap_j(userid: u32, jobspec: &[u8]) -> String {
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    let (header, jobspec) = (STANDARD.encode(header), STANDARD.encode(jobspec));
    format!("{header}.{jobspec}.none")
}

/// Takes a `J` apart.
pub(crate) fn unwrap_j(j: &str) -> Result<Unwrapped, UnwrapError> {
    let mut fields = j.split('.');
    let (Some(header), Some(jobspec), Some(signature), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(UnwrapError::Fields);
    };
    if signature != "none" {
        return Err(UnwrapError::Mechanism);
    }
    let header = STANDARD.decode(header).map_err(|_| UnwrapError::Base64)?;
    let userid = header_userid(&header)?;
    let jobspec = STANDARD.decode(jobspec).map_err(|_| UnwrapError::Base64)?;
    Ok(Unwrapped { userid, jobspec })
}

/// Reads the header; all three keys must be there once.
fn header_userid(header: &[u8]) -> Result<u32, UnwrapError> {
    let body = header.strip_suffix(&[0]).ok_or(UnwrapError::Header)?;
    let mut words = body.split(|byte| *byte == 0);
    let (mut version, mut userid, mut mechanism) = (false, None, false);
    while let Some(key) = words.next() {
        let value = words.next().ok_or(UnwrapError::Header)?;
        match key {
            b"version" if value == b"i1" && !version => version = true,
            b"userid" if userid.is_none() => {
                userid = Some(decimal(
                    value.strip_prefix(b"i").ok_or(UnwrapError::Header)?,
                )?)
            }
            b"mechanism" if !mechanism => {
                if value != b"snone" {
                    return Err(UnwrapError::Mechanism);
                }
                mechanism = true;
            }
            _ => return Err(UnwrapError::Header),
        }
    }
    userid
        .filter(|_| version && mechanism)
        .ok_or(UnwrapError::Header)
}

/// Digits only.
fn decimal(digits: &[u8]) -> Result<u32, UnwrapError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(UnwrapError::Header);
    }
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(UnwrapError::Header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(header: &[u8], jobspec: &[u8], signature: &str) -> String {
        format!(
            "{}.{}.{signature}",
            STANDARD.encode(header),
            STANDARD.encode(jobspec)
        )
    }

    #[test]
    fn the_header_of_flux_is_read() {
        let j = format!(
            "dmVyc2lvbgBpMQB1c2VyaWQAaTEwMDAAbWVjaGFuaXNtAHNub25lAA==.{}.none",
            STANDARD.encode("{}")
        );
        assert_eq!(
            unwrap_j(&j),
            Ok(Unwrapped {
                userid: 1000,
                jobspec: b"{}".to_vec()
            })
        );
    }

    #[test]
    fn what_is_wrapped_unwraps() {
        let jobspec = b"{\"a\":1}".to_vec();
        let userid = 4_294_967_295;
        let unwrapped = unwrap_j(&wrap_j(userid, &jobspec)).unwrap();
        assert_eq!(unwrapped, Unwrapped { userid, jobspec });
    }

    #[test]
    fn keys_come_in_any_order_and_no_other_is_taken() {
        let good = wrap(
            b"mechanism\0snone\0userid\0i7\0version\0i1\0",
            b"{}",
            "none",
        );
        assert_eq!(unwrap_j(&good).unwrap().userid, 7);
        for (header, error) in [
            (&b"version\0i1\0userid\0i7\0"[..], UnwrapError::Header),
            (
                b"version\0i2\0userid\0i7\0mechanism\0snone\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0i-7\0mechanism\0snone\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0i+7\0mechanism\0snone\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0s7\0mechanism\0snone\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0i4294967296\0mechanism\0snone\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0i7\0mechanism\0smunge\0",
                UnwrapError::Mechanism,
            ),
            (
                b"version\0i1\0userid\0i7\0mechanism\0snone\0x\0i1\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0i7\0userid\0i8\0mechanism\0snone\0",
                UnwrapError::Header,
            ),
            (
                b"version\0i1\0userid\0i7\0mechanism\0snone",
                UnwrapError::Header,
            ),
            (b"version\0i1\0userid\0i7\0mechanism\0", UnwrapError::Header),
            (b"", UnwrapError::Header),
        ] {
            assert_eq!(
                unwrap_j(&wrap(header, b"{}", "none")),
                Err(error),
                "{}",
                header.escape_ascii()
            );
        }
    }

    #[test]
    fn a_wrong_number_of_fields_bad_base64_and_other_signatures_are_refused() {
        let header = STANDARD.encode(b"version\0i1\0userid\0i7\0mechanism\0snone\0");
        for (j, error) in [
            (String::new(), UnwrapError::Fields),
            (header.clone(), UnwrapError::Fields),
            (format!("{header}.e30="), UnwrapError::Fields),
            (format!("{header}.e30=.none.none"), UnwrapError::Fields),
            (format!("{header}.e30=.munge"), UnwrapError::Mechanism),
            (format!("{header}.e30.none"), UnwrapError::Base64),
            (format!("{header}.!.none"), UnwrapError::Base64),
        ] {
            assert_eq!(unwrap_j(&j), Err(error), "{j}");
        }
    }
}
