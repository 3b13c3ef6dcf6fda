//! The jobs of `weir bulksubmit`: options, inputs and numbers made into jobspecs, one when its turn comes.
//!
//! A job's number is its place among all combinations of inputs and numbers, shuffled or not.

use super::inputs::Inputs;
use super::template::{Definitions, Filling, Template};
use crate::failure::usage;
use crate::jobspec::build::{self, Surroundings};
use crate::jobspec::options::JobOptions;
use crate::jobspec::sign;
use crate::output::complain;
use crate::submission::{self, JOBS_MAX, Jobs, for_each_text};
use crate::users;
use job::idset::Idset;
use serde_json::Value;
use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};

/// What the jobs are to have besides their inputs.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// A key for each, or what their keys begin with.
    pub key: Option<&'a str>,
    /// So often each.
    pub numbers: Option<&'a Idset>,
    /// They are told their number.
    pub tell_number: bool,
    /// Their order is left to chance.
    pub shuffle: bool,
}

/// What is to be submitted.
#[derive(Debug)]
pub struct Bulk<'a> {
    options: JobOptions,
    around: &'a Surroundings,
    userid: u32,
    inputs: Inputs,
    /// Of --cc or --bcc; none for none.
    numbers: Vec<u32>,
    tell_number: bool,
    /// What the texts of the options are filled from, in the order of [`for_each_text`].
    texts: Vec<Template>,
    key: Option<Template>,
    /// Which comes when, if that is not as they are numbered.
    order: Option<Vec<u32>>,
}

impl<'a> Bulk<'a> {
    /// The jobs of these options, whose command is without inputs.
    ///
    /// # Errors
    /// Blanks that stand for nothing, too many jobs, a key that is none, or options that make no sense for the first job.
    pub fn new(
        wanted: Wanted<'_>,
        mut options: JobOptions,
        definitions: &Definitions,
        around: &'a Surroundings,
        inputs: Inputs,
    ) -> anyhow::Result<Self> {
        let mut texts = templates(&mut options, definitions);
        if !texts.iter().any(Template::takes_inputs) {
            let added = (0..inputs.lists()).map(|list| format!("{{{list}}}"));
            options.command.extend(added);
            texts = templates(&mut options, definitions);
        }
        let key = match wanted.key {
            None => None,
            Some(key) => {
                let template = Template::parse(key, definitions);
                Some(if template.has_blanks() {
                    template
                } else {
                    Template::parse(&format!("{key}-{{seq}}"), definitions)
                })
            }
        };
        let numbers: Vec<u32> = match wanted.numbers {
            None => Vec::new(),
            Some(numbers)
                if numbers.is_empty()
                    || numbers.count().saturating_mul(inputs.count().max(1) as u64) > JOBS_MAX =>
            {
                return Err(usage(format!(
                    "--cc: {} numbers for each of {} inputs; expected 1 to {JOBS_MAX} jobs",
                    numbers.count(),
                    inputs.count()
                )));
            }
            Some(numbers) => numbers.iter().collect(),
        };
        let lists = inputs.lists();
        for template in texts.iter().chain(&key) {
            if let Some(list) = template.list_max().filter(|list| *list >= lists) {
                return Err(usage(format!(
                    "{{{list}}}: there {} (lists are numbered from 0)",
                    if lists == 1 {
                        "is only one list of inputs, {0}".to_owned()
                    } else {
                        format!(
                            "are only {lists} lists of inputs, {{0}} to {{{}}}",
                            lists - 1
                        )
                    }
                )));
            }
            if numbers.is_empty() && template.takes_cc() {
                return Err(usage(
                    "{cc}: there are no numbers; give them with --cc or --bcc",
                ));
            }
        }
        let mut bulk = Self {
            options,
            around,
            userid: users::me(),
            inputs,
            numbers,
            tell_number: wanted.tell_number,
            texts,
            key,
            order: None,
        };
        bulk.order = wanted.shuffle.then(|| shuffled(bulk.count()));
        if bulk.count() > 0 {
            // Options that make no sense are found before anything is submitted.
            bulk.spec(0)?;
        }
        bulk.check_keys()?;
        Ok(bulk)
    }

