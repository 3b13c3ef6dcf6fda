//! The fold of the resource log against what a page of rules would say, and its written form.

use super::*;
use crate::event::EventKind;
use crate::r::{Node, R};
use proptest::prelude::*;
use serde_json::json;

fn define(names: &[&str], pools: &[(&str, &str)]) -> Define {
    let node = |(rank, host): (usize, &&str)| Node {
        rank: rank as u32,
        host: (*host).to_owned(),
        cores: Idset::from_range(0, 3),
        gpus: Idset::new(),
    };
    let nodes: Vec<Node> = names.iter().enumerate().map(node).collect();
    let r = R::build(&nodes, 0.0, 0.0, None).to_json();
    let pool = |(name, ranks): &(&str, &str)| ((*name).to_owned(), ranks.parse().unwrap());
    Define::new(&r, pools.iter().map(pool).collect()).unwrap()
}

fn defined(names: &[&str]) -> ResourceEvent {
    ResourceEvent::Define(Arc::new(define(names, &[])))
}

fn set(text: &str) -> Idset {
    text.parse().unwrap()
}

fn drain(ranks: &str, reason: &str, overwrite: u8) -> ResourceEvent {
    ResourceEvent::Drain {
        idset: set(ranks),
        reason: reason.to_owned(),
        overwrite,
        userid: Some(7),
    }
}

fn online(ranks: &str) -> ResourceEvent {
    ResourceEvent::Online { idset: set(ranks) }
}

/// Posts an event as the manager does: through its JSON.
fn post(resources: &mut Resources, what: &ResourceEvent) -> Result<ResourceChange, String> {
    let seq = Seq(resources.seq().0 + 1);
    let define = resources.define().cloned();
    let event = what.to_event(Timestamp(seq.0 as f64), define.as_deref());
    let event = Event::parse(&event.to_json()).unwrap();
    resources
        .apply(seq, &event)
        .map_err(|error| error.to_string())
}

fn folded(events: &[ResourceEvent]) -> Resources {
    let mut resources = Resources::new();
    for event in events {
        let _ = post(&mut resources, event).unwrap();
    }
    resources
}

/// Each node: its name, whether it is up, why it is drained.
fn listed(resources: &Resources) -> Vec<String> {
    let one = |node: NodeView<'_>| {
        let drain = node
            .drain
            .map(|drain| format!(" drained {} {}", drain.reason, drain.since));
        let up = if node.up { "up" } else { "down" };
        format!("{} {up}{}", node.name, drain.unwrap_or_default())
    };
    resources.nodes().map(one).collect()
}

#[test]
fn a_node_is_down_until_it_is_online_and_again_after_offline() {
    let offline = ResourceEvent::Offline {
        idset: set("0"),
        reason: Some("gone".to_owned()),
    };
    let mut resources = folded(&[defined(&["a", "b", "c"])]);
    assert_eq!(listed(&resources), ["a down", "b down", "c down"]);
    let change = post(&mut resources, &online("0-1")).unwrap();
    assert_eq!(change, ResourceChange::Nodes(set("0-1")));
    let _ = post(&mut resources, &offline).unwrap();
    assert_eq!(listed(&resources), ["a down", "b up", "c down"]);
    assert_eq!(resources.ready(), set("1"));
}

#[test]
fn what_is_known_of_a_node_goes_with_its_name() {
    let mut resources = folded(&[
        defined(&["a", "b", "c"]),
        online("0-2"),
        drain("1-2", "disk", 0),
        defined(&["x", "c", "a"]),
    ]);
    assert_eq!(
        listed(&resources),
        ["x down", "c up drained disk 3.0", "a up"]
    );
    assert_eq!(
        resources.gone().map(|(name, _)| name).collect::<Vec<_>>(),
        ["b"]
    );
    let change = post(&mut resources, &defined(&["b"])).unwrap();
    assert_eq!(change, ResourceChange::Defined);
    assert_eq!(
        listed(&resources),
        ["b down drained disk 3.0"],
        "down, though it was up once"
    );
}

