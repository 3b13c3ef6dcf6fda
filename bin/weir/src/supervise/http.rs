//! Where an instance serves HTTP: the options of `weir start` for it, and the address that job-info wrote down.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Options of `weir start`.
#[derive(Debug, clap::Args)]
pub struct HttpArgs {
    /// Serve HTTP there, or off; port 0 is the one used before, else any [default: 127.0.0.1:0]
    #[arg(long = "http", value_name = "ADDR:PORT|off", value_parser = address)]
    http: Option<Http>,

    /// HTTP needs no token: whoever reaches the address may read
    #[arg(long)]
    http_open: bool,
}

/// As it was typed, and what it means: an address, or off.
#[derive(Debug, Clone)]
struct Http {
    text: String,
    address: Option<SocketAddr>,
}

fn address(text: &str) -> Result<Http, String> {
    let address = match (text, text.strip_prefix("localhost:")) {
        ("off", _) => None,
        (_, Some(port)) => Some(format!("127.0.0.1:{port}")),
        (_, None) => Some(text.to_owned()),
    };
    let address = address.map(|address| address.parse()).transpose();
    let address = address
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:8080, or off".to_owned())?;
    Ok(Http {
        text: text.to_owned(),
        address,
    })
}

impl HttpArgs {
    /// As words of a command line, of `weir start` and of `weir-job-info` alike.
    pub(crate) fn words(&self) -> Vec<String> {
        let http = self.http.as_ref();
        let mut words: Vec<String> = http
            .map(|http| format!("--http={}", http.text))
            .into_iter()
            .collect();
        if self.http_open {
            words.push("--http-open".to_owned());
        }
        words
    }

    /// The same for the daemon.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = OsString> {
        self.words().into_iter().map(OsString::from)
    }

    /// Whether the address can be had; job-info would only wait for it.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Some(address) = self.http.as_ref().and_then(|http| http.address) else {
            return Ok(());
        };
        TcpListener::bind(address).map(drop).map_err(|error| {
            anyhow::anyhow!(
                "cannot serve HTTP at {address}: {error}; choose another address with --http, or --http=off"
            )
        })
    }

    /// Where the page is, now that job-info serves: a line and an empty one; nothing if there is none.
    pub(crate) fn page(&self, statedir: &Path) -> String {
        let is_off = |http: &Http| http.address.is_none();
        let address = std::fs::read_to_string(statedir.join("http"))
            .ok()
            .and_then(|text| text.trim().parse::<SocketAddr>().ok());
        match address {
            Some(address) if !self.http.as_ref().is_some_and(is_off) => {
                let how = if self.http_open {
                    ""
                } else {
                    "; 'weir open' lets you in"
                };
                format!("The jobs as a page: http://{address}/{how}\n\n")
            }
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        http: HttpArgs,
    }

    #[test]
    fn options_are_given_on_as_they_were_typed() {
        let words = |line: &[&str]| Line::try_parse_from(line).expect("good").http.words();
        assert_eq!(words(&["x"]), Vec::<String>::new());
        assert_eq!(
            words(&["x", "--http", "localhost:80", "--http-open"]),
            ["--http=localhost:80", "--http-open"]
        );
        let error = Line::try_parse_from(["x", "--http=80"]).expect_err("no address");
        assert!(error.to_string().contains("such as 127.0.0.1:8080, or off"));
    }

    #[test]
    fn an_address_that_another_has_is_said_before_anything_starts() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("an address");
        let line = Line::try_parse_from(["x", &format!("--http={address}")]).expect("good");
        let error = line.http.check().expect_err("taken").to_string();
        assert!(
            error.contains(&address.to_string()) && error.contains("--http=off"),
            "{error}"
        );
        drop(taken);
        line.http.check().expect("free");
    }
}
