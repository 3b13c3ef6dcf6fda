//! How jobs, nodes and allocations are called on HTTP.
//!
//! ```text
//!  job         f2abc                                  ASCII F58
//!  child       f2abc/dispatch-1790000000-f2abd        its parent's, the second of its submit, its own
//!  node        UUID text of the first 16 bytes of blake3("weir-node:" + name)
//!  allocation  UUID text of job id (8 bytes), version (2), zero (2), rank (4), big endian: ids of one job sort by rank
//! ```

use job::JobId;

/// The one namespace.
pub const NAMESPACE: &str = "default";
/// The one region.
pub const REGION: &str = "global";
/// The one datacenter.
pub const DATACENTER: &str = "dc1";
/// The label of the task group when the jobspec says nothing.
pub const GROUP: &str = "task";
/// Bytes of a UUID's text.
pub const UUID_BYTES: usize = 36;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// 16 bytes as the text of a UUID.
#[must_use]
pub fn uuid(bytes: [u8; 16]) -> [u8; UUID_BYTES] {
    let mut text = [b'-'; UUID_BYTES];
    let mut at = 0;
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        for digit in [byte >> 4, byte & 15] {
            if let (Some(place), Some(&hex)) = (text.get_mut(at), HEX.get(usize::from(digit))) {
                *place = hex;
            }
            at += 1;
        }
    }
    text
}

/// The 16 bytes of a UUID's text.
#[must_use]
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != UUID_BYTES {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = text.iter().enumerate().filter_map(|(at, &byte)| {
        let dash = matches!(at, 8 | 13 | 18 | 23);
        (!dash || byte != b'-').then_some(byte)
    });
    for byte in &mut bytes {
        for _ in 0..2 {
            let digit = char::from(digits.next()?).to_digit(16)?;
            *byte = (*byte << 4) | u8::try_from(digit).ok()?;
        }
    }
    digits.next().is_none().then_some(bytes)
}

/// The id of a node.
#[must_use]
pub fn node(name: &str) -> [u8; UUID_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"weir-node:");
    hasher.update(name.as_bytes());
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    uuid(bytes)
}

/// The bytes of an allocation's id.
#[must_use]
pub fn allocation_bytes(job: JobId, version: u16, rank: u32) -> [u8; 16] {
    let value = u128::from(job.0) << 64 | u128::from(version) << 48 | u128::from(rank);
    value.to_be_bytes()
}

/// The id of an allocation.
#[must_use]
pub fn allocation(job: JobId, version: u16, rank: u32) -> [u8; UUID_BYTES] {
    uuid(allocation_bytes(job, version, rank))
}

/// Job, version and rank of an allocation's id.
#[must_use]
pub fn parse_allocation(text: &str) -> Option<(JobId, u16, u32)> {
    let value = u128::from_be_bytes(parse_uuid(text)?);
    let low = u64::try_from(value & u128::from(u64::MAX)).ok()?;
    let version = u16::try_from(low >> 48).ok()?;
    let rank = u32::try_from(low & 0xffff_ffff_ffff).ok()?;
    Some((JobId(u64::try_from(value >> 64).ok()?), version, rank))
}

/// A UUID's text as text.
#[must_use]
pub fn text(uuid: &[u8; UUID_BYTES]) -> &str {
    std::str::from_utf8(uuid).unwrap_or_default()
}

/// The job a text names: any spelling of an id, with or without what a child's name has before it.
#[must_use]
pub fn parse_job(text: &str) -> Option<JobId> {
    let own = match text.rsplit_once('/') {
        // `dispatch-SECONDS-ID`: an id in words has dashes, too, so take what follows the second one.
        Some((_, child)) => match child.strip_prefix("dispatch-") {
            Some(rest) => rest.split_once('-').map_or(child, |(_, own)| own),
            None => child,
        },
        None => text,
    };
    own.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_allocations_sort_by_rank_and_read_back() {
        let id = allocation(JobId(0x0102_0304_0506_0708), 0, 7);
        assert_eq!(text(&id), "01020304-0506-0708-0000-000000000007");
        assert_eq!(
            parse_allocation(text(&id)),
            Some((JobId(0x0102_0304_0506_0708), 0, 7))
        );
        let mut before = allocation(JobId(5), 0, 0);
        for rank in [1, 9, 10, 255, 256, 65_536, u32::MAX] {
            let next = allocation(JobId(5), 0, rank);
            assert!(before < next);
            before = next;
        }
        for text in [
            "",
            "x",
            "01020304-0506-0708-0000-00000000000g",
            "0102030405060708000000000000000700000",
        ] {
            assert_eq!(parse_uuid(text), None, "{text}");
        }
    }

    #[test]
    fn a_node_has_the_same_id_in_every_life() {
        assert_eq!(node("n0"), node("n0"));
        assert_ne!(node("n0"), node("n1"));
        assert_eq!(parse_uuid(text(&node("n0"))).map(uuid), Some(node("n0")));
    }

    #[test]
    fn any_spelling_of_a_job_is_read_with_or_without_its_parent() {
        let id = JobId(443_035_942_912);
        for own in [
            id.f58(true),
            id.f58(false),
            "443035942912".into(),
            id.dothex(),
            id.words(),
        ] {
            assert_eq!(parse_job(&own), Some(id), "{own}");
            assert_eq!(
                parse_job(&format!("f2/dispatch-17-{own}")),
                Some(id),
                "{own}"
            );
        }
        assert_eq!(parse_job("shop"), None);
        assert_eq!(parse_job("f2/dispatch-17-"), None);
    }
}
