//! What a caller is told when something is refused.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::header::{ALLOW, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use linger::error::{Code, Error};

use super::write::{Object, json};

/// The result of whatever a route does.
pub(crate) type Result<T, E = Refused> = std::result::Result<T, E>;

/// An error as the caller sees it.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    code: Code,
    message: Cow<'static, str>,
    field: Option<Cow<'static, str>>,
    /// The methods that the route knows.
    allow: Option<&'static str>,
    /// Whether the connection is of no use any more.
    close: bool,
}

/// How soon a caller who was refused for overload may try again.
const RETRY_IN: Duration = Duration::from_secs(1);

impl Refused {
    /// Refuses a request that is wrong in `field`.
    pub(crate) fn invalid(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Refused {
        Refused { field: Some(field.into()), ..Refused::new(Code::Invalid, message) }
    }

    /// Refuses a request.
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Refused {
        Refused {
            status: status_of(code),
            code,
            message: message.into(),
            field: None,
            allow: None,
            close: false,
        }
    }

    /// Answers with another status of the same code.
    pub(crate) fn status(self, status: StatusCode) -> Refused {
        Refused { status, ..self }
    }

    /// Names the methods that would have been right.
    pub(crate) fn allow(self, methods: &'static str) -> Refused {
        Refused { allow: Some(methods), ..self }
    }

    /// Ends the connection after the answer.
    pub(crate) fn close(self) -> Refused {
        Refused { close: true, ..self }
    }

    /// Whether the connection is of no use any more.
    pub(crate) fn closes(&self) -> bool {
        self.close
    }

    /// The sentence for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The field at fault, if there is one.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Writes `"error":{…}`.
    pub(crate) fn write(&self, object: &mut Object<'_>) {
        object.object("error", |error| {
            error.text("code", self.code.as_str());
            error.text("message", &self.message);
            if let Some(field) = &self.field {
                error.text("field", field);
            }
        });
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        let field = error.at_field().map(Cow::Borrowed);
        Refused { field, ..Refused::new(error.code(), error.message().to_owned()) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.respond_with(|_| ())
    }
}

impl Refused {
    /// The answer, with more beside the error.
    pub(crate) fn respond_with(self, more: impl FnOnce(&mut Object<'_>)) -> Response {
        let mut answer = json(self.status, |object| {
            self.write(object);
            more(object);
        });
        // For the log.
        answer.extensions_mut().insert(self.code);
        let headers = answer.headers_mut();
        if self.status == StatusCode::SERVICE_UNAVAILABLE
            || self.status == StatusCode::TOO_MANY_REQUESTS
        {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_IN.as_secs()));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(methods) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}

/// The status that goes with a code.
pub(crate) fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Invalid => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::LeaseLost | Code::WrongState | Code::VersionMismatch => {
            StatusCode::CONFLICT
        }
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::StorageFailed => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Overloaded | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_an_entry_with_its_status() {
        let page = include_str!("../../../../docs/errors.md");
        let entries: Vec<&str> = page.split("\n## ").skip(1).collect();
        assert_eq!(entries.len(), Code::ALL.len());
        for code in Code::ALL {
            let title = format!("`{code}`\n\n");
            let entry = entries.iter().find_map(|entry| entry.strip_prefix(&title));
            let entry = entry.unwrap_or_else(|| panic!("docs/errors.md has no `{code}`"));
            let status = status_of(*code).as_u16().to_string();
            assert!(entry.starts_with(&status), "{code} is {status}, the page has: {entry}");
        }
    }
}
