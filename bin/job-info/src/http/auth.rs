//! Who asks: the token file, tokens made for one user, the session cookie.
//!
//! ```text
//!  STATEDIR/http-token (0600, 64 hex digits) ─ sent as it is ─────────────────────────► owner
//!            └─ keyed hash ─► weir1.KIND.USERID.EXPIRES.MAC ─ t: made over the socket ─► that user
//!                                                            └ s: the cookie's value
//! ```
//! Nothing is kept of tokens that are made: their MAC says that they are ours, and they end at their time, or when the file is replaced
//! and job-info started again. All comparisons take the same time whatever differs.

use std::{
    fs, io,
    io::{Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::http::{HeaderMap, header};

/// The file with the owner's token, in the state directory.
pub(crate) const TOKEN_FILE: &str = "http-token";
/// How long a made token and a session last, in seconds.
pub(crate) const TOKEN_SECONDS: u64 = 12 * 3600;
/// Longest time that may be asked for.
pub(crate) const TOKEN_SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 256;
/// Random bytes of the owner's token.
const SECRET_BYTES: usize = 32;
const CONTEXT: &str = "weir 2026 http tokens";

/// Who asks, and what may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) userid: u32,
    pub(crate) owner: bool,
    /// When what was shown for it ends, in seconds since 1970; `None`: never.
    expires: Option<u64>,
}

/// What a made token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sent in a header.
    Token,
    /// The value of the cookie.
    Session,
}

impl Kind {
    fn letter(self) -> &'static str {
        match self {
            Kind::Token => "t",
            Kind::Session => "s",
        }
    }
}

/// The secret of this instance's HTTP.
#[derive(Clone)]
pub(crate) struct Secret {
    key: [u8; 32],
    file: blake3::Hash,
    owner: u32,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("owner", &self.owner)
            .finish()
    }
}

impl Secret {
    /// Of the text of the token file.
    pub(crate) fn new(token: &str, owner: u32) -> Self {
        let key = blake3::derive_key(CONTEXT, token.as_bytes());
        Self {
            file: blake3::keyed_hash(&key, token.as_bytes()),
            key,
            owner,
        }
    }

    /// Reads the token file, and makes it first if there is none.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub(crate) fn of_instance(statedir: &Path, owner: u32) -> io::Result<Self> {
        let path = statedir.join(TOKEN_FILE);
        if let Some(token) = read_token(&path, owner)? {
            return Ok(Self::new(&token, owner));
        }
        let mut random = [0_u8; SECRET_BYTES];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let token = hex::encode(random);
        let made = statedir.join(format!("{TOKEN_FILE}.{}", std::process::id()));
        // What a job-info with our number left when it was killed.
        let _ = fs::remove_file(&made);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&made)?;
        let written = writeln!(file, "{token}");
        drop(file);
        if written.is_err() {
            fs::remove_file(&made)?;
        }
        written?;
        // Another job-info may be doing the same: one of the two files stays, and both read that one.
        let linked = fs::hard_link(&made, &path);
        fs::remove_file(&made)?;
        match linked {
            Ok(()) => Ok(Self::new(&token, owner)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let token = read_token(&path, owner)?;
                let token =
                    token.ok_or_else(|| io::Error::other("it is replaced again and again"))?;
                Ok(Self::new(&token, owner))
            }
            Err(error) => Err(error),
        }
    }

    /// A token for a user, and when it ends.
    pub(crate) fn make(&self, kind: Kind, userid: u32, now: u64, seconds: u64) -> (String, u64) {
        let expires = now.saturating_add(seconds);
        let said = format!("weir1.{}.{userid}.{expires}", kind.letter());
        let mac = self.mac(&said);
        (format!("{said}.{}", mac.to_hex()), expires)
    }

    /// The session of somebody who has shown a token: it ends no later than that.
    pub(crate) fn session(&self, who: Who, now: u64) -> (String, u64) {
        let left = who
            .expires
            .map_or(TOKEN_SECONDS, |expires| expires.saturating_sub(now));
        self.make(Kind::Session, who.userid, now, left.min(TOKEN_SECONDS))
    }

    fn mac(&self, said: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.key, said.as_bytes())
    }

    /// Whose a token is; `None` when it is nobody's, or over.
    pub(crate) fn check(&self, kind: Kind, token: &str, now: u64) -> Option<Who> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        // Hashes compare in constant time.
        if kind == Kind::Token && self.mac(token) == self.file {
            return Some(Who {
                userid: self.owner,
                owner: true,
                expires: None,
            });
        }
        let (said, mac) = token.rsplit_once('.')?;
        if self.mac(said) != blake3::Hash::from_hex(mac).ok()? {
            return None;
        }
        let mut words = said.split('.');
        let (_, letter, userid, expires) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let userid: u32 = userid.parse().ok()?;
        let expires: u64 = expires.parse().ok()?;
        (letter == kind.letter() && expires > now).then_some(Who {
            userid,
            owner: userid == self.owner,
            expires: Some(expires),
        })
    }

    /// Whose a request is. `Some(Err)`: something was shown, and it is not good.
    pub(crate) fn of_request(
        &self,
        headers: &HeaderMap,
        cookie: &str,
        now: u64,
    ) -> Option<Result<Who, ()>> {
        if let Some(token) = shown_token(headers) {
            return Some(self.check(Kind::Token, token, now).ok_or(()));
        }
        let session = cookie_value(headers, cookie)?;
        Some(self.check(Kind::Session, session, now).ok_or(()))
    }
}

