//! `weir ping`: is a service there, and how fast does it answer.

use crate::connect::{self, Session};
use crate::{output, when};
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// Send round trips to a service and print how long they took
///
/// Services of an instance are job-manager, job-ingest, job-list, job-info, sched, job-exec and resource; the first is asked
/// when none is named.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir ping                    five round trips to the job-manager
  weir ping job-list -c 1      is the listing service there?

EXIT STATUS
  0  every ping was answered
  1  no instance, no such service, or one that does not answer")]
pub struct Args {
    /// The service to ask
    #[arg(default_value = "job-manager")]
    service: String,

    /// How many round trips; 0 goes on until interrupted
    #[arg(short, long, default_value_t = 5, value_name = "N")]
    count: u64,

    /// Time between them
    #[arg(short, long, default_value = "0.2s", value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    interval: f64,

    /// Longest wait for an answer
    #[arg(short, long, default_value = "10s", value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    timeout: f64,
}

#[derive(Deserialize)]
struct Pong {
    #[serde(default)]
    route: String,
}

/// Pings.
///
/// # Errors
/// No instance, no such service, or no answer in time.
pub fn run(args: &Args) -> anyhow::Result<()> {
    connect::block_on(async {
        let wait = Duration::from_secs_f64(args.timeout);
        let session = Session::open_within(wait).await?;
        let topic = format!("{}.ping", args.service);
        let mut seq = 0;
        while args.count == 0 || seq < args.count {
            if seq > 0 {
                tokio::time::sleep(Duration::from_secs_f64(args.interval)).await;
            }
            let start = Instant::now();
            let request = json!({"seq": seq, "time.tv_sec": 0, "time.tv_nsec": 0, "pad": ""});
            let answer =
                tokio::time::timeout(wait, session.call_patiently::<_, Pong>(&topic, &request));
            let Ok(answer) = answer.await else {
                anyhow::bail!(
                    "{}: no answer within {}",
                    args.service,
                    when::human(args.timeout)
                );
            };
            let pong = answer?;
            let mut out = output::stdout();
            let route = if pong.route.is_empty() {
                String::new()
            } else {
                format!(" {}", pong.route)
            };
            writeln!(
                out,
                "{}.ping seq={seq} time={:.3} ms{route}",
                args.service,
                start.elapsed().as_secs_f64() * 1e3
            )?;
            out.flush()?;
            seq += 1;
        }
        Ok(())
    })
}
