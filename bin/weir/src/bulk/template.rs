//! A text with blanks, and what is filled into them.
//!
//! ```text
//! blank = "{" [N] [ ["."] form ] "}" | "{" NAME "}" | "{seq}" | "{seq1}" | "{cc}"      N: which list of inputs, from 0 (0 if not said)
//! form  = "." or "%" without its extension | "/" last part of a path | "//" what is before it | "/." or "/%" last part without
//!         extension | NAME of --define
//! ```
//! Everything else in braces is text, `{{id}}` and all that stands in double braces too: commands may hold braces of their own.

use crate::failure::usage;

/// Most texts that `--define` may name.
const DEFINITIONS_MAX: usize = 64;
/// Longest name of one.
const NAME_BYTES_MAX: usize = 64;

/// What is filled in for one job.
#[derive(Debug, Clone, Copy)]
pub struct Filling<'a> {
    /// An input of each list.
    pub inputs: &'a [&'a str],
    /// Number of the job, from 0.
    pub seq: u64,
    /// Its number of `--cc`.
    pub cc: Option<u32>,
}

/// A text with blanks.
#[derive(Debug, Clone, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    /// List, if it is said, and form.
    Input(Option<usize>, Form),
    Seq(u64),
    Cc,
}

#[derive(Debug, Clone, PartialEq)]
enum Form {
    Whole,
    Stem,
    Last,
    LastStem,
    Before,
    /// As `--define` says.
    Defined(Template),
}

/// The texts of `--define`.
#[derive(Debug, Clone, Default)]
pub struct Definitions(Vec<(String, Template)>);

impl Definitions {
    /// Reads `NAME=TEXT`, one after the other.
    ///
    /// # Errors
    /// What was met and what was expected.
    pub fn parse(texts: &[String]) -> anyhow::Result<Self> {
        if texts.len() > DEFINITIONS_MAX {
            return Err(usage(format!(
                "--define: {} of them, {DEFINITIONS_MAX} are allowed",
                texts.len()
            )));
        }
        let mut known = Self::default();
        for text in texts {
            let Some((name, value)) = text.split_once('=') else {
                return Err(usage(format!("--define={text}: expected NAME=TEXT")));
            };
            let mut letters = name.chars();
            let good = letters
                .next()
                .is_some_and(|first| first.is_ascii_alphabetic())
                && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            if !good
                || name.len() > NAME_BYTES_MAX
                || matches!(name, "seq" | "seq0" | "seq1" | "cc" | "id")
            {
                return Err(usage(format!(
                    "--define={text}: '{name}' is no name; expected letters, digits and _, and not seq, seq0, seq1, cc or id"
                )));
            }
            if known.get(name).is_some() {
                return Err(usage(format!("--define={text}: {name} is defined twice")));
            }
            // Only with what is defined before, so nothing goes in circles.
            let template = Template::parse(value, &known);
            if !template.has_blanks() {
                return Err(usage(format!(
                    "--define={text}: expected a text with a blank, such as {name}=out.{{./.}}; expressions to be computed, as Flux has them, \
                     are not built"
                )));
            }
            known.0.push((name.to_owned(), template));
        }
        Ok(known)
    }

    fn get(&self, name: &str) -> Option<&Template> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, template)| template)
    }
}

impl Template {
    /// Reads a text; there is none that is wrong.
    #[must_use]
    pub fn parse(text: &str, known: &Definitions) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(end) = rest.strip_prefix("{{").and_then(|inner| inner.find("}}")) {
                let (doubled, after) = rest.split_at(end + 4);
                plain.push_str(doubled);
                rest = after;
                continue;
            }
            let blank = rest[1..]
                .find(['}', '{'])
                .filter(|end| rest.as_bytes().get(end + 1) == Some(&b'}'))
                .and_then(|end| Some((blank(&rest[1..=end], known)?, end + 2)));
            match blank {
                Some((part, length)) => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(part);
                    rest = &rest[length..];
                }
                None => {
                    plain.push('{');
                    rest = &rest[1..];
                }
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self(parts)
    }

    /// True if there is something to fill in.
    #[must_use]
    pub fn has_blanks(&self) -> bool {
        self.0.iter().any(|part| !matches!(part, Part::Text(_)))
    }

    /// True if inputs are filled in.
    #[must_use]
    pub fn takes_inputs(&self) -> bool {
        self.any(&|part| matches!(part, Part::Input(..)))
    }

    /// True if a number of `--cc` is filled in.
    #[must_use]
    pub fn takes_cc(&self) -> bool {
        self.any(&|part| *part == Part::Cc)
    }

    /// The highest list asked for by its number.
    #[must_use]
    pub fn list_max(&self) -> Option<usize> {
        self.0
            .iter()
            .filter_map(|part| match part {
                Part::Input(list, Form::Defined(inner)) => (*list).max(inner.list_max()),
                Part::Input(list, _) => *list,
                _ => None,
            })
            .max()
    }

    fn any(&self, holds: &impl Fn(&Part) -> bool) -> bool {
        self.0.iter().any(|part| match part {
            Part::Input(_, Form::Defined(inner)) => inner.any(holds),
            part => holds(part),
        })
    }

    /// The text with everything filled in. A list that is not there is nothing: see [`Self::list_max`].
    #[must_use]
    pub fn fill(&self, filling: &Filling<'_>) -> String {
        let mut out = String::new();
        self.fill_into(filling, 0, &mut out);
        out
    }

    fn fill_into(&self, filling: &Filling<'_>, usual: usize, out: &mut String) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Seq(from) => out.push_str(&(filling.seq + from).to_string()),
                Part::Cc => {
                    if let Some(number) = filling.cc {
                        out.push_str(&number.to_string());
                    }
                }
                Part::Input(list, form) => {
                    let list = list.unwrap_or(usual);
                    let input = filling.inputs.get(list).copied().unwrap_or_default();
                    match form {
                        Form::Whole => out.push_str(input),
                        Form::Stem => out.push_str(stem(input)),
                        Form::Last => out.push_str(last(input)),
                        Form::LastStem => out.push_str(stem(last(input))),
                        Form::Before => out.push_str(before(input)),
                        Form::Defined(template) => template.fill_into(filling, list, out),
                    }
                }
            }
        }
    }
}

