//! The names of events, interned: a filter over known names is a bit set.

use std::fmt;
use std::sync::Arc;

macro_rules! names {
    ($($variant:ident = $bit:literal $text:literal,)*) => {
        /// The name of an event.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum EventName {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// Any other name.
            Other(Arc<str>),
        }

        impl EventName {
            /// Every name that has a bit.
            pub const KNOWN: &[EventName] = &[$(EventName::$variant),*];

            /// The name as it is written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(EventName::$variant => $text,)*
                    EventName::Other(name) => name,
                }
            }

            /// The place of a known name in a 64-bit set; the places never change.
            #[must_use]
            pub fn bit(&self) -> Option<u32> {
                match self {
                    $(EventName::$variant => Some($bit),)*
                    EventName::Other(_) => None,
                }
            }
        }

        impl From<&str> for EventName {
            fn from(text: &str) -> EventName {
                match text {
                    $($text => EventName::$variant,)*
                    other => EventName::Other(Arc::from(other)),
                }
            }
        }
    };
}

names! {
    Submit = 0 "submit",
    Validate = 1 "validate",
    Invalidate = 2 "invalidate",
    DependencyAdd = 3 "dependency-add",
    DependencyRemove = 4 "dependency-remove",
    Depend = 5 "depend",
    Priority = 6 "priority",
    Urgency = 7 "urgency",
    JobspecUpdate = 8 "jobspec-update",
    FluxRestart = 9 "flux-restart",
    ResourceUpdate = 10 "resource-update",
    Alloc = 11 "alloc",
    PrologStart = 12 "prolog-start",
    PrologFinish = 13 "prolog-finish",
    EpilogStart = 14 "epilog-start",
    EpilogFinish = 15 "epilog-finish",
    Start = 16 "start",
    Exception = 17 "exception",
    Finish = 18 "finish",
    Release = 19 "release",
    Free = 20 "free",
    Clean = 21 "clean",
    Memo = 22 "memo",
    Annotations = 23 "annotations",
    SetFlags = 24 "set-flags",
    AllocStatus = 25 "alloc-status",
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
