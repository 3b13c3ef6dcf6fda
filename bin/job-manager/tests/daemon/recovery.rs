//! The table of `rfc/6_store.md`, "At open": each row is played, and each case here is a row there.

use crate::world::{Tap, World, call, int, ok, soon, stats, submission, submit};
use job_manager::{Config, Stop};
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a case makes of a state directory with jobs in it.
enum Made {
    /// It is ready to be started.
    Ready,
    /// It is ready, and the line that refuses it has this in it.
    Says(&'static str),
    /// This cannot be done here, and why.
    Skipped(&'static str),
}

use Made::{Ready, Says, Skipped};

/// A state directory of an instance that is stopped: jobs that wait, one that ended.
struct Place {
    dir: TempDir,
    /// What is to be undone at the end.
    mounted: Option<PathBuf>,
    /// Another daemon that runs there.
    other: Option<World>,
}

impl Place {
    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn store(&self) -> PathBuf {
        self.state().join("store.sqlite")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.state().join(format!("store.sqlite{ending}"))
    }

    fn sql(&self, sql: &str) -> Made {
        Connection::open(self.store())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        Ready
    }

    /// Overwrites a page with zeros.
    fn zero(&self, page: usize) -> Made {
        let mut bytes = std::fs::read(self.store()).unwrap();
        bytes[(page - 1) * 4096..page * 4096].fill(0);
        std::fs::write(self.store(), bytes).unwrap();
        Ready
    }

    /// A leaf of this table or index, not its root.
    fn leaf(&self, name: &str) -> usize {
        let bytes = std::fs::read(self.store()).unwrap();
        let db = Connection::open(self.store()).unwrap();
        let root: i64 = db
            .query_row(
                "SELECT rootpage FROM sqlite_master WHERE name = ?1",
                [name],
                |row| row.get(0),
            )
            .unwrap();
        let at = (usize::try_from(root).unwrap() - 1) * 4096;
        if !matches!(bytes[at], 2 | 5) {
            return at / 4096 + 1;
        }
        let cell = at + usize::from(u16::from_be_bytes([bytes[at + 12], bytes[at + 13]]));
        u32::from_be_bytes(bytes[cell..cell + 4].try_into().unwrap()) as usize
    }

    /// Puts the state directory on a file system of its own.
    fn mount(&mut self, kib: u32) -> bool {
        let aside = self.dir.path().join("aside");
        std::fs::rename(self.state(), &aside).unwrap();
        std::fs::create_dir(self.state()).unwrap();
        let options = format!("size={kib}k,mode=700");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(self.state())
            .stderr(std::process::Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            return false;
        }
        self.mounted = Some(self.state());
        // As large as it is made on a disk of that size.
        std::fs::write(aside.join("reserve"), vec![0; kib as usize * 1024 / 16]).unwrap();
        copy(&aside, &self.state());
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mounted) = &self.mounted {
            let _ = std::process::Command::new("umount")
                .args(["-l"])
                .arg(mounted)
                .status();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            copy(&from, &to);
        } else if entry.file_type().unwrap().is_file() {
            std::fs::copy(from, to).unwrap();
        }
    }
}

/// The directory that each case begins with.
async fn template() -> TempDir {
    let world = World::new().await;
    let client = world.client().await;
    for count in 0..40 {
        let (id, _) = submit(&client).await;
        if count % 2 == 0 {
            let cancel = json!({"id": id, "type": "cancel", "severity": 0});
            ok(&client, "job-manager.raise", cancel).await;
        }
    }
    let (dir, _) = world.stop().await;
    dir
}

fn first_job(place: &Place) -> i64 {
    Connection::open(place.store())
        .unwrap()
        .query_row("SELECT min(id) FROM job WHERE active = 1", [], |row| {
            row.get(0)
        })
        .unwrap()
}

/// Store and WAL as a kill leaves them after one more submit.
async fn killed(place: &Place) -> (Vec<u8>, Vec<u8>) {
    let other = tempfile::tempdir().unwrap();
    let config = Config {
        socket: other.path().join("socket"),
        ..Config::new(place.state())
    };
    let world = World::open(other, config).await;
    submit(&world.client().await).await;
    let wal = std::fs::read(place.beside("-wal")).unwrap();
    let main = std::fs::read(place.store()).unwrap();
    world.stop().await;
    (main, wal)
}

/// Makes a case; `None` = there is none of that name.
async fn make(name: &str, place: &mut Place) -> Option<Made> {
    let write = |path: PathBuf, data: &[u8]| {
        std::fs::write(path, data).unwrap();
        Ready
    };
    let remove = |path: PathBuf| {
        std::fs::remove_file(path).unwrap();
        Ready
    };
    let job =
        |place: &Place, set: &str| place.sql(&format!("{set} WHERE id = {}", first_job(place)));
    Some(match name {
        "no directory" => {
            std::fs::remove_dir_all(place.state()).unwrap();
            Ready
        }
        "directory is a file" => {
            std::fs::remove_dir_all(place.state()).unwrap();
            write(place.state(), b"");
            Says("choose another with --statedir")
        }
        "directory of another user" => match std::os::unix::fs::chown(place.state(), Some(4711), None) {
            Ok(()) => Says("belongs to user 4711"),
            Err(_) => Skipped("only root gives directories away"),
        },
        "read-only file system" => {
            if !place.mount(8 << 10) {
                return Some(Skipped("nothing can be mounted here"));
            }
            let status = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(place.state()).status();
            assert!(status.unwrap().success());
            Says("Read-only")
        }
        "another daemon alive" => {
            let config = Config {
                socket: place.dir.path().join("other"),
                ..Config::new(place.state())
            };
            let dir = tempfile::tempdir().unwrap();
            place.other = Some(World::open(dir, config).await);
            Says("in use by process")
        }
        "lock left over" => write(place.state().join("lock"), b"4711\n"),
        "socket left over" => {
            drop(std::os::unix::net::UnixListener::bind(place.state().join("socket")).unwrap());
            Ready
        }
        "key missing" => remove(place.state().join("key")),
        "key garbled" => write(place.state().join("key"), "ö".repeat(32).as_bytes()),
        "key readable by others" => {
            std::fs::set_permissions(place.state().join("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
            Ready
        }
        "store missing" => {
            remove(place.store());
            Says("key shows that there was a store")
        }
        "store emptied" => {
            write(place.store(), b"");
            Says("key shows that there was a store")
        }
        "store and key missing" => {
            remove(place.store());
            remove(place.state().join("key"))
        }
        "store missing, wal left" => {
            remove(place.store());
            write(place.beside("-wal"), &[1; 8192]);
            Says("store.sqlite-wal beside it holds data")
        }
        "store missing, jobs left" => {
            remove(place.store());
            std::fs::create_dir_all(place.state().join("jobs/4711")).unwrap();
            Says("that there was a store")
        }
        "store is a directory" => {
            remove(place.store());
            std::fs::create_dir(place.store()).unwrap();
            Says("name another directory with --statedir")
        }
        "not a database" => {
            write(place.store(), "my thesis\n".repeat(999).as_bytes());
            Says("is not a weir store")
        }
        "another program's database" => {
            remove(place.store());
            place.sql("CREATE TABLE mine (x)");
            Says("is not a weir store")
        }
        "newer schema" => {
            place.sql("PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)");
            Says("schema 99, newer than")
        }
        "older schema" => {
            place.sql("DROP INDEX job_key; ALTER TABLE job DROP COLUMN key; PRAGMA user_version = 1")
        }
        "killed while made" => {
            // In the middle of its first transaction, with pages in the file already.
            remove(place.store());
            let db = Connection::open(place.store()).unwrap();
            db.execute_batch(
                "PRAGMA cache_size = 1; BEGIN EXCLUSIVE; CREATE TABLE log (last_seq INTEGER PRIMARY KEY, lines TEXT);
                 WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO log SELECT i, printf('%100d', i) FROM n;",
            )
            .unwrap();
            let (main, journal) = (std::fs::read(place.store()).unwrap(), std::fs::read(place.beside("-journal")).unwrap());
            drop(db);
            write(place.beside("-journal"), &journal);
            write(place.store(), &main)
        }
        "torn wal" => {
            let (main, wal) = killed(place).await;
            write(place.store(), &main);
            write(place.beside("-wal"), &wal[..wal.len() - 2000])
        }
        "wal cut short" => {
            let (main, _) = killed(place).await;
            write(place.store(), &main);
            write(place.beside("-wal"), b"")
        }
        "older copy put in place by hand" => {
            let (main, _) = killed(place).await;
            write(place.store(), &main)
        }
        "mark garbled" => write(place.state().join("durable"), &[0x5a; 96]),
        "wal garbled" => {
            let (main, mut wal) = killed(place).await;
            wal[..32].fill(0);
            write(place.store(), &main);
            write(place.beside("-wal"), &wal)
        }
        "files of a job that is newer than the store" => {
            std::fs::create_dir_all(place.state().join("jobs/1152921504606846976")).unwrap();
            Ready
        }
        "shm garbled" => write(place.beside("-shm"), &[0x5a; 32768]),
        "journal garbled" => write(place.beside("-journal"), &[0x5a; 5000]),
        "header zeroed" => {
            place.zero(1);
            Says("weir store recover")
        }
        "header garbled" => {
            let mut bytes = std::fs::read(place.store()).unwrap();
            bytes[..100].fill(0x5a);
            write(place.store(), &bytes);
            Says("is not a weir store")
        }
        "schema page garbled" => {
            let mut bytes = std::fs::read(place.store()).unwrap();
            bytes[100..4096].fill(0x5a);
            write(place.store(), &bytes);
            Says("weir store recover")
        }
        "index missing" => {
            place.sql("DROP INDEX job_done");
            Says("it has no index job_done")
        }
        "page of an index zeroed" => {
            place.zero(place.leaf("job_active"));
            Says("weir store recover")
        }
        "file cut to its first bytes" => {
            let bytes = std::fs::read(place.store()).unwrap();
            write(place.store(), &bytes[..7]);
            Says("is cut short: it has 7 bytes")
        }
        "file cut short" => {
            let bytes = std::fs::read(place.store()).unwrap();
            write(place.store(), &bytes[..bytes.len() / 2]);
            Says("weir store recover")
        }
        "page of the job table zeroed" => place.zero(place.leaf("job")),
        "page of the log zeroed" => place.zero(place.leaf("log")),
        "end of the log zeroed" => {
            let bytes = std::fs::read(place.store()).unwrap();
            let root = {
                let db = Connection::open(place.store()).unwrap();
                db.query_row("SELECT rootpage FROM sqlite_master WHERE name = 'log'", [], |row| row.get::<_, i64>(0)).unwrap()
            };
            let at = (usize::try_from(root).unwrap() - 1) * 4096;
            assert_eq!(bytes[at], 5, "an inner page");
            place.zero(u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize);
            Says("weir store recover")
        }
        "floor above the newest seq" => {
            place.sql("INSERT OR REPLACE INTO meta VALUES ('store.floor', '18446744073709551615')");
            Says("weir store recover")
        }
        "seq that no store comes to" => {
            place.sql("INSERT INTO tail (seq, job, lines) VALUES (9223372036854775807, 1, '')");
            Says("weir store recover")
        }
        "trigger added" => {
            place.sql("CREATE TRIGGER mine BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'mine'); END");
            Says("weir store recover")
        }
        "rows of the log missing" => place.sql("DELETE FROM log WHERE last_seq < 20"),
        "index added" => {
            place.sql("CREATE UNIQUE INDEX mine ON job (userid, t_submit)");
            Says("index mine is not part of a store: drop it")
        }
        "table added" => place.sql("CREATE TABLE mine (x)"),
        "newest entries of a job missing" => {
            let db = Connection::open(place.store()).unwrap();
            let id = first_job(place);
            let whole: String = db.query_row("SELECT eventlog FROM job WHERE id = ?1", [id], |row| row.get(0)).unwrap();
            let fewer: String = whole.split_inclusive('\n').take(3).collect();
            assert!(fewer.len() < whole.len());
            db.execute("UPDATE job SET eventlog = ?2 WHERE id = ?1", rusqlite::params![id, fewer]).unwrap();
            Ready
        }
        "row of a job missing" => job(place, "DELETE FROM job"),
        "column of a wrong type" => job(place, "UPDATE job SET userid = 'x'"),
        "jobspec garbled" => place.sql(&format!(
            "INSERT INTO blob (id, refs, data) VALUES (4711, 1, '{{'); UPDATE job SET spec = 4711 WHERE id = {}",
            first_job(place)
        )),
        "R garbled" => job(place, "UPDATE job SET r = '{\"version\":7}'"),
        "eventlog empty" => job(place, "UPDATE job SET eventlog = ''"),
        "entry that does not apply" => job(place, "UPDATE job SET eventlog = replace(eventlog, '\"depend\"', '\"start\"')"),
        "epoch garbled" => place.sql("UPDATE meta SET value = 'x' WHERE key = 'store.epoch'"),
        "state of the queue garbled" => place.sql("INSERT OR REPLACE INTO meta (key, value) VALUES ('queues', x'ff00')"),
        "state of the nodes garbled" => place.sql("INSERT OR REPLACE INTO meta (key, value) VALUES ('resources', 7)"),
        "another meta key garbled" => place.sql("INSERT OR REPLACE INTO meta (key, value) VALUES ('system-log', x'ff00')"),
        "copy put in place" => {
            let copy = place.dir.path().join("copy");
            store::backup(&place.store(), &copy).unwrap();
            std::fs::rename(copy, place.store()).unwrap();
            Ready
        }
        "copy put in place, wal left" => {
            let copy = place.dir.path().join("copy");
            store::backup(&place.store(), &copy).unwrap();
            let other = tempfile::tempdir().unwrap();
            let config = Config {
                socket: other.path().join("socket"),
                ..Config::new(place.state())
            };
            let world = World::open(other, config).await;
            submit(&world.client().await).await;
            let wal = std::fs::read(place.beside("-wal")).unwrap();
            world.stop().await;
            std::fs::rename(copy, place.store()).unwrap();
            write(place.beside("-wal"), &wal);
            Says("store.sqlite-wal away")
        }
        "full disk" => {
            if !place.mount(4 << 10) {
                return Some(Skipped("nothing can be mounted here"));
            }
            let mut ballast = std::fs::File::create(place.state().join("ballast")).unwrap();
            for size in [1 << 16, 4096] {
                while std::io::Write::write_all(&mut ballast, &vec![1; size]).is_ok() {}
            }
            Ready
        }
        "reserve missing" => remove(place.state().join("reserve")),
        "store missing, recovery left" => {
            std::fs::rename(place.store(), place.beside(".damaged-1")).unwrap();
            Says("store.sqlite.damaged-1 beside it holds data")
        }
        "recovery cut short in its last step" => {
            std::fs::rename(place.store(), place.beside(".damaged-1")).unwrap();
            write(place.beside(".recovered-1"), &[1; 9999]);
            Says("run weir store recover once more")
        }
        "recovery cut short" => {
            write(place.beside(".new"), &[1; 9999]);
            write(place.beside(".new.scratch"), &[1; 9999])
        }
        _ => return None,
    })
}

/// Every name that `make` knows.
fn cases() -> Vec<String> {
    let source = include_str!("recovery.rs");
    let body = source.split("    Some(match name {").nth(1).unwrap();
    body.lines()
        .filter_map(|line| line.strip_prefix("        \"")?.split_once("\" =>"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Rows of the table: name and verdict.
fn table() -> BTreeMap<String, String> {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rfc/6_store.md"))
            .unwrap();
    let part = text
        .split("## At open")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    part.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .map(|(name, rest)| (name.to_owned(), rest.split(" |").next().unwrap().to_owned()))
        .collect()
}

/// What happens at a start there: the line that refuses it, or how many jobs are set aside.
async fn verdict(place: &Place, name: &str) -> Result<u64, String> {
    let full = name == "full disk";
    let config = Config::new(place.state());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut daemon = tokio::spawn(job_manager::run(config.clone(), async {
        let _ = stopped.await;
    }));
    let connected = soon(async {
        loop {
            tokio::select! {
                biased;
                ended = &mut daemon => match ended.unwrap() {
                    Err(Stop::CannotStart(text)) => return Err(text),
                    other => panic!("{other:?}"),
                },
                () = tokio::task::yield_now() => {}
            }
            if let Ok(connection) = rpc::client::Connection::connect(&config.socket).await {
                return Ok(rpc::Client::new(connection));
            }
        }
    });
    let client = connected.await?;
    let mut tap = Tap::open(&client, json!({"from": "all"})).await;
    tap.backlog().await;
    if full {
        let error = client
            .call("job-ingest.submit", &crate::world::submission(16))
            .await
            .unwrap_err();
        assert_eq!(error.errnum, wire::errno::ENOSPC, "{error}");
    } else {
        if name == "state of the queue garbled" {
            opens_the_queue(&client).await;
        }
        submit(&client).await;
    }
    let aside = int(&stats(&client).await, "set_aside");
    drop((client, tap, stop));
    soon(daemon).await.unwrap().unwrap();
    Ok(aside)
}

/// The queue is closed, and says why; it is opened again.
async fn opens_the_queue(client: &rpc::Client) {
    let status = ok(client, "job-manager.queue-status", json!({})).await;
    assert_eq!(status["enable"], false);
    let why = status["disable_reason"].as_str().unwrap();
    assert!(why.contains("cannot be read (meta key queues)"), "{why}");
    let refused = call(client, "job-ingest.submit", submission(16)).await;
    assert!(refused.is_err_and(|error| error.text.contains(why)));
    for (topic, payload) in [
        (
            "job-manager.queue-enable",
            json!({"enable": true, "all": true}),
        ),
        (
            "job-manager.queue-start",
            json!({"start": true, "all": true}),
        ),
    ] {
        ok(client, topic, payload).await;
    }
}

#[tokio::test]
async fn every_row_of_the_table_of_what_can_be_met_at_open_is_so() {
    let table = table();
    let known: Vec<&String> = table.keys().collect();
    let mut cases = cases();
    cases.sort();
    assert_eq!(
        cases.iter().collect::<Vec<_>>(),
        known,
        "rows without a case, or cases without a row"
    );
    let template = template().await;
    for (name, expected) in &table {
        let mut place = Place {
            dir: tempfile::tempdir().unwrap(),
            mounted: None,
            other: None,
        };
        std::fs::create_dir(place.state()).unwrap();
        std::fs::set_permissions(place.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
        copy(&template.path().join("state"), &place.state());
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.state().join("key"), mode).unwrap();
        let made = make(name, &mut place).await.unwrap();
        if let Skipped(why) = made {
            eprintln!("skipped: {name}: {why}");
            continue;
        }
        let had_store = place.store().exists();
        let met = verdict(&place, name).await;
        println!("{name}: {met:?}");
        match (expected.as_str(), &met, made) {
            ("opens", Ok(0), Ready) => {}
            ("set aside", Ok(count), Ready) => assert!((1..20).contains(count), "{name}: {count}"),
            ("refused", Err(text), Says(part)) => {
                assert!(text.contains(part), "{name}: {text}");
                assert!(!text.contains('\n'), "{name}: {text}");
                assert!(
                    place.store().exists() == had_store,
                    "{name}: a store was made"
                );
                let remedies = [
                    "--statedir",
                    "weir store recover",
                    "move",
                    "stop that first",
                ];
                assert!(
                    remedies.iter().any(|remedy| text.contains(remedy)),
                    "{name}: no remedy: {text}"
                );
            }
            _ => panic!("{name}: expected {expected}, met {met:?}"),
        }
        if let Some(other) = place.other.take() {
            other.stop().await;
        }
    }
}