#[test]
fn overwrite_says_what_becomes_of_a_reason_that_is_there() {
    for (overwrite, shown) in [
        (0, "a down drained old 2.0"),
        (1, "a down drained new 2.0"),
        (2, "a down drained new 3.0"),
    ] {
        let resources = folded(&[
            defined(&["a"]),
            drain("0", "old", 0),
            drain("0", "new", overwrite),
        ]);
        assert_eq!(listed(&resources), [shown]);
    }
    let undrain = ResourceEvent::Undrain {
        idset: set("0"),
        userid: None,
    };
    let resources = folded(&[defined(&["a"]), drain("0", "old", 0), undrain]);
    assert_eq!(listed(&resources), ["a down"]);
}

#[test]
fn entries_that_do_not_fit_change_nothing_but_the_count() {
    let mut resources = Resources::new();
    assert_eq!(
        post(&mut resources, &online("0")).unwrap_err(),
        "online of nodes \"0\": no resource-define came before"
    );
    let mut resources = folded(&[defined(&["a"])]);
    assert_eq!(
        post(&mut resources, &online("0-4000000000")).unwrap_err(),
        "online of nodes \"0-4000000000\": expected ranks of the newest resource-define, \"0\""
    );
    assert_eq!(
        (resources.eventlog_seq(), listed(&resources)),
        (2, vec!["a down".to_owned()])
    );
    let bad = EventKind::Other {
        name: "drain".into(),
        context: json!({"idset":"0","overwrite":-1}).as_object().cloned(),
    };
    let error = resources
        .apply(Seq(9), &Event::new(Timestamp(1.0), bad))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("malformed event \"drain\" of the resource log: ")
    );
    let other = EventKind::Other {
        name: "restart".into(),
        context: None,
    };
    let change = resources
        .apply(Seq(10), &Event::new(Timestamp(1.0), other))
        .unwrap();
    assert_eq!(
        (change, resources.eventlog_seq()),
        (ResourceChange::Nothing, 4)
    );
}

#[test]
fn an_entry_that_was_counted_is_passed_over() {
    let mut resources = folded(&[defined(&["a"]), online("0")]);
    let event = ResourceEvent::Offline {
        idset: set("0"),
        reason: None,
    };
    let change = resources
        .apply(Seq(2), &event.to_event(Timestamp(9.0), None))
        .unwrap();
    assert_eq!(
        (change, listed(&resources)),
        (ResourceChange::Nothing, vec!["a up".to_owned()])
    );
}

#[test]
fn sets_that_are_none_are_refused_by_what_is_wrong() {
    let r = |nodelist: &str, ranks: &str| {
        json!({"version":1,"execution":{"R_lite":[{"rank":ranks,"children":{"core":"0"}}],"nodelist":[nodelist]}})
            .to_string()
    };
    for (json, pools, text) in [
        ("[]".to_owned(), vec![], "R: R is malformed: "),
        (r("a,a", "0-1"), vec![], "R: two nodes are named \"a\""),
        (
            r("", "0-1"),
            vec![],
            "R: rank 0: expected a name of 1 to 253 bytes without white space, comma and brackets, got \"\"",
        ),
        (
            r("a,b", "0-1"),
            vec![("", "0")],
            "pools: \"\": expected a name of 1 to 128 bytes",
        ),
        (
            r("a,b", "0-1"),
            vec![("p", "1-2")],
            "pools.p: \"1-2\": expected ranks of R, \"0-1\"",
        ),
        (
            r("a,b", "0-1"),
            vec![("p", "0-1"), ("q", "1")],
            "pools: \"p\" and \"q\" share nodes: expected each node in one pool",
        ),
    ] {
        let pools = pools
            .into_iter()
            .map(|(name, ranks)| (name.to_owned(), set(ranks)));
        let error = Define::new(json.as_bytes(), pools.collect())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(text), "{json}: {error}");
    }
}

