//! Formats of jobs: how they are read, fitted, sorted and written.

use super::*;

fn rows(json: &str) -> Vec<Row> {
    serde_json::from_str(json).unwrap()
}

fn shown(format: &str, rows: &[Row]) -> Vec<String> {
    let format = Format::<Row>::parse(format).unwrap();
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
        let format = Format::<Row>::parse(format).unwrap();
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
    let needed = Format::<Row>::parse("sort:t_run {id}")
        .unwrap()
        .attributes();
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
    let format = Format::<Row>::parse(format).unwrap();
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
        assert!(Format::<Row>::parse(name).is_ok(), "{name}");
    }
    let needed = Format::<Row>::parse("{id} {runtime} {name}")
        .unwrap()
        .attributes();
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
            Format::<Row>::parse(format)
                .unwrap_err()
                .to_string()
                .contains(expected),
            "{format}"
        );
    }
}
