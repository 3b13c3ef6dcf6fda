//! `weir version`: of this program, and of the instance if one answers.

use crate::connect::{self, Session};
use crate::output;
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;

/// Print the version of weir, and of the instance if one answers
///
/// That no instance answers is no error here: the line about it is left out.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir version
  weir version --json | jq -r .client

EXIT STATUS
  0  always, unless standard output is gone")]
pub struct Args {
    /// Print one JSON document: {"client":…, "instance":…|null, "uri":…|null}; instance is the Flux version it speaks
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Attribute {
    value: String,
}

/// Prints the versions.
///
/// # Errors
/// Standard output is gone.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = env!("CARGO_PKG_VERSION");
    let instance = connect::block_on(async {
        let session = Session::open_briefly().await?;
        let Attribute { value } = session
            .call("attr.get", &json!({"name": "version"}))
            .await?;
        anyhow::Ok((value, session.uri()))
    });
    let mut out = output::stdout();
    match (args.json, instance) {
        (true, Ok((version, uri))) => writeln!(
            out,
            "{}",
            json!({"client": client, "instance": version, "uri": uri})
        )?,
        (true, Err(_)) => writeln!(
            out,
            "{}",
            json!({"client": client, "instance": null, "uri": null})
        )?,
        (false, instance) => {
            writeln!(out, "weir      {client}")?;
            if let Ok((version, uri)) = instance {
                // What an instance calls its version is that of the protocol.
                writeln!(out, "instance  speaks Flux {version}, at {uri}")?;
            }
        }
    }
    out.flush()?;
    Ok(())
}
