//! Scripts and what the manager makes of them: `testdata/*.txt`, one test a file. `UPDATE=1` rewrites what follows the commands.
//!
//! ```text
//! # a comment
//! > submit a urgency=16 flags=0 uid=1000 weir=JSON   makes a job and calls it a; later $a is its id
//! > call SENDER TOPIC JSON…                    with `uid=N` (a guest) or `role=MASK`, `stream`, `-` for no payload
//! > report SENDER TOPIC JSON… [; JSON…]        a response of an engine; several arrive together
//! > hello LIMIT | exec                         a scheduler (sender sched), an exec service (sender exec) says hello (and ready)
//! > grant a | run a | end a STATUS             what engines usually say
//! > hold | durable N                           the disk stops; N commits reach it (without N all, and it goes on)
//! > found [a b …] [total=N] | lost WHY           what the search finds (without names: what is on the disk), or that it cannot
//! > swept SEQ [a b …]                         the files of that purge are gone, but for these
//! > keyed KEY [name=VALUE] [uid=N]             submits under a key, the jobspec having that name; the job is called as its key
//! > keys                                       the store says what it knows of the keys it was asked for
//! > dispatch c JSON… [uid=N]                 dispatches; the job is called c
//! > j [WHY]                                  the store tells the J of the jobs it was asked for, or why it cannot
//! > keep age=S num=N | damage a                limits on ended jobs; a job that the next start cannot read
//! > crash | restart | disconnect SENDER | tick | read | nospace on|off | wait SECONDS | expect a: NAMES…
//! ```
//! An `expect` line is checked whatever `UPDATE` says: these are the rows of flux-protocol.md 6.2.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use job::{JobId, Seq, Source};
use manager::{Action, Find, Found, Input, JobWrite, Keep, Key, KeyFound, Sender, Token, Which};
use wire::{Cred, ROLE_OWNER};
use world::{JOBSPEC, OWNER, R, World, submission};

struct Script {
    world: World,
    names: BTreeMap<String, JobId>,
    holding: bool,
    find: Option<Find>,
    keys: Vec<Key>,
    /// Whose J is to be read.
    parents: Vec<JobId>,
    /// What the jobs are to be called that wait for one.
    unnamed: Vec<String>,
    text: String,
}

fn sender(name: &str) -> u64 {
    match name {
        "sched" => 101,
        "exec" => 102,
        "sched2" => 103,
        "exec2" => 104,
        other => other.parse().unwrap_or_else(|_| panic!("sender {other}")),
    }
}

fn sender_name(sender: Sender) -> String {
    match sender.0 {
        101 => "sched".into(),
        102 => "exec".into(),
        103 => "sched2".into(),
        104 => "exec2".into(),
        other => other.to_string(),
    }
}

impl Script {
    fn new() -> Script {
        let mut world = World::new();
        world.now += 12.5; // ids large enough not to be taken for other numbers
        Script {
            world,
            names: BTreeMap::new(),
            holding: false,
            find: None,
            keys: Vec::new(),
            parents: Vec::new(),
            unnamed: Vec::new(),
            text: String::new(),
        }
    }

