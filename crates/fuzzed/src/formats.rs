//! The small formats around a job: ids, sets of ranks, lists of hosts, durations, resources. What is read is shown, and read again.

use bytes::Bytes;
use job::fsd::Fsd;
use job::r::{R_NODES_MAX, with_expiration, without_scheduling};
use job::{
    Hostlist, Idset, JobId, R, Resources, hostlist::HOSTLIST_HOSTS_MAX, idset::IDSET_RANGES_MAX,
};
use std::fmt::Display;
use std::str::FromStr;

/// Lists up to this long are written out name by name.
const NAMES_MAX: u64 = 4096;
/// The longest text a refusal may have, whatever was sent.
const ERROR_BYTES_MAX: usize = 2048;

/// Reads the bytes as each of them.
pub fn check(data: &[u8]) {
    resources(data);
    nodes(data);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(id) = read::<JobId>(text) {
        for shown in [id.f58(false), id.f58(true), id.dothex(), id.0.to_string()] {
            assert_eq!(shown.parse().ok(), Some(id), "{shown}");
        }
    }
    if let Some(set) = read::<Idset>(text) {
        assert_eq!(set.to_string().parse().ok().as_ref(), Some(&set));
        assert_eq!(set.bracketed().parse().ok().as_ref(), Some(&set));
        idset(&set);
    }
    if let Some(list) = read::<Hostlist>(text) {
        hosts(&list);
    }
    if let Some(duration) = read::<Fsd>(text) {
        assert!(duration.0 >= 0.0, "{}", duration.0);
        let again = duration.to_string().parse::<Fsd>();
        // Six digits are shown; below a microsecond, none.
        let near = again.is_ok_and(|again| {
            again == duration || (again.0 - duration.0).abs() <= duration.0 * 1e-5 + 1e-6
        });
        assert!(near, "{text} is shown as {duration}");
    }
}

fn read<T: FromStr<Err: Display>>(text: &str) -> Option<T> {
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            let error = error.to_string();
            assert!(
                error.len() <= ERROR_BYTES_MAX,
                "{} bytes of error",
                error.len()
            );
            None
        }
    }
}

/// The state of an instance's nodes.
fn nodes(data: &[u8]) {
    let Ok(nodes) = Resources::from_json(data) else {
        return;
    };
    let json = nodes.to_json();
    let again = Resources::from_json(&json);
    assert!(again.is_ok(), "{:?}", again.err());
    if let Ok(again) = again {
        assert_eq!(again, nodes);
        assert_eq!(again.to_json(), json);
    }
    assert!(nodes.up().is_subset(nodes.ranks()));
    assert!(nodes.ready().is_subset(nodes.up()));
    assert_eq!(nodes.nodes().count() as u64, nodes.ranks().count());
    assert!(
        nodes
            .drained()
            .all(|(rank, _)| nodes.ranks().contains(rank))
    );
}

fn idset(set: &Idset) {
    let ranges = set.ranges();
    assert!(ranges.len() <= IDSET_RANGES_MAX);
    assert!(ranges.iter().all(|(first, last)| first <= last));
    assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
    assert_eq!(set.is_empty(), set.count() == 0);
    assert_eq!(
        (set.first().is_some(), set.last().is_some()),
        (!set.is_empty(), !set.is_empty())
    );
    if set.count() <= NAMES_MAX {
        let mut rest = set.clone();
        for id in set.iter() {
            assert!(set.contains(id) && rest.remove(id));
        }
        assert!(rest.is_empty());
    }
}

fn hosts(list: &Hostlist) {
    assert!(list.count() <= HOSTLIST_HOSTS_MAX);
    let again = list.to_string().parse::<Hostlist>();
    assert!(
        again.is_ok(),
        "{list} is shown and not read: {:?}",
        again.err()
    );
    let again = again.unwrap_or_default();
    assert_eq!(again.count(), list.count(), "{list}");
    if list.count() <= NAMES_MAX {
        let names: Vec<String> = list.iter().collect();
        assert_eq!(names.len() as u64, list.count());
        assert!(
            again.iter().eq(names.iter().map(String::as_str)),
            "{list}: {names:?}"
        );
        assert!(
            names.iter().all(|name| list.contains(name)),
            "{list}: {names:?}"
        );
        assert!(
            Hostlist::from_names(&names)
                .iter()
                .eq(names.iter().map(String::as_str))
        );
    }
}

fn resources(data: &[u8]) {
    let _ = without_scheduling(&Bytes::copy_from_slice(data));
    let Ok(r) = R::parse(data) else { return };
    assert_eq!(
        R::parse(&r.to_json()).ok().as_ref(),
        Some(&r),
        "written and read again"
    );
    assert!(r.nnodes() <= R_NODES_MAX);
    assert_eq!(r.ranks().count(), r.nnodes(), "no rank comes twice");
    let _ = (r.ncores(), r.ngpus(), r.summary());
    let later = with_expiration(data, 5.0).map(|json| R::parse(&json));
    assert!(matches!(later, Ok(Ok(later)) if later.expiration == 5.0));
    if r.nnodes() <= NAMES_MAX {
        let nodes = r.nodes();
        assert_eq!(nodes.len() as u64, r.nnodes());
        let built = R::build(&nodes, r.starttime, r.expiration, r.nslots);
        assert_eq!(built.ncores(), r.ncores());
        if !r.nodelist.is_empty() {
            assert_eq!(built.nodes(), nodes);
        }
    }
}
