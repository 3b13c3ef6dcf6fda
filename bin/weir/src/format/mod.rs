//! The format language of `weir jobs -o`: text with fields in braces, after Flux's and Python's.
//!
//! ```text
//! format = [ "sort:" key { "," key } ] { text | "{{" | "}}" | [ "?:" | "+:" | "?+:" ] "{" field [ "!" conversion ] [ ":" spec ] "}" }
//! key    = [ "-" ] field
//! spec   = [[fill] align] [width] ["." precision] [type] ["h"] ["+"]        align = < > ^   type = s d f
//! conversion = F duration, as 1.5m | H duration, as 0:01:30 | D time, as 2026-11-30T14:00:00 | P share, as 12.5%
//!            | d time, its spec being strftime [ "::" spec ], as {t_run!d:%b%d %R::>12}
//! ```
//! `h` writes `-` for what is empty or zero. `?:` leaves a column out when it is empty in every row, `+:` widens it to its
//! widest value; both look at all rows first. `sort:` puts the rows into another order, `-` backwards; rows that are equal stay in that of
//! the listing. [`fields`] says which fields there are, [`spec`] reads and applies a spec.
//!
//! Invariants: what a field shows never contains a control character; a header cell takes the same columns as its values.

pub mod fields;
pub mod spec;

use crate::failure::usage;
use crate::output;
use crate::row::Row;
use crate::{text, when};
use fields::{Context, Source, Subject};
use spec::{Conversion, Spec, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::Range;

/// Longest format taken.
const FORMAT_BYTES_MAX: usize = 4096;

/// The columns of `weir jobs` at a terminal.
pub const TERMINAL: &str = "{id.f58:>12} ?:{queue:<8.8} +:{username:<8} +:{name:<10} {status_abbrev:>2} {ntasks:>6h} {nnodes:>6h} \
                            {contextual_time!F:>8h} {contextual_info}";
/// The columns of `weir jobs` into a pipe or file: always the same, nothing cut, no cell empty.
pub const PLAIN: &str = "{id.f58:>12} {queue:<8h} {username:<8h} {name:<10h} {status_abbrev:>2h} {ntasks:>6h} {nnodes:>6h} \
                         {contextual_time!F:>8h} {contextual_info:h}";

/// Formats that have a name, with a line about each.
pub const NAMED: [(&str, &str, &str); 4] = [
    ("default", "what is shown without -o", PLAIN),
    (
        "long",
        "with status, times and the whole reason",
        "{id.f58:>12} ?:{queue:<8} +:{username:<8} +:{name:<10} {status:>9} {urgency:>3} {priority:>10h} {ntasks:>6h} {nnodes:>6h} \
         {t_submit!d:%b%d %R::>11h} {contextual_time!F:>8h} {contextual_info}",
    ),
    (
        "deps",
        "with dependencies",
        "{id.f58:>12} ?:{queue:<8} +:{username:<8} +:{name:<10} {status_abbrev:>2} {urgency:>3} {dependencies}",
    ),
    (
        "endreason",
        "how and when jobs ended",
        "{id.f58:>12} ?:{queue:<8} +:{username:<8} +:{name:<10} {status:>9} {t_inactive!d:%b%d %R::>11h} {returncode:>5} {inactive_reason}",
    ),
];

/// One piece of a format.
#[derive(Debug)]
enum Part<T: 'static> {
    Text(String),
    Field(Column<T>),
}

#[derive(Debug)]
struct Column<T: 'static> {
    source: Source<T>,
    conversion: Option<Conversion>,
    /// Of `!d`.
    strftime: Option<String>,
    spec: Spec,
    collapse: bool,
    expand: bool,
}

/// What rows are sorted by, first things first, and whether backwards.
type Sorting<T> = Vec<(Source<T>, bool)>;

/// A format, read and checked, of jobs if nothing else is said.
#[derive(Debug)]
pub struct Format<T: 'static = Row> {
    parts: Vec<Part<T>>,
    sort: Sorting<T>,
}

/// How wide the columns of a format are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// As the format says: `?:` and `+:` where they stand, everything else as wide as its spec.
    Written,
    /// Every column as wide as its widest cell, up to 256 columns; what is longer than that is cut.
    Widest,
    /// Likewise, but names are cut so that the line, or what comes before its last column, fits into so many columns.
    Columns(usize),
}

/// No cell makes its column wider than this: one job with a name of 100 kB is no reason to write as much for every other.
const COLUMN_WIDTH_MAX: usize = 256;
/// Columns of a name that are kept, however narrow the terminal.
const NAME_COLUMNS_MIN: usize = 10;
/// Columns kept free for the last one, which has no end of its own.
const LAST_COLUMNS_MIN: usize = 12;

