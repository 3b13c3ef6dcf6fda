//! A job as a row: the attributes that were asked for and are defined, as JSON.
//!
//! ```text
//!  {"id":I, "userid":I?, "urgency":I?, "priority":I?, "t_submit":f?, … }
//! ```
//! Only defined attributes are written; none is ever null. Times, durations and expirations are reals with a decimal
//! point. Attributes come in the order of [`Attr::ALL`], whatever order was asked for.

use job::State;
use serde::Serialize;
use thiserror::Error;

use crate::{constraint::TimeField, record::Record};

macro_rules! attrs {
    ($($variant:ident $name:literal,)*) => {
        /// One attribute of a row, by its wire name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the wire names say it; rfc/4 has the table")]
        pub enum Attr { $($variant,)* }

        impl Attr {
            /// All, in the order in which a row has them.
            pub const ALL: &'static [Attr] = &[$(Attr::$variant,)*];

            /// The wire name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Attr::$variant => $name,)* }
            }

            fn key(self) -> &'static str {
                match self { $(Attr::$variant => concat!(",\"", $name, "\":"),)* }
            }

            fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Attr::$variant),)* _ => None }
            }
        }
    };
}

attrs! {
    Userid "userid",
    Urgency "urgency",
    Priority "priority",
    TSubmit "t_submit",
    TDepend "t_depend",
    TPriority "t_priority",
    TSched "t_sched",
    TRun "t_run",
    TCleanup "t_cleanup",
    TInactive "t_inactive",
    State "state",
    Name "name",
    Cwd "cwd",
    Queue "queue",
    Project "project",
    Bank "bank",
    Ntasks "ntasks",
    Ncores "ncores",
    Duration "duration",
    Nnodes "nnodes",
    Ranks "ranks",
    Nodelist "nodelist",
    Success "success",
    ExceptionOccurred "exception_occurred",
    ExceptionSeverity "exception_severity",
    ExceptionType "exception_type",
    ExceptionNote "exception_note",
    Result "result",
    Expiration "expiration",
    Annotations "annotations",
    Dependencies "dependencies",
    Waitstatus "waitstatus",
    Parent "parent",
}

/// Every attribute.
pub const ATTR_EVERY: &str = "all";

/// An attribute there is not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0} is not a valid attribute")]
pub struct UnknownAttr(pub Box<str>);

/// The attributes a row shall have. An unknown name is an error only when a row is written: a query that matches
/// nothing never notices, and clients rely on that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attrs {
    bits: u64,
    unknown: Option<UnknownAttr>,
}

impl Attrs {
    /// The attributes of these names.
    #[must_use]
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut attrs = Self::default();
        for name in names {
            if name == ATTR_EVERY {
                attrs.bits = u64::MAX;
            } else if let Some(attr) = Attr::named(name) {
                attrs.bits |= 1 << attr as u32;
            } else if attrs.unknown.is_none() {
                attrs.unknown = Some(UnknownAttr(
                    name.chars().take(64).collect::<String>().into(),
                ));
            }
        }
        attrs
    }

    /// Whether `attr` is asked for.
    #[must_use]
    pub fn has(&self, attr: Attr) -> bool {
        self.bits & (1 << attr as u32) != 0
    }

    /// Appends one job's row.
    ///
    /// # Errors
    /// [`UnknownAttr`]: a name that was asked for is none. Nothing was appended.
    pub fn write(&self, record: &Record, out: &mut Vec<u8>) -> Result<(), UnknownAttr> {
        if let Some(unknown) = &self.unknown {
            return Err(unknown.clone());
        }
        out.extend_from_slice(b"{\"id\":");
        integer(out, record.id().0);
        for &attr in Attr::ALL {
            if self.has(attr) {
                write_attr(attr, record, out);
            }
        }
        out.push(b'}');
        Ok(())
    }
}

