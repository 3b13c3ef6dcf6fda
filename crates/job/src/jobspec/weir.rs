//! `attributes.system.weir`: what kind of job it is, where Flux has no word for it.
//!
//! ```text
//! {"type"?:"batch" | "sysbatch",                  sysbatch: once on every node that is ready
//!  "parameterized"?:{"payload"?:"optional" | "required" | "forbidden",
//!                    "meta_required"?:[KEY…],"meta_optional"?:[KEY…]},     it is dispatched, never run
//!  "parent"?:ID,"dispatch"?:{"meta":{KEY:s…},"payload"?:BASE64}}           of a dispatched job
//! KEY = 1 to 128 letters, digits, _, - or .
//! ```

use super::error::JobspecError;
use super::tree::{Object, Tree};
use crate::id::JobId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The most meta keys a parameterized job may have.
pub const META_KEYS_MAX: usize = 128;

/// The most bytes a meta key may have.
pub const META_KEY_BYTES_MAX: usize = 128;

/// The most bytes all meta values of one dispatch may have.
pub const META_VALUES_BYTES_MAX: usize = 64 << 10;

/// The most bytes the payload of a dispatch may have.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 10;

/// What kind of job it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JobType {
    /// It runs once, where there is room.
    #[default]
    Batch,
    /// It runs once on every node that is ready when it starts.
    Sysbatch,
    /// It never runs: it is what others are dispatched from.
    Parameterized,
}

/// What a jobspec says under `attributes.system.weir`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weir {
    /// Whether it is `sysbatch`.
    pub sysbatch: bool,
    /// What can be dispatched from it.
    pub parameterized: Option<Parameterized>,
    /// What it was dispatched from.
    pub parent: Option<JobId>,
    /// What it was dispatched with.
    pub dispatch: Option<Dispatch>,
}

/// What a dispatch may or must come with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameterized {
    /// Whether with a payload.
    pub payload: Payload,
    /// Which keys it must have.
    pub meta_required: Vec<String>,
    /// Which keys it may have besides.
    pub meta_optional: Vec<String>,
}

/// Whether a dispatch comes with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payload {
    /// It may.
    #[default]
    Optional,
    /// It must.
    Required,
    /// It must not.
    Forbidden,
}

/// What a job was dispatched with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dispatch {
    /// Keys and values, in the order they are written.
    pub meta: Vec<(String, String)>,
    /// What its tasks read from their standard input.
    pub payload: Option<Vec<u8>>,
}

impl JobType {
    /// As Nomad names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            JobType::Batch | JobType::Parameterized => "batch",
            JobType::Sysbatch => "sysbatch",
        }
    }
}

impl Payload {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Payload::Optional => "optional",
            Payload::Required => "required",
            Payload::Forbidden => "forbidden",
        }
    }
}

/// The variables a meta key is given to tasks as: its letters in capitals, anything but letters and digits as `_`.
#[must_use]
pub fn meta_variables(key: &str) -> [String; 2] {
    let name: String = key
        .chars()
        .map(|c| match c.to_ascii_uppercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        })
        .collect();
    [format!("WEIR_META_{name}"), format!("NOMAD_META_{name}")]
}

/// Whether a text can be a meta key.
#[must_use]
pub fn is_meta_key(key: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=META_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(plain)
}

const EXPECTED_KEY: &str = "a key of 1 to 128 letters, digits, _, - or .";
const EXPECTED_PAYLOAD: &str = "base64 of at most 16384 bytes";