    /// Shows the ids as names, and what is always the same as a letter.
    fn shown(&self, text: &str) -> String {
        let stripped = JOBSPEC.replace(r#","environment":{"HOME":"/root"}"#, "");
        let mut text = text.replace(R, "$R").replace(&stripped, "$S");
        for (name, id) in &self.names {
            text = text.replace(&id.0.to_string(), &format!("${name}"));
        }
        text
    }

    fn name(&self, id: JobId) -> String {
        self.shown(&id.0.to_string())
    }

    fn show(&mut self, action: &Action) {
        let line = match action {
            Action::Commit(commit) => {
                let mut lines = String::from("commit");
                for entry in &commit.entries {
                    let job = match entry.source {
                        Source::Job(id) => self.name(id),
                        Source::Resource => "resource".into(),
                        Source::System => "system".into(),
                    };
                    let event: serde_json::Value = serde_json::from_slice(entry.json()).unwrap();
                    let context = event
                        .get("context")
                        .map(|context| format!(" {context}"))
                        .unwrap_or_default();
                    let star = if entry.stored_log { "" } else { "*" };
                    write!(
                        lines,
                        "\n  {} {job} {} {star}{}{context}",
                        entry.seq, entry.eventlog_seq, entry.name
                    )
                    .unwrap();
                }
                for write in &commit.jobs {
                    let row = match write {
                        JobWrite::Insert {
                            id,
                            userid,
                            flags,
                            key,
                            ..
                        } => {
                            let key = key.as_ref().map(|key| format!(" key={key}"));
                            let key = key.unwrap_or_default();
                            format!("{} insert uid={userid} flags={flags}{key}", self.name(*id))
                        }
                        JobWrite::SetR { id, .. } => format!("{} R", self.name(*id)),
                        JobWrite::Inactive { id, result, .. } => {
                            format!("{} inactive {result}", self.name(*id))
                        }
                        JobWrite::Consumed { id } => format!("{} consumed", self.name(*id)),
                        JobWrite::Delete { id } => format!("{} delete", self.name(*id)),
                    };
                    write!(lines, "\n  row {row}").unwrap();
                }
                for (key, value) in &commit.meta {
                    write!(lines, "\n  meta {key} {value}").unwrap();
                }
                lines
            }
            Action::Respond {
                token: Token(token),
                result,
                last,
            } => {
                let more = if *last { "" } else { " …" };
                match result {
                    Ok(None) => format!("answer {token}{more}"),
                    Ok(Some(payload)) => format!(
                        "answer {token} {}{more}",
                        std::str::from_utf8(payload).unwrap()
                    ),
                    Err(refusal) => format!(
                        "refuse {token} {} {}",
                        refusal.errnum,
                        refusal.text.as_deref().unwrap_or("-")
                    ),
                }
            }
            Action::Request {
                to,
                topic,
                payload,
                noresponse,
            } => {
                let mark = if *noresponse { "!" } else { "" };
                format!(
                    "{} <- {topic}{mark} {}",
                    sender_name(*to),
                    std::str::from_utf8(payload).unwrap()
                )
            }
            Action::Start {
                to,
                topic,
                id,
                payload,
            } => {
                let row = &self.world.disk.rows[id]; // J is durable by then
                let whole = manager::with_j(payload, &row.j);
                let parsed: protocol::exec::StartRequest<'_> =
                    serde_json::from_slice(&whole).unwrap();
                assert_eq!(
                    parsed.j.as_deref(),
                    Some(std::str::from_utf8(&row.j).unwrap())
                );
                format!(
                    "{} <- {topic} {}",
                    sender_name(*to),
                    std::str::from_utf8(payload).unwrap()
                )
            }
            Action::Publish {
                topic,
                payload,
                private_to,
            } => {
                let private = private_to
                    .map(|uid| format!(" (private to {uid})"))
                    .unwrap_or_default();
                format!(
                    "publish {topic} {}{private}",
                    std::str::from_utf8(payload).unwrap()
                )
            }
            Action::ShutDown => "shut down".to_owned(),
            Action::Ready(Token(token)) => format!("ready {token}"),
            Action::FindKey(key) => {
                self.keys.push(key.clone());
                format!("find-key {} {}", key.userid, key.text)
            }
            Action::ReadJ(id) => {
                assert!(self.world.disk.rows.contains_key(id), "its J is durable");
                self.parents.push(*id);
                format!("read-j {}", self.name(*id))
            }
            Action::Find(find) => {
                assert!(self.find.replace(*find).is_none(), "one search at a time");
                let which = match find.which {
                    Which::All => "all".to_owned(),
                    Which::Beyond { before, keep } => {
                        let before = before.map_or("ever".to_owned(), |before| before.to_string());
                        let keep = keep.map_or("all".to_owned(), |keep| keep.to_string());
                        format!("ended before {before}, or not of the last {keep}")
                    }
                };
                let count = if find.count { ", count" } else { "" };
                format!("find {} {which}{count}", find.limit)
            }
            Action::Sweep { batch, jobs } => {
                let names: Vec<String> = jobs.iter().map(|id| self.name(*id)).collect();
                for id in jobs {
                    assert!(
                        !self.world.disk.rows.contains_key(id),
                        "its files go after its row"
                    );
                }
                format!("sweep {batch} {}", names.join(" "))
            }
            Action::Close { sender, why } => format!("close {}: {why}", sender_name(*sender)),
        };
        let line = self.shown(&line);
        self.text.push_str(&line);
        self.text.push('\n');
    }

    fn did(&mut self, actions: Vec<Action>) {
        for action in &actions {
            self.show(action);
        }
        if !self.holding {
            let more = self.world.durable(usize::MAX);
            for action in &more {
                self.show(action);
            }
        }
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.replace("$R", R).replace("$S", JOBSPEC);
        // Longest names first, so that $ab is not taken for $a.
        for (name, id) in self.names.iter().rev() {
            text = text.replace(&format!("${name}"), &id.0.to_string());
        }
        text
    }

    fn report(&mut self, from: &str, topic: &str, payloads: &str) {
        let reports: Vec<_> = payloads
            .split(';')
            .map(|json| World::report(sender(from), topic, &self.filled(json.trim()), 0))
            .collect();
        let actions = match <[_; 1]>::try_from(reports) {
            Ok([report]) => self.world.input(Input::ServiceResponse(report)),
            Err(reports) => self.world.input(Input::ServiceResponses(reports)),
        };
        self.did(actions);
    }

    fn command(&mut self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split_whitespace();
        match verb {
            "submit" => self.submit(rest),
            "keyed" => self.keyed(rest),
            "keys" => {
                let keys = std::mem::take(&mut self.keys);
                let found = keys.into_iter().map(|key| {
                    let found = match rest {
                        "" => self.world.disk.find_key(&key),
                        why => KeyFound::Failed {
                            why: why.to_owned(),
                        },
                    };
                    (key, found)
                });
                let found = found.collect();
                let actions = self.world.input(Input::KeysFound(found));
                self.made(None, &actions);
                self.did(actions);
            }
            "dispatch" => {
                let (name, rest) = rest.split_once(' ').unwrap();
                self.unnamed.push(name.to_owned());
                self.call(&format!("1 job-manager.dispatch {rest}"));
            }
            "j" => {
                for id in std::mem::take(&mut self.parents) {
                    let j = match rest {
                        "" => Ok(self.world.disk.rows[&id].j.clone()),
                        why => Err(why.to_owned()),
                    };
                    let actions = self.world.input(Input::JRead { id, j });
                    self.made(None, &actions);
                    self.did(actions);
                }
                self.unnamed.clear();
            }
            "call" => self.call(rest),
            "report" => {
                let (from, rest) = rest.split_once(' ').unwrap();
                let (topic, payloads) = rest.split_once(' ').unwrap();
                self.report(from, topic, payloads);
            }
            "failed" => {
                let (from, topic) = (words.next().unwrap(), words.next().unwrap());
                let actions = self.world.input(Input::ServiceResponse(World::report(
                    sender(from),
                    topic,
                    "{}",
                    5,
                )));
                self.did(actions);
            }
            "hello" => {
                let owner = Cred::owner(OWNER);
                let actions = self
                    .world
                    .call(101, owner, "job-manager.sched-hello", None, true);
                self.did(actions);
                let mode = match rest {
                    "unlimited" => r#"{"mode":"unlimited"}"#.to_owned(),
                    limit => format!(r#"{{"mode":"limited","limit":{limit}}}"#),
                };
                let actions =
                    self.world
                        .call(101, owner, "job-manager.sched-ready", Some(&mode), false);
                self.did(actions);
            }
            "exec" => {
                let hello = Some(r#"{"service":"job-exec"}"#);
                let actions = self.world.call(
                    102,
                    Cred::owner(OWNER),
                    "job-manager.exec-hello",
                    hello,
                    false,
                );
                self.did(actions);
            }
            "grant" => self.report(
                "sched",
                "sched.alloc",
                &format!(r#"{{"id":${rest},"type":0,"R":$R}}"#),
            ),
            "run" => self.report(
                "exec",
                "job-exec.start",
                &format!(r#"{{"id":${rest},"type":"start","data":{{}}}}"#),
            ),
            "end" => {
                let (job, status) = (words.next().unwrap(), words.next().unwrap());
                let release = r#""release":{"ranks":"all","final":true}"#;
                let report = format!(
                    r#"{{"id":${job},"type":"finish","data":{{"status":{status},{release}}}}}"#
                );
                self.report("exec", "job-exec.start", &report);
            }
            "found" => {
                let find = self.find.take().unwrap();
                let (mut found, mut named) = (self.world.disk.find(&find), Vec::new());
                for word in words {
                    match word.split_once('=') {
                        Some((_, total)) => found.total = total.parse().unwrap(),
                        None => named.push(self.names[word]),
                    }
                }
                if !named.is_empty() {
                    let total = found.total;
                    found = Found { jobs: named, total };
                }
                let actions = self.world.input(Input::Found(Ok(found)));
                self.did(actions);
            }
            "lost" => {
                self.find.take().unwrap();
                let actions = self.world.input(Input::Found(Err(rest.to_owned())));
                self.did(actions);
            }
            "swept" => {
                let batch = Seq(words.next().unwrap().parse().unwrap());
                let left = words.map(|name| self.names[name]).collect();
                let actions = self.world.input(Input::Swept { batch, left });
                self.did(actions);
            }
            "keep" => {
                let mut keep = Keep::default();
                for word in words {
                    match word.split_once('=').unwrap() {
                        ("age", value) => keep.age = value.parse().ok(),
                        (_, value) => keep.num = value.parse().ok(),
                    }
                }
                self.world.keep = keep;
                self.world.manager.keep(keep);
            }
            "damage" => {
                self.world
                    .disk
                    .rows
                    .get_mut(&self.names[rest])
                    .unwrap()
                    .damaged = true
            }
            "hold" => self.holding = true,
            "durable" => {
                let count = rest.parse().ok();
                self.holding = count.is_some();
                let actions = self.world.durable(count.unwrap_or(usize::MAX));
                self.did(actions);
            }
            "crash" | "restart" => {
                if verb == "restart" {
                    self.world.durable(usize::MAX);
                }
                self.find = None;
                self.keys.clear();
                self.parents.clear();
                self.unnamed.clear();
                let actions = self.world.crash();
                assert!(
                    !actions
                        .iter()
                        .any(|action| matches!(action, Action::Commit(_))),
                    "a start posts nothing"
                );
                self.did(actions);
            }
            "disconnect" => {
                let actions = self.world.input(Input::Disconnect {
                    sender: Sender(sender(rest)),
                });
                self.did(actions);
            }
            "tick" => {
                let actions = self.world.input(Input::Tick);
                self.did(actions);
            }
            "read" => {
                self.world.next_token += 1;
                let token = Token(self.world.next_token);
                let actions = self.world.input(Input::Read { token });
                self.did(actions);
            }
            "nospace" => {
                let actions = self.world.input(Input::NoSpace(rest == "on"));
                self.did(actions);
            }
            "wait" => self.world.now += rest.parse::<f64>().unwrap(),
            "expect" => {
                let (name, want) = rest.split_once(':').unwrap();
                assert_eq!(
                    self.world.disk.names(self.names[name]),
                    want.trim(),
                    "events of {name}\n{}",
                    self.text
                );
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn submit(&mut self, rest: &str) {
        let (mut urgency, mut flags, mut cred) = (16, 0, Cred::owner(OWNER));
        let mut jobspec = JOBSPEC.to_owned();
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap().to_owned();
        for word in words {
            match word.split_once('=').unwrap() {
                ("urgency", value) => urgency = value.parse().unwrap(),
                ("flags", value) => flags = value.parse().unwrap(),
                ("uid", value) => cred = Cred::guest(value.parse().unwrap()),
                ("weir", value) => {
                    let system = format!(r#""system":{{"weir":{value},"#);
                    jobspec = JOBSPEC.replace(r#""system":{"#, &system);
                }
                other => panic!("{other:?}"),
            }
        }
        let payload = submission(cred.userid, &jobspec, urgency, flags);
        let actions = self
            .world
            .call(1, cred, "job-ingest.submit", Some(&payload), false);
        self.made(Some(&name), &actions);
        self.did(actions);
    }

    /// New jobs get their names: their keys, if they have one.
    fn made(&mut self, name: Option<&str>, actions: &[Action]) {
        for action in actions {
            let Action::Commit(commit) = action else {
                continue;
            };
            for write in &commit.jobs {
                if let JobWrite::Insert { id, key, .. } = write {
                    let name = match key.as_deref().or(name) {
                        Some(name) => name.to_owned(),
                        None => self.unnamed.remove(0),
                    };
                    self.names.insert(name, *id);
                }
            }
        }
    }

    fn keyed(&mut self, rest: &str) {
        let (mut cred, mut jobspec) = (Cred::owner(OWNER), JOBSPEC.to_owned());
        let mut words = rest.split_whitespace();
        let key = words.next().unwrap();
        for word in words {
            match word.split_once('=').unwrap() {
                ("uid", value) => cred = Cred::guest(value.parse().unwrap()),
                ("command", value) => jobspec = JOBSPEC.replace("true", value),
                ("env", value) => jobspec = JOBSPEC.replace("/root", value),
                ("spaces", _) => jobspec = JOBSPEC.replace(':', " : "),
                other => panic!("{other:?}"),
            }
        }
        let payload = submission(cred.userid, &jobspec, 16, 0);
        let mut payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
        payload["key"] = key.into();
        let payload = payload.to_string();
        let actions = self
            .world
            .call(1, cred, "job-ingest.submit", Some(&payload), false);
        self.did(actions);
    }

    fn call(&mut self, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let (from, topic, mut rest) = (
            words.next().unwrap(),
            words.next().unwrap(),
            words.next().unwrap_or("-"),
        );
        let (mut cred, mut streaming) = (Cred::owner(OWNER), false);
        while let Some((before, option)) = rest.rsplit_once(' ') {
            match option.split_once('=') {
                Some(("uid", value)) => cred = Cred::guest(value.parse().unwrap()),
                Some(("role", value)) => cred.rolemask = value.parse().unwrap(),
                None if option == "stream" => streaming = true,
                _ => break,
            }
            rest = before;
        }
        assert!(cred.rolemask != 0 || cred.rolemask & ROLE_OWNER == 0);
        let payload = self.filled(rest);
        let payload = (payload != "-").then_some(payload);
        let actions = self
            .world
            .call(sender(from), cred, topic, payload.as_deref(), streaming);
        if topic == "job-manager.dispatch" {
            self.made(None, &actions);
        }
        self.did(actions);
    }
}

/// Plays a script in a world of its own; what a transcript of it should look like.
fn played(script: &str) -> String {
    let mut state = Script::new();
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            state.text.push_str(line);
            state.text.push('\n');
            state.command(command.trim());
        } else if line.starts_with('#') {
            state.text.push_str(line);
            state.text.push('\n');
        }
    }
    state.text
}

/// Holds a file against what it should be, or rewrites it.
fn settle(path: &Path, is: &str, should_be: &str) {
    if is == should_be {
        return;
    }
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(path, should_be).unwrap();
    }
    let differs = should_be
        .lines()
        .zip(is.lines())
        .position(|(met, want)| met != want);
    let at = differs.unwrap_or_else(|| should_be.lines().count().min(is.lines().count()));
    let (met, want) = (should_be.lines().nth(at), is.lines().nth(at));
    let path = path.display();
    panic!(
        "{path}:{}\nwant {want:?}\nmet  {met:?}\n(UPDATE=1 rewrites the file)",
        at + 1
    );
}

fn run(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let path = folder.join(format!("{name}.txt"));
    let script = std::fs::read_to_string(&path).unwrap();
    settle(&path, &script, &played(&script));
}

/// The specification's `script` blocks are played, and every method of the core stands in it.
#[test]
fn the_examples_of_the_specification_are_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rfc/7_job_manager.md");
    let is = std::fs::read_to_string(&path).unwrap();
    let mut should_be = String::new();
    let mut rest = is.as_str();
    let mut examples = 0;
    while let Some((before, after)) = rest.split_once("```script\n") {
        let (script, after) = after.split_once("```\n").unwrap();
        should_be.push_str(before);
        should_be.push_str("```script\n");
        should_be.push_str(&played(script));
        should_be.push_str("```\n");
        rest = after;
        examples += 1;
    }
    should_be.push_str(rest);
    assert!(examples >= 6);
    settle(&path, &is, &should_be);
    for (topic, ..) in protocol::method::METHODS {
        assert!(
            is.contains(&format!("| `{topic}` |")),
            "{topic} is not in the specification"
        );
    }
}

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        #[test]
        fn every_script_is_run() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
            let mut there: Vec<String> = std::fs::read_dir(folder).unwrap()
                .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
            there.sort();
            let mut run = vec![$(stringify!($name)),*];
            run.sort_unstable();
            assert_eq!(there, run);
        }
    };
}

scripts! {
    row_normal
    row_task_exits_1
    row_command_not_found
    row_time_limit
    row_non_fatal_raise_while_running
    row_cancel_in_run
    row_cancel_in_sched
    row_urgency_change_in_sched
    row_submit_held_released_later
    row_alloc_denied
    row_queue_stopped_started
    row_debug_flag
    row_restart_posts_nothing
    row_exec_cannot_reattach
    fault_shutdown_names_what_is_stored
    shutdown
    submit_keys
    submit_refusals
    urgency_refusals
    a02_urgency_of_a_running_job
    prioritize
    priority_of_many
    limited_mode
    late_grant
    scheduler_disconnects
    exec_disconnects
    reports_said_twice
    cancel_in_each_state
    broken_engines
    raise_and_kill
    waits
    lists_and_numbers
    queues
    memos_and_annotations
    durable_then_visible
    no_space
    roles
    purge
    purge_by_limits
    purge_and_crash
    purge_refusals
    nodes
    nodes_refusals
    alloc_status
    parameterized
    dispatch
    dispatch_refusals
    dispatch_and_crash
}
