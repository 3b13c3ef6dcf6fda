//! From a state directory to a shell that is ready to loop: lock, key, store, jobs, socket. In this order, so that a second
//! daemon on the same directory stops at the lock and has changed nothing.

use crate::Config;
use crate::builtin::Attrs;
use crate::clock::Clock;
use crate::committer::Committer;
use crate::conns::Conns;
use crate::missing;
use crate::reads::Reads;
use crate::restore;
use crate::retain::LogLimit;
use crate::set_aside::{SET_ASIDE_MAX, SetAside};
use crate::shell::{LOCAL, OWN_SERVICES, Parts, Shell};
use crate::streams::Streams;
use crate::turns::News;
use bytes::Bytes;
use manager::{Input, Manager};
use router::{PeerInfo, PeerKind, Router};
use rustix::fs::{Mode, OFlags};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use store::{JobDirs, Store, StoreOptions};
use tokio::sync::mpsc;
use wire::Cred;

/// What the store tells, at most so much of it waiting.
const STORE_EVENTS_MAX: usize = 1024;
/// Bytes of a page of the store.
const STORE_PAGE: u64 = 4096;
/// Random bytes of the instance key; twice as many hex digits.
const KEY_BYTES: usize = 32;
/// The version of Flux whose protocol this speaks.
const FLUX_VERSION: &str = "0.88.0";

/// All that the loop needs.
pub(crate) struct Opened {
    pub(crate) shell: Shell,
    pub(crate) listener: rpc::Listener,
    pub(crate) news: News,
}

/// Opens, restores, binds.
/// # Errors
/// One line that names the thing and the remedy.
pub(crate) fn open(config: Config) -> Result<Opened, String> {
    let clock = Clock::new();
    make_dir(&config.statedir)?;
    if config.allow_guests {
        reachable(&config.socket)?;
    }
    make_private(&config.statedir);
    let (events, store_events) = mpsc::channel(STORE_EVENTS_MAX);
    let dirs = JobDirs::read(&config.statedir);
    let (writer, readers, mut recovered) = Store::open(
        &config.statedir,
        store_options(&config, dirs),
        move |event| {
            // The loop is gone: nobody is to be told any more.
            let _ = events.blocking_send(event);
        },
    )
    .map_err(|error| error.to_string())?;
    if recovered.newest_seq == job::Seq(0) {
        // It is there, but it never knew these jobs.
        nothing_of_another(&config.statedir, dirs)?;
    }
    let key = instance_key(&config.statedir.join("key"))?;
    let owner = rustix::process::getuid().as_raw();

    let meta: Vec<_> = std::mem::take(&mut recovered.meta).into_iter().collect();
    let empty = || {
        Manager::new(
            manager::Config {
                owner,
                private: false,
            },
            manager::Recovered {
                newest_seq: recovered.newest_seq,
                max_jobid: recovered.max_jobid,
                last_timestamp: recovered.last_timestamp,
                meta: meta.clone(),
            },
        )
    };
    let mut manager = empty();
    for fault in manager.faults() {
        tracing::error!("{fault}");
    }
    let reader = readers.open().map_err(|error| error.to_string())?;
    let set_aside = SetAside::default();
    for stray in reader
        .strays(recovered.newest_seq, SET_ASIDE_MAX)
        .map_err(|error| error.to_string())?
    {
        if let Some(id) = stray.job {
            set_aside.add(id, None, &stray.what);
        }
    }
    let met = restore::jobs(&mut manager, &reader, recovered.newest_seq, &set_aside)?;
    if missing::look(&config.statedir, &reader, &recovered, met, &set_aside)? {
        manager = empty();
        let met = restore::jobs(&mut manager, &reader, recovered.newest_seq, &set_aside)?;
        missing::look(&config.statedir, &reader, &recovered, met, &set_aside)?;
    }
    for id in set_aside.ids(None) {
        manager.restore_set_aside(id);
    }
    manager.keep(manager::Keep {
        age: config.retention.inactive_age,
        num: config.retention.inactive_num,
    });
    let (floor, newest) = (recovered.floor, recovered.newest_seq);
    let log_bytes = reader
        .log_bytes(floor, newest)
        .map_err(|error| error.to_string())?;
    let log = LogLimit::new(&config.retention, floor, newest, log_bytes);
    drop(reader);

    let listener = rpc::Listener::bind(&config.socket, 0o777).map_err(|error| error.to_string())?;
    let own_cred = Cred::owner(owner);
    let uuid = random_hex(16)?;
    let local_uuid = Bytes::from(format!("job-manager-{uuid}"));
    let mut router = Router::new(own_cred, Bytes::from(format!("broker-{uuid}")));
    router.add_peer(PeerInfo {
        id: LOCAL,
        uuid: local_uuid.clone(),
        cred: own_cred,
        kind: PeerKind::InProcess,
    });
    for name in OWN_SERVICES {
        router
            .add_service(LOCAL, own_cred, name, true)
            .map_err(|error| error.to_string())?;
    }
    let (reads, found) = Reads::start(&readers).map_err(|error| error.to_string())?;
    let streams = Streams::new(
        &config,
        &recovered.epoch,
        recovered.newest_seq,
        recovered.floor,
        set_aside.clone(),
    );
    let attrs = attributes(&config, &clock, owner, &recovered.epoch);
    let mut shell = Shell::new(Parts {
        config,
        clock,
        attrs,
        key,
        manager,
        router,
        conns: Conns::new(own_cred),
        streams,
        committer: Committer::new(writer, log),
        reads,
        set_aside,
        local_uuid,
    });
    shell.handle(Input::Start);
    if shell.committer.is_halted() {
        shell.take_no_space(true);
    }
    let news = News {
        inbound: None,
        store: store_events,
        found,
    };
    Ok(Opened {
        shell,
        listener,
        news,
    })
}