#[test]
fn two_spellings_of_one_set_are_equal() {
    let one = br#"{"version":1,"execution":{"R_lite":[{"rank":"1","children":{"core":"0-3"}},{"rank":"0","children":{"core":"0-3"}}],"nodelist":["n0,n1"],"starttime":5.0}}"#;
    assert_eq!(
        Define::new(one, BTreeMap::new()).unwrap(),
        define(&["n0", "n1"], &[])
    );
}

#[test]
fn nodes_show_their_pool_and_cores_by_rank() {
    let r = br#"{"version":1,"execution":{"R_lite":[{"rank":"0,2","children":{"core":"0-1"}},{"rank":"1","children":{"core":"0","gpu":"0"}}],"nodelist":["n[0-2]"]}}"#;
    let pools = [("fast".to_owned(), set("1-2"))].into_iter().collect();
    let event = ResourceEvent::Define(Arc::new(Define::new(r, pools).unwrap()));
    let resources = folded(&[event]);
    let shown: Vec<_> = resources
        .nodes()
        .map(|node| {
            (
                node.rank,
                node.name,
                node.pool,
                node.cores.count(),
                node.gpus.count(),
            )
        })
        .collect();
    let row = |rank, name: &str, pool, cores, gpus| (rank, name.to_owned(), pool, cores, gpus);
    assert_eq!(
        shown,
        [
            row(0, "n0", None, 2, 0),
            row(1, "n1", Some("fast"), 1, 1),
            row(2, "n2", Some("fast"), 2, 0)
        ]
    );
}

#[test]
fn names_of_ranks_are_found_whatever_ranks_there_are() {
    let r = br#"{"version":1,"execution":{"R_lite":[{"rank":"1,3-5","children":{"core":"0"}},{"rank":"8-9","children":{"core":"0-1"}}],"nodelist":["a[1-3],b[7-8],c"]}}"#;
    let define = Define::new(r, BTreeMap::new()).unwrap();
    for (ranks, names) in [
        ("", ""),
        ("1", "a1"),
        ("3-4", "a[2-3]"),
        ("1,5,9", "a1,b7,c"),
        ("0-2,5-8", "a1,b[7-8]"),
        ("0-100", "a[1-3],b[7-8],c"),
        ("6-7,20", ""),
    ] {
        assert_eq!(define.nodelist(&set(ranks)).to_string(), names, "{ranks}");
    }
}

#[test]
fn the_written_form() {
    let resources = folded(&[
        defined(&["n0", "n1", "n2"]),
        online("0-2"),
        drain("0,2", "disk", 0),
        drain("1", "", 0),
        defined(&["n0", "n2"]),
    ]);
    let json = resources.to_json();
    assert_eq!(
        String::from_utf8_lossy(&json),
        "{\"seq\":5,\"eventlog_seq\":5,\"define\":{\"method\":\"announced\",\"R\":{\"version\":1,\"execution\":\
         {\"R_lite\":[{\"rank\":\"0-1\",\"children\":{\"core\":\"0-3\"}}],\"nodelist\":[\"n[0,2]\"],\"starttime\":0.0,\
         \"expiration\":0.0}},\"pools\":{}},\"up\":\"0-1\",\"drained\":[\
         {\"idset\":\"0-1\",\"nodelist\":\"n[0,2]\",\"reason\":\"disk\",\"timestamp\":3.0,\"userid\":7},\
         {\"idset\":\"\",\"nodelist\":\"n1\",\"reason\":\"\",\"timestamp\":4.0,\"userid\":7}]}"
    );
    assert_eq!(Resources::from_json(&json).unwrap(), resources);
}

