//! Options to jobspec. Everything of the surroundings comes in as a [`Surroundings`], so the result is a function of its
//! arguments; key order is Flux's, so equal options make equal bytes.

use super::env::{self, Environment};
use super::options::{JobOptions, Kind, Payload};
use super::rlimit::{self, Limits};
use super::shellopt;
use crate::failure::usage;
use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

/// How deep a dotted key of `--setattr` or `--setopt` may go.
const KEY_DEPTH_MAX: usize = 32;

/// `--input` of a job that is to be written to by whoever attaches.
const PIPE: &str = "-";

/// What a job inherits from the process that submits it.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Environment.
    pub environment: Environment,
    /// Working directory.
    pub cwd: String,
    /// Soft resource limits.
    pub limits: Limits,
    /// Standard input of a job that says nothing about it; none is a pipe that `weir job attach` writes to.
    pub input: Option<String>,
}

impl Surroundings {
    /// Those of this process.
    ///
    /// # Errors
    /// The working directory is gone or not UTF-8.
    pub fn current() -> anyhow::Result<Self> {
        let cwd = std::env::current_dir().context("the working directory; use --cwd DIR")?;
        let Ok(cwd) = cwd.into_os_string().into_string() else {
            bail!("the working directory's name is not UTF-8; use --cwd DIR");
        };
        Ok(Self {
            environment: env::current(),
            cwd,
            limits: rlimit::current(),
            input: None,
        })
    }
}

/// The jobspec of these options.
///
/// # Errors
/// A rule, key or path of the options that makes no sense; the text names the option.
pub fn build(options: &JobOptions, around: &Surroundings) -> anyhow::Result<Value> {
    let (resources, count) = resources(options);
    let mut shell = Map::new();
    if let Some(per_node) = options.tasks_per_node {
        shell.insert(
            "per-resource".to_owned(),
            json!({"type": "node", "count": per_node}),
        );
    }
    let limits = rlimit::apply(&options.rlimit, &around.limits)?;
    if !limits.is_empty() {
        shell.insert("rlimit".to_owned(), json!(limits));
    }
    streams(options, around, &mut shell)?;

    let mut system = Map::new();
    system.insert(
        "duration".to_owned(),
        options
            .time_limit
            .filter(|limit| *limit > 0.0)
            .map_or_else(|| json!(0), |limit| json!(limit)),
    );
    system.insert(
        "environment".to_owned(),
        json!(env::apply(&options.env, &around.environment)?),
    );
    system.insert("cwd".to_owned(), json!(cwd(options, around)));
    system.insert("shell".to_owned(), json!({"options": shell}));
    if let Some(name) = &options.job_name {
        system.insert("job".to_owned(), json!({"name": name}));
    }
    for (key, value) in [("queue", &options.queue), ("bank", &options.bank)] {
        if let Some(value) = value {
            system.insert(key.to_owned(), json!(value));
        }
    }
    if let Some(weir) = kind(options)? {
        system.insert("weir".to_owned(), weir);
    }
    if let Some(text) = options.dependency.first() {
        return Err(usage(format!(
            "--dependency={text}: dependencies are not built yet; 'weir wait ID && weir submit …' runs one job after another"
        )));
    }

    if let Some(text) = &options.begin_time {
        return Err(usage(format!(
            "--begin-time={text}: not built yet; cron, or at, can run 'weir submit' later; --urgency=hold and 'weir job priority ID default' let a job go by hand"
        )));
    }

    let mut attributes = json!({"system": system});
    for text in &options.setopt {
        let (path, value) = assignment("--setopt", text)?;
        shellopt::warn(&path);
        set(
            &mut attributes,
            &format!("system.shell.options.{path}"),
            value,
        )
        .with_context(|| format!("--setopt={text}"))?;
    }
    for text in &options.setattr {
        let (path, value) = assignment("--setattr", text)?;
        let path = match path.strip_prefix('.') {
            Some(rest) => rest.to_owned(),
            None if path.starts_with("user.") || path.starts_with("system.") => path,
            None => format!("system.{path}"),
        };
        set(&mut attributes, &path, value).with_context(|| format!("--setattr={text}"))?;
    }

    Ok(json!({
        "resources": [resources],
        "tasks": [{"command": options.command, "slot": "task", "count": count}],
        "attributes": attributes,
        "version": 1,
    }))
}

