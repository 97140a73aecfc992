//! What an instance is to others that share its store.

use linger::store::redis;

use super::value::{Raw, Value, quoted};

/// What an instance is to others that share its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What people call it. None: as its machine is called.
    pub name: Option<Label>,
    /// Those of one group take load off each other first.
    pub group: Label,
    /// How large its share of the buckets is, against that of others.
    pub weight: usize,
    /// The load over which it hands buckets to others; 0 is none.
    pub threshold: usize,
}

/// A name for an instance or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(String);

impl Label {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Label {
    fn default() -> Label {
        Label("default".into())
    }
}

impl Value for Label {
    fn read(raw: &Raw) -> Result<Label, String> {
        let most = redis::Node::NAME_BYTES_MAX;
        let is_right = |text: &&str| {
            (1..=most).contains(&text.len())
                && text.trim() == *text
                && !text.chars().any(char::is_control)
        };
        raw.as_str().filter(is_right).map(|text| Label(text.to_owned())).ok_or_else(|| {
            format!(
                "{} is no name; give 1 to {most} bytes without control characters and blanks at \
                 the ends",
                quoted(raw)
            )
        })
    }

    fn show(&self) -> Raw {
        Raw::from(self.as_str())
    }
}

/// Empty is none.
impl Value for Option<Label> {
    fn read(raw: &Raw) -> Result<Option<Label>, String> {
        match raw.as_str() {
            Some("") => Ok(None),
            _ => Label::read(raw).map(Some),
        }
    }

    fn show(&self) -> Raw {
        Raw::from(self.as_ref().map(Label::as_str).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_can_be_shown_in_a_line() {
        for good in ["a", "eu-west 1", "上海"] {
            assert_eq!(Label::read(&Raw::from(good)).unwrap().as_str(), good);
        }
        for bad in ["", " a", "a\tb", &"x".repeat(201)] {
            assert!(Label::read(&Raw::from(bad)).unwrap_err().contains("is no name"), "{bad}");
        }
        assert_eq!(Option::<Label>::read(&Raw::from("")), Ok(None));
    }
}
