//! weir-job-info: arguments, logging, signals, exit code.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;

const NAME: &str = "weir-job-info";

/// Lists the jobs of an instance, and shows what is stored of each.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Args {
    /// The instance: local:///PATH/socket
    #[arg(long, env = "WEIR_URI", value_parser = uri)]
    uri: String,
    /// The instance's state directory
    #[arg(long)]
    statedir: PathBuf,
    /// Seconds before the first attempt to connect again
    #[arg(long, default_value = "1", value_parser = seconds)]
    reconnect: Duration,
    /// Guests see their own jobs only
    #[arg(long)]
    private: bool,
    /// Let other users in, as guests
    #[arg(long)]
    allow_guests: bool,
    /// Serve HTTP at ADDR:PORT, or off. Port 0: the one used before, else any
    #[arg(long, value_name = "ADDR:PORT|off", default_value = "127.0.0.1:0", value_parser = http)]
    http: Http,
    /// HTTP needs no token: whoever reaches the address may read
    #[arg(long)]
    http_open: bool,
    #[command(flatten)]
    parent: daemon::StopWithParent,
}

/// Where HTTP is served, if it is.
#[derive(Debug, Clone, Copy)]
struct Http(Option<SocketAddr>);

fn http(text: &str) -> Result<Http, String> {
    job_info::http::parse_address(text).map(Http)
}

/// Longest pause that can be asked for.
const RECONNECT_SECONDS_MAX: f64 = 3600.0;

fn seconds(text: &str) -> Result<Duration, String> {
    let expected =
        || format!("expected seconds from 0.01 to {RECONNECT_SECONDS_MAX}, got {text:?}");
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    if (0.01..=RECONNECT_SECONDS_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(expected())
    }
}

fn uri(text: &str) -> Result<String, rpc::uri::UriError> {
    rpc::uri::socket_path(text)?;
    Ok(text.to_owned())
}

fn main() -> ExitCode {
    let args: Args = match daemon::arguments(NAME) {
        Ok(args) => args,
        Err(status) => return status,
    };
    logs::init();
    if let Err(status) = args.parent.watch() {
        return status;
    }
    daemon::raise_open_files();
    daemon::run(NAME, async {
        run(args)
            .await
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| {
                // The same address would be wrong the next time, too.
                let wrong = error.is::<job_info::http::AddressError>();
                let status = if wrong { daemon::STATUS_CONFIG } else { 1 };
                (status, format!("{error:#}"))
            })
    })
}

async fn run(args: Args) -> anyhow::Result<()> {
    let config = job_info::Config {
        socket: rpc::uri::socket_path(&args.uri)?,
        statedir: args.statedir,
        reconnect: args.reconnect,
        private: args.private,
        allow_guests: args.allow_guests,
        http: args.http.0.map(|address| job_info::http::Options {
            address,
            open: args.http_open,
            bounds: job_info::http::Bounds::default(),
        }),
    };
    anyhow::ensure!(
        config.statedir.is_dir(),
        "{}: no such directory",
        config.statedir.display()
    );
    job_info::run(config, daemon::signals()).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_wrong_with_an_argument_is_one_line_with_the_value_and_the_range() {
        let all = [
            "x",
            "--statedir=/s",
            "--uri=local:///s/socket",
            "--reconnect=0",
        ];
        assert_eq!(
            daemon::one_line(&Args::try_parse_from(all).unwrap_err()),
            "invalid value '0' for '--reconnect <RECONNECT>': expected seconds from 0.01 to 3600, got \"0\""
        );
    }
}