    /// Keys are as they may be; that no two are the same is left to the instance, which makes one job of them.
    fn check_keys(&self) -> anyhow::Result<()> {
        if self.key.is_none() {
            return Ok(());
        }
        for at in 0..self.count() {
            if let Some(key) = Jobs::key(self, at) {
                submission::key(&key).map_err(|error| {
                    usage(format!("--key: '{key}': {error} ({})", self.place(at)))
                })?;
            }
        }
        Ok(())
    }

    /// The number of the job that comes at this place.
    #[must_use]
    pub fn index(&self, at: usize) -> usize {
        self.place_of(at).0
    }

    /// Likewise, and its number of `--cc`.
    fn place_of(&self, at: usize) -> (usize, Option<u32>) {
        let index = match &self.order {
            Some(order) => order.get(at).map_or(at, |index| *index as usize),
            None => at,
        };
        let many = self.numbers.len();
        let number = index.checked_rem(many).and_then(|n| self.numbers.get(n));
        (index, number.copied())
    }

    fn combination(&self, at: usize) -> usize {
        self.place_of(at).0 / self.numbers.len().max(1)
    }

    /// Its inputs.
    #[must_use]
    pub fn row(&self, at: usize) -> Vec<&str> {
        self.inputs.row(self.combination(at))
    }

    /// Where its inputs are from, for messages.
    #[must_use]
    pub fn place(&self, at: usize) -> String {
        self.inputs.place(self.combination(at))
    }

    fn with_filling<T>(&self, at: usize, make: impl FnOnce(&Filling<'_>) -> T) -> T {
        let (index, cc) = self.place_of(at);
        make(&Filling {
            inputs: &self.row(at),
            seq: index as u64,
            cc,
        })
    }

    /// Its jobspec.
    ///
    /// # Errors
    /// The options make no sense once they are filled in.
    pub fn spec(&self, at: usize) -> anyhow::Result<Value> {
        let mut options = self.options.clone();
        self.with_filling(at, |filling| {
            let mut texts = self.texts.iter();
            for_each_text(&mut options, |text| {
                if let Some(template) = texts.next().filter(|template| template.has_blanks()) {
                    *text = template.fill(filling);
                }
            });
        });
        let mut spec = build::build(&options, self.around)?;
        if let (true, Some(number)) = (self.tell_number, self.place_of(at).1) {
            submission::number(&mut spec, &number.to_string());
        }
        Ok(spec)
    }

    /// Says so if all write to one file: they overwrite each other's output.
    pub fn warn_shared(&self) {
        for (option, path) in [
            ("--output", &self.options.output),
            ("--error", &self.options.error),
        ] {
            let Some(path) = path else { continue };
            let apart = Template::parse(path, &Definitions::default()).has_blanks()
                || path.starts_with("/dev/")
                || matches!(path.as_str(), "none" | "kvs")
                || ["{{id", "{{jobid"].iter().any(|blank| path.contains(blank));
            if self.count() > 1 && !apart {
                complain(&format!(
                    "bulksubmit: all jobs write to the same file {path}; {{}}, {{seq}} or {{{{id}}}} in {option} gives each its own"
                ));
            }
        }
    }
}

fn templates(options: &mut JobOptions, definitions: &Definitions) -> Vec<Template> {
    let mut texts = Vec::new();
    for_each_text(options, |text| {
        texts.push(Template::parse(text, definitions))
    });
    texts
}

/// The numbers below this, in an order left to chance.
fn shuffled(count: usize) -> Vec<u32> {
    let chance = RandomState::new();
    let mut order: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    for at in (1..order.len()).rev() {
        let other = chance.hash_one(at) % (at as u64 + 1);
        order.swap(at, usize::try_from(other).unwrap_or(at));
    }
    order
}

impl Jobs for Bulk<'_> {
    fn count(&self) -> usize {
        self.inputs.count() * self.numbers.len().max(1)
    }

    fn options(&self) -> &JobOptions {
        &self.options
    }

