//! An eventlog as text (RFC 18): one event a line, each line ended by a newline.

use crate::event::{Event, EventError};

/// A text that is no eventlog.
#[derive(Debug, thiserror::Error)]
pub enum EventlogError {
    /// A line is no event.
    #[error("eventlog line {line}: {source}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        source: EventError,
    },
    /// The last line has no newline: something cut it off.
    #[error("eventlog line {line}: cut off: expected a newline at the end")]
    CutOff {
        /// Which line, from 1.
        line: usize,
    },
}

/// Appends an event and its newline.
pub fn write_line(buf: &mut Vec<u8>, event: &Event) {
    event.write_json(buf);
    buf.push(b'\n');
}

/// All events of a text.
/// # Errors
/// [`EventlogError`]: the first line that is no event, or a last line that was cut off.
pub fn parse(text: &[u8]) -> Result<Vec<Event>, EventlogError> {
    let (whole, rest) = split_whole(text);
    let mut events = Vec::new();
    for (at, line) in lines(whole).enumerate() {
        let event = Event::parse(line).map_err(|source| EventlogError::Line {
            line: at + 1,
            source,
        })?;
        events.push(event);
    }
    if rest.is_empty() {
        Ok(events)
    } else {
        Err(EventlogError::CutOff {
            line: events.len() + 1,
        })
    }
}

/// The lines of a text, without their newlines.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// The whole lines of a text, and what follows the last newline: a line still being written, or cut off.
#[must_use]
pub fn split_whole(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::time::Timestamp;

    const TEXT: &[u8] = b"{\"timestamp\":1.5,\"name\":\"validate\"}\n\
        {\"timestamp\":2.0,\"name\":\"finish\",\"context\":{\"status\":0}}\n";

    #[test]
    fn lines_and_events() {
        let events = parse(TEXT).unwrap();
        assert_eq!(events[0], Event::new(Timestamp(1.5), EventKind::Validate));
        assert_eq!(
            events[1],
            Event::new(Timestamp(2.0), EventKind::Finish { status: 0 })
        );
        let mut back = Vec::new();
        events.iter().for_each(|event| write_line(&mut back, event));
        assert_eq!(back, TEXT);
        assert!(parse(b"").unwrap().is_empty());
    }

    #[test]
    fn cut_at_every_byte_it_is_told() {
        for end in 0..TEXT.len() {
            let cut = &TEXT[..end];
            let whole_lines = cut.iter().filter(|&&byte| byte == b'\n').count();
            match parse(cut) {
                Ok(events) => {
                    assert!(cut.is_empty() || cut.ends_with(b"\n"), "{end}");
                    assert_eq!(events.len(), whole_lines);
                }
                Err(error) => {
                    let text = format!(
                        "eventlog line {}: cut off: expected a newline at the end",
                        whole_lines + 1
                    );
                    assert_eq!(error.to_string(), text);
                }
            }
            assert_eq!(parse(split_whole(cut).0).unwrap().len(), whole_lines);
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let text = [TEXT, b"\n"].concat();
        assert!(
            parse(&text)
                .unwrap_err()
                .to_string()
                .starts_with("eventlog line 3: malformed event")
        );
    }
}
