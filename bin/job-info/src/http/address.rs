//! Where HTTP is served: `ADDR:PORT` or `off`, the port used before, and the file that says it.

use std::{
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The file with the address that is served, in the state directory.
pub(crate) const ADDRESS_FILE: &str = "http";
/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// Reads `ADDR:PORT` (`localhost` counts as an address) or `off`.
///
/// # Errors
/// It is neither; the text says what is expected.
pub fn parse(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.to_owned(),
    };
    numeric.parse().map(Some).map_err(|_| {
        format!("expected an address and a port, such as 127.0.0.1:8080 or [::1]:0, or off; got {text:?}")
    })
}

/// Listens. Where no port is asked for, the one used before is taken if it can be had.
///
/// # Errors
/// As `bind`.
pub(crate) fn listen(asked: SocketAddr, statedir: &Path) -> io::Result<TcpListener> {
    let before = (asked.port() == 0)
        .then(|| std::fs::read_to_string(statedir.join(ADDRESS_FILE)).ok())
        .flatten()
        .and_then(|text| text.trim().parse::<SocketAddr>().ok())
        .map(|before| SocketAddr::new(asked.ip(), before.port()));
    let listener = match before.map(TcpListener::bind) {
        Some(Ok(listener)) => listener,
        _ => TcpListener::bind(asked)?,
    };
    // `bind` asked for a short queue; many clients may come at once.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The address under which one on this machine reaches what listens here.
pub(crate) fn reached(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Writes the file, whole or not at all. One that says so already is left: on a full disk it could not be written again.
///
/// # Errors
/// It cannot be written.
pub(crate) fn publish(statedir: &Path, address: SocketAddr) -> io::Result<()> {
    let path = statedir.join(ADDRESS_FILE);
    let said = std::fs::read_to_string(&path).unwrap_or_default();
    if said.trim().parse() == Ok(address) {
        return Ok(());
    }
    let made = statedir.join(format!("{ADDRESS_FILE}.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&made)?;
    let written = writeln!(file, "{address}");
    drop(file);
    let written = written.and_then(|()| std::fs::rename(&made, path));
    if written.is_err() {
        // Of no use to anybody.
        let _ = std::fs::remove_file(&made);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_localhost_or_off() {
        assert_eq!(parse("off"), Ok(None));
        for (text, address) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(parse(text), Ok(address.parse().ok()), "{text}");
        }
        for bad in [
            "",
            "8080",
            ":80",
            "127.0.0.1",
            "127.0.0.1:70000",
            "example.org:80",
            "OFF",
        ] {
            let error = parse(bad).expect_err(bad);
            assert!(error.contains(&format!("got {bad:?}")), "{error}");
        }
    }

    #[test]
    fn the_port_used_before_is_taken_again_unless_another_has_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let first = listen(any, dir.path()).expect("listens");
        let address = first.local_addr().expect("an address");
        publish(dir.path(), address).expect("written");
        let second = listen(any, dir.path()).expect("listens elsewhere");
        assert_ne!(second.local_addr().expect("an address"), address);
        drop((first, second));
        let third = listen(any, dir.path()).expect("listens");
        assert_eq!(third.local_addr().expect("an address"), address);
    }
}