/// What kind of job it is, where that is not said by leaving it out.
fn kind(options: &JobOptions) -> anyhow::Result<Option<Value>> {
    if options.kind == Kind::Sysbatch {
        // One slot on each node: how many there are, the nodes say.
        for (option, given) in [
            ("-n", options.ntasks.is_some_and(|tasks| tasks > 1)),
            ("-N", options.nodes.is_some()),
        ] {
            if given {
                return Err(usage(format!(
                    "{option}: a sysbatch job has one task on every node; -c says how many cores"
                )));
            }
        }
        return Ok(Some(json!({"type": "sysbatch"})));
    }
    if !options.parameterized {
        return Ok(None);
    }
    for key in options.meta_required.iter().chain(&options.meta_optional) {
        if !job::jobspec::is_meta_key(key) {
            return Err(usage(format!(
                "'{key}' is no meta key: expected 1 to 128 letters, digits, _, - or ."
            )));
        }
    }
    let mut parameterized = Map::new();
    if let Some(payload) = options.payload {
        let word = match payload {
            Payload::Optional => "optional",
            Payload::Required => "required",
            Payload::Forbidden => "forbidden",
        };
        parameterized.insert("payload".to_owned(), json!(word));
    }
    for (name, keys) in [
        ("meta_required", &options.meta_required),
        ("meta_optional", &options.meta_optional),
    ] {
        if !keys.is_empty() {
            parameterized.insert(name.to_owned(), json!(keys));
        }
    }
    Ok(Some(json!({"parameterized": parameterized})))
}

/// The resource vertex and the task count.
fn resources(options: &JobOptions) -> (Value, Value) {
    let slot = |count: u32| {
        let mut with = vec![json!({"type": "core", "count": options.cores_per_task})];
        if options.gpus_per_task > 0 {
            with.push(json!({"type": "gpu", "count": options.gpus_per_task}));
        }
        json!({"type": "slot", "count": count, "label": "task", "with": with})
    };
    let per_slot = json!({"per_slot": 1});
    let Some(nodes) = options.nodes else {
        return (slot(options.ntasks.unwrap_or(1)), per_slot);
    };
    let (slots, count, whole) = match (options.tasks_per_node, options.ntasks) {
        (Some(per_node), _) => (per_node, per_slot, false),
        // More nodes than tasks cannot be cut evenly either: the total says how many tasks there are.
        (None, Some(tasks)) if tasks % nodes != 0 => {
            (tasks.div_ceil(nodes), json!({"total": tasks}), false)
        }
        (None, Some(tasks)) => (tasks / nodes, per_slot, false),
        (None, None) => (1, per_slot, true),
    };
    let mut node = Map::new();
    node.insert("type".to_owned(), json!("node"));
    node.insert("count".to_owned(), json!(nodes));
    if whole || options.exclusive {
        node.insert("exclusive".to_owned(), json!(true));
    }
    node.insert("with".to_owned(), json!([slot(slots)]));
    (Value::Object(node), count)
}

fn cwd(options: &JobOptions, around: &Surroundings) -> String {
    match &options.cwd {
        Some(dir) if dir.starts_with('/') => dir.clone(),
        Some(dir) => format!("{}/{dir}", around.cwd),
        None => around.cwd.clone(),
    }
}