impl Who {
    /// How long what was shown is still good; `None`: for ever.
    pub(crate) fn left(self, now: u64) -> Option<Duration> {
        self.expires
            .map(|expires| Duration::from_secs(expires.saturating_sub(now)))
    }

    /// Somebody who has shown nothing, where that is allowed.
    pub(crate) const NOBODY: Self = Self {
        userid: wire::USERID_UNKNOWN,
        owner: false,
        expires: None,
    };
}

/// The token file's token. A file that others may have read, or that holds none, is moved out of the way.
fn read_token(path: &Path, owner: u32) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    let mut text = String::new();
    file.take(1024).read_to_string(&mut text)?;
    let token = text.trim();
    let is_token = token.len() >= SECRET_BYTES
        && token.len() <= TOKEN_BYTES_MAX
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    let is_ours = about.uid() == owner && about.mode() & 0o077 == 0;
    if is_token && is_ours {
        return Ok(Some(token.to_owned()));
    }
    let why = if is_ours {
        "it holds no token"
    } else {
        "others may have read it"
    };
    tracing::warn!(path = %path.display(), why, "the token file is made anew; tokens made so far end");
    fs::remove_file(path)?;
    Ok(None)
}

/// The token in the headers: `X-Nomad-Token`, else `Authorization: Bearer`.
fn shown_token(headers: &HeaderMap) -> Option<&str> {
    if let Some(token) = headers
        .get("x-nomad-token")
        .filter(|token| !token.is_empty())
    {
        return Some(token.to_str().unwrap_or_default().trim());
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

fn cookie_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter();
    let mut pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 1000;

    #[test]
    fn a_made_token_is_its_users_until_its_time_and_for_its_use_only() {
        let secret = Secret::new("0123456789abcdef0123456789abcdef", OWNER);
        let (token, expires) = secret.make(Kind::Token, 1001, 50, 100);
        assert_eq!(expires, 150);
        let who = secret.check(Kind::Token, &token, 149).expect("good");
        assert_eq!((who.userid, who.owner), (1001, false));
        assert_eq!(secret.check(Kind::Token, &token, 150), None, "over");
        assert_eq!(secret.check(Kind::Session, &token, 50), None, "no session");
        let other = Secret::new("another secret, another secret..", OWNER);
        assert_eq!(
            other.check(Kind::Token, &token, 50),
            None,
            "another instance's"
        );
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
            if let Ok(forged) = String::from_utf8(bytes)
                && forged != token
            {
                assert_eq!(secret.check(Kind::Token, &forged, 50), None, "{forged}");
            }
        }
    }

    #[test]
    fn a_session_ends_no_later_than_the_token_it_was_got_with() {
        let secret = Secret::new("0123456789abcdef0123456789abcdef", OWNER);
        let (token, _) = secret.make(Kind::Token, OWNER, 0, 60);
        let who = secret.check(Kind::Token, &token, 10).expect("good");
        assert!(who.owner);
        let (session, expires) = secret.session(who, 10);
        assert_eq!(expires, 60);
        assert!(secret.check(Kind::Session, &session, 59).is_some());
        assert!(secret.check(Kind::Token, &session, 59).is_none());
    }

    #[test]
    fn a_token_comes_in_either_header_or_the_cookie_and_a_bad_one_is_told_from_none() {
        let file = "0123456789abcdef0123456789abcdef";
        let secret = Secret::new(file, OWNER);
        let of = |pairs: &[(&'static str, String)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, value.parse().expect("a value"));
            }
            let who = secret.of_request(&headers, "weir_1", 5);
            who.map(|who| who.map(|who| who.userid))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("x-nomad-token", file.into())]), Some(Ok(OWNER)));
        assert_eq!(
            of(&[("authorization", format!("bEaReR {file}"))]),
            Some(Ok(OWNER))
        );
        assert_eq!(of(&[("authorization", "Basic eA==".into())]), None);
        assert_eq!(of(&[("x-nomad-token", "x".into())]), Some(Err(())));
        let (session, _) = secret.make(Kind::Session, 7, 0, 10);
        assert_eq!(
            of(&[("cookie", format!("a=b; weir_1={session}"))]),
            Some(Ok(7))
        );
        assert_eq!(of(&[("cookie", format!("weir_2={session}"))]), None);
        // The file's text is no session.
        assert_eq!(of(&[("cookie", format!("weir_1={file}"))]), Some(Err(())));
    }

    #[test]
    fn the_token_file_is_private_stays_and_is_replaced_when_others_may_have_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let owner = rustix::process::getuid().as_raw();
        let path = dir.path().join(TOKEN_FILE);
        Secret::of_instance(dir.path(), owner).expect("made");
        let read = || fs::read_to_string(&path).expect("there");
        let first = read();
        assert_eq!(first.trim().len(), 64);
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        let again = Secret::of_instance(dir.path(), owner).expect("read");
        assert_eq!(read(), first);
        assert!(again.check(Kind::Token, first.trim(), 0).is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
        let anew = Secret::of_instance(dir.path(), owner).expect("made anew");
        assert_ne!(read(), first);
        assert!(anew.check(Kind::Token, first.trim(), 0).is_none());
        fs::write(&path, "\n").expect("written");
        Secret::of_instance(dir.path(), owner).expect("made anew");
        assert_eq!(read().trim().len(), 64);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
    }
}