/// What became of a column after looking at all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    LeftOut,
    /// As wide as its spec says.
    Spec,
    Wide(usize),
    /// So wide and no wider: what is longer is cut.
    Cut(usize),
}

impl Place {
    fn width(self) -> Option<usize> {
        match self {
            Self::Wide(width) | Self::Cut(width) => Some(width),
            Self::LeftOut | Self::Spec => None,
        }
    }
}

/// What became of each column after looking at all rows.
#[derive(Debug, Clone)]
pub struct Layout {
    columns: Vec<Place>,
}

impl<T: Subject> Format<T> {
    /// Reads a format, or the name of one.
    ///
    /// # Errors
    /// What was met, where and what was expected.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        if text.len() > FORMAT_BYTES_MAX {
            return Err(usage(format!(
                "--format: {} bytes, {FORMAT_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        if let Some((_, _, named)) = T::NAMED.iter().find(|(name, _, _)| *name == text) {
            return Self::parse(named);
        }
        if !text.contains('{') {
            let names: Vec<&str> = T::NAMED.iter().map(|(name, _, _)| *name).collect();
            return Err(usage(format!(
                "--format={text}: neither a format with {{fields}} nor one of {} (see '{}')",
                names.join(", "),
                T::HELP
            )));
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let (sort, mut rest) = sort_keys(text)?;
        while let Some(c) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("{{") {
                literal.push('{');
                rest = after;
            } else if let Some(after) = rest.strip_prefix("}}") {
                literal.push('}');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let Some((inner, after)) = after.split_once('}') else {
                    return Err(usage(format!(
                        "--format: '{{{after}': a brace '{{' is not closed"
                    )));
                };
                let mut column = column(inner)?;
                loop {
                    if let Some(shorter) = literal.strip_suffix("?+:") {
                        (column.collapse, column.expand) = (true, true);
                        literal.truncate(shorter.len());
                    } else if let Some(shorter) = literal.strip_suffix("?:") {
                        column.collapse = true;
                        literal.truncate(shorter.len());
                    } else if let Some(shorter) = literal.strip_suffix("+:") {
                        column.expand = true;
                        literal.truncate(shorter.len());
                    } else {
                        break;
                    }
                }
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Field(column));
                rest = after;
            } else if c == '}' {
                return Err(usage(format!(
                    "--format: '{rest}': a '}}' without '{{'; write '}}}}' for a brace"
                )));
            } else {
                literal.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts, sort })
    }

    /// True if the rows are to be sorted, so that all must be there first.
    #[must_use]
    pub fn sorts(&self) -> bool {
        !self.sort.is_empty()
    }

