//! `weir job raise`: an exception for each job.

use crate::connect::{self, Session};
use crate::{each, ids};
use serde_json::{Value, json};

/// Raise an exception for jobs
///
/// Severity 0 ends the job; 1 to 7 are noted in its eventlog and change nothing else.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job raise -s 3 -t disk -m 'scratch is nearly full' ƒCdza1gs
  weir job raise ƒCdza1gs                 the same as 'weir cancel'

JSON
  {\"jobs\":[{\"id\",\"f58\"}…],\"errors\":[…]}: those it was raised for; what was refused

EXIT STATUS
  0  raised for every job
  1  no instance, or some were refused; each has its line
  2  the command line is wrong")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// 0 (ends the job) to 7
    #[arg(short, long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    severity: u8,

    /// One word that says what kind
    #[arg(
        short = 't',
        long = "type",
        default_value = "cancel",
        value_name = "TYPE"
    )]
    kind: String,

    /// Why; kept with the job
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Raises.
///
/// # Errors
/// A wrong id, no instance, or a refusal.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let jobs = ids::parse_all(&args.ids)?;
    connect::block_on(async {
        let session = Session::open().await?;
        let request = |id| {
            let mut request = json!({"id": id, "severity": args.severity, "type": args.kind});
            if let (Some(note), Value::Object(map)) = (&args.message, &mut request) {
                map.insert("note".to_owned(), json!(note));
            }
            request
        };
        each::told(
            &session,
            "job raise",
            "job-manager.raise",
            &jobs,
            request,
            args.json,
        )
        .await
    })
}
