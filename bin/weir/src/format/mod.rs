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
use crate::row::Row;
use crate::{text, when};
use fields::{Context, Source};
use spec::{Conversion, Spec, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
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
enum Part {
    Text(String),
    Field(Column),
}

#[derive(Debug)]
struct Column {
    source: Source,
    conversion: Option<Conversion>,
    /// Of `!d`.
    strftime: Option<String>,
    spec: Spec,
    collapse: bool,
    expand: bool,
}

/// A format, read and checked.
#[derive(Debug)]
pub struct Format {
    parts: Vec<Part>,
    /// What the rows are sorted by, first things first, and whether backwards.
    sort: Vec<(Source, bool)>,
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

impl Format {
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
        if let Some((_, _, named)) = NAMED.iter().find(|(name, _, _)| *name == text) {
            return Self::parse(named);
        }
        if !text.contains('{') {
            let names: Vec<&str> = NAMED.iter().map(|(name, _, _)| *name).collect();
            return Err(usage(format!(
                "--format={text}: neither a format with {{fields}} nor one of {} (see 'weir jobs --format=help')",
                names.join(", ")
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
    pub fn sort(&self, rows: &mut [Row], context: &Context) {
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
    pub fn fitted(&self, rows: &[Row], context: &Context, fit: Fit) -> Layout {
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
    fn cut_name(&self, rows: &[Row], context: &Context, limit: usize, columns: &mut [Place]) {
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
        row: &Row,
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
        mut cell: impl FnMut(&Column, Option<usize>, &mut String),
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

impl Column {
    fn write(&self, spec: Spec, row: &Row, context: &Context, out: &mut String) {
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
    fn widest(&self, rows: &[Row], context: &Context, cell: &mut String) -> usize {
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
fn sort_keys(text: &str) -> anyhow::Result<(Vec<(Source, bool)>, &str)> {
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
                "--format: sort:{key}: unknown field '{name}'; 'weir jobs --format=help' lists them"
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

fn column(inner: &str) -> anyhow::Result<Column> {
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
            "--format: '{{{inner}}}': unknown field '{name}'; 'weir jobs --format=help' lists them"
        )));
    };
    if name.starts_with("t_")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(json: &str) -> Vec<Row> {
        serde_json::from_str(json).unwrap()
    }

    fn shown(format: &str, rows: &[Row]) -> Vec<String> {
        let format = Format::parse(format).unwrap();
        let context = Context { now: 1000.0 };
        let layout = if format.looks_ahead() {
            format.fitted(rows, &context, Fit::Written)
        } else {
            format.as_written()
        };
        let mut lines = vec![String::new()];
        format.write_header(&layout, &mut lines[0]);
        for row in rows {
            let mut line = String::new();
            format.write_row(row, &context, &layout, &mut line);
            lines.push(line);
        }
        lines
    }

    #[test]
    fn fields_are_written_with_their_spec() {
        let jobs = rows(
            r#"[{"id":1234,"name":"sleep","state":16,"ntasks":2,"t_run":910.0,"nodelist":"node0"}]"#,
        );
        assert_eq!(
            shown(
                "{id.dec:>6}|{name:<8}|{name:.3}|{name:^7}|{ntasks:04d}|{status}|{runtime!F:>6}|{runtime:.1f}|{{x}}",
                &jobs
            ),
            [
                " JOBID|NAME    |NAME| NAME  |NTASKS|STATUS|RUNTIME|RUNTIME|{x}",
                "  1234|sleep   |sle| sleep |0002|RUN|  1.5m|90.0|{x}"
            ]
        );
    }

    #[test]
    fn a_point_in_time_is_written_by_strftime_and_what_never_was_is_empty() {
        let jobs = rows(r#"[{"id":1,"t_run":86400.5},{"id":2}]"#);
        let lines = shown(
            "{t_run!d:%j of %Y::>13h}|{t_run!d:%S}|{t_run!d:>21}|",
            &jobs,
        );
        assert_eq!(lines[0], "        T_RUN|T_RUN|                T_RUN|");
        assert!(
            lines[1].starts_with("  00") && lines[1].contains(" of 1970|00|  1970-01-0"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2], "            -||                     |");
    }

    #[test]
    fn rows_are_sorted_by_the_keys_before_the_fields() {
        let mut jobs = rows(
            r#"[{"id":1,"name":"b","urgency":1},{"id":2,"name":"a","urgency":1},{"id":3,"name":"c","urgency":10},{"id":4,"name":"c"}]"#,
        );
        let mut sorted = |format: &str| {
            let format = Format::parse(format).unwrap();
            format.sort(&mut jobs, &Context { now: 0.0 });
            let mut line = String::new();
            for job in &jobs {
                format.write_row(job, &Context { now: 0.0 }, &format.as_written(), &mut line);
            }
            line
        };
        assert_eq!(sorted("sort:name,-id.dec {id.dec}"), "2143");
        assert_eq!(sorted("sort:-urgency,name ?:{id.dec}"), "3214");
        assert_eq!(sorted("sort:id ?+:{id.dec}"), "1234");
        let needed = Format::parse("sort:t_run {id}").unwrap().attributes();
        assert_eq!(needed.into_iter().collect::<Vec<_>>(), ["t_run"]);
    }

    #[test]
    fn empty_columns_are_left_out_and_wide_ones_widened_when_asked() {
        let one = rows(r#"[{"id":1,"name":"a"},{"id":2,"name":"long name"}]"#);
        assert_eq!(
            shown("{id.dec:>5} ?:{queue:<8} +:{name:<4} {state}", &one),
            ["JOBID NAME      STATE", "    1 a", "    2 long name"]
        );
        let two = rows(r#"[{"id":1,"name":"a","queue":"debug","state":8}]"#);
        assert_eq!(
            shown("{id.dec:>5} ?:{queue:<8} +:{name:<4} {state}", &two),
            ["JOBID QUEUE    NAME STATE", "    1 debug    a    SCHED"]
        );
    }

    fn fitted(format: &str, rows: &[Row], fit: Fit) -> Vec<String> {
        let format = Format::parse(format).unwrap();
        let context = Context { now: 1000.0 };
        let layout = format.fitted(rows, &context, fit);
        rows.iter()
            .map(|row| {
                let mut line = String::new();
                format.write_row(row, &context, &layout, &mut line);
                line
            })
            .collect()
    }

    #[test]
    fn at_a_terminal_a_long_name_is_cut_before_anything_else() {
        let name = "x".repeat(200);
        let jobs = rows(&format!(
            r#"[{{"id":1,"name":"{name}","userid":0,"state":16,"ntasks":1,"t_run":990.0,"nodelist":"node0"}},
                {{"id":2,"name":"short","userid":0,"state":8,"ntasks":1}}]"#
        ));
        for columns in [80, 69, 40, 300] {
            for format in [TERMINAL, PLAIN] {
                let lines = fitted(format, &jobs, Fit::Columns(columns));
                if columns >= 80 {
                    assert!(text::width(&lines[0]) <= columns, "{}", lines[0]);
                }
                assert!(
                    lines[0].ends_with(" R      1      -      10s node0"),
                    "{}",
                    lines[0]
                );
                let shown = lines[0].matches('x').count();
                assert!(shown + 1 >= NAME_COLUMNS_MIN, "{columns}: {}", lines[0]);
                assert_eq!(shown == 200, columns == 300, "{}", lines[0]);
            }
        }
        let long = fitted("long", &jobs, Fit::Columns(110));
        assert!(
            long[0].contains('…') && long[0].ends_with(" node0"),
            "{}",
            long[0]
        );
    }

    #[test]
    fn into_a_pipe_what_is_of_a_sane_length_is_whole_and_all_columns_line_up() {
        let name = "x".repeat(200);
        let jobs = rows(&format!(
            r#"[{{"id":1,"name":"{name}","userid":0,"state":16,"ntasks":1,"nodelist":"node0"}},
                {{"id":2,"name":"short","userid":0,"state":8,"ntasks":1}}]"#
        ));
        let lines = fitted(PLAIN, &jobs, Fit::Widest);
        assert!(lines[0].contains(&name));
        let at = |line: &str, what: &str| line.find(what).unwrap();
        assert_eq!(at(&lines[0], " R  "), at(&lines[1], " S  "));
    }

    #[test]
    fn fault_a_name_of_any_length_does_not_pad_the_rows_of_other_jobs() {
        let name = "x".repeat(100_000);
        let jobs = rows(&format!(
            r#"[{{"id":1,"name":"{name}","userid":0,"state":16,"ntasks":1,"nodelist":"node0"}},
                {{"id":2,"name":"short","userid":0,"state":8,"ntasks":1}}]"#
        ));
        let at = |line: &str, what: &str| text::width(&line[..line.find(what).unwrap()]);
        let lines = fitted(PLAIN, &jobs, Fit::Widest);
        assert_eq!(at(&lines[0], " R  "), at(&lines[1], " S  "));
        assert_eq!(lines[0].matches('x').count(), COLUMN_WIDTH_MAX - 1);
        assert!(lines[1].len() < 2 * COLUMN_WIDTH_MAX, "{}", lines[1].len());
        // At a terminal it is cut further; in a format that somebody wrote it is whole, and pads nobody.
        let lines = fitted(PLAIN, &jobs, Fit::Columns(100));
        assert!(text::width(&lines[0]) <= 100, "{}", lines[0]);
        let lines = fitted("+:{name:<4} {id.dec}", &jobs, Fit::Written);
        assert!(lines[0].contains(&name));
        assert!(lines[1].len() < 2 * COLUMN_WIDTH_MAX, "{}", lines[1].len());
    }

    #[test]
    fn plain_columns_are_stable_and_never_empty() {
        let jobs = rows(
            r#"[{"id":1234,"state":8,"priority":16,"urgency":16},{"id":5,"name":"x\ny","state":64,"result":1,"userid":0,"ntasks":1}]"#,
        );
        for line in &shown(PLAIN, &jobs)[1..] {
            assert!(line.split_whitespace().count() >= 9, "{line}");
            assert!(!line.contains('\n'));
        }
    }

    #[test]
    fn endreason_shows_a_return_code_of_0() {
        let jobs = rows(
            r#"[{"id":1,"name":"x","userid":0,"state":64,"result":1,"waitstatus":0,"t_inactive":5.0}]"#,
        );
        assert!(fitted("endreason", &jobs, Fit::Widest)[0].ends_with("     0"));
    }

    #[test]
    fn named_formats_and_only_the_attributes_needed() {
        for (name, _, _) in NAMED {
            assert!(Format::parse(name).is_ok(), "{name}");
        }
        let needed = Format::parse("{id} {runtime} {name}").unwrap().attributes();
        assert_eq!(
            needed.into_iter().collect::<Vec<_>>(),
            ["name", "t_cleanup", "t_inactive", "t_run"]
        );
    }

    #[test]
    fn what_is_wrong_with_a_format_is_named() {
        for (format, expected) in [
            ("{nosuch}", "unknown field 'nosuch'"),
            ("{id", "not closed"),
            ("{id}}", "a '}' without '{'"),
            ("{id!x}", "conversion 'x'"),
            ("{t_submit!H}", "t_submit is a point in time; !d and !D"),
            ("{t_submit!d:%}", "'%': "),
            ("sort:nosuch {id}", "sort:nosuch: unknown field 'nosuch'"),
            ("sort:id", "neither a format"),
            ("{id:>x}", "'>x'"),
            ("plain", "neither a format with {fields} nor one of default"),
        ] {
            assert!(
                Format::parse(format)
                    .unwrap_err()
                    .to_string()
                    .contains(expected),
                "{format}"
            );
        }
    }
}