    /// Puts the rows into the order that the format asks for.
    pub fn sort(&self, rows: &mut [T], context: &Context) {
        if !self.sorts() {
            return;
        }
        rows.sort_by(|one, other| {
            let compared = self.sort.iter().map(|(source, backwards)| {
                let order = source.key(one, context).order(&source.key(other, context));
                if *backwards { order.reverse() } else { order }
            });
            compared
                .into_iter()
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
    }

    /// The attributes of job-list this format needs.
    #[must_use]
    pub fn attributes(&self) -> BTreeSet<&'static str> {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Field(column) => Some(&column.source),
                Part::Text(_) => None,
            })
            .chain(self.sort.iter().map(|(source, _)| source))
            .flat_map(|source| source.attributes().iter().copied())
            .collect()
    }

    /// True if all rows must be seen before the first is written, the fit being [`Fit::Written`]. Other fits always look ahead.
    #[must_use]
    pub fn looks_ahead(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Field(column) if column.collapse || column.expand))
    }

    /// The layout that leaves nothing out and widens nothing.
    #[must_use]
    pub fn as_written(&self) -> Layout {
        Layout {
            columns: vec![Place::Spec; self.parts.len()],
        }
    }

    /// The layout for these rows.
    #[must_use]
    pub fn fitted(&self, rows: &[T], context: &Context, fit: Fit) -> Layout {
        let mut cell = String::new();
        let last = self.parts.len().saturating_sub(1);
        let mut columns = Vec::with_capacity(self.parts.len());
        for (at, part) in self.parts.iter().enumerate() {
            columns.push(match part {
                Part::Field(column) if column.collapse || column.expand || fit != Fit::Written => {
                    let widest = column.widest(rows, context, &mut cell);
                    match (widest, fit) {
                        (0, _) if column.collapse => Place::LeftOut,
                        (_, Fit::Written) if !column.expand => Place::Spec,
                        // Nothing comes behind it.
                        (_, Fit::Widest | Fit::Columns(_)) if at == last => Place::Spec,
                        _ => {
                            let width = widest
                                .min(COLUMN_WIDTH_MAX)
                                .max(text::width(column.source.heading()))
                                .max(column.spec.width);
                            if widest > width && fit != Fit::Written {
                                Place::Cut(width)
                            } else {
                                Place::Wide(width)
                            }
                        }
                    }
                }
                _ => Place::Spec,
            });
        }
        if let Fit::Columns(limit) = fit {
            self.cut_name(rows, context, limit, &mut columns);
        }
        Layout { columns }
    }

    /// Cuts the name by as much as the line is too long for `limit`.
    fn cut_name(&self, rows: &[T], context: &Context, limit: usize, columns: &mut [Place]) {
        let mut cell = String::new();
        let last = self.parts.len().saturating_sub(1);
        let mut total = 0;
        for (at, (part, place)) in self.parts.iter().zip(columns.iter()).enumerate() {
            total += match (part, place) {
                // With the text behind it.
                (Part::Field(_), Place::LeftOut) => continue,
                (Part::Text(_), _) if at > 0 && columns[at - 1] == Place::LeftOut => 0,
                (Part::Text(text), _) => text::width(text),
                (Part::Field(column), _) if at == last => column
                    .widest(rows, context, &mut cell)
                    .min(LAST_COLUMNS_MIN)
                    .max(text::width(column.source.heading())),
                (Part::Field(column), place) => place.width().unwrap_or(column.spec.width),
            };
        }
        let excess = total.saturating_sub(limit);
        if excess == 0 {
            return;
        }
        for (part, place) in self.parts.iter().zip(columns) {
            if let (Part::Field(column), Place::Wide(width) | Place::Cut(width)) = (part, *place)
                && column.source.is_name()
            {
                let cut = width.saturating_sub(excess).max(NAME_COLUMNS_MIN);
                *place = Place::Cut(cut.min(width));
                return;
            }
        }
    }

    /// Appends the line of headings.
    pub fn write_header(&self, layout: &Layout, out: &mut String) {
        self.write(layout, out, |column, width, out| {
            column
                .spec
                .with_width(width)
                .write_heading(column.source.heading(), out);
        });
    }

    /// Appends the line of one job, without a line break; returns where in it the status stands.
    pub fn write_row(
        &self,
        row: &T,
        context: &Context,
        layout: &Layout,
        out: &mut String,
    ) -> Option<Range<usize>> {
        let mut status = None;
        self.write(layout, out, |column, width, out| {
            let start = out.len();
            column.write(column.spec.with_width(width), row, context, out);
            if column.source.is_status() {
                status = Some(start..out.len());
            }
        });
        status
    }

    fn write(
        &self,
        layout: &Layout,
        out: &mut String,
        mut cell: impl FnMut(&Column<T>, Option<usize>, &mut String),
    ) {
        let start = out.len();
        let mut left_out = false;
        for (part, place) in self.parts.iter().zip(&layout.columns) {
            match (part, place) {
                // The text after a column that is left out goes with it.
                (Part::Text(_), _) if left_out => left_out = false,
                (Part::Text(text), _) => out.push_str(text),
                (Part::Field(_), Place::LeftOut) => left_out = true,
                (Part::Field(field), place) => {
                    left_out = false;
                    let at = out.len();
                    cell(field, place.width(), out);
                    if let Place::Cut(width) = place
                        && let Cow::Owned(cut) = text::fit(&out[at..], *width)
                    {
                        out.truncate(at);
                        out.push_str(&cut);
                    }
                }
            }
        }
        // Padding of the last column is of no use to anybody.
        let end = start + out[start..].trim_end_matches(' ').len();
        out.truncate(end);
    }
}

impl<T: Subject> Column<T> {
    fn write(&self, spec: Spec, row: &T, context: &Context, out: &mut String) {
        let value = self.source.value(row, context);
        match (&self.strftime, &value) {
            (Some(format), Value::Real(seconds)) if *seconds > 0.0 => {
                // It was tried when it was read.
                let text = when::strftime(*seconds, format).unwrap_or_default();
                spec.write(&Value::Text(text.into()), None, out);
            }
            (Some(_), _) => spec.write(&Value::None, None, out),
            (None, _) => spec.write(&value, self.conversion, out),
        }
    }

    /// Columns of the widest cell of these rows.
    fn widest(&self, rows: &[T], context: &Context, cell: &mut String) -> usize {
        let mut widest = 0;
        for row in rows {
            cell.clear();
            self.write(self.spec.bare(), row, context, cell);
            widest = widest.max(text::width(cell));
        }
        widest
    }
}

