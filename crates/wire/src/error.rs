//! What can be wrong with bytes that should be a frame: where, what was needed, what was there.
//!
//! Every one of them means the peer cannot be understood any more; whoever reads the connection closes it, and only it.

/// Bytes that are no message. `offset` counts from the start of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The frame does not begin as frames do.
    #[error("frame magic at byte {offset}: need {need:#010x}, have {have:#010x}")]
    FrameMagic {
        /// Where.
        offset: usize,
        /// The magic, read as a big-endian word.
        need: u32,
        /// What stands there.
        have: u32,
    },
    /// Too short to hold even the message header.
    #[error("frame length at byte {offset}: need at least {need}, have {have}")]
    FrameTooShort {
        /// Where the length stands.
        offset: usize,
        /// The shortest body there is.
        need: usize,
        /// The length announced.
        have: usize,
    },
    /// Longer than this reader takes.
    #[error("frame length at byte {offset}: at most {need} are taken, {have} announced")]
    FrameTooLong {
        /// Where the length stands.
        offset: usize,
        /// The cap.
        need: usize,
        /// The length announced.
        have: usize,
    },
    /// A part runs past the end of its frame, or is missing.
    #[error("part at byte {offset}: need {need} bytes, have {have}")]
    PartCut {
        /// Where the part begins.
        offset: usize,
        /// Its length with its length prefix.
        need: usize,
        /// What is left of the frame.
        have: usize,
    },
    /// Something stands between the last announced part and the header.
    #[error(
        "message header at byte {offset}: need {need} bytes to the end of the frame, have {have}"
    )]
    Trailing {
        /// Where the header should begin.
        offset: usize,
        /// The length of a header part.
        need: usize,
        /// What is left of the frame.
        have: usize,
    },
    /// The message header does not begin as headers do.
    #[error("header magic at byte {offset}: need {need:#04x}, have {have:#04x}")]
    HeaderMagic {
        /// Where.
        offset: usize,
        /// The magic byte.
        need: u8,
        /// What stands there.
        have: u8,
    },
    /// A version of the encoding that is not spoken here.
    #[error("header version at byte {offset}: need {need}, have {have}")]
    HeaderVersion {
        /// Where.
        offset: usize,
        /// The version spoken here.
        need: u8,
        /// The version met.
        have: u8,
    },
    /// No message type, or several.
    #[error("message type at byte {offset}: need 1, 2, 4 or 8, have {have}")]
    MessageType {
        /// Where.
        offset: usize,
        /// What stands there.
        have: u8,
    },
    /// Flags that this type of message must have are missing.
    #[error(
        "flags of a type {kind} message at byte {offset}: need {need:#04x} set, have {have:#04x}"
    )]
    FlagsMissing {
        /// Where.
        offset: usize,
        /// The message type.
        kind: u8,
        /// The flags that must be set.
        need: u8,
        /// The flags met.
        have: u8,
    },
    /// Flags that exclude each other, or that this type of message cannot have.
    #[error(
        "flags of a type {kind} message at byte {offset}: {refused:#04x} cannot be set in {have:#04x}"
    )]
    FlagsRefused {
        /// Where.
        offset: usize,
        /// The message type.
        kind: u8,
        /// The flags that cannot be set (together).
        refused: u8,
        /// The flags met.
        have: u8,
    },
    /// The topic is not UTF-8.
    #[error("topic at byte {offset}: not UTF-8")]
    TopicNotUtf8 {
        /// The first byte that is not.
        offset: usize,
    },
    /// More route hops than any real message carries.
    #[error("route hops at byte {offset}: at most {need} are taken, more are there")]
    TooManyHops {
        /// Where the first hop too many begins.
        offset: usize,
        /// The bound.
        need: usize,
    },
}
