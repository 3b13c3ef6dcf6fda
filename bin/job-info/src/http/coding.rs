//! Other forms of a body: indented, compressed. Each is made once, however many get it, and off the threads that answer.

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use tokio::sync::OnceCell;
use views::Body;

use super::pretty::pretty;

/// Shortest body that is compressed.
const GZIP_BYTES_MIN: usize = 512;
/// Longest body that is worked on where it is; a longer one is handed to another thread.
const HERE_BYTES_MAX: usize = 16 << 10;
/// Most forms that are kept.
const KEPT_MAX: usize = 1024;
/// Most bytes of forms that are kept; a body's forms go with the body in any case.
const KEPT_BYTES_MAX: usize = 128 << 20;
/// More than this saves little and takes long.
const LEVEL: Compression = Compression::new(3);

/// A form of a body other than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) pretty: bool,
    pub(crate) gzip: bool,
}

impl Form {
    pub(crate) fn of(pretty: bool, headers: &HeaderMap, length: usize) -> Self {
        Self {
            pretty,
            gzip: length >= GZIP_BYTES_MIN && takes_gzip(headers),
        }
    }

    pub(crate) fn is_plain(self) -> bool {
        !self.pretty && !self.gzip
    }
}

/// Whether `Accept-Encoding` asks for gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut gzip = None;
    let mut any = None;
    let all = headers.get_all(header::ACCEPT_ENCODING).iter();
    for choice in all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
    {
        let mut words = choice.split(';').map(str::trim);
        let name = words.next().unwrap_or_default();
        let refused = words.any(|word| {
            let weight = word.strip_prefix("q=").or_else(|| word.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32))
        });
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            gzip = Some(!refused);
        } else if name == "*" {
            any = Some(!refused);
        }
    }
    gzip.or(any).unwrap_or(false)
}

/// Makes a form.
fn make(parts: &[Bytes], form: Form) -> Bytes {
    let indented;
    let parts = if form.pretty {
        indented = [Bytes::from(pretty(parts))];
        &indented
    } else {
        parts
    };
    if !form.gzip {
        return match parts {
            [one] => one.clone(),
            parts => parts.concat().into(),
        };
    }
    let mut out = GzEncoder::new(Vec::new(), LEVEL);
    // Writing to memory does not fail.
    let written: std::io::Result<()> = parts.iter().try_for_each(|part| out.write_all(part));
    let whole = written.and_then(|()| out.finish());
    Bytes::from(whole.unwrap_or_default())
}

#[derive(Debug)]
struct Kept {
    of: Weak<[Bytes]>,
    copy: Arc<OnceCell<Bytes>>,
}

/// The forms that were made of bodies that are still in use.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    kept: Mutex<HashMap<(usize, Form), Kept>>,
    made: AtomicU64,
}

impl Forms {
    /// A body in a form; whoever asks for the same meanwhile gets the same.
    pub(crate) async fn get(&self, body: &Body, form: Form) -> Bytes {
        let parts = body.shared();
        let copy = self.cell(body.key(), &parts, form);
        let made = copy.get_or_init(|| async move {
            self.made.fetch_add(1, Ordering::Relaxed);
            if body.len() <= HERE_BYTES_MAX {
                return make(&parts, form);
            }
            let other = parts.clone();
            match tokio::task::spawn_blocking(move || make(&other, form)).await {
                Ok(made) => made,
                // The runtime ends, and the answer with it.
                Err(_) => Bytes::new(),
            }
        });
        made.await.clone()
    }

    /// Forms made so far.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    fn cell(&self, key: usize, parts: &Arc<[Bytes]>, form: Form) -> Arc<OnceCell<Bytes>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = (key, form);
        if let Some(found) = kept.get(&at)
            && found.of.upgrade().is_some_and(|of| Arc::ptr_eq(&of, parts))
        {
            return found.copy.clone();
        }
        let bytes: usize = kept
            .values()
            .map(|kept| kept.copy.get().map_or(0, Bytes::len))
            .sum();
        if kept.len() >= KEPT_MAX || bytes >= KEPT_BYTES_MAX {
            kept.retain(|_, kept| kept.of.strong_count() > 0);
            if kept.len() >= KEPT_MAX / 2 || bytes >= KEPT_BYTES_MAX {
                kept.clear();
            }
        }
        let copy = Arc::new(OnceCell::new());
        kept.insert(
            at,
            Kept {
                of: Arc::downgrade(parts),
                copy: copy.clone(),
            },
        );
        copy
    }

    /// Gives back the forms of bodies that are gone.
    pub(crate) fn sweep(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| kept.of.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn takes(values: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT_ENCODING, value.parse().expect("a value"));
        }
        takes_gzip(&headers)
    }

    #[test]
    fn gzip_is_sent_to_those_who_ask_for_it() {
        for yes in [
            "gzip",
            "deflate, GZIP;q=0.5",
            "*",
            "br, *;q=0.1",
            "x-gzip",
            "gzip;q=1.0",
        ] {
            assert!(takes(&[yes]), "{yes}");
        }
        for no in [
            "",
            "identity",
            "gzip;q=0",
            "gzip; q=0.000, *",
            "*;q=0",
            "br",
            "gzipped",
        ] {
            assert!(!takes(&[no]), "{no}");
        }
        assert!(takes(&["br", "gzip"]));
        assert!(!takes(&[]));
    }

    #[test]
    fn a_form_is_made_once_and_says_the_same() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let piece = Bytes::from(format!("[\"{}\"", "x".repeat(40_000)));
            let body = Body::new(vec![piece, Bytes::from_static(b",1]")]);
            let forms = Forms::default();
            let gzip = Form {
                pretty: false,
                gzip: true,
            };
            let (one, two) = tokio::join!(forms.get(&body, gzip), forms.get(&body, gzip));
            assert_eq!(one.as_ptr(), two.as_ptr(), "made once");
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(&one[..])
                .read_to_end(&mut back)
                .expect("gzip");
            assert_eq!(back, body.to_vec());
            let both = forms
                .get(
                    &body,
                    Form {
                        pretty: true,
                        gzip: true,
                    },
                )
                .await;
            let mut back = String::new();
            flate2::read::GzDecoder::new(&both[..])
                .read_to_string(&mut back)
                .expect("gzip");
            assert!(back.starts_with("[\n    \"xx") && back.ends_with("\n    1\n]\n"));
            // Another body at the same place is another body.
            drop(body);
            let other = Body::new(vec![Bytes::from_static(b"[1"), Bytes::from_static(b"]")]);
            let copy = forms.get(&other, gzip).await;
            let mut back = String::new();
            flate2::read::GzDecoder::new(&copy[..])
                .read_to_string(&mut back)
                .expect("gzip");
            assert_eq!(back, "[1]");
            drop(other);
            forms.sweep();
            assert!(forms.kept.lock().expect("whole").is_empty());
        });
    }
}
