//! `weir job last`: the ids submitted most recently.

use crate::connect::{self, Session};
use crate::failure::usage;
use crate::{document, ids, output};
use protocol::job_manager::HistoryGetResponse;
use serde_json::json;
use std::io::Write as _;

/// Print the id of the job you submitted last
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job last
  weir job last 3            the last three, newest first
  weir job last '[1:3]'      a slice as in Python
  weir job attach $(weir job last)

JSON
  {\"jobs\":[{\"id\",\"f58\"}…],\"errors\":[…]}

EXIT STATUS
  0  printed
  1  no instance, or nothing was submitted yet
  2  the command line is wrong")]
pub struct Args {
    /// How many, or a slice such as [1:3]; newest first
    #[arg(value_name = "N|SLICE", default_value = "1")]
    slice: String,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints ids.
///
/// # Errors
/// A wrong slice, no instance, or no job.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let slice = match args.slice.parse::<u64>() {
        Ok(0) => {
            return Err(usage(
                "0 is not a count; expected 1 or more, or a slice such as [:3]",
            ));
        }
        Ok(count) => format!("[:{count}]"),
        Err(_) if args.slice.starts_with('[') && args.slice.ends_with(']') => args.slice.clone(),
        Err(_) => {
            return Err(usage(format!(
                "'{}': expected a number or a slice such as [:3]",
                args.slice
            )));
        }
    };
    let answer: HistoryGetResponse = connect::block_on(async {
        let session = Session::open().await?;
        anyhow::Ok(
            session
                .call("job-manager.history.get", &json!({"slice": slice}))
                .await?,
        )
    })?;
    if answer.jobs.is_empty() {
        anyhow::bail!(
            "none of your jobs is there (or none in this slice): 'weir jobs -a' lists what there is"
        );
    }
    if args.json {
        let jobs: Vec<_> = answer
            .jobs
            .iter()
            .map(|id| json!({"id": id, "f58": id.to_string()}))
            .collect();
        return document::print(&json!({"jobs": jobs, "errors": []}));
    }
    let mut out = output::stdout();
    for id in answer.jobs {
        writeln!(out, "{}", ids::show(id))?;
    }
    out.flush()?;
    Ok(())
}
