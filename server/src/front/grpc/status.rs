//! What a caller is told when something is refused.

use linger::error::{Code, Error};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code as GrpcCode, Status};

use crate::proto::linger as pb;

/// Linger's own code.
const CODE: &str = "linger-code";
/// The field at fault.
const FIELD: &str = "linger-field";

/// The error as a status, with what HTTP would say of it in the metadata.
pub(super) fn of(error: Error) -> Status {
    let mut more = MetadataMap::new();
    more.insert(CODE, MetadataValue::from_static(error.code().as_str()));
    if let Some(field) = error.at_field() {
        more.insert(FIELD, MetadataValue::from_static(field));
    }
    Status::with_metadata(code_of(error.code()), error.message(), more)
}

/// The error of one item among many.
pub(super) fn item(error: &Error) -> pb::Error {
    pb::Error {
        code: error.code().as_str().to_owned(),
        message: error.message().to_owned(),
        field: error.at_field().unwrap_or_default().to_owned(),
    }
}

/// The status that goes with a code.
fn code_of(code: Code) -> GrpcCode {
    match code {
        Code::Invalid | Code::TooLarge => GrpcCode::InvalidArgument,
        Code::Unauthorized => GrpcCode::Unauthenticated,
        Code::Forbidden => GrpcCode::PermissionDenied,
        Code::NotFound => GrpcCode::NotFound,
        Code::AlreadyExists => GrpcCode::AlreadyExists,
        Code::LeaseLost | Code::WrongState => GrpcCode::FailedPrecondition,
        Code::VersionMismatch => GrpcCode::Aborted,
        Code::RateLimited | Code::StorageFull => GrpcCode::ResourceExhausted,
        Code::StorageFailed => GrpcCode::Internal,
        Code::Overloaded | Code::Unavailable => GrpcCode::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_status_on_the_page() {
        let page = include_str!("../../../../docs/errors.md");
        for code in Code::ALL {
            let entry = page.split("\n## ").find_map(|part| {
                part.strip_prefix(&format!("`{code}`\n\n")).map(|entry| entry.to_owned())
            });
            let entry = entry.unwrap_or_else(|| panic!("docs/errors.md has no `{code}`"));
            let debug = format!("{:?}", code_of(*code));
            let name = debug.chars().enumerate().fold(String::new(), |mut name, (at, c)| {
                if at > 0 && c.is_uppercase() {
                    name.push('_');
                }
                name.extend(c.to_uppercase());
                name
            });
            let first = entry.lines().next().unwrap_or_default();
            assert!(
                first.contains(&format!("`{name}`")),
                "{code} is {name}, the page has: {first}"
            );
        }
    }
}