#[test]
fn what_is_no_state_is_refused() {
    for (json, text) in [
        ("[]", "state of the nodes is malformed: "),
        ("{}", "state of the nodes is malformed: missing field `seq`"),
        (
            "{\"seq\":1,\"up\":\"0\"}",
            "state of the nodes is malformed: up: \"0\" are not all in R",
        ),
        (
            "{\"seq\":1,\"drained\":[{\"idset\":\"1\",\"timestamp\":1.0}]}",
            "state of the nodes is malformed: drained: \"1\" are not all in R",
        ),
        (
            "{\"seq\":1,\"define\":{}}",
            "state of the nodes is malformed: define: ",
        ),
    ] {
        let error = Resources::from_json(json.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(text), "{json}: {error}");
    }
}

#[test]
fn drained_nodes_that_left_are_remembered_up_to_a_bound() {
    let names: Vec<String> = (0..RESOURCES_GONE_MAX + 10)
        .map(|n| format!("n{n}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut resources = folded(&[defined(&names)]);
    let first = format!("0-{}", 8);
    let rest = format!("9-{}", names.len() - 1);
    let _ = post(&mut resources, &drain(&first, "first", 0)).unwrap();
    let _ = post(&mut resources, &drain(&rest, "later", 0)).unwrap();
    let _ = post(&mut resources, &defined(&["x"])).unwrap();
    assert_eq!(resources.gone().count(), RESOURCES_GONE_MAX);
    assert!(resources.gone().all(|(_, drain)| &*drain.reason == "later"));
}

/// Not one pass over all of them for each that is forgotten: that would take minutes.
#[test]
fn fault_a_large_set_that_leaves_drained_is_looked_through_once() {
    let names: Vec<String> = (0..100_000).map(|n| format!("n{n:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut resources = folded(&[defined(&names)]);
    let _ = post(&mut resources, &drain("0-99999", "all", 0)).unwrap();
    let _ = post(&mut resources, &defined(&["x"])).unwrap();
    let first = resources.gone().next().unwrap().0;
    assert_eq!(
        (resources.gone().count(), first),
        (RESOURCES_GONE_MAX, "n95904")
    );
}

fn any_event() -> impl Strategy<Value = ResourceEvent> {
    let ranks =
        || prop::collection::vec(0u32..4, 1..4).prop_map(|all| all.into_iter().collect::<Idset>());
    prop_oneof![
        prop::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 4)
            .prop_map(|names| defined(&names)),
        ranks().prop_map(|idset| ResourceEvent::Online { idset }),
        ranks().prop_map(|idset| ResourceEvent::Offline {
            idset,
            reason: None
        }),
        (ranks(), "[xy]", 0u8..3).prop_map(|(idset, reason, overwrite)| ResourceEvent::Drain {
            idset,
            reason,
            overwrite,
            userid: None
        }),
        ranks().prop_map(|idset| ResourceEvent::Undrain {
            idset,
            userid: None
        }),
    ]
}

proptest! {
    #[test]
    fn invariant_a_reader_that_begins_with_a_snapshot_ends_where_one_that_read_all_does(
        events in prop::collection::vec(any_event(), 0..30),
        cut in 0usize..30,
        back in 0usize..5,
    ) {
        let events: Vec<_> = [defined(&["a", "b", "c", "d"])].into_iter().chain(events).collect();
        let mut all = Resources::new();
        let (mut entries, mut snapshot) = (Vec::new(), None);
        let cut = cut.min(events.len());
        for (at, what) in events.iter().enumerate() {
            if at == cut {
                snapshot = Some(all.to_json());
            }
            let define = all.define().cloned();
            let event = what.to_event(Timestamp(at as f64), define.as_deref());
            let seq = Seq(at as u64 * 3 + 1);
            let _ = all.apply(seq, &event).unwrap();
            entries.push((seq, event));
        }
        let snapshot = snapshot.unwrap_or_else(|| all.to_json());
        let mut read = Resources::from_json(&snapshot).unwrap();
        prop_assert_eq!(&read.to_json(), &snapshot);
        for (seq, event) in &entries[cut.saturating_sub(back)..] {
            let _ = read.apply(*seq, event).unwrap();
        }
        prop_assert_eq!(read, all);
    }
}
