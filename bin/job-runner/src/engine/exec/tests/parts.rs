//! Parts that fare otherwise than their job, and jobs whose parts are independent.

use super::*;

fn sysbatch(exec: &mut Exec, ranks: &str, reattach: bool) -> Vec<String> {
    let hosts = ["h-0", "h-1"];
    start_as(
        exec,
        9,
        ranks,
        &hosts,
        reattach,
        &json!({"type": "sysbatch"}),
    )
}

fn two_running() -> Exec {
    let mut exec = exec();
    let _ = start_on(&mut exec, 9, "0-1", &["h-[0-1]"], false);
    let _ = fact(&mut exec, 0, Fact::Started);
    let _ = fact(&mut exec, 1, Fact::Started);
    assert!(tell(&mut exec).is_empty(), "they run, as their job does");
    exec
}

fn two_running_apart() -> Exec {
    let mut exec = exec();
    let _ = sysbatch(&mut exec, "0-1", false);
    let _ = fact(&mut exec, 0, Fact::Started);
    let _ = fact(&mut exec, 1, Fact::Started);
    assert!(tell(&mut exec).is_empty());
    exec
}

fn tell(exec: &mut Exec) -> Vec<String> {
    let mut out = Vec::new();
    exec.tell_parts(&mut out);
    assert!(!exec.has_untold());
    said(&out)
}

fn down(exec: &mut Exec, place: u32) -> Vec<String> {
    let mut out = Vec::new();
    exec.node_down(place, &mut out);
    said(&out)
}

fn up(exec: &mut Exec, place: u32) -> Vec<String> {
    let mut out = Vec::new();
    exec.node_up(place, &mut out);
    said(&out)
}

fn cancel(exec: &mut Exec, kind: &str) -> usize {
    let mut out = Vec::new();
    exec.cancel(JobId(9), kind, &mut out);
    out.len()
}

fn killed_with_its_node() -> Fact {
    Fact::Ended(Ended {
        status: Some(35072),
        exceptions: vec![Exception::fatal(
            "node-fail",
            "the node process of h-1 went away",
        )],
    })
}

const UNKNOWN: &str = r#"alloc-status {"allocs":[{"ranks":"1","status":"unknown","reason":"the node process of h-1 went away"}]}"#;
const LOST: &str = r#"alloc-status {"allocs":[{"ranks":"1","status":"lost","reason":"the node process of h-1 went away"}]}"#;
const FINISHED_LOST: &str = r#"finish {"status":35072,"release":{"ranks":"all","final":true}}"#;

