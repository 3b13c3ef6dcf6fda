//! `weir job priority` (also `weir job urgency`): any number of jobs in one request, one commit, one reordering.

use crate::connect::{self, Session};
use crate::document;
use crate::each;
use crate::failure::{Exit, usage};
use crate::ids::Problem;
use crate::jobspec::options::urgency;
use crate::output::{self, complain};
use crate::{connect::CallError, ids};
use job::Urgency;
use protocol::job_manager::{PriorityRequest, PriorityResponse, PriorityResult, UrgencyResponse};
use serde_json::json;
use std::io::Write as _;
use wire::errno;

/// Change the urgency of jobs that wait, and with it their place in the queue
///
/// Urgency goes from 0 to 31; 16 is the default. 0 ('hold') keeps a job from starting, 31 ('expedite') puts it before all
/// others. The listing shows the new order in the very next command. It is one request however many jobs are named: they
/// move together or, if one cannot be changed, that one alone stays. A job that has its resources cannot be changed any more.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job priority ƒCdza1gs 20
  weir job priority 4711 4712 4713 expedite
  weir job urgency ƒCdza1gs hold
  weir jobs -n -o '{id}' -f 'pending name:nightly' | weir job priority - 5

EXIT STATUS
  0  all were changed
  1  no instance, or some were not changed; each has its line, the others were
  2  the command line is wrong, or the value is not 0 to 31, hold, default or expedite")]
pub struct Args {
    /// Jobs in any spelling ('-' reads them from standard input), then the urgency: 0 to 31, hold, default, expedite
    #[arg(value_names = ["ID", "VALUE"], num_args = 2.., required = true, allow_negative_numbers = true)]
    ids_and_value: Vec<String>,

    /// Say what each was before
    #[arg(short, long)]
    verbose: bool,

    /// One JSON document: {"seq":…,"changed":[{"id","f58","old_urgency","urgency"}…],"errors":[…]}
    #[arg(long)]
    pub(crate) json: bool,
}

/// Changes urgencies.
///
/// # Errors
/// A wrong id or value, no instance, or jobs that cannot be changed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some((value, given)) = args
        .ids_and_value
        .split_last()
        .filter(|(_, given)| !given.is_empty())
    else {
        return Err(usage(
            "expected ID… VALUE, where VALUE is 0 to 31, hold, default or expedite",
        ));
    };
    let value = urgency(value).map_err(usage)?;
    let jobs = ids::parse_all(given)?;
    let request = PriorityRequest {
        jobs: jobs
            .iter()
            .map(|id| (*id, i64::from(value.get())))
            .collect(),
    };
    let answer: PriorityResponse = connect::block_on(async {
        let session = Session::open().await?;
        match session.call("job-manager.priority", &request).await {
            Ok(answer) => Ok(answer),
            // An instance of Flux itself: one request each.
            Err(CallError::Refused {
                errnum: errno::ENOSYS,
                ..
            }) => one_by_one(&session, &request).await,
            Err(error) => Err(error.into()),
        }
    })?;
    show(args, value, &answer)
}

async fn one_by_one(
    session: &Session,
    request: &PriorityRequest,
) -> anyhow::Result<PriorityResponse> {
    let mut results = Vec::with_capacity(request.jobs.len());
    for (id, urgency) in &request.jobs {
        let answer = session
            .call::<_, UrgencyResponse>(
                "job-manager.urgency",
                &json!({"id": id, "urgency": urgency}),
            )
            .await;
        results.push(match answer {
            Ok(answer) => PriorityResult::Changed {
                id: *id,
                old_urgency: answer.old_urgency,
            },
            Err(CallError::Refused { errnum, text, .. }) => PriorityResult::Refused {
                id: *id,
                errnum,
                text: text
                    .unwrap_or_else(|| errno::text(errnum).to_owned())
                    .into(),
            },
            Err(error) => return Err(error.into()),
        });
    }
    Ok(PriorityResponse { seq: 0, results })
}

fn show(args: &Args, value: Urgency, answer: &PriorityResponse) -> anyhow::Result<()> {
    let mut out = output::stdout();
    let (mut changed, mut errors) = (Vec::new(), Vec::new());
    for result in &answer.results {
        match result {
            PriorityResult::Changed { id, old_urgency } => {
                if args.json {
                    changed.push(json!({"id": id, "f58": id.to_string(), "old_urgency": old_urgency, "urgency": value}));
                } else if args.verbose {
                    writeln!(out, "{}: {old_urgency} -> {}", ids::show(*id), value.get())?;
                }
            }
            PriorityResult::Refused { id, errnum, text } => {
                errors.push(Problem::refused(*id, *errnum, text.to_string()));
                let line = if each::is_unknown(*errnum, Some(text)) {
                    ids::unknown(*id)
                } else {
                    format!("{}: {text}", ids::show(*id))
                };
                complain(&format!("job priority: {line}"));
            }
        }
    }
    let failed = !errors.is_empty();
    if args.json {
        document::print(&json!({"seq": answer.seq, "changed": changed, "errors": errors}))?;
    }
    out.flush()?;
    if failed { Err(Exit(1).into()) } else { Ok(()) }
}