/// The keys of `sort:KEY,-KEY {…}`, and what is behind them.
fn sort_keys<T: Subject>(text: &str) -> anyhow::Result<(Sorting<T>, &str)> {
    let Some(behind) = text.strip_prefix("sort:") else {
        return Ok((Vec::new(), text));
    };
    let (keys, _) = behind.split_once('{').unwrap_or((behind, ""));
    let rest = &behind[keys.len()..];
    let mut sort = Vec::new();
    for key in keys.trim().split(',').map(str::trim) {
        let (backwards, name) = match key.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, key),
        };
        // What only its columns are for does not belong to the keys.
        let name = name.trim_end_matches(['?', '+', ':']).trim_end();
        let Some(source) = Source::find(name) else {
            return Err(usage(format!(
                "--format: sort:{key}: unknown field '{name}'; '{}' lists them",
                T::HELP
            )));
        };
        sort.push((source, backwards));
    }
    let sentinel = keys.len() - keys.trim_end_matches(['?', '+', ':']).len();
    Ok((sort, &behind[behind.len() - rest.len() - sentinel..]))
}

/// The strftime of `!d`, and the spec behind it. What holds neither `%` nor `::` is a spec alone.
fn time_spec(spec: &str) -> (&str, &str) {
    match spec.split_once("::") {
        Some((format, spec)) => (format, spec),
        None if spec.contains('%') => (spec, ""),
        None => ("", spec),
    }
}

/// `!d` without a format.
const STRFTIME_DEFAULT: &str = "%Y-%m-%dT%H:%M:%S";

fn column<T: Subject>(inner: &str) -> anyhow::Result<Column<T>> {
    let (head, spec) = inner
        .split_once(':')
        .map_or((inner, ""), |(head, spec)| (head, spec));
    let (name, conversion) = match head.split_once('!') {
        None => (head, None),
        Some((name, conversion)) => (
            name,
            Some(
                Conversion::parse(conversion)
                    .map_err(|error| usage(format!("--format: '{{{inner}}}': {error}")))?,
            ),
        ),
    };
    let Some(source) = Source::find(name) else {
        return Err(usage(format!(
            "--format: '{{{inner}}}': unknown field '{name}'; '{}' lists them",
            T::HELP
        )));
    };
    if (name.starts_with("t_") || name == "since")
        && name != "t_remaining"
        && matches!(conversion, Some(Conversion::Duration | Conversion::Clock))
    {
        return Err(usage(format!(
            "--format: '{{{inner}}}': {name} is a point in time; !d and !D write one"
        )));
    }
    let (strftime, spec) = match conversion {
        Some(Conversion::Time) => {
            let (format, spec) = time_spec(spec);
            let format = if format.is_empty() {
                STRFTIME_DEFAULT
            } else {
                format
            };
            when::strftime(0.0, format)
                .map_err(|error| usage(format!("--format: '{{{inner}}}': {error}")))?;
            (Some(format.to_owned()), spec)
        }
        _ => (None, spec),
    };
    let spec =
        Spec::parse(spec).map_err(|error| usage(format!("--format: '{{{inner}}}': {error}")))?;
    Ok(Column {
        source,
        conversion,
        strftime,
        spec,
        collapse: false,
        expand: false,
    })
}

/// Prints what can stand in a format.
///
/// # Errors
/// Standard output is gone.
pub fn help<T: Subject>() -> anyhow::Result<()> {
    let mut out = output::stdout();
    writeln!(
        out,
        "Fields ({{field[!conversion][:[[fill]<|>|^][width][.precision][h]]}}; h: '-' for what is empty or zero):"
    )?;
    for field in T::FIELDS {
        writeln!(out, "  {:<20} {}", field.name, field.heading)?;
    }
    if T::ANNOTATION.is_some() {
        writeln!(
            out,
            "  annotations.PATH, user.PATH, sched.PATH: a value of the annotations"
        )?;
    }
    writeln!(
        out,
        "\nConversions: !F 1.5m, !H 0:01:30, !D 2026-11-30T14:00:00, !P 12.5%, and !d with strftime(3): {{t_run!d:%b%d %R::>12}}"
    )?;
    writeln!(
        out,
        "Before a field: ?: leaves the column out if it is empty in all rows, +: widens it to its widest value, ?+: does both\n\
         Before all: sort:FIELD,-FIELD puts the rows into that order, - backwards"
    )?;
    writeln!(out, "\nNamed formats:")?;
    for (name, about, format) in T::NAMED {
        writeln!(out, "  {name:<10} {about}\n             {format}")?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests;
