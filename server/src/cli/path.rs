//! Paths of the HTTP API, with names of any kind in them.

use std::fmt::Write;

/// The path of a topic.
pub(super) fn topic(topic: &str) -> String {
    format!("/v1/topics/{}", encoded(topic))
}

/// The path of a job.
pub(super) fn job(of: &str, id: &str) -> String {
    format!("{}/jobs/{}", topic(of), encoded(id))
}

/// The path of something that stands below another.
pub(super) fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", encoded(name))
}

/// A path with those of the parameters that have a value.
pub(super) fn with_query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    given.fold(path.to_owned(), |mut path, (name, value)| {
        let mark = if path.contains('?') { '&' } else { '?' };
        let _ = write!(path, "{mark}{name}={}", encoded(value));
        path
    })
}

/// A name as one part of a path: whatever has a meaning there is percent-encoded.
fn encoded(name: &str) -> String {
    // Whoever stands on the way may take these two for steps along the path.
    let is_step = name == "." || name == "..";
    name.bytes().fold(String::with_capacity(name.len()), |mut out, byte| {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_~".contains(&byte);
        if is_plain || (byte == b'.' && !is_step) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_a_path_whatever_is_in_it() {
        for (name, part) in [
            ("orders", "orders"),
            ("v1.2_a-b~", "v1.2_a-b~"),
            ("a/b c?", "a%2Fb%20c%3F"),
            ("支付宝", "%E6%94%AF%E4%BB%98%E5%AE%9D"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
            ("../x", "..%2Fx"),
            ("100%+#&=", "100%25%2B%23%26%3D"),
        ] {
            assert_eq!(encoded(name), part);
        }
        assert_eq!(job("a/b", "c d"), "/v1/topics/a%2Fb/jobs/c%20d");
    }

    #[test]
    fn only_parameters_with_a_value_are_sent() {
        let parameters = [("a", None), ("b", Some("1+1")), ("c", Some("x&y"))];
        assert_eq!(with_query("/p", &parameters), "/p?b=1%2B1&c=x%26y");
        assert_eq!(with_query("/p", &parameters[..1]), "/p");
    }
}