/// What stands between braces, if it is a blank.
fn blank(inner: &str, known: &Definitions) -> Option<Part> {
    match inner {
        "seq" | "seq0" => return Some(Part::Seq(0)),
        "seq1" => return Some(Part::Seq(1)),
        "cc" => return Some(Part::Cc),
        _ => {}
    }
    let rest = inner.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = &inner[..inner.len() - rest.len()];
    let list = if digits.is_empty() {
        None
    } else {
        Some(digits.parse().ok()?)
    };
    let named = match rest.strip_prefix('.') {
        Some(named) if !named.is_empty() => named,
        _ => rest,
    };
    let form = match named {
        "" => Form::Whole,
        "." | "%" => Form::Stem,
        "/" => Form::Last,
        "//" => Form::Before,
        "/." | "/%" => Form::LastStem,
        // `{0name}` is nothing.
        name if digits.is_empty() || rest.starts_with('.') => {
            Form::Defined(known.get(name)?.clone())
        }
        _ => return None,
    };
    Some(Part::Input(list, form))
}

/// A path without the extension of its last part; a name that begins with a dot has none.
fn stem(path: &str) -> &str {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    match path[name..].rfind('.') {
        Some(dot) if dot > 0 => &path[..name + dot],
        _ => path,
    }
}

fn last(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or(path, |(_, last)| last)
}

fn before(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit_once('/') {
        None => ".",
        Some(("", _)) => "/",
        Some((before, _)) => before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> String {
        let known =
            Definitions::parse(&["stem={/.}".to_owned(), "log=out/{stem}.{seq}".to_owned()])
                .unwrap();
        Template::parse(text, &known).fill(&Filling {
            inputs: &["a/b.tar.gz", "x"],
            seq: 7,
            cc: Some(3),
        })
    }

    #[test]
    fn blanks_are_filled_in() {
        for (text, expected) in [
            ("{}", "a/b.tar.gz"),
            ("<{0}|{1}>", "<a/b.tar.gz|x>"),
            ("{.} {%} {.%} {0.%}", "a/b.tar a/b.tar a/b.tar a/b.tar"),
            ("{/} {./} {0./}", "b.tar.gz b.tar.gz b.tar.gz"),
            ("{//} {.//} {1//}", "a a ."),
            ("{/.} {./%}", "b.tar b.tar"),
            ("{seq} {seq0} {seq1} {cc}", "7 7 8 3"),
            (
                "{stem} {.stem} {1.stem} {log} {1.log}",
                "b.tar b.tar x out/b.tar.7 out/x.7",
            ),
        ] {
            assert_eq!(filled(text), expected, "{text}");
        }
    }

    #[test]
    fn other_braces_are_text() {
        for text in [
            "{{id}}",
            "{{0}}",
            "{id}",
            "{print $1}",
            "{",
            "}",
            "{{",
            "a{2,3}",
            "{0stem}",
            "{\"a\":[1]}",
            "",
            "{99999999999999999999}",
            "é{ü}",
        ] {
            assert_eq!(filled(text), text);
            assert!(
                !Template::parse(text, &Definitions::default()).has_blanks(),
                "{text}"
            );
        }
        assert_eq!(filled("{{{}}}"), "{{{}}}");
        assert_eq!(filled("{a{}"), "{aa/b.tar.gz");
    }

    #[test]
    fn paths_are_taken_apart() {
        assert_eq!(
            (stem(".rc"), stem("d.x/f"), stem("f.")),
            (".rc", "d.x/f", "f")
        );
        assert_eq!(
            (last("/"), last("a/"), before("a/b/"), before("/x")),
            ("", "a", "a", "/")
        );
    }

    #[test]
    fn what_a_text_asks_for_is_known_before_it_is_filled() {
        let known = Definitions::parse(&["d={2}{cc}".to_owned()]).unwrap();
        let asks = |text: &str| {
            let template = Template::parse(text, &known);
            (
                template.list_max(),
                template.takes_inputs(),
                template.takes_cc(),
            )
        };
        assert_eq!(asks("{}"), (None, true, false));
        assert_eq!(asks("{1}{0}"), (Some(1), true, false));
        assert_eq!(asks("{d}"), (Some(2), true, true));
        assert_eq!(asks("{seq}"), (None, false, false));
    }

    #[test]
    fn a_definition_that_makes_no_sense_is_refused() {
        for text in ["x", "x=1", "=a{}", "1x={}", "cc={}", "x=2**int(x)"] {
            assert!(Definitions::parse(&[text.to_owned()]).is_err(), "{text}");
        }
        assert!(Definitions::parse(&["a={}".to_owned(), "a={}".to_owned()]).is_err());
    }
}