fn write_attr(attr: Attr, record: &Record, out: &mut Vec<u8>) {
    let job = record.job();
    let spec = record.spec();
    let allocation = record.allocation();
    let over = job.state == State::Inactive;
    let exception = if over { job.exception.as_deref() } else { None };
    match attr {
        Attr::Userid => put(out, attr, Some(job.userid), |out, id| {
            integer(out, id.into())
        }),
        Attr::Urgency => put(out, attr, Some(job.urgency.get()), |out, urgency| {
            integer(out, urgency.into())
        }),
        Attr::State => put(out, attr, Some(job.state.bit()), |out, state| {
            integer(out, state.into())
        }),
        Attr::Priority => put(out, attr, job.priority, |out, priority| {
            integer(out, priority.0.into())
        }),
        Attr::TSubmit => put(out, attr, record.time(TimeField::Submit), real),
        Attr::TDepend => put(out, attr, record.time(TimeField::Depend), real),
        Attr::TPriority => put(out, attr, record.time(TimeField::Priority), real),
        Attr::TSched => put(out, attr, record.time(TimeField::Sched), real),
        Attr::TRun => put(out, attr, record.time(TimeField::Run), real),
        Attr::TCleanup => put(out, attr, record.time(TimeField::Cleanup), real),
        Attr::TInactive => put(out, attr, record.time(TimeField::Inactive), real),
        Attr::Name => put(out, attr, spec.name.as_deref(), text),
        Attr::Cwd => put(out, attr, spec.cwd.as_deref(), text),
        Attr::Queue => put(out, attr, spec.queue.as_deref(), text),
        Attr::Project => put(out, attr, spec.project.as_deref(), text),
        Attr::Bank => put(out, attr, spec.bank.as_deref(), text),
        Attr::Ntasks => put(out, attr, spec.ntasks, |out, n| integer(out, n.into())),
        Attr::Duration => put(out, attr, spec.duration(), real),
        Attr::Ncores => {
            let ncores = allocation
                .map(|allocation| allocation.ncores)
                .or(spec.ncores);
            put(out, attr, ncores, |out, n| integer(out, n.into()));
        }
        Attr::Nnodes => {
            let nnodes = allocation
                .map(|allocation| allocation.nnodes)
                .or(spec.nnodes);
            put(out, attr, nnodes, |out, n| integer(out, n.into()));
        }
        Attr::Ranks => put(
            out,
            attr,
            allocation.map(|allocation| allocation.ranks.as_ref()),
            text,
        ),
        Attr::Nodelist => put(
            out,
            attr,
            allocation.map(|allocation| allocation.nodelist.as_ref()),
            text,
        ),
        Attr::Success => put(out, attr, over.then(|| job.success()), boolean),
        Attr::ExceptionOccurred => put(out, attr, over.then_some(job.exception.is_some()), boolean),
        Attr::ExceptionSeverity => put(out, attr, exception.map(|e| e.severity), |out, n| {
            integer(out, n.into())
        }),
        Attr::ExceptionType => put(out, attr, exception.map(|e| e.kind.as_str()), text),
        Attr::ExceptionNote => put(out, attr, exception.map(|e| e.note.as_str()), text),
        Attr::Result => put(out, attr, job.result(), |out, result| {
            integer(out, result.bit().into())
        }),
        Attr::Expiration => put(out, attr, record.expiration(), real),
        Attr::Annotations => put(out, attr, job.annotations.as_deref(), json),
        Attr::Dependencies => put(out, attr, job.dependencies.as_deref(), |out, list| {
            json(out, &**list)
        }),
        Attr::Waitstatus => put(out, attr, job.finish_status, |out, status| {
            signed(out, status.into())
        }),
        Attr::Parent => put(out, attr, record.parent(), |out, id| integer(out, id.0)),
    }
}

fn put<T>(out: &mut Vec<u8>, attr: Attr, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    if let Some(value) = value {
        out.extend_from_slice(attr.key().as_bytes());
        write(out, value);
    }
}

/// Appends an integer.
pub fn integer(out: &mut Vec<u8>, mut value: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + (value % 10) as u8);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    integer(out, value.unsigned_abs());
}

/// Appends a real, with a decimal point whatever its value.
pub fn real(out: &mut Vec<u8>, value: f64) {
    let start = out.len();
    json(out, &value);
    let plain = out
        .get(start..)
        .is_some_and(|digits| digits.contains(&b'.') && !digits.contains(&b'e'));
    if !plain {
        out.truncate(start);
        let digits = if value.is_finite() {
            value.to_string()
        } else {
            String::from("0.0")
        };
        out.extend_from_slice(digits.as_bytes());
        if !digits.contains('.') {
            out.extend_from_slice(b".0");
        }
    }
}

fn boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends a string, quoted and escaped.
pub fn text(out: &mut Vec<u8>, value: &str) {
    json(out, value);
}

/// Appends any value. One that has no JSON becomes null; none here has that.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"x".to_vec();
        write(&mut out);
        String::from_utf8(out).expect("UTF-8").split_off(1)
    }

    #[test]
    fn reals_always_have_a_decimal_point() {
        for (value, expected) in [
            (0.0, "0.0"),
            (600.0, "600.0"),
            (1.5, "1.5"),
            (1e16, "10000000000000000.0"),
            (1e-7, "0.0000001"),
        ] {
            assert_eq!(written(|out| real(out, value)), expected);
        }
        assert_eq!(written(|out| real(out, f64::INFINITY)), "0.0");
    }

    #[test]
    fn integers_and_texts_are_written_as_json() {
        assert_eq!(written(|out| integer(out, 0)), "0");
        assert_eq!(written(|out| integer(out, u64::MAX)), u64::MAX.to_string());
        assert_eq!(written(|out| signed(out, -15)), "-15");
        assert_eq!(written(|out| text(out, "a\"b\nƒ")), "\"a\\\"b\\nƒ\"");
    }

    #[test]
    fn every_attribute_has_a_bit_of_its_own_and_names_read_back() {
        assert!(Attr::ALL.len() < 64);
        for (at, &attr) in Attr::ALL.iter().enumerate() {
            assert_eq!(attr as usize, at);
            assert_eq!(Attr::named(attr.name()), Some(attr));
        }
        let attrs = Attrs::named(["state", "nosuch", "neither"]);
        assert!(attrs.has(Attr::State) && !attrs.has(Attr::Name));
        assert_eq!(
            attrs.unknown.map(|unknown| unknown.to_string()),
            Some("nosuch is not a valid attribute".into())
        );
    }
}
