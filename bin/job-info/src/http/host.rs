//! Which pages may ask: `Host`, `Origin` and `Sec-Fetch-Site`.
//!
//! A page of elsewhere whose name was made to point at this machine (DNS rebinding) has a `Host` that is a name of its own, so a name is
//! taken only when it is `localhost` or this machine's; an address is always taken. The port is not looked at: it may be forwarded.

use axum::http::{HeaderMap, Uri, header};

use super::reply::Refused;
use axum::http::StatusCode;

/// Longest name or origin that is shown in a refusal.
const SHOWN_MAX: usize = 80;

/// The names under which this server may be asked.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    machine: String,
}

impl Names {
    /// Of this machine.
    pub(crate) fn of_machine() -> Self {
        let uname = rustix::system::uname();
        Self {
            machine: uname.nodename().to_string_lossy().into_owned(),
        }
    }

    /// The machine's.
    pub(crate) fn machine(&self) -> &str {
        &self.machine
    }

    /// Whether the request was meant for this server, and does not come from a page of another.
    ///
    /// # Errors
    /// It was not, or does: the refusal.
    pub(crate) fn check(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        is_page: bool,
    ) -> Result<(), Refused> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            (None, _) => return Err(Refused::bad("a Host header is required")),
            (Some(_), Some(_)) => return Err(Refused::bad("one Host header is required")),
        };
        for host in [
            Some(host),
            uri.authority().map(|authority| authority.as_str()),
        ]
        .into_iter()
        .flatten()
        {
            if !self.is_ours(host) {
                let text = format!(
                    "Host {} is not this server: use its address, localhost or {}",
                    shown(host),
                    self.machine
                );
                return Err(Refused::new(StatusCode::FORBIDDEN, text));
            }
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let place = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            if !place.is_some_and(|place| place.eq_ignore_ascii_case(host)) {
                let text = format!("Origin {} is not this server", shown(origin));
                return Err(Refused::new(StatusCode::FORBIDDEN, text));
            }
        }
        // A page may be come to from anywhere: there is nothing in it.
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        if !is_page && matches!(site, Some(b"cross-site" | b"same-site")) {
            let text = "a page of another server may not ask here";
            return Err(Refused::new(StatusCode::FORBIDDEN, text));
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => {
                let Some((address, port)) = rest.split_once(']') else {
                    return false;
                };
                let port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
                return port && address.parse::<std::net::Ipv6Addr>().is_ok();
            }
            None => match host.split_once(':') {
                Some((name, port)) if is_port(port) => name,
                Some(_) => return false,
                None => host,
            },
        };
        name.parse::<std::net::Ipv4Addr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || !self.machine.is_empty() && name.eq_ignore_ascii_case(&self.machine)
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 5
}

/// As it may be shown to somebody: short, and nothing but what can be seen.
fn shown(text: &str) -> String {
    let kept: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN_MAX)
        .collect();
    format!("{kept:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, pairs: &[(&'static str, &str)], is_page: bool) -> Result<(), String> {
        let names = Names {
            machine: "node7".into(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("a value"));
        }
        let uri: Uri = uri.parse().expect("a uri");
        names
            .check(&uri, &headers, is_page)
            .map_err(|refused| refused.text().to_owned())
    }

    #[test]
    fn a_name_that_is_not_ours_is_refused_and_an_address_is_not() {
        for good in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "localhost",
            "LocalHost:1",
            "[::1]:99",
            "[::1]",
            "node7:80",
            "10.1.2.3",
        ] {
            assert_eq!(
                check("/v1/jobs", &[("host", good)], false),
                Ok(()),
                "{good}"
            );
        }
        for bad in [
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.evil.example",
            "node8",
            "",
            "[::1",
            "127.0.0.1:x",
            "[evil]:1",
            "a:b:c",
        ] {
            let refused = check("/v1/jobs", &[("host", bad)], false).expect_err(bad);
            assert!(refused.contains("is not this server"), "{bad}: {refused}");
        }
        assert!(check("/", &[], true).is_err());
        assert!(check("/", &[("host", "localhost"), ("host", "localhost")], true).is_err());
        assert!(check("http://evil.example/", &[("host", "localhost")], true).is_err());
    }

    #[test]
    fn a_page_of_another_server_is_refused() {
        let host = ("host", "127.0.0.1:8080");
        let check = |name, value, is_page| check("/v1/jobs", &[host, (name, value)], is_page);
        assert_eq!(check("origin", "http://127.0.0.1:8080", false), Ok(()));
        for bad in [
            "http://127.0.0.1:8081",
            "http://127.0.0.1",
            "null",
            "http://evil.example",
            "",
        ] {
            assert!(check("origin", bad, true).is_err(), "{bad}");
        }
        assert_eq!(check("sec-fetch-site", "same-origin", false), Ok(()));
        assert_eq!(check("sec-fetch-site", "none", false), Ok(()));
        assert!(check("sec-fetch-site", "same-site", false).is_err());
        assert!(check("sec-fetch-site", "cross-site", false).is_err());
        assert_eq!(check("sec-fetch-site", "cross-site", true), Ok(()));
    }
}
