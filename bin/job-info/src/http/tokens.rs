//! `job-info.http-token`: a token for whoever asks over a socket, where the kernel says who it is.
//!
//! `{"seconds"?:N}` → `{"token":S,"expires":SECONDS SINCE 1970,"url":"http://ADDR:PORT/#token=S"}`

use std::net::SocketAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use wire::{Cred, errno, json_payload};

use super::auth::{self, Kind, Secret, TOKEN_SECONDS, TOKEN_SECONDS_MAX};
use crate::peer::Refusal;

/// What makes tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    secret: Secret,
    reached: SocketAddr,
}

#[derive(Debug, Default, Deserialize)]
struct Request {
    #[serde(default)]
    seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Response<'a> {
    token: &'a str,
    expires: u64,
    url: String,
}

impl Tokens {
    pub(crate) fn new(secret: Secret, reached: SocketAddr) -> Self {
        Self { secret, reached }
    }

    fn make(&self, cred: Cred, payload: &[u8], now: u64) -> Result<Bytes, Refusal> {
        let request = if payload.is_empty() {
            Request::default()
        } else {
            crate::core::parse(payload)?
        };
        let seconds = request.seconds.unwrap_or(TOKEN_SECONDS);
        if !(1..=TOKEN_SECONDS_MAX).contains(&seconds) {
            let text = format!("seconds: expected 1 to {TOKEN_SECONDS_MAX}, got {seconds}");
            return Err(Refusal::new(errno::EINVAL, text));
        }
        let (token, expires) = self.secret.make(Kind::Token, cred.userid, now, seconds);
        Ok(json_payload(&Response {
            token: &token,
            expires,
            url: format!("http://{}/#token={token}", self.reached),
        }))
    }
}

impl crate::elsewhere::HttpTokens for Tokens {
    fn token(&self, cred: Cred, payload: &[u8]) -> Result<Bytes, Refusal> {
        self.make(cred, payload, auth::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_callers_and_its_time_has_a_bound() {
        let secret = Secret::new("0123456789abcdef0123456789abcdef", 1000);
        let address = "127.0.0.1:4711".parse().expect("an address");
        let tokens = Tokens::new(secret.clone(), address);
        let made = tokens.make(Cred::guest(1001), b"{}\0", 100).expect("made");
        let answer: serde_json::Value = wire::parse_json(&made).expect("an answer");
        let token = answer["token"].as_str().expect("a token");
        assert_eq!(answer["expires"], 100 + TOKEN_SECONDS);
        assert_eq!(
            answer["url"],
            format!("http://127.0.0.1:4711/#token={token}")
        );
        let who = secret.check(Kind::Token, token, 200).expect("good");
        assert_eq!((who.userid, who.owner), (1001, false));
        for bad in [&b"{\"seconds\":0}\0"[..], b"{\"seconds\":99999999}\0"] {
            let refusal = tokens.make(Cred::guest(1), bad, 0).expect_err("refused");
            assert_eq!(refusal.errnum, errno::EINVAL);
        }
    }
}
