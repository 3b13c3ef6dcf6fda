//! The query string: pairs, and the parameters that every read takes, in the order in which they are looked at.

use std::{borrow::Cow, time::Duration};

use axum::http::StatusCode;

use super::{duration, reply::Refused};

/// The only region there is.
pub(crate) const REGION: &str = "global";
/// How long a blocked query waits when nothing else is said, and at most.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(300);
/// Most pairs of one query string; the rest is passed over.
const PAIRS_MAX: usize = 256;

/// The pairs of a query string, decoded, in order.
#[derive(Debug, Default)]
pub(crate) struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Reads a query string. A pair that cannot be read is passed over.
    pub(crate) fn new(text: &'a str) -> Self {
        let pairs = text.split('&').take(PAIRS_MAX).filter_map(|pair| {
            if pair.is_empty() || pair.contains(';') {
                return None;
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, decode(value)?))
        });
        Self(pairs.collect())
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let first = self.0.iter().find(|pair| pair.0 == name);
        first.map(|pair| &*pair.1)
    }

    /// All values of a name, in order.
    pub(crate) fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        let of_name = self.0.iter().filter(move |pair| pair.0 == name);
        of_name.map(|pair| &*pair.1)
    }

    /// The first value of a name; an empty one counts as none.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// A boolean such as `include_children`: absent or empty is false.
    pub(crate) fn bool(&self, name: &str) -> Result<bool, Refused> {
        match self.filled(name) {
            None => Ok(false),
            Some(value) => parse_bool(value).ok_or_else(|| {
                Refused::bad(format!(
                    "Failed to parse value of \"{name}\" ({value}) as a bool: expected one of 1 t T TRUE true True 0 f F FALSE false False"
                ))
            }),
        }
    }

    /// Whether the answer is to be indented: any value but `0`.
    pub(crate) fn pretty(&self) -> bool {
        self.get("pretty").is_some_and(|value| value != "0")
    }
}

/// The spellings of a boolean that are taken.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Undoes `+` and `%XX`; `None` for a percent sign without two hex digits. What is no UTF-8 then is replaced.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['+', '%']) {
        return Some(Cow::Borrowed(text));
    }
    let spaced = text.replace('+', " ");
    percent_decode(&spaced).map(Cow::Owned)
}

/// Undoes `%XX`.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (&[high, low], after) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = after;
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// What every read may say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) prefix: String,
    /// `None`: not said.
    pub(crate) namespace: Option<String>,
    pub(crate) per_page: i32,
    pub(crate) next_token: String,
    pub(crate) filter: String,
    pub(crate) reverse: bool,
    /// How long a blocked query waits, before the jitter.
    pub(crate) wait: Duration,
    /// 0: not blocked.
    pub(crate) index: u64,
    /// The answer is wanted from a state at this seq or newer (weir's own).
    pub(crate) after: u64,
}

impl Read {
    /// Reads the parameters in their order; the first bad one wins.
    pub(crate) fn parse(query: &Query<'_>) -> Result<Self, Refused> {
        if query
            .filled("region")
            .is_some_and(|region| region != REGION)
        {
            return Err(Refused::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "No path to region",
            ));
        }
        if let Some(stale) = query.filled("stale")
            && parse_bool(stale).is_none()
        {
            return Err(Refused::bad(
                "Expect `true` or `false` for `stale` query string parameter",
            ));
        }
        let text = |name| query.filled(name).unwrap_or_default().to_owned();
        let per_page = match query.filled("per_page") {
            None => 0,
            Some(number) => number.parse().map_err(|_| {
                Refused::bad("Expect a number for `per_page` query string parameter")
            })?,
        };
        let wait = match query.filled("wait") {
            None => WAIT_MAX,
            Some(wait) => {
                let nanos = duration::parse(wait).ok_or(Refused::bad("Invalid wait time"))?;
                match u64::try_from(nanos) {
                    Ok(0) | Err(_) => WAIT_MAX,
                    Ok(nanos) => Duration::from_nanos(nanos).min(WAIT_MAX),
                }
            }
        };
        let index = match query.filled("index") {
            None => 0,
            Some(index) => parse_u64(index).ok_or(Refused::bad("Invalid index"))?,
        };
        let after = match query.filled("after") {
            None => 0,
            Some(after) => parse_u64(after).ok_or(Refused::bad("Invalid after"))?,
        };
        Ok(Self {
            prefix: text("prefix"),
            namespace: query.filled("namespace").map(str::to_owned),
            per_page,
            next_token: text("next_token"),
            filter: text("filter"),
            reverse: query.get("reverse") == Some("true"),
            wait,
            index,
            after,
        })
    }
}