/// Where standard input, output and error go, as options of the shell.
fn streams(
    options: &JobOptions,
    around: &Surroundings,
    shell: &mut Map<String, Value>,
) -> anyhow::Result<()> {
    let mut output = Map::new();
    for (name, option, path) in [
        ("stdout", "--output", &options.output),
        ("stderr", "--error", &options.error),
    ] {
        let mut stream = Map::new();
        match path.as_deref() {
            Some("") => return Err(usage(format!("{option}: a file name must not be empty"))),
            // As in Flux: these two mean "keep it with the job".
            None | Some("none" | "kvs") => {}
            Some(path) => {
                stream.insert("type".to_owned(), json!("file"));
                stream.insert("path".to_owned(), json!(path));
                if options.label_io {
                    stream.insert("label".to_owned(), json!(true));
                }
            }
        }
        if options.unbuffered {
            stream.insert("buffer".to_owned(), json!({"type": "none"}));
        }
        if !stream.is_empty() {
            output.insert(name.to_owned(), Value::Object(stream));
        }
    }
    if !output.is_empty() {
        shell.insert("output".to_owned(), Value::Object(output));
    }
    let input = options.input.as_ref().or(around.input.as_ref());
    if let Some(path) = input.filter(|path| *path != PIPE) {
        shell.insert(
            "input".to_owned(),
            json!({"stdin": {"type": "file", "path": path}}),
        );
    }
    Ok(())
}

/// `KEY=VALUE` taken apart; the value is JSON, else text; 1 if there is none. `^KEY=FILE` reads the value from a file.
fn assignment(option: &str, text: &str) -> anyhow::Result<(String, Value)> {
    let (key, value) = match text.split_once('=') {
        None => (text, json!(1)),
        Some((key, file)) if key.starts_with('^') => {
            let content =
                std::fs::read_to_string(file).with_context(|| format!("{option}={text}"))?;
            (
                &key[1..],
                serde_json::from_str(&content)
                    .with_context(|| format!("{option}={text}: not JSON"))?,
            )
        }
        Some((key, value)) => (
            key,
            serde_json::from_str(value).unwrap_or_else(|_| json!(value)),
        ),
    };
    let depth = key.trim_start_matches('.').split('.').count();
    if key.trim_start_matches('.').split('.').any(str::is_empty) || depth > KEY_DEPTH_MAX {
        return Err(usage(format!(
            "{option}={text}: '{key}' is no key; expected names joined by dots"
        )));
    }
    Ok((key.to_owned(), value))
}

