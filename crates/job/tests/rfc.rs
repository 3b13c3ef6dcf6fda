//! Every marked block of `rfc/2_job.md` is checked here, line by line: the page and the code cannot part.

use bytes::Bytes;
use job::jobspec::JobType;
use job::{Entry, Event, Fsd, Hostlist, Idset, JobId, Jobspec, R};
use serde_json::Value;

const PAGE: &str = include_str!("../../../rfc/2_job.md");

/// The lines of the block that is marked with `name`.
fn block(name: &str) -> Vec<&'static str> {
    let start = PAGE
        .lines()
        .position(|line| line.starts_with("```") && line.ends_with(&format!(" {name}")));
    assert!(start.is_some(), "no block {name}");
    let start = start.unwrap_or_default();
    PAGE.lines()
        .skip(start + 1)
        .take_while(|line| !line.starts_with("```"))
        .collect()
}

/// A line's two columns, two or more spaces apart.
fn columns(line: &str) -> (&str, &str) {
    let (left, right) = line.split_once("  ").unwrap_or((line, ""));
    (left, right.trim_start())
}

#[test]
fn every_block_of_the_page_is_read_by_a_test() {
    let marks: Vec<&str> = PAGE
        .lines()
        .filter(|line| line.starts_with("```") && line.len() > 3)
        .map(|line| {
            line.split_once(' ')
                .unwrap_or_else(|| panic!("{line} has no name"))
                .1
        })
        .collect();
    let read = [
        "ids",
        "ids-words",
        "ids-refused",
        "events",
        "events-refused",
        "transitions",
        "entries",
        "native",
        "jobspec",
        "jobspec-weir",
        "jobspec-refused",
        "r",
        "alloc-statuses",
        "resource-log",
        "resources",
        "idset",
        "idset-refused",
        "hostlist",
        "hostlist-refused",
        "fsd",
        "fsd-refused",
    ];
    assert_eq!(marks, read);
}

#[test]
fn ids_in_every_spelling() {
    for line in &block("ids")[1..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [decimal, f58, dothex] = words[..] else {
            panic!("{line}")
        };
        let id = JobId(decimal.parse().unwrap());
        assert_eq!(id.to_string(), f58);
        assert_eq!(id.f58(true), f58.replace('ƒ', "f"));
        assert_eq!(id.dothex(), dothex);
        let hex = format!("{:#x}", id.0);
        let kvs = format!("job.{dothex}");
        let upper = dothex.to_uppercase();
        for text in [
            decimal,
            f58,
            &f58.replace('ƒ', "f"),
            dothex,
            &kvs,
            &hex,
            &upper,
        ] {
            assert_eq!(text.parse(), Ok(id), "{text}");
        }
    }
}

#[test]
fn ids_in_words() {
    for line in block("ids-words") {
        let (decimal, words) = columns(line);
        let id = JobId(decimal.parse().unwrap());
        assert_eq!(id.words(), words);
        assert_eq!(words.parse(), Ok(id));
    }
}

#[test]
fn ids_refused() {
    for line in block("ids-refused") {
        let (text, error) = columns(line);
        assert_eq!(text.parse::<JobId>().unwrap_err().to_string(), error);
    }
}

#[test]
fn events_read_back_byte_for_byte() {
    for line in block("events") {
        let event = Event::parse(line.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&event.to_json()), line);
    }
}

#[test]
fn events_cover_every_known_name() {
    let events = block("events");
    for name in job::EventName::KNOWN {
        let mark = format!("\"name\":\"{name}\"");
        assert!(events.iter().any(|line| line.contains(&mark)), "{name}");
    }
}

#[test]
fn events_refused() {
    for line in block("events-refused") {
        let (json, error) = columns(line);
        assert_eq!(
            Event::parse(json.as_bytes()).unwrap_err().to_string(),
            error,
            "{json}"
        );
    }
}

#[test]
fn entries_and_their_native_form() {
    for (line, native) in block("entries").into_iter().zip(block("native")) {
        let entry = Entry::parse_line(&Bytes::from(format!("{line}\n"))).unwrap();
        let event = Event::parse(entry.json()).unwrap();
        let again = Entry::new(
            entry.seq,
            entry.source,
            entry.eventlog_seq,
            entry.userid,
            entry.stored_log,
            &event,
            entry.attach.clone(),
        );
        assert_eq!(again, entry);
        let mut buf = Vec::new();
        entry.encode_native(&mut buf);
        assert_eq!(String::from_utf8(buf).unwrap(), native);
    }
}

