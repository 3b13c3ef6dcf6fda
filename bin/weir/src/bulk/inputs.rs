//! The inputs of `weir bulksubmit`: lists after `:::`, files after `::::`, or standard input; every combination of them is a job.
//!
//! `:::+` and `::::+` go along with the list before, entry by entry. All is bounded and read before the first job is submitted; each entry
//! knows where it came from, so that what is said about a job can name the line.

use crate::failure::usage;
use crate::output;
use crate::submission::JOBS_MAX;
use anyhow::Context as _;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read};

/// Most bytes of inputs taken from files and standard input together.
const INPUT_BYTES_MAX: u64 = 256 << 20;
/// Most bytes of inputs shown in a message.
const SHOWN_CHARS_MAX: usize = 60;

/// What stands between two inputs in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Separator {
    /// White space of any kind and number.
    Space,
    /// This text.
    Text(String),
}

impl Separator {
    /// Reads the word of `--sep`: `none` is white space; `\n`, `\t` and `\0` may be written like this.
    ///
    /// # Errors
    /// It is empty.
    pub fn parse(word: &str) -> Result<Self, String> {
        if word.is_empty() {
            return Err("expected a text, or none for white space".to_owned());
        }
        if word == "none" {
            return Ok(Self::Space);
        }
        Ok(Self::Text(
            word.replace("\\n", "\n")
                .replace("\\t", "\t")
                .replace("\\0", "\0"),
        ))
    }

    fn split<'a>(&'a self, text: &'a str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        match self {
            Self::Space => Box::new(text.split_whitespace()),
            Self::Text(separator) => Box::new(text.split(separator.as_str()).map(move |entry| {
                if separator == "\n" {
                    entry.strip_suffix('\r').unwrap_or(entry)
                } else {
                    entry.trim_end_matches('\n')
                }
            })),
        }
    }
}

#[derive(Debug)]
struct Input {
    text: Box<str>,
    source: u32,
    /// From 1.
    line: u32,
}

/// Lists that go along with each other.
#[derive(Debug)]
struct Group {
    lists: Vec<Vec<Input>>,
}

impl Group {
    fn len(&self) -> usize {
        self.lists.first().map_or(0, Vec::len)
    }
}

/// All inputs.
#[derive(Debug)]
pub struct Inputs {
    sources: Vec<String>,
    groups: Vec<Group>,
    count: usize,
}

/// The command of a command line, without what stands after it: [`Inputs::read`].
#[must_use]
pub fn command_of(words: &[String]) -> (&[String], &[String]) {
    let end = words.iter().position(|word| is_marker(word));
    words.split_at(end.unwrap_or(words.len()))
}

fn is_marker(word: &str) -> bool {
    matches!(word, ":::" | ":::+" | "::::" | "::::+")
}

impl Inputs {
    /// Reads the inputs that `words` tell, `:::` first; without any, those of standard input.
    ///
    /// # Errors
    /// A file that cannot be read, lists that do not go together, or too many.
    pub fn read(words: &[String], separator: &Separator) -> anyhow::Result<Self> {
        let mut inputs = Self {
            sources: Vec::new(),
            groups: Vec::new(),
            count: 0,
        };
        let mut left = INPUT_BYTES_MAX;
        let mut rest = words;
        let mut stdin_taken = false;
        if words.is_empty() {
            let list = inputs.file("-", separator, &mut left)?;
            inputs.groups.push(Group { lists: vec![list] });
        }
        while let Some((marker, after)) = rest.split_first() {
            let (entries, next) = command_of(after);
            rest = next;
            let linked = marker.ends_with('+');
            let mut lists = Vec::new();
            if marker.starts_with("::::") {
                if entries.is_empty() {
                    return Err(usage(format!("'{marker}': expected a file after it")));
                }
                for file in entries {
                    if file == "-" && std::mem::replace(&mut stdin_taken, true) {
                        return Err(usage("standard input ('-') can be read once only"));
                    }
                    lists.push(inputs.file(file, separator, &mut left)?);
                }
            } else {
                let source = inputs.source(marker.clone());
                let entries = entries.iter().enumerate().map(|(at, text)| Input {
                    text: text.as_str().into(),
                    source,
                    line: line(at),
                });
                lists.push(entries.collect());
            }
            for list in lists {
                match inputs.groups.last_mut() {
                    Some(group) if linked => {
                        if group.len() != list.len() {
                            return Err(usage(format!(
                                "'{marker}': {} inputs, but the list that they go with has {}",
                                list.len(),
                                group.len()
                            )));
                        }
                        group.lists.push(list);
                    }
                    _ => inputs.groups.push(Group { lists: vec![list] }),
                }
            }
        }
        inputs.count = inputs.product()?;
        Ok(inputs)
    }