#[test]
fn a_part_that_ends_before_the_others_is_told_of_once() {
    let mut exec = two_running();
    assert!(fact(&mut exec, 0, ended(0)).is_empty());
    assert!(exec.has_untold());
    assert_eq!(
        tell(&mut exec),
        [r#"alloc-status {"allocs":[{"ranks":"0","status":"complete"}]}"#]
    );
    assert!(fact(&mut exec, 0, ended(0)).is_empty() && tell(&mut exec).is_empty());
    assert_eq!(
        fact(&mut exec, 1, ended(256)),
        [FINISHED, "complete 256", "freed"],
        "the last one's follows from the end"
    );
}

#[test]
fn parts_that_end_alike_are_not_told_of_where_the_end_says_it() {
    let mut exec = two_running();
    let _ = fact(&mut exec, 0, ended(256));
    assert_eq!(
        fact(&mut exec, 1, ended(256)),
        [FINISHED, "complete 256", "freed"]
    );
    let mut exec = two_running();
    let _ = fact(&mut exec, 0, ended(0));
    let all = fact(&mut exec, 1, ended(0));
    assert!(all[0].starts_with("finish {\"status\":0"), "{all:?}");
}

#[test]
fn fault_why_an_independent_part_failed_is_told_though_the_job_ends_as_it_did() {
    let mut exec = exec();
    let _ = sysbatch(&mut exec, "0-1", false);
    let failed = |note: &str| {
        Fact::Ended(Ended {
            status: Some(32512),
            exceptions: vec![Exception::fatal("exec", note)],
        })
    };
    let _ = fact(&mut exec, 0, Fact::Started);
    let _ = fact(&mut exec, 0, failed("no such file here"));
    let told = fact(&mut exec, 1, failed("nor here")).join("\n");
    for note in ["no such file here", "nor here"] {
        let reason = format!(r#""status":"failed","reason":"{note}","wait_status":32512"#);
        assert!(told.contains(&reason), "{told}");
    }
}

#[test]
fn different_statuses_are_told() {
    let mut exec = two_running();
    let _ = fact(&mut exec, 0, ended(512));
    let told = fact(&mut exec, 1, ended(256));
    assert_eq!(
        told[0],
        r#"alloc-status {"allocs":[{"ranks":"1","status":"failed","wait_status":256}]}"#
    );
    assert!(told[1].starts_with("finish {\"status\":512"), "{told:?}");
}

#[test]
fn what_a_cancel_ends_is_not_told_of() {
    let mut exec = two_running();
    let _ = fact(&mut exec, 0, ended(0));
    assert_eq!(cancel(&mut exec, "cancel"), 1);
    // The one that ended before has its own end, though nobody was told yet.
    let all = fact(&mut exec, 1, ended(36608));
    assert_eq!(
        all[0],
        r#"alloc-status {"allocs":[{"ranks":"0","status":"complete"}]}"#
    );
    let mut exec = two_running();
    assert_eq!(cancel(&mut exec, "cancel"), 2);
    let _ = fact(&mut exec, 0, ended(36608));
    assert!(tell(&mut exec).is_empty());
    let all = fact(&mut exec, 1, ended(36608));
    assert!(all[0].starts_with("finish {\"status\":36608"), "{all:?}");
}

#[test]
fn a_dead_nodes_part_is_unknown_then_lost_and_the_others_of_a_common_job_fail_with_it() {
    let mut exec = two_running();
    assert_eq!(down(&mut exec, 1), [UNKNOWN]);
    assert!(down(&mut exec, 1).is_empty(), "told once");
    assert_eq!(up(&mut exec, 1), ["node 1 start true"]);
    assert!(tell(&mut exec).is_empty(), "still not known");
    let fatal =
        r#"exception {"severity":0,"type":"node-fail","note":"the node process of h-1 went away"}"#;
    let cancelled = r#"node 0 {"tell":{"id":9,"what":{"cancel":{}}}}"#;
    assert_eq!(
        fact(&mut exec, 1, killed_with_its_node()),
        [fatal, cancelled],
        "the job-manager does not say so: it had it from here"
    );
    assert_eq!(tell(&mut exec), [LOST]);
    assert_eq!(up(&mut exec, 0), ["node 0 start true", cancelled]);
    assert_eq!(
        fact(&mut exec, 0, ended(36608)),
        [
            r#"alloc-status {"allocs":[{"ranks":"0","status":"failed","wait_status":36608}]}"#,
            r#"finish {"status":36608,"release":{"ranks":"all","final":true}}"#,
            "complete 36608",
            "freed"
        ]
    );
}

#[test]
fn a_job_of_one_part_is_unknown_and_ends_as_it_did() {
    let mut exec = exec();
    let _ = start_on(&mut exec, 9, "1", &["h-1"], false);
    let _ = fact(&mut exec, 1, Fact::Started);
    assert!(!exec.has_untold());
    assert_eq!(down(&mut exec, 1), [UNKNOWN]);
    let _ = up(&mut exec, 1);
    let fatal =
        r#"exception {"severity":0,"type":"node-fail","note":"the node process of h-1 went away"}"#;
    assert_eq!(
        fact(&mut exec, 1, killed_with_its_node()),
        [fatal, FINISHED_LOST, "freed"],
        "lost follows from node-fail"
    );
}

#[test]
fn a_link_that_was_cut_is_no_loss() {
    let mut exec = two_running();
    let _ = down(&mut exec, 1);
    let _ = up(&mut exec, 1);
    let _ = fact(&mut exec, 1, Fact::Started);
    assert_eq!(
        tell(&mut exec),
        [r#"alloc-status {"allocs":[{"ranks":"1","status":"running"}]}"#]
    );
}

#[test]
fn independent_parts_go_on_without_the_one_whose_node_died() {
    let mut exec = two_running_apart();
    assert_eq!(down(&mut exec, 1), [UNKNOWN]);
    let _ = up(&mut exec, 1);
    let raised =
        r#"exception {"severity":1,"type":"node-fail","note":"the node process of h-1 went away"}"#;
    assert_eq!(fact(&mut exec, 1, killed_with_its_node()), [raised]);
    assert_eq!(tell(&mut exec), [LOST]);
    assert!(up(&mut exec, 1).is_empty(), "never begun again");
    assert_eq!(
        fact(&mut exec, 0, ended(0)),
        [
            r#"alloc-status {"allocs":[{"ranks":"0","status":"complete"}]}"#,
            FINISHED_LOST,
            "complete 35072",
            "freed"
        ]
    );
}

#[test]
fn independent_parts_that_fail_do_not_end_the_others() {
    let mut exec = two_running_apart();
    assert!(fact(&mut exec, 0, ended(256)).is_empty());
    assert_eq!(
        tell(&mut exec),
        [r#"alloc-status {"allocs":[{"ranks":"0","status":"failed","wait_status":256}]}"#]
    );
    assert_eq!(
        fact(&mut exec, 1, ended(0)),
        [
            r#"alloc-status {"allocs":[{"ranks":"1","status":"complete"}]}"#,
            FINISHED,
            "complete 256",
            "freed"
        ]
    );
}

#[test]
fn an_independent_part_of_which_nobody_knows_the_end_counts_as_killed() {
    let mut exec = two_running_apart();
    let lost = Ended {
        status: None,
        exceptions: vec![Exception::fatal("exec", "lost: x")],
    };
    assert_eq!(
        fact(&mut exec, 1, Fact::Ended(lost)),
        [r#"exception {"severity":1,"type":"exec","note":"lost: x"}"#]
    );
    let all = fact(&mut exec, 0, ended(0));
    assert_eq!(
        all[0],
        r#"alloc-status {"allocs":[{"ranks":"0","status":"complete"},{"ranks":"1","status":"lost","reason":"lost: x"}]}"#
    );
    assert_eq!(all[1], FINISHED_LOST);
}

#[test]
fn independent_parts_on_nodes_that_are_gone_do_not_keep_the_others_from_beginning() {
    let mut exec = exec();
    let gone = r#"exception {"severity":1,"type":"node-fail","note":"node of rank 5 is gone: this engine has ranks 0 to 1"}"#;
    let weir = json!({"type": "sysbatch"});
    let lost = r#"alloc-status {"allocs":[{"ranks":"5","status":"lost","reason":"node of rank 5 is gone: this engine has ranks 0 to 1"}]}"#;
    assert_eq!(
        start_as(&mut exec, 9, "0,5", &[], false, &weir),
        [gone, "node 0 start false", lost]
    );
    assert_eq!(fact(&mut exec, 0, Fact::Started), ["start {}"]);
    assert!(tell(&mut exec).is_empty());
    assert_eq!(fact(&mut exec, 0, ended(0))[1], FINISHED_LOST);
}

#[test]
fn independent_parts_none_of_which_could_be_begun_end_with_a_fatal_exception() {
    let mut exec = exec();
    let weir = json!({"type": "sysbatch"});
    let _ = start_as(&mut exec, 9, "0", &["h-0"], false, &weir);
    let not_begun = Ended {
        status: None,
        exceptions: vec![Exception::fatal("exec", "3 shepherds died")],
    };
    assert_eq!(
        fact(&mut exec, 0, Fact::Ended(not_begun)),
        [
            r#"exception {"severity":1,"type":"exec","note":"3 shepherds died"}"#,
            r#"exception {"severity":0,"type":"exec","note":"no part of the job could be begun"}"#,
            r#"alloc-status {"allocs":[{"ranks":"0","status":"failed","reason":"3 shepherds died"}]}"#,
            r#"release {"ranks":"all","final":true}"#,
            "freed"
        ]
    );
}

#[test]
fn the_time_limit_of_an_independent_job_is_everybodys() {
    let mut exec = two_running_apart();
    let timeout = || Fact::Exception(Exception::fatal("timeout", "n"));
    let fatal = r#"exception {"severity":0,"type":"timeout","note":"n"}"#;
    assert_eq!(fact(&mut exec, 0, timeout()), [fatal]);
    assert!(fact(&mut exec, 1, timeout()).is_empty());
    assert!(tell(&mut exec).is_empty());
}

#[test]
fn a_job_manager_that_comes_back_is_told_of_parts_again() {
    let mut exec = two_running_apart();
    let _ = fact(&mut exec, 0, ended(256));
    let failed = r#"alloc-status {"allocs":[{"ranks":"0","status":"failed","wait_status":256}]}"#;
    assert_eq!(tell(&mut exec), [failed]);
    assert_eq!(sysbatch(&mut exec, "0-1", true), ["reattached {}"]);
    assert_eq!(tell(&mut exec), [failed]);
    assert_eq!(down(&mut exec, 1), [UNKNOWN]);
    let _ = sysbatch(&mut exec, "0-1", true);
    let again = tell(&mut exec);
    assert!(
        again[0].contains(r#""ranks":"0","status":"failed""#)
            && again[0].contains(r#""ranks":"1","status":"unknown""#),
        "{again:?}"
    );
}

#[test]
fn a_new_engine_takes_back_what_the_one_before_may_have_said() {
    let mut exec = exec();
    assert!(down(&mut exec, 1).is_empty());
    let _ = start_on(&mut exec, 9, "0-1", &["h-[0-1]"], true);
    let told = tell(&mut exec);
    assert!(
        told[0].contains(r#""ranks":"1","status":"unknown""#),
        "{told:?}"
    );
    let _ = fact(&mut exec, 0, Fact::Started);
    assert_eq!(
        tell(&mut exec),
        [r#"alloc-status {"allocs":[{"ranks":"0","status":"running"}]}"#]
    );
}
