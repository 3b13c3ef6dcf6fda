//! Job ids on the command line and in what is printed.
//!
//! Every spelling of RFC 19 is taken, several may be joined by commas, and `-` reads them from standard input. What is printed
//! is F58, with `ƒ` where the locale can show it and `f` where it cannot. An id that nobody knows is named as it was typed, too:
//! the spellings of this command line are remembered for that, up to a bound.

use crate::failure;
use crate::failure::{Exit, USAGE, usage};
use crate::locale;
use crate::output::complain;
use job::JobId;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Read as _;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Most bytes of ids taken from standard input: some millions of ids.
const STDIN_BYTES_MAX: u64 = 256 << 20;

/// Most spellings remembered.
const TYPED_MAX: usize = 1024;

/// What was typed for an id, if that is not how it is shown.
static TYPED: Mutex<Option<HashMap<JobId, String>>> = Mutex::new(None);

/// What was named, for the document of a command that failed.
static NAMED: Mutex<Named> = Mutex::new(Named::Nothing);

/// What a command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// No job.
    Nothing,
    /// One.
    Job(JobId),
    /// Several.
    Jobs,
    /// A word that is no id.
    Malformed(String),
}

/// What was named so far: what is wrong is about it, if it is one thing.
#[must_use]
pub fn named() -> Named {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn name(read: Result<JobId, &str>) {
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    *named = match (&*named, read) {
        (Named::Malformed(_), _) => return,
        (_, Err(text)) => Named::Malformed(text.to_owned()),
        (Named::Job(before), Ok(id)) if *before != id => Named::Jobs,
        (Named::Jobs, Ok(_)) => Named::Jobs,
        (_, Ok(id)) => Named::Job(id),
    };
}

/// The id as this locale shows it.
#[must_use]
pub fn show(id: JobId) -> String {
    static ASCII: OnceLock<bool> = OnceLock::new();
    id.f58(*ASCII.get_or_init(|| !locale::is_utf8()))
}

/// One id.
///
/// # Errors
/// The text is no spelling of an id.
pub fn parse(text: &str) -> anyhow::Result<JobId> {
    let read = read(text);
    name(read.as_ref().map(|id| *id).map_err(|_| text));
    read.map_err(|error| usage(error.to_string()))
}

/// One id, when what is wrong with it is told in another way.
///
/// # Errors
/// The text is no spelling of an id.
pub fn read(text: &str) -> Result<JobId, job::IdError> {
    let id: JobId = text.parse()?;
    if text != show(id) {
        let mut typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
        let typed = typed.get_or_insert_default();
        if typed.len() < TYPED_MAX {
            typed.insert(id, text.to_owned());
        }
    }
    Ok(id)
}

/// What went wrong with one id: an entry of `errors` in a JSON document.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    /// The job, if the text names one.
    pub id: Option<u64>,
    /// Likewise, in F58.
    pub f58: Option<String>,
    /// What was typed, if it is about that.
    pub text: Option<String>,
    /// The number of the refusal, if the instance refused.
    pub errnum: Option<u32>,
    /// What is wrong.
    pub error: String,
}

impl Problem {
    /// Of a job.
    #[must_use]
    pub fn of(id: JobId, error: String) -> Self {
        Self {
            id: Some(id.0),
            f58: Some(id.to_string()),
            text: Some(typed(id).unwrap_or_else(|| show(id))),
            errnum: None,
            error,
        }
    }

    /// Of a job, refused with this number.
    #[must_use]
    pub fn refused(id: JobId, errnum: u32, error: String) -> Self {
        Self {
            errnum: Some(errnum),
            ..Self::of(id, error)
        }
    }

    /// Of nothing that was named: of the whole command.
    #[must_use]
    pub fn of_all(errnum: Option<u32>, error: String) -> Self {
        Self {
            id: None,
            f58: None,
            text: None,
            errnum,
            error,
        }
    }