/// Digits only: no sign, no spaces.
pub(crate) fn parse_u64(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Read, String> {
        Read::parse(&Query::new(text)).map_err(|refused| refused.text().to_owned())
    }

    #[test]
    fn parameters_have_their_defaults() {
        let read = read("consistent&foo=1&limit=5&index=&wait=&per_page=").expect("read");
        assert_eq!((read.index, read.wait, read.per_page), (0, WAIT_MAX, 0));
        assert_eq!((read.namespace, read.reverse), (None, false));
    }

    #[test]
    fn the_first_occurrence_counts_and_values_are_decoded() {
        let read =
            read("namespace=%2A&namespace=x&filter=Name+matches+%60%5Ea%60&per_page=-2&reverse=1")
                .expect("read");
        assert_eq!(read.namespace.as_deref(), Some("*"));
        assert_eq!(read.filter, "Name matches `^a`");
        assert_eq!((read.per_page, read.reverse), (-2, false));
        assert!(super::Query::new("reverse=true").get("reverse") == Some("true"));
    }

    #[test]
    fn the_first_bad_parameter_in_their_order_wins() {
        let all = [
            ("region=eu", "No path to region"),
            (
                "stale=x",
                "Expect `true` or `false` for `stale` query string parameter",
            ),
            (
                "per_page=x",
                "Expect a number for `per_page` query string parameter",
            ),
            ("wait=10", "Invalid wait time"),
            ("index=-1", "Invalid index"),
        ];
        for (at, (_, text)) in all.iter().enumerate() {
            // Written in the other order, the first of the table still wins.
            let rest: Vec<&str> = all[at..].iter().rev().map(|one| one.0).collect();
            assert_eq!(read(&rest.join("&")), Err((*text).to_owned()));
        }
        for (text, refused) in [
            ("index=18446744073709551616", "Invalid index"),
            ("index=x", "Invalid index"),
            (
                "per_page=2147483648",
                "Expect a number for `per_page` query string parameter",
            ),
        ] {
            assert_eq!(read(text), Err(refused.to_owned()));
        }
        for good in [
            "stale",
            "stale=",
            "stale=True",
            "index=18446744073709551615",
            "region=global",
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn waits_are_clamped() {
        let wait = |text: &str| read(text).expect("read").wait;
        assert_eq!(wait("wait=10000ms"), Duration::from_secs(10));
        for whole in ["wait=0", "wait=-5s", "wait=2h"] {
            assert_eq!(wait(whole), WAIT_MAX, "{whole}");
        }
    }

    #[test]
    fn booleans_have_twelve_spellings_and_pretty_is_on_but_for_0() {
        let query = Query::new("a=True&b=f&c=yes&d");
        assert_eq!(query.bool("a").ok(), Some(true));
        assert_eq!(query.bool("b").ok(), Some(false));
        assert_eq!(query.bool("d").ok(), Some(false));
        let refused = query.bool("c").expect_err("no bool");
        assert!(
            refused
                .text()
                .starts_with("Failed to parse value of \"c\" (yes) as a bool: ")
        );
        for on in ["pretty", "pretty=", "pretty=1", "pretty=false"] {
            assert!(Query::new(on).pretty(), "{on}");
        }
        assert!(!Query::new("pretty=0").pretty() && !Query::new("x").pretty());
    }

    #[test]
    fn pairs_that_cannot_be_read_are_passed_over() {
        let query = Query::new("a=%4&b=%zz&c=1;d=2&%63=ok&x=%ff");
        assert_eq!(
            (query.get("a"), query.get("b"), query.get("c")),
            (None, None, Some("ok"))
        );
        assert_eq!(query.get("x"), Some("\u{fffd}"));
    }
}