/// Reads it; `nslots` and `nodes` are what the job asks for.
pub(super) fn read(
    root: &Object<'_, '_>,
    system: &Object<'_, '_>,
    nslots: u64,
    nodes: Option<u64>,
) -> Result<Option<Box<Weir>>, JobspecError> {
    let Some(weir) = system.object("weir")? else {
        return Ok(None);
    };
    let sysbatch = match weir.text("type")? {
        None | Some("batch") => false,
        Some("sysbatch") => true,
        Some(_) => return Err(weir.field("type", "\"batch\" or \"sysbatch\"")),
    };
    if sysbatch && (nslots != 1 || nodes.is_some()) {
        return Err(root.field(
            "resources",
            "exactly one slot, no node around it, for a sysbatch job: it gets one on every node",
        ));
    }
    let parameterized = weir
        .object("parameterized")?
        .map(|one| read_parameterized(&one))
        .transpose()?;
    let parent = match weir.tree().get("parent") {
        None => None,
        Some(Tree::Number(number)) if number.is_u64() => number.as_u64().map(JobId),
        Some(_) => return Err(weir.field("parent", "the id of a job, a decimal number")),
    };
    let dispatch = weir
        .object("dispatch")?
        .map(|one| read_dispatch(&one))
        .transpose()?;
    if dispatch.is_some() && parent.is_none() {
        return Err(weir.field("parent", "the id of the job it was dispatched from"));
    }
    if parent.is_some() && parameterized.is_some() {
        return Err(weir.field("parameterized", "no such key in a dispatched job"));
    }
    Ok(Some(Box::new(Weir {
        sysbatch,
        parameterized,
        parent,
        dispatch,
    })))
}

fn read_parameterized(one: &Object<'_, '_>) -> Result<Parameterized, JobspecError> {
    let payload = match one.text("payload")? {
        None | Some("optional") => Payload::Optional,
        Some("required") => Payload::Required,
        Some("forbidden") => Payload::Forbidden,
        Some(_) => {
            return Err(one.field("payload", "\"optional\", \"required\" or \"forbidden\""));
        }
    };
    let mut read = Parameterized {
        payload,
        ..Parameterized::default()
    };
    read_keys(one, "meta_required", &mut read.meta_required, &[])?;
    let required = read.meta_required.clone();
    read_keys(one, "meta_optional", &mut read.meta_optional, &required)?;
    Ok(read)
}

fn read_keys(
    one: &Object<'_, '_>,
    field: &str,
    keys: &mut Vec<String>,
    others: &[String],
) -> Result<(), JobspecError> {
    for (at, value) in one.array(field)?.unwrap_or_default().iter().enumerate() {
        let key = value.as_str().filter(|key| is_meta_key(key));
        let key = key.ok_or_else(|| one.element(field, at, value, EXPECTED_KEY))?;
        if keys.iter().chain(others).any(|known| known == key) {
            return Err(one.element(field, at, value, "each key once"));
        }
        if keys.len() + others.len() == META_KEYS_MAX {
            return Err(one.field(field, "at most 128 keys, required and optional"));
        }
        keys.push(key.to_owned());
    }
    Ok(())
}

fn read_dispatch(one: &Object<'_, '_>) -> Result<Dispatch, JobspecError> {
    let mut read = Dispatch::default();
    if let Some(meta) = one.object("meta")? {
        let mut bytes = 0;
        for (key, value) in meta.entries() {
            if !is_meta_key(key) {
                return Err(meta.entry(key, value, EXPECTED_KEY));
            }
            let text = value.plain_text();
            let text = text.ok_or_else(|| meta.entry(key, value, "a string without NUL"))?;
            bytes += text.len();
            if bytes > META_VALUES_BYTES_MAX || read.meta.len() == META_KEYS_MAX {
                return Err(one.field("meta", "at most 128 keys and 65536 bytes of values"));
            }
            read.meta.push((key.to_owned(), text.to_owned()));
        }
    }
    if let Some(text) = one.text("payload")? {
        let payload = STANDARD.decode(text).ok();
        let payload = payload.filter(|bytes| bytes.len() <= PAYLOAD_BYTES_MAX);
        read.payload = Some(payload.ok_or_else(|| one.field("payload", EXPECTED_PAYLOAD))?);
    }
    Ok(read)
}
