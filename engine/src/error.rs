//! What can go wrong, as a stable code, a sentence, and the field at fault.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was refused. Match on [`Error::code`]; the text is for people.
#[derive(Clone)]
pub struct Error {
    code: Code,
    message: Cow<'static, str>,
    field: Option<&'static str>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// What a caller can do about an [`Error`]. Few, and stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Code] = &[$(Code::$variant),+];

            /// The code as it is written on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)+ }
            }
        }
    };
}

codes! {
    /// The request itself is wrong; sending it again will not help.
    Invalid = "invalid",
    /// There is no such job, topic or key.
    NotFound = "not_found",
    /// The id is taken.
    AlreadyExists = "already_exists",
    /// The lease ran out or was never yours; nothing was changed.
    LeaseLost = "lease_lost",
    /// The job is not in a state that allows the call.
    WrongState = "wrong_state",
    /// Something is over its size limit.
    TooLarge = "too_large",
    /// No valid key was given.
    Unauthorized = "unauthorized",
    /// The key does not allow this.
    Forbidden = "forbidden",
    /// Too many requests; try again later.
    RateLimited = "rate_limited",
    /// The queue has more work than it may hold; try again later.
    Overloaded = "overloaded",
    /// There is no space left; nothing was done.
    StorageFull = "storage_full",
    /// Storage failed; whether it was done is unknown until a restart.
    StorageFailed = "storage_failed",
    /// The store cannot be reached, or is stopping.
    Unavailable = "unavailable",
    /// The job (or key) has changed since the version that was named.
    VersionMismatch = "version_mismatch",
}

impl Error {
    /// An error with this code and sentence.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Error { code, message: message.into(), field: None, cause: None }
    }

    /// A request that is wrong in `field`.
    pub fn invalid(field: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Code::Invalid, message).field(field)
    }

    /// Names the field at fault.
    pub fn field(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// Keeps the error that led to this one.
    pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence for people: the thing, the value, the limit, the remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The field at fault, by its name on the wire.
    pub fn at_field(&self) -> Option<&'static str> {
        self.field
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match self.field {
            Some(field) => write!(f, " (field `{field}`)"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

/// Two errors are the same when a program would treat them the same: by code and field.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code && self.field == other.field
    }
}

/// The start of a caller's text, short enough to put into a message, and harmless in a log.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for c in clip(text, 60).chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The longest start of `text` of at most `bytes_max` bytes.
pub(crate) fn clip(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_caller_wrote_is_short_and_harmless_in_a_message() {
        assert_eq!(excerpt("a\r\nb\u{85}é🦀'\""), "a\\r\\nb\\u{85}é🦀'\"");
        assert_eq!(excerpt(&"é".repeat(60)), "é".repeat(30));
    }

    #[test]
    fn codes_can_stand_in_a_column() {
        assert_eq!(format!("{:<10}|", Code::Invalid), "invalid   |");
    }
}