    /// True if it is a word that is no id, which is the command line's fault.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.id.is_none() && self.text.is_some()
    }

    /// Of a text that is no id.
    #[must_use]
    pub fn of_text(text: &str, error: String) -> Self {
        Self {
            id: None,
            f58: None,
            text: Some(text.to_owned()),
            errnum: None,
            error,
        }
    }
}

/// How a command ends that had these problems: a word that is no id is a wrong command line, anything else a failure.
///
/// # Errors
/// [`Exit`] if there was one.
pub fn conclude(problems: &[Problem]) -> anyhow::Result<()> {
    if problems.is_empty() {
        Ok(())
    } else if problems.iter().any(Problem::is_malformed) {
        Err(Exit(USAGE).into())
    } else {
        Err(Exit(1).into())
    }
}

/// The ids these words name, and what is wrong with the others.
///
/// # Errors
/// As [`words`].
pub fn sorted_out(given: &[String]) -> anyhow::Result<(Vec<JobId>, Vec<Problem>)> {
    let (mut ids, mut problems) = (Vec::new(), Vec::new());
    for word in words(given)? {
        match read(&word) {
            Ok(id) => ids.push(id),
            Err(error) => problems.push(Problem::of_text(&word, error.to_string())),
        }
    }
    Ok((ids, problems))
}

fn typed(id: JobId) -> Option<String> {
    let typed = TYPED.lock().unwrap_or_else(PoisonError::into_inner);
    typed.as_ref()?.get(&id).cloned()
}

/// The words that stand for ids: commas taken apart, `-` replaced by the words of standard input.
///
/// # Errors
/// Standard input cannot be read, or holds too much.
pub fn words(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::with_capacity(given.len());
    for text in given {
        if text == "-" {
            let mut input = String::new();
            std::io::stdin()
                .take(STDIN_BYTES_MAX + 1)
                .read_to_string(&mut input)?;
            if input.len() as u64 > STDIN_BYTES_MAX {
                anyhow::bail!("standard input holds more than {STDIN_BYTES_MAX} bytes of ids");
            }
            words.extend(
                input
                    .split([',', ' ', '\t', '\n', '\r'])
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned),
            );
        } else {
            words.extend(
                text.split(',')
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned),
            );
        }
    }
    Ok(words)
}

/// All ids given, in order.
///
/// # Errors
/// As [`words`], or a word is no spelling of an id, or none was given; [`Exit`]`(0)` when it was standard input that named none.
pub fn parse_all(given: &[String]) -> anyhow::Result<Vec<JobId>> {
    let ids = words(given)?
        .iter()
        .map(|word| parse(word))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if ids.is_empty() {
        // A pipe that brought nothing is a list of none: there is nothing to do, and that is done.
        if given.iter().any(|word| word == "-") {
            complain(&format!(
                "{}standard input named no job: nothing to do",
                failure::lead()
            ));
            return Err(Exit(0).into());
        }
        return Err(usage("no job id was given"));
    }
    Ok(ids)
}

/// `no such job ƒ…`, or `no such job 17 (ƒJ)` for one that was typed in another way: what is said of an id nobody knows.
#[must_use]
pub fn unknown(id: JobId) -> String {
    match typed(id) {
        Some(text) => format!("no such job {text} ({})", show(id)),
        None => format!("no such job {}", show(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_in_every_spelling_and_joined_by_commas() {
        let given = [
            "ƒNH,1234".to_owned(),
            "0x4d2".to_owned(),
            "0000.0000.0000.04d2".to_owned(),
            "fNH".to_owned(),
        ];
        assert_eq!(parse_all(&given).unwrap(), vec![JobId(1234); 5]);
        assert_eq!(
            unknown(JobId(77)),
            format!("no such job {}", show(JobId(77)))
        );
        parse("0x4e").unwrap();
        assert_eq!(
            unknown(JobId(78)),
            format!("no such job 0x4e ({})", show(JobId(78)))
        );
        assert!(parse("abc").unwrap_err().to_string().contains("abc"));
        assert!(
            parse_all(&[",".to_owned()])
                .unwrap_err()
                .to_string()
                .contains("no job id")
        );
    }
}
