//! The examples of `rfc/1_wire.md`: each `wire` block is a frame that decodes to what its first line says and encodes back,
//! each `wire-bad` block is refused with the error its first line names.

#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::BytesMut;
use wire::{FRAME_LEN_MAX_DEFAULT, Message, decode, json_bytes, text_of, to_frame};

/// The first line and the bytes of each block with this mark.
fn blocks(mark: &str) -> Vec<(String, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rfc/1_wire.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut found, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        if line != format!("```{mark}") {
            continue;
        }
        let first = lines.next().unwrap().to_owned();
        let hex: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .map(|line| line.split('#').next().unwrap().replace(' ', ""))
            .collect();
        let bytes = hex::decode(&hex).unwrap_or_else(|error| panic!("{first}: {error}"));
        found.push((first, bytes));
    }
    found
}

/// A message as the first lines spell it.
fn first_line(message: &Message) -> String {
    match message {
        Message::Request(m) => format!(
            "request {} nodeid {} matchtag {}",
            m.topic, m.nodeid, m.matchtag
        ),
        Message::Response(m) => format!(
            "response {} errnum {} matchtag {}",
            m.topic, m.errnum, m.matchtag
        ),
        Message::Event(m) => format!("event {} sequence {}", m.topic, m.sequence),
        Message::Control(m) => format!("control - type {} status {}", m.kind, m.status),
    }
}

#[test]
fn every_frame_of_the_specification_decodes_and_encodes_back() {
    let blocks = blocks("wire");
    assert!(blocks.len() >= 16, "only {} examples", blocks.len());
    for (first, bytes) in blocks {
        let mut buf = BytesMut::from(&bytes[..]);
        let message = decode(&mut buf, FRAME_LEN_MAX_DEFAULT)
            .unwrap()
            .unwrap_or_else(|| panic!("{first}: cut"));
        assert!(buf.is_empty(), "{first}: {} bytes too many", buf.len());
        assert_eq!(first_line(&message), first);
        assert_eq!(to_frame(&message), bytes, "{first}");
        // What has a payload has JSON or an error's text, and its NUL.
        if let Some(payload) = message.payload() {
            let json = json_bytes(payload).unwrap();
            match &message {
                Message::Response(response) if response.errnum != 0 => {
                    assert!(text_of(payload).is_some(), "{first}")
                }
                _ => drop(serde_json::from_slice::<serde_json::Value>(&json).unwrap()),
            }
        }
    }
}

#[test]
fn every_bad_frame_of_the_specification_is_refused_as_it_says() {
    let blocks = blocks("wire-bad");
    assert!(blocks.len() >= 9, "only {} examples", blocks.len());
    for (first, bytes) in blocks {
        let error = decode(&mut BytesMut::from(&bytes[..]), FRAME_LEN_MAX_DEFAULT).unwrap_err();
        let name = format!("{error:?}");
        assert!(name.starts_with(&format!("{first} ")), "{first}: {error:?}");
    }
}

/// The texts of ENOSYS stand in the specification as the code writes them.
#[test]
fn the_two_enosys_texts_are_those_of_the_specification() {
    let answers: Vec<String> = blocks("wire")
        .into_iter()
        .filter_map(|(_, bytes)| {
            match decode(&mut BytesMut::from(&bytes[..]), FRAME_LEN_MAX_DEFAULT) {
                Ok(Some(Message::Response(m))) if m.errnum == wire::errno::ENOSYS => {
                    m.payload.as_deref().and_then(text_of).map(str::to_owned)
                }
                _ => None,
            }
        })
        .collect();
    assert_eq!(
        answers,
        [
            wire::no_service_text(&"nosuch.method".into()),
            wire::unknown_method_text(&"job-manager.nosuch".into())
        ]
    );
}
