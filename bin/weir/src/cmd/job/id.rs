//! `weir job id`: one spelling of a job's id to another. Needs no instance.

use crate::{document, ids, output};
use job::JobId;
use serde_json::{Value, json};
use std::io::Write as _;

/// A way to write an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Spelling {
    /// 443035942912
    Dec,
    /// 0x6727000000
    Hex,
    /// 0000.0067.2700.0000
    Dothex,
    /// job.0000.0067.2700.0000
    Kvs,
    /// ƒCdza1gs, or fCdza1gs where the locale has no ƒ
    F58,
    /// fCdza1gs
    F58plain,
    /// cake-plume-nepal--neuron-pencil-academy
    Words,
}

/// Convert job ids between their spellings
///
/// No instance is asked: it is arithmetic.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job id --to=dec ƒCdza1gs
  weir jobs -n -o '{id}' | weir job id --to=dothex

JSON
  {\"jobs\":[{\"id\",\"f58\",\"hex\",\"dothex\",\"kvs\",\"f58plain\",\"words\"}…],\"errors\":[…]}

EXIT STATUS
  0  converted
  2  a text is no spelling of an id")]
pub struct Args {
    /// Ids in any spelling; '-', or none, reads them from standard input
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// The spelling wanted
    #[arg(short, long, default_value = "dec")]
    to: Spelling,

    /// One JSON document, with every spelling
    #[arg(long, conflicts_with = "to")]
    pub(crate) json: bool,
}

/// Converts.
///
/// # Errors
/// A text that is no id.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let given = if args.ids.is_empty() {
        vec!["-".to_owned()]
    } else {
        args.ids.clone()
    };
    let jobs = ids::parse_all(&given)?;
    if args.json {
        let jobs: Vec<_> = jobs.into_iter().map(document).collect();
        return document::print(&json!({"jobs": jobs, "errors": []}));
    }
    let mut out = output::stdout();
    for id in jobs {
        writeln!(out, "{}", spell(id, args.to))?;
    }
    out.flush()?;
    Ok(())
}

fn document(id: JobId) -> Value {
    let spell = |to| spell(id, to);
    json!({"id": id, "f58": id.to_string(), "hex": spell(Spelling::Hex), "dothex": spell(Spelling::Dothex),
           "kvs": spell(Spelling::Kvs), "f58plain": spell(Spelling::F58plain), "words": spell(Spelling::Words)})
}

fn spell(id: JobId, to: Spelling) -> String {
    match to {
        Spelling::Dec => id.0.to_string(),
        Spelling::Hex => format!("{:#x}", id.0),
        Spelling::Dothex => id.dothex(),
        Spelling::Kvs => format!("job.{}", id.dothex()),
        Spelling::F58 => ids::show(id),
        Spelling::F58plain => id.f58(true),
        Spelling::Words => id.words(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_back_as_the_same_id() {
        for id in [1, 1234, 443_035_942_912, u64::MAX].map(JobId) {
            for to in [
                Spelling::Dec,
                Spelling::Hex,
                Spelling::Dothex,
                Spelling::Kvs,
                Spelling::F58,
                Spelling::F58plain,
                Spelling::Words,
            ] {
                assert_eq!(ids::parse(&spell(id, to)).unwrap(), id, "{to:?}");
            }
        }
    }
}
