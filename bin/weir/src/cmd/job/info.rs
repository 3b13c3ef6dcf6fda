//! `weir job info`: what is stored of a job, verbatim.

use crate::connect::{self, CallError, Session};
use crate::jobspec::sign;
use crate::{document, each, ids, output};
use serde_json::{Map, Value, json};
use std::io::Write as _;
use wire::errno;

/// `job-info.lookup`: apply later updates to jobspec and R.
const FLAG_CURRENT: u32 = 2;

/// Print what is stored of a job
///
/// Keys are eventlog, jobspec, R, J, key (of 'weir submit --key'), and paths such as guest.exec.eventlog and guest.output. The jobspec comes without the
/// environment; --original decodes what was submitted, environment and all.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job info ƒCdza1gs jobspec | jq .tasks
  weir job info ƒCdza1gs R
  weir job info ƒCdza1gs key
  weir job info --original ƒCdza1gs jobspec | jq .attributes.system.environment

EXIT STATUS
  0  printed
  1  no such job, no such key, no right to it, or no instance
  2  the command line is wrong")]
pub struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: String,

    /// What to print
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    /// The jobspec as it was submitted, with its environment
    #[arg(short, long, conflicts_with = "base")]
    original: bool,

    /// jobspec and R without later updates
    #[arg(short, long)]
    base: bool,

    /// One JSON document: {"id","f58","keys":{KEY:TEXT…},"errors":[…]}
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints.
///
/// # Errors
/// A wrong id, no such key, no instance.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    let keys: Vec<&str> = args
        .keys
        .iter()
        .map(|key| {
            if args.original && key == "jobspec" {
                "J"
            } else {
                key.as_str()
            }
        })
        .collect();
    let flags = if args.base { 0 } else { FLAG_CURRENT };
    let answer: Map<String, Value> = connect::block_on(async {
        let session = Session::open().await?;
        let answer = session
            .call(
                "job-info.lookup",
                &json!({"id": id, "keys": keys, "flags": flags}),
            )
            .await;
        answer.map_err(|error| match &error {
            CallError::Refused { errnum: errno::ENOENT, text: Some(text), .. } if text != "invalid job id" => {
                anyhow::anyhow!("{}: {text}; keys are eventlog, jobspec, R, J, key, guest.exec.eventlog, guest.output", ids::show(id))
            }
            CallError::Refused { .. } => anyhow::anyhow!("{}", each::refusal(id, &error)),
            _ => error.into(),
        })
    })?;
    let mut out = output::stdout();
    let mut found = Map::new();
    for (key, asked) in keys.iter().zip(&args.keys) {
        let decoded;
        let text = match answer.get(*key) {
            Some(Value::String(text)) if args.original && asked == "jobspec" => {
                decoded = sign::unwrap_jobspec(text)
                    .ok_or_else(|| anyhow::anyhow!("{}: J cannot be decoded", ids::show(id)))?;
                &decoded
            }
            Some(Value::String(text)) => text,
            Some(other) => {
                decoded = other.to_string();
                &decoded
            }
            None => anyhow::bail!("{}: the answer has no {key}", ids::show(id)),
        };
        if args.json {
            found.insert(asked.clone(), json!(text));
            continue;
        }
        write!(out, "{text}")?;
        if !text.ends_with('\n') {
            writeln!(out)?;
        }
    }
    if args.json {
        return document::print(
            &json!({"id": id, "f58": id.to_string(), "keys": found, "errors": []}),
        );
    }
    out.flush()?;
    Ok(())
}