    fn document(&self, at: usize) -> anyhow::Result<Cow<'_, str>> {
        let spec = self.spec(at)?;
        Ok(Cow::Owned(sign::wrap(&spec.to_string(), self.userid)))
    }

    fn key(&self, at: usize) -> Option<Cow<'_, str>> {
        let template = self.key.as_ref()?;
        Some(Cow::Owned(
            self.with_filling(at, |filling| template.fill(filling)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bulk::inputs::{self, Separator};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        job: JobOptions,
        #[arg(long)]
        define: Vec<String>,
        #[arg(long)]
        key: Option<String>,
        #[arg(long)]
        cc: Option<Idset>,
        #[arg(long)]
        shuffle: bool,
    }

    fn around() -> Surroundings {
        Surroundings {
            environment: Default::default(),
            cwd: "/".to_owned(),
            limits: Default::default(),
            input: None,
        }
    }

    fn bulk<'a>(line: &str, around: &'a Surroundings) -> anyhow::Result<Bulk<'a>> {
        let args = Line::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?;
        let (command, words) = inputs::command_of(&args.job.command);
        let mut options = args.job.clone();
        options.command = command.to_vec();
        let definitions = Definitions::parse(&args.define)?;
        let inputs = Inputs::read(words, &Separator::Text("\n".to_owned()))?;
        let wanted = Wanted {
            key: args.key.as_deref(),
            numbers: args.cc.as_ref(),
            tell_number: args.cc.is_some(),
            shuffle: args.shuffle,
        };
        Bulk::new(wanted, options, &definitions, around, inputs)
    }

    fn commands(line: &str) -> Vec<String> {
        let around = around();
        let bulk = bulk(line, &around).unwrap();
        (0..bulk.count())
            .map(|at| {
                let spec = bulk.spec(at).unwrap();
                let words = spec["tasks"][0]["command"].as_array().unwrap().clone();
                let words: Vec<String> = words
                    .iter()
                    .map(|word| word.as_str().unwrap().to_owned())
                    .collect();
                words.join("|")
            })
            .collect()
    }

    #[test]
    fn inputs_are_filled_into_the_command() {
        assert_eq!(commands("echo {} -n ::: a b"), ["echo|a|-n", "echo|b|-n"]);
        assert_eq!(
            commands("echo {1}{0} ::: a ::: b c"),
            ["echo|ba", "echo|ca"]
        );
        assert_eq!(commands("echo ::: a b ::: c"), ["echo|a|c", "echo|b|c"]);
        assert_eq!(commands("--job-name=j{} echo ::: a"), ["echo"]);
        assert_eq!(
            commands("--define=l={/.}.log echo {l} ::: d/a.x"),
            ["echo|a.log"]
        );
        assert_eq!(
            commands("--cc=1-2 echo {} {cc} {seq} ::: a b"),
            ["echo|a|1|0", "echo|a|2|1", "echo|b|1|2", "echo|b|2|3"]
        );
    }

    #[test]
    fn a_shuffled_order_keeps_numbers_and_keys() {
        let inputs: Vec<String> = (0..50).map(|n| format!("i{n}")).collect();
        let line = format!("--shuffle --key=k echo {{}} ::: {}", inputs.join(" "));
        let around = around();
        let bulk = bulk(&line, &around).unwrap();
        let mut keys: Vec<(String, String)> = (0..50)
            .map(|at| {
                (
                    Jobs::key(&bulk, at).unwrap().into_owned(),
                    bulk.row(at).join(""),
                )
            })
            .collect();
        assert!(keys.windows(2).any(|pair| pair[0].1 > pair[1].1));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 50);
        for (key, input) in keys {
            assert_eq!(key.strip_prefix("k-"), input.strip_prefix('i'));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_submitted() {
        let around = around();
        for (line, text) in [
            ("echo {1} ::: a", "only one list of inputs"),
            ("echo {2} ::: a ::: b", "{0} to {1}"),
            ("echo {} {cc} ::: a", "--cc"),
            ("--cc=0-999999 echo ::: a b", "1000000 jobs"),
            ("--output= echo {} ::: a", "must not be empty"),
        ] {
            let error = bulk(line, &around).err().unwrap().to_string();
            assert!(error.contains(text), "{line}: {error}");
        }
        let long = format!("--key={}{{}} echo ::: aaaa", "k".repeat(253));
        assert!(
            bulk(&long, &around)
                .err()
                .unwrap()
                .to_string()
                .contains(":::, 1: 'aaaa'")
        );
    }
}
