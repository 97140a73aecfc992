//! Names that callers give: text that has been checked, cheap to clone.

use crate::error::{Error, Result, excerpt};

/// Whether a name may begin or end with white space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlankEnds {
    Allowed,
    Refused,
}

/// Refuses a name that is empty, too long, or has characters that a log or terminal would act on.
pub(crate) fn check(
    field: &'static str,
    text: &str,
    bytes_max: usize,
    ends: BlankEnds,
) -> Result<()> {
    let wrong = |message: String| Err(Error::invalid(field, message));
    if text.is_empty() {
        return wrong(format!("{field} is empty; give 1 to {bytes_max} bytes"));
    }
    if text.len() > bytes_max {
        return wrong(format!(
            "{field} `{}…` is {} bytes, over the limit of {bytes_max}",
            excerpt(text),
            text.len()
        ));
    }
    if let Some(bad) = text.chars().find(|c| c.is_control()) {
        return wrong(format!(
            "{field} has the control character U+{:04X}; leave it out",
            bad as u32
        ));
    }
    if ends == BlankEnds::Refused && text.trim() != text {
        return wrong(format!("{field} `{}` begins or ends with a blank; trim it", excerpt(text)));
    }
    Ok(())
}

macro_rules! name {
    ($(#[doc = $doc:literal])+ $name:ident, field $field:literal, bytes_max $max:literal, blank_ends allowed) => {
        name!(@ $(#[doc = $doc])+ $name, $field, $max, $crate::name::BlankEnds::Allowed);
    };
    ($(#[doc = $doc:literal])+ $name:ident, field $field:literal, bytes_max $max:literal, blank_ends refused) => {
        name!(@ $(#[doc = $doc])+ $name, $field, $max, $crate::name::BlankEnds::Refused);
    };
    (@ $(#[doc = $doc:literal])+ $name:ident, $field:literal, $max:literal, $ends:expr) => {
        $(#[doc = $doc])+
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// The longest it may be, in bytes.
            pub const BYTES_MAX: usize = $max;

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Refuses text that is none, without making one.
            pub(crate) fn check(text: &str) -> $crate::error::Result<()> {
                $crate::name::check($field, text, $max, $ends)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<Self> {
                Self::check(text)?;
                Ok($name(text.into()))
            }
        }

        impl TryFrom<&str> for $name {
            type Error = $crate::error::Error;

            fn try_from(text: &str) -> $crate::error::Result<Self> {
                text.parse()
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}
pub(crate) use name;
