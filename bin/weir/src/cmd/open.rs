//! `weir open`: the jobs as a page in a browser, let in by a token of one's own.

use crate::connect::{self, CallError, Session};
use crate::failure::usage;
use crate::outage;
use crate::output::{self, complain};
use crate::{document, when};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};
use wire::errno;

/// Open the page of the instance in a browser, or print its address
///
/// The address carries a token in its fragment, which browsers do not send: what a browser gets there exchanges it for a
/// cookie. A program sends the token in the header X-Nomad-Token instead. Whoever has it may see what
/// you may see until it expires, so do not pass it on. Everybody who may use the socket gets a token of their own. Without a display, or
/// with --print, or where no browser starts, the address is printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir open
  weir open --print
  weir open --print --for=1h v1/jobs
  weir open --json >at && curl -H \"X-Nomad-Token: $(jq -r .token at)\" $(jq -r .base at)v1/jobs

ENVIRONMENT
  BROWSER    the browser to start [default: xdg-open]

JSON
  {\"url\":…|null,\"base\":…|null,\"token\":…|null,\"expires\":seconds|null,\"errors\":[…]}
  nothing is opened

EXIT STATUS
  0  a browser was started, or the address printed
  1  no instance, or one that serves no HTTP (weir start --http)
  2  the command line is wrong")]
pub struct Args {
    /// What to open, below the root [default: the page]
    #[arg(value_name = "PATH")]
    path: Option<String>,

    /// Print the address and open nothing
    #[arg(short, long)]
    print: bool,

    /// How long the token is good for [default: as the instance has it]
    #[arg(long = "for", value_name = "FSD", value_parser = when::finite)]
    seconds: Option<f64>,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Deserialize)]
struct Token {
    token: String,
    expires: f64,
    url: String,
}

/// Opens or prints.
///
/// # Errors
/// A wrong path, no instance, no HTTP.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let path = args.path.as_deref().unwrap_or_default();
    if path.contains(['#', ' ']) || path.contains(char::is_control) || path.contains("://") {
        return Err(usage(format!(
            "'{path}': expected a path such as v1/jobs, without '#' and blanks"
        )));
    }
    let mut request = Map::new();
    if let Some(seconds) = args.seconds {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        request.insert("seconds".to_owned(), json!(seconds.ceil() as u64));
    }
    let answer: Token = connect::block_on(async {
        let request = Value::Object(request);
        let answer = outage::patiently(async || {
            let session = Session::open().await?;
            Ok(session.call("job-info.http-token", &request).await?)
        });
        answer.await.map_err(|error| match error.downcast_ref() {
            Some(CallError::Refused {
                errnum: errno::ENOSYS,
                text: Some(text),
                ..
            }) if !text.starts_with("No service") => anyhow::anyhow!(
                "this instance serves no HTTP: start it with 'weir start --http=ADDR:PORT'"
            ),
            _ => error,
        })
    })?;
    let (base, fragment) = answer.url.split_once('#').unwrap_or((&answer.url, ""));
    let base = base.to_owned();
    let path = path.trim_start_matches('/');
    let url = format!("{base}{path}#{fragment}");
    if args.json {
        return document::print(
            &json!({"url": url, "base": base, "token": answer.token, "expires": answer.expires, "errors": []}),
        );
    }
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !args.print && has_display && start_browser(&url) {
        return Ok(());
    }
    let mut out = output::stdout();
    writeln!(out, "{url}")?;
    out.flush()?;
    Ok(())
}

/// True if one was started; why not is said.
fn start_browser(url: &str) -> bool {
    let browser = std::env::var_os("BROWSER").filter(|value| !value.is_empty());
    let browser = browser.unwrap_or_else(|| OsString::from("xdg-open"));
    // Its words are not ours, and it may outlive us.
    let started = Command::new(&browser)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        Ok(_) => true,
        Err(error) => {
            complain(&format!(
                "open: {}: {error}; this is the address",
                browser.to_string_lossy()
            ));
            false
        }
    }
}