/// Sets one value by its dotted path, making the objects on the way.
fn set(root: &mut Value, path: &str, value: Value) -> anyhow::Result<()> {
    let mut at = root;
    for name in path.split('.') {
        let Value::Object(map) = at else {
            bail!("what is before '.{name}' is set already and is no object");
        };
        at = map.entry(name).or_insert_with(|| json!({}));
    }
    *at = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: JobOptions,
    }

    fn around() -> Surroundings {
        Surroundings {
            environment: Environment::from([("PATH".to_owned(), "/bin".to_owned())]),
            cwd: "/home/alice".to_owned(),
            limits: Limits::from([("core", 0)]),
            input: None,
        }
    }

    fn built(line: &str) -> anyhow::Result<Value> {
        let options =
            Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.options;
        build(&options, &around())
    }

    #[test]
    fn a_plain_command_makes_the_jobspec_flux_makes() {
        assert_eq!(
            built("hostname -f").unwrap().to_string(),
            "{\"resources\":[{\"type\":\"slot\",\"count\":1,\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":1}]}],\
             \"tasks\":[{\"command\":[\"hostname\",\"-f\"],\"slot\":\"task\",\"count\":{\"per_slot\":1}}],\
             \"attributes\":{\"system\":{\"duration\":0,\"environment\":{\"PATH\":\"/bin\"},\"cwd\":\"/home/alice\",\
             \"shell\":{\"options\":{\"rlimit\":{\"core\":0}}}}},\"version\":1}"
        );
    }

    #[test]
    fn resource_options_follow_the_table_of_flux() {
        let slot = built("-n4 -c2 -g1 x").unwrap()["resources"][0].clone();
        assert_eq!(
            slot,
            json!({"type":"slot","count":4,"label":"task","with":[{"type":"core","count":2},{"type":"gpu","count":1}]})
        );
        let whole = built("-N2 x").unwrap()["resources"][0].clone();
        assert_eq!(whole["exclusive"], json!(true));
        assert_eq!(
            (&whole["count"], &whole["with"][0]["count"]),
            (&json!(2), &json!(1))
        );
        let shared = built("-N2 -n4 x").unwrap()["resources"][0].clone();
        assert_eq!(shared.get("exclusive"), None);
        assert_eq!(shared["with"][0]["count"], json!(2));
        let uneven = built("-N2 -n5 x").unwrap();
        assert_eq!(uneven["resources"][0]["with"][0]["count"], json!(3));
        assert_eq!(uneven["tasks"][0]["count"], json!({"total": 5}));
        let per_node = built("-N2 --tasks-per-node=2 x").unwrap();
        assert_eq!(per_node["resources"][0]["with"][0]["count"], json!(2));
        assert_eq!(
            per_node["attributes"]["system"]["shell"]["options"]["per-resource"],
            json!({"type":"node","count":2})
        );
    }

    #[test]
    fn attributes_land_where_flux_puts_them() {
        let spec = built(
            "-t10m -q debug -B bank1 --job-name=n --cwd=sub --env=-* --rlimit=-* --output=o.{{id}} --error=e --input=i -l \
             -o a.b=2 -o c --setattr=system.one=1 --setattr=foo.bar=x --setattr=user.k={\"a\":[1]} --setattr=.top=true \
             sh -c true",
        )
        .unwrap();
        let system = &spec["attributes"]["system"];
        assert_eq!(system["duration"].to_string(), "600.0");
        assert_eq!(system["environment"], json!({}));
        assert_eq!(system["cwd"], json!("/home/alice/sub"));
        assert_eq!(
            (&system["queue"], &system["bank"], &system["job"]["name"]),
            (&json!("debug"), &json!("bank1"), &json!("n"))
        );
        assert_eq!(
            (&system["one"], &system["foo"], &spec["attributes"]["top"]),
            (&json!(1), &json!({"bar":"x"}), &json!(true))
        );
        assert_eq!(spec["attributes"]["user"]["k"], json!({"a":[1]}));
        let shell = &system["shell"]["options"];
        assert_eq!(
            shell["output"]["stdout"],
            json!({"type":"file","path":"o.{{id}}","label":true})
        );
        assert_eq!(shell["input"]["stdin"], json!({"type":"file","path":"i"}));
        assert_eq!(
            (&shell["a"]["b"], &shell["c"], shell.get("rlimit")),
            (&json!(2), &json!(1), None)
        );
    }

    #[test]
    fn kinds_of_jobs_are_said_where_the_daemons_look() {
        let weir = |line: &str| built(line).unwrap()["attributes"]["system"]["weir"].clone();
        assert_eq!(weir("x"), Value::Null);
        assert_eq!(weir("--type=batch x"), Value::Null);
        assert_eq!(weir("--type=sysbatch -c2 x"), json!({"type": "sysbatch"}));
        assert_eq!(weir("--parameterized x"), json!({"parameterized": {}}));
        assert_eq!(
            weir("--parameterized --meta-required=a,b --meta-optional=c --payload=required x"),
            json!({"parameterized": {"payload": "required", "meta_required": ["a", "b"], "meta_optional": ["c"]}})
        );
        for (line, expected) in [
            ("--type=sysbatch -n2 x", "one task on every node"),
            ("--type=sysbatch -N2 x", "one task on every node"),
            (
                "--parameterized --meta-required=a,,b x",
                "'' is no meta key",
            ),
            ("--meta-required=a x", "--parameterized"),
            ("--payload=none x", "none"),
        ] {
            let error = built(line).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{line}: {error:#}");
        }
    }

    #[test]
    fn an_option_that_makes_no_sense_is_named() {
        for (line, expected) in [
            (
                "--dependency=afterok:1 x",
                "--dependency=afterok:1: dependencies are not built yet",
            ),
            ("--setattr==1 x", "is no key"),
            ("--setattr=a..b=1 x", "'a..b' is no key"),
            ("--setattr=duration.x=1 x", "no object"),
            ("--env=A=$NOPE x", "$NOPE is not set"),
        ] {
            assert!(
                format!("{:#}", built(line).unwrap_err()).contains(expected),
                "{line}"
            );
        }
        assert!(built("-n0 x").is_err());
        assert!(
            built("--urgency=32 x")
                .unwrap_err()
                .to_string()
                .contains("32")
        );
        assert!(built("-t 5q x").unwrap_err().to_string().contains("5q"));
        assert!(built("").is_err());
    }
}