fn store_options(config: &Config, dirs: JobDirs) -> StoreOptions {
    let pages = config.store_size_limit.map(|bytes| bytes / STORE_PAGE);
    StoreOptions {
        // 0 would be no limit.
        pages_max: pages.map_or(0, |pages| u32::try_from(pages).unwrap_or(u32::MAX).max(1)),
        proofs: proofs(&config.statedir, dirs),
        told_jobid: dirs.newest,
    }
}

/// What is made only after the store was: the key, and the files of jobs.
fn proofs(statedir: &Path, dirs: JobDirs) -> Vec<PathBuf> {
    let mut proofs = Vec::new();
    if dirs.count > 0 {
        proofs.push(statedir.join(crate::purge::JOBS_DIR));
    }
    let key = statedir.join("key");
    if key.symlink_metadata().is_ok() {
        proofs.push(key);
    }
    proofs
}

fn make_dir(dir: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| {
        format!(
            "{}: cannot be made a state directory: {error}; choose another with --statedir",
            dir.display()
        )
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(told)?;
    let metadata = std::fs::metadata(dir).map_err(told)?;
    let owner = rustix::process::getuid().as_raw();
    if metadata.uid() != owner {
        return Err(format!(
            "{}: belongs to user {}, not to user {owner} who starts the instance; choose another with --statedir",
            dir.display(),
            metadata.uid()
        ));
    }
    Ok(())
}

/// A new store beside the files of jobs: the one that knew them is lost, and with a new one nobody would.
fn nothing_of_another(statedir: &Path, dirs: JobDirs) -> Result<(), String> {
    let jobs = statedir.join(crate::purge::JOBS_DIR);
    let count = dirs.count;
    if count == 0 {
        return Ok(());
    }
    Err(format!(
        "{} has no entries, but {} holds the files of {count} jobs: put the store or a backup of it back, or move {} away to begin anew",
        statedir.join(store::FILE_NAME).display(),
        jobs.display(),
        jobs.display()
    ))
}

/// Whether guests can get to the socket at all: the state directory is closed to them.
fn reachable(socket: &Path) -> Result<(), String> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.mode() & 0o001 != 0 => Ok(()),
        Ok(metadata) => Err(format!(
            "{}: guests cannot reach it, since {} is closed to them (mode {:o}); name another place with --socket",
            socket.display(),
            dir.display(),
            metadata.mode() & 0o777
        )),
        Err(error) => Err(format!(
            "{}: the socket's directory cannot be had: {error}; name another place with --socket",
            dir.display()
        )),
    }
}

/// Guests may have to reach the socket in this directory, and must not read what is beside it: the store holds environments, `jobs`
/// the output. A store that is made is so from the beginning. What cannot be done here is told by whoever needs it next.
fn make_private(dir: &Path) {
    let owner_only =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    for name in [store::FILE_NAME, "store.sqlite-wal", "store.sqlite-shm"] {
        let _ = owner_only(&dir.join(name), 0o600);
    }
    let jobs = dir.join("jobs");
    let _ = std::fs::DirBuilder::new().mode(0o700).create(&jobs);
    let _ = owner_only(&jobs, 0o700);
}

/// Reads the key, or makes it. It is what weir's own services show to get their names.
fn instance_key(path: &Path) -> Result<String, String> {
    let told = |error: &dyn std::fmt::Display| {
        format!(
            "{}: the instance key cannot be had: {error}",
            path.display()
        )
    };
    if let Ok(mut file) = std::fs::File::open(path) {
        let metadata = file.metadata().map_err(|error| told(&error))?;
        let mut key = String::new();
        file.read_to_string(&mut key)
            .map_err(|error| told(&error))?;
        let key = key.trim().to_owned();
        let others_read_it = metadata.mode() & 0o077 != 0;
        let is_one = key.len() == 2 * KEY_BYTES && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_one && !others_read_it {
            return Ok(key);
        }
        if others_read_it {
            tracing::warn!(path = %path.display(), "others could read the instance key: a new one is made");
        }
        // Or cut short by a crash while it was made: nobody has it yet.
    }
    let key = random_hex(KEY_BYTES)?;
    let new = path.with_extension("new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file =
        rustix::fs::open(&new, flags, Mode::RUSR | Mode::WUSR).map_err(|error| told(&error))?;
    let mut file = std::fs::File::from(file);
    file.write_all(format!("{key}\n").as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| told(&error))?;
    std::fs::rename(&new, path).map_err(|error| told(&error))?;
    Ok(key)
}

fn random_hex(bytes: usize) -> Result<String, String> {
    let mut random = vec![0u8; bytes];
    let mut filled = 0;
    while filled < bytes {
        filled +=
            rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|error| format!("the system gives no random bytes: {error}"))?;
    }
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn attributes(config: &Config, clock: &Clock, owner: u32, epoch: &str) -> Attrs {
    let hostname = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    Attrs::new(vec![
        ("rank", "0".into()),
        ("size", "1".into()),
        ("security.owner", owner.to_string()),
        ("instance-level", "0".into()),
        ("version", FLUX_VERSION.into()),
        ("broker.starttime", format!("{:.6}", clock.wall().0)),
        ("hostlist", hostname.clone()),
        ("hostname", hostname),
        ("local-uri", format!("local://{}", config.socket.display())),
        ("statedir", config.statedir.display().to_string()),
        ("weir.version", env!("CARGO_PKG_VERSION").into()),
        ("weir.epoch", epoch.into()),
    ])
}