#[test]
fn the_jobspec_and_what_is_derived_from_it() {
    let json = block("jobspec")[0];
    let (jobspec, launch) = Jobspec::parse_for_launch(json.as_bytes()).unwrap();
    assert_eq!(
        (
            jobspec.nslots,
            jobspec.cores_per_slot,
            jobspec.gpus_per_slot
        ),
        (4, 4, 1)
    );
    assert_eq!(
        (jobspec.ncores(), jobspec.nnodes(), jobspec.ntasks),
        (Some(16), Some(2), 4)
    );
    assert_eq!((jobspec.name.as_str(), jobspec.duration), ("app", 600.0));
    assert_eq!(jobspec.command, ["/opt/bin/app", "-v"]);
    assert_eq!(jobspec.cwd.as_deref(), Some("/tmp"));
    assert_eq!(jobspec.queue.as_deref(), Some("debug"));
    assert_eq!(jobspec.bank.as_deref(), Some("b"));
    assert_eq!(jobspec.project.as_deref(), Some("p"));
    assert_eq!(jobspec.dependencies[0].scheme, "afterany");
    assert_eq!(
        jobspec.constraints,
        Some(serde_json::json!({"hostlist":["node0"]}))
    );
    assert_eq!(
        launch.shell.rlimit,
        [("nofile".to_owned(), 1024), ("core".to_owned(), -1)]
    );
    let stdout = launch.shell.stdout.as_ref().unwrap();
    assert_eq!((stdout.path.as_str(), stdout.label), ("out.{{id}}", true));
    assert_eq!(launch.shell.stderr, None);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        launch.environment,
        [pair("PATH", "/usr/bin"), pair("HOME", "/root")]
    );

    let (same, stripped) = Jobspec::ingest(json.as_bytes()).unwrap();
    assert_eq!(same, jobspec);
    let without = json.replace(
        "\"environment\":{\"PATH\":\"/usr/bin\",\"HOME\":\"/root\"},",
        "",
    );
    assert_eq!(String::from_utf8_lossy(&stripped), without);
}

#[test]
fn kinds_of_jobs() {
    let good: Value = serde_json::from_str(block("jobspec")[0]).unwrap();
    let read = |weir: &str| {
        let mut jobspec = good.clone();
        jobspec["resources"] = jobspec["resources"][0]["with"].clone();
        jobspec["resources"][0]["count"] = 1.into();
        jobspec["attributes"]["system"]["weir"] = serde_json::from_str(weir).unwrap();
        Jobspec::parse(jobspec.to_string().as_bytes()).unwrap()
    };
    let all: Vec<Jobspec> = block("jobspec-weir").into_iter().map(read).collect();
    let types: Vec<JobType> = all.iter().map(Jobspec::job_type).collect();
    use JobType::{Batch, Parameterized, Sysbatch};
    assert_eq!(
        types,
        [Batch, Sysbatch, Parameterized, Parameterized, Batch]
    );
    let weir = all[3].weir.as_ref().unwrap();
    let rules = weir.parameterized.as_ref().unwrap();
    assert!(weir.sysbatch && rules.payload == job::jobspec::Payload::Required);
    assert_eq!(
        (&rules.meta_required[..], &rules.meta_optional[..]),
        (
            &["who".to_owned(), "when".to_owned()][..],
            &["note".to_owned()][..]
        )
    );
    let dispatch = all[4].weir.as_ref().unwrap().dispatch.as_ref().unwrap();
    assert_eq!(all[4].parent(), Some(JobId(1234)));
    assert_eq!(dispatch.meta, [("who".to_owned(), "me".to_owned())]);
    assert_eq!(dispatch.payload.as_deref(), Some(&b"hello"[..]));
    assert_eq!(
        job::jobspec::meta_variables("a-b.C"),
        ["WEIR_META_A_B_C", "NOMAD_META_A_B_C"]
    );
}