    fn product(&self) -> anyhow::Result<usize> {
        let mut count = 1u64;
        for group in &self.groups {
            count = count.saturating_mul(group.len() as u64);
        }
        if count > JOBS_MAX {
            return Err(usage(format!(
                "{count} combinations of inputs; at most {JOBS_MAX} jobs are submitted by one command"
            )));
        }
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn source(&mut self, name: String) -> u32 {
        self.sources.push(name);
        u32::try_from(self.sources.len() - 1).unwrap_or(u32::MAX)
    }

    fn file(
        &mut self,
        name: &str,
        separator: &Separator,
        left: &mut u64,
    ) -> anyhow::Result<Vec<Input>> {
        let (shown, bytes) = if name == "-" {
            if io::stdin().is_terminal() {
                output::complain(
                    "bulksubmit: reading inputs from the terminal; end them with ctrl-D",
                );
            }
            ("standard input", limited(io::stdin().lock(), *left))
        } else {
            (name, File::open(name).and_then(|file| limited(file, *left)))
        };
        let bytes = bytes.with_context(|| format!("reading inputs from {shown}"))?;
        if bytes.len() as u64 > *left {
            anyhow::bail!("{shown}: more than {INPUT_BYTES_MAX} bytes of inputs");
        }
        *left -= bytes.len() as u64;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let good = error.utf8_error().valid_up_to();
                let line = error.as_bytes()[..good]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count()
                    + 1;
                anyhow::bail!("{shown}, line {line}: not UTF-8");
            }
        };
        let source = self.source(shown.to_owned());
        let entries = separator.split(&text).enumerate();
        Ok(entries
            .filter(|(_, entry)| !entry.trim().is_empty())
            .map(|(at, entry)| Input {
                text: entry.into(),
                source,
                line: line(at),
            })
            .collect())
    }

    /// How many combinations there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many lists there are.
    #[must_use]
    pub fn lists(&self) -> usize {
        self.groups.iter().map(|group| group.lists.len()).sum()
    }

    /// One combination: an input of each list. The last list goes round fastest.
    #[must_use]
    pub fn row(&self, at: usize) -> Vec<&str> {
        self.entries(at).map(|input| &*input.text).collect()
    }

    fn entries(&self, at: usize) -> impl Iterator<Item = &Input> {
        let mut after = self.count;
        self.groups.iter().flat_map(move |group| {
            after = after.checked_div(group.len()).unwrap_or(0);
            let index = at.checked_div(after).unwrap_or(0) % group.len().max(1);
            group.lists.iter().filter_map(move |list| list.get(index))
        })
    }

    /// Where it came from, for messages: `jobs.txt, line 3: 'a b'`.
    #[must_use]
    pub fn place(&self, at: usize) -> String {
        let mut place = String::new();
        for input in self.entries(at) {
            if !place.is_empty() {
                place.push_str(" with ");
            }
            let source = self
                .sources
                .get(input.source as usize)
                .map_or("", String::as_str);
            let what = if source.starts_with(":::") {
                ""
            } else {
                "line "
            };
            let shown: String = input.text.chars().take(SHOWN_CHARS_MAX).collect();
            let more = if shown.len() < input.text.len() {
                "…"
            } else {
                ""
            };
            let _ = write!(place, "{source}, {what}{}: '{shown}{more}'", input.line);
        }
        place
    }
}

fn line(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}

/// Reads to the end, at most one byte more than is allowed.
fn limited(from: impl Read, left: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(left + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn rows(line: &str) -> Vec<String> {
        let inputs = Inputs::read(&words(line), &Separator::Text("\n".to_owned())).unwrap();
        (0..inputs.count())
            .map(|at| inputs.row(at).join(""))
            .collect()
    }

    #[test]
    fn every_combination_is_a_job_the_last_list_fastest() {
        assert_eq!(rows("::: a b"), ["a", "b"]);
        assert_eq!(
            rows("::: a b ::: 1 2 3"),
            ["a1", "a2", "a3", "b1", "b2", "b3"]
        );
        assert_eq!(
            rows("::: a b :::+ 1 2 ::: x y"),
            ["a1x", "a1y", "b2x", "b2y"]
        );
        assert!(rows(":::").is_empty());
        assert!(rows("::: a b :::").is_empty());
    }

    #[test]
    fn the_command_ends_where_inputs_begin() {
        let line = words("echo -n {} ::: a b");
        let (command, inputs) = command_of(&line);
        assert_eq!((command.len(), inputs.len()), (3, 3));
        assert_eq!(command_of(&words("echo :")).1.len(), 0);
    }

    #[test]
    fn files_are_read_line_by_line_and_remembered() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\r\n\n three\nfour").unwrap();
        let path = file.path().to_str().unwrap();
        let line = words(&format!(":::: {path} ::: x"));
        let inputs = Inputs::read(&line, &Separator::Text("\n".to_owned())).unwrap();
        assert_eq!(inputs.count(), 3);
        assert_eq!(inputs.row(1), [" three", "x"]);
        assert_eq!(
            inputs.place(1),
            format!("{path}, line 3: ' three' with :::, 1: 'x'")
        );
        let inputs = Inputs::read(&line, &Separator::Space).unwrap();
        assert_eq!(inputs.row(2), ["four", "x"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |line: &str| {
            Inputs::read(&words(line), &Separator::Space)
                .unwrap_err()
                .to_string()
        };
        assert!(error("::::").contains("expected a file"));
        assert!(error("::: a b :::+ c").contains("1 inputs"));
        assert!(error(":::: /nonexistent/x").contains("/nonexistent/x"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"good\n\xff\n").unwrap();
        assert!(error(&format!(":::: {}", file.path().display())).contains("line 2: not UTF-8"));
    }

    #[test]
    fn too_many_combinations_are_refused_before_any_is_made() {
        let hundred: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let lists = format!("::: {} ", hundred.join(" ")).repeat(4);
        let error = Inputs::read(&words(&lists), &Separator::Space).unwrap_err();
        assert!(error.to_string().contains("100000000"), "{error}");
    }

    #[test]
    fn separators() {
        assert_eq!(Separator::parse("none"), Ok(Separator::Space));
        assert_eq!(
            Separator::parse("\\0"),
            Ok(Separator::Text("\0".to_owned()))
        );
        assert!(Separator::parse("").is_err());
        let comma = Separator::Text(",".to_owned());
        assert_eq!(comma.split("a,b\n").collect::<Vec<_>>(), ["a", "b"]);
    }
}
