//! A small HTTP client: one connection, one request at a time, what the benchmarks need of a response.

use anyhow::{Context as _, bail, ensure};
use std::net::SocketAddr;
use std::path::Path;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Where an instance serves HTTP, and what lets its owner in.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    address: SocketAddr,
    token: String,
}

/// What of a response matters.
#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// `X-Nomad-Index`.
    pub(crate) index: u64,
    /// `X-Nomad-NextToken`.
    pub(crate) next: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    token: String,
}

impl Site {
    /// That of the instance with this state directory.
    pub(crate) fn of(dir: &Path) -> anyhow::Result<Site> {
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("failed to read {name}"))
        };
        Ok(Site {
            address: read("http")?.trim().parse()?,
            token: read("http-token")?.trim().to_owned(),
        })
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream: BufReader::with_capacity(1024, stream),
            host: self.address.to_string(),
            token: self.token.clone(),
        })
    }
}

impl Connection {
    /// One request and its response.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Response> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nX-Nomad-Token: {}\r\n\r\n",
            self.host, self.token
        );
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let mut response = Response::default();
        let mut line = String::new();
        let mut length = None;
        let mut chunked = false;
        self.line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        response.status = status.with_context(|| format!("no status in {line:?}"))?;
        loop {
            self.line(&mut line).await?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = Some(value.parse::<usize>()?),
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "x-nomad-index" => response.index = value.parse()?,
                "x-nomad-nexttoken" => response.next = Some(value.to_owned()),
                _ => {}
            }
        }
        match length {
            Some(length) => {
                response.body.resize(length, 0);
                self.stream.read_exact(&mut response.body).await?;
            }
            None if chunked => self.chunks(&mut response.body).await?,
            None => bail!("a response has no length"),
        }
        ensure!(
            response.status == 200,
            "{path}: {} {}",
            response.status,
            String::from_utf8_lossy(&response.body)
        );
        Ok(response)
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> anyhow::Result<()> {
        let mut line = String::new();
        loop {
            self.line(&mut line).await?;
            let size = usize::from_str_radix(line.trim(), 16)?;
            let start = body.len();
            body.resize(start + size, 0);
            if let Some(place) = body.get_mut(start..) {
                self.stream.read_exact(place).await?;
            }
            self.line(&mut line).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    /// One line without its end.
    async fn line(&mut self, line: &mut String) -> anyhow::Result<()> {
        line.clear();
        let read = self.stream.read_line(line).await?;
        ensure!(read > 0, "the connection was closed");
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Ok(())
    }
}