#[test]
fn allocations_by_what_was_said_and_implied() {
    let parse = |json: &str| Event::parse(json.as_bytes()).unwrap();
    let life = [
        r#"{"timestamp":1.0,"name":"submit","context":{"userid":1,"urgency":16,"flags":0}}"#,
        r#"{"timestamp":1.0,"name":"validate"}"#,
        r#"{"timestamp":1.0,"name":"depend"}"#,
        r#"{"timestamp":1.0,"name":"priority","context":{"priority":16}}"#,
        r#"{"timestamp":1.0,"name":"alloc"}"#,
        r#"{"timestamp":1.0,"name":"start"}"#,
    ];
    let mut job = job::Job::new(JobId(1), &parse(life[0])).unwrap();
    for json in life[1..].iter().copied().chain(block("alloc-statuses")) {
        let _ = job.apply(&parse(json)).unwrap();
    }
    let status = |rank| job::allocs::at(&job, rank).unwrap().status.as_str();
    let said = format!(
        "leaves rank 0 {}, 1 {}, 2 {}, 3 {}.",
        status(0),
        status(1),
        status(2),
        status(3)
    );
    assert!(PAGE.contains(&said), "{said}");
}

#[test]
fn the_resource_log_and_the_state_it_makes() {
    let mut resources = job::Resources::new();
    for (at, json) in block("resource-log").into_iter().enumerate() {
        let event = Event::parse(json.as_bytes()).unwrap();
        let what = job::ResourceEvent::read(&event).unwrap().unwrap();
        let define = resources.define().cloned();
        let posted = what.to_event(event.timestamp, define.as_deref());
        assert_eq!(String::from_utf8_lossy(&posted.to_json()), json);
        let _ = resources.apply(job::Seq(at as u64 + 12), &event).unwrap();
    }
    let json = block("resources")[0];
    assert_eq!(String::from_utf8_lossy(&resources.to_json()), json);
    assert_eq!(
        job::Resources::from_json(json.as_bytes()).unwrap(),
        resources
    );
}

#[test]
fn jobspecs_refused_by_field() {
    let good: Value = serde_json::from_str(block("jobspec")[0]).unwrap();
    let lines = block("jobspec-refused");
    for pair in lines.chunks(2) {
        let mut jobspec = good.clone();
        if let Some((pointer, value)) = pair[0].split_once(" = ") {
            let value: Value = serde_json::from_str(value).unwrap();
            match jobspec.pointer_mut(pointer) {
                Some(place) => *place = value,
                None => {
                    let (parent, key) = pointer.rsplit_once('/').unwrap();
                    let parent = jobspec.pointer_mut(parent).unwrap();
                    parent
                        .as_object_mut()
                        .unwrap()
                        .insert(key.to_owned(), value);
                }
            }
        } else {
            let pointer = pair[0].strip_suffix(" removed").unwrap();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            jobspec
                .pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(key)
                .unwrap();
        }
        let error = Jobspec::parse(jobspec.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), pair[1].trim_start(), "{}", pair[0]);
    }
}

#[test]
fn the_resource_set() {
    let json = block("r")[0];
    let r = R::parse(json.as_bytes()).unwrap();
    assert_eq!(String::from_utf8_lossy(&r.to_json()), json);
    assert_eq!((r.ncores(), r.ngpus(), r.nnodes()), (10, 2, 3));
    assert_eq!(r.ranks().bracketed(), "[0-1,3]");
    assert!(PAGE.contains(&format!("its summary is `{}`", r.summary())));
    let rebuilt = R::build(&r.nodes(), r.starttime, r.expiration, r.nslots);
    assert_eq!(rebuilt, r);
}

#[test]
fn idsets() {
    for line in block("idset") {
        let (text, shown) = columns(line);
        assert_eq!(text.parse::<Idset>().unwrap().to_string(), shown);
    }
    for text in block("idset-refused") {
        assert!(text.parse::<Idset>().is_err(), "{text}");
    }
}

#[test]
fn hostlists() {
    for line in block("hostlist") {
        let (text, hosts) = columns(line);
        assert!(
            text.parse::<Hostlist>()
                .unwrap()
                .iter()
                .eq(hosts.split(' ')),
            "{text}"
        );
    }
    for text in block("hostlist-refused") {
        assert!(text.parse::<Hostlist>().is_err(), "{text}");
    }
}

#[test]
fn durations() {
    for line in block("fsd") {
        let (text, seconds) = columns(line);
        assert_eq!(text.parse(), Ok(Fsd(seconds.parse().unwrap())), "{text}");
    }
    for text in block("fsd-refused") {
        assert!(text.parse::<Fsd>().is_err(), "{text}");
    }
}
