//! `weir dispatch`: a job from a parameterized one.

use crate::connect::{self, CallError, Session};
use crate::failure::usage;
use crate::output;
use crate::{described, document, each, ids};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use job::jobspec::PAYLOAD_BYTES_MAX;
use protocol::dispatch::DispatchRequest;
use protocol::job_ingest::SubmitResponse;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write as _};
use wire::errno;

/// Make a job from a parameterized one and print its id
///
/// 'weir submit --parameterized' makes the parent, which never runs; each dispatch makes a child that does: the same command, with the
/// parent's environment and, for each meta value, WEIR_META_KEY. The payload is what its tasks read from their standard input.
/// The parent says which keys there must and may be, and whether there is a payload.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  P=$(weir submit --parameterized --meta-required who sh -c 'echo hello $WEIR_META_WHO; cat')
  weir dispatch $P --meta who=world
  weir dispatch $P --meta who=you --payload-file letter.txt
  date | weir dispatch $P --meta who=me --payload-file -
  weir dispatch $P --meta who=me --key=once       as often as this is typed: one child
  weir cancel $P                                  no more children; those that are there go on

JSON
  {\"id\":N|null,\"f58\":…|null,\"seq\":N|null,\"known\":bool|null,\"errors\":[…]}
  known: it was there already, under this key

EXIT STATUS
  0  dispatched; the child's id is printed
  1  refused: no such job, not parameterized or ended, a key or payload missing or too much
  2  the command line is wrong")]
pub struct Args {
    /// The parameterized job
    #[arg(value_name = "ID")]
    id: String,

    /// A value for a key; may be given often
    #[arg(short, long, value_name = "KEY=VALUE")]
    meta: Vec<String>,

    /// What the tasks read from standard input: a file of at most 16 KiB; '-' is our standard input
    #[arg(short, long, value_name = "FILE", alias = "payload")]
    payload_file: Option<String>,

    /// Dispatch once: the same key gives the same child
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Do not print the id
    #[arg(long, conflicts_with = "json")]
    quiet: bool,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Dispatches.
///
/// # Errors
/// A wrong id, meta or file; no instance; a refusal.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    let payload = args.payload_file.as_deref().map(payload).transpose()?;
    let request = DispatchRequest {
        id,
        meta: meta(&args.meta)?,
        payload: payload.map(|bytes| Cow::Owned(STANDARD.encode(bytes))),
        key: args.key.as_deref().map(Cow::Borrowed),
    };
    let answer: SubmitResponse = connect::block_on(async {
        let session = Session::open().await?;
        let answer = session.call("job-manager.dispatch", &request).await;
        let why = match &answer {
            Err(CallError::Refused {
                errnum: errno::EINVAL,
                text: Some(text),
                ..
            }) if text.ends_with("dispatched from it") => described::no_parent(&session, id).await,
            _ => None,
        };
        anyhow::Ok(answer.map_err(|error| match &error {
            CallError::Refused { errnum, text, .. }
                if *errnum != errno::ENOSYS && each::is_unknown(*errnum, text.as_deref()) =>
            {
                error.in_words(ids::unknown(id))
            }
            _ => match why {
                Some(why) => error.in_words(why),
                None => error,
            },
        })?)
    })?;
    if args.json {
        return document::print(
            &json!({"id": answer.id, "f58": answer.id.to_string(), "seq": answer.seq,
                                       "known": answer.known, "errors": []}),
        );
    }
    if !args.quiet {
        let mut out = output::stdout();
        writeln!(out, "{}", ids::show(answer.id))?;
        out.flush()?;
    }
    Ok(())
}

/// `KEY=VALUE` of each; none if there is none.
fn meta(given: &[String]) -> anyhow::Result<Option<Map<String, Value>>> {
    let mut meta = Map::new();
    for text in given {
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(usage(format!("--meta={text}: expected KEY=VALUE")));
        };
        if meta.insert(key.to_owned(), json!(value)).is_some() {
            return Err(usage(format!("--meta={text}: {key} is given twice")));
        }
    }
    Ok((!meta.is_empty()).then_some(meta))
}

fn payload(file: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    let read = if file == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("--payload-file={file}"))?;
    anyhow::ensure!(
        bytes.len() <= PAYLOAD_BYTES_MAX,
        "--payload-file={file}: more than {PAYLOAD_BYTES_MAX} bytes; give its name as a meta value instead"
    );
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_values_are_texts_and_a_key_has_one() {
        let given = |texts: &[&str]| {
            meta(
                &texts
                    .iter()
                    .map(|&text| text.to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(given(&[]).unwrap(), None);
        let two = given(&["a=1", "b=x=y"]).unwrap().unwrap();
        assert_eq!(Value::Object(two), json!({"a": "1", "b": "x=y"}));
        for bad in [&["a"][..], &["=1"], &["a=1", "a=2"]] {
            assert!(given(bad).is_err(), "{bad:?}");
        }
    }
}
