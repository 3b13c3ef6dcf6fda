//! Job ids on the command line and in what is printed.
//!
//! Every spelling of RFC 19 is taken, several may be joined by commas, and `-` reads them from standard input. What is printed
//! is F58, with `ƒ` where the locale can show it and `f` where it cannot.

use crate::failure::usage;
use crate::locale;
use job::JobId;
use std::io::Read as _;
use std::sync::OnceLock;

/// Most bytes of ids taken from standard input: some millions of ids.
const STDIN_BYTES_MAX: u64 = 256 << 20;

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
    text.parse()
        .map_err(|error: job::IdError| usage(error.to_string()))
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
/// As [`words`], or a word is no spelling of an id.
pub fn parse_all(given: &[String]) -> anyhow::Result<Vec<JobId>> {
    let ids = words(given)?
        .iter()
        .map(|word| parse(word))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if ids.is_empty() {
        return Err(usage("no job id was given"));
    }
    Ok(ids)
}

/// `no such job ƒ…`: what is said of an id nobody knows.
#[must_use]
pub fn unknown(id: JobId) -> String {
    format!("no such job {}", show(id))
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
        assert!(parse("abc").unwrap_err().to_string().contains("abc"));
        assert!(
            parse_all(&[",".to_owned()])
                .unwrap_err()
                .to_string()
                .contains("no job id")
        );
    }
}
