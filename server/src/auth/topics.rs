//! The topics that a key is for.

use linger::error::{Error, Result};
use linger::topic::Topic;

use crate::config::Pattern;

/// The topics that a key is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topics {
    /// All of them.
    All,
    /// Those that fit one of these.
    These(Vec<Pattern>),
}

/// The most patterns that a key may have: a list of topics asks for each.
const PATTERNS_MAX: usize = 100;
const ALL: &str = "*";

impl Topics {
    /// Reads patterns; `*` is all topics.
    pub(crate) fn new(patterns: &[String]) -> Result<Topics> {
        if patterns.is_empty() {
            let message = "topics is empty; give patterns such as \"order.*\", or \"*\" for all";
            return Err(Error::invalid("topics", message));
        }
        if patterns.len() > PATTERNS_MAX {
            let given = patterns.len();
            let message = format!("topics has {given} patterns, over the limit of {PATTERNS_MAX}");
            return Err(Error::invalid("topics", message));
        }
        let read =
            |text: &String| Pattern::of_topics(text).map_err(|why| Error::invalid("topics", why));
        let patterns = patterns.iter().map(read).collect::<Result<Vec<_>>>()?;
        match patterns.iter().any(|pattern| pattern.as_str() == ALL) {
            true => Ok(Topics::All),
            false => Ok(Topics::These(patterns)),
        }
    }

    /// Whether a topic is among them.
    pub(crate) fn has(&self, topic: &Topic) -> bool {
        match self {
            Topics::All => true,
            Topics::These(patterns) => patterns.iter().any(|pattern| pattern.fits(topic.as_str())),
        }
    }

    /// The patterns as they are written.
    pub(crate) fn patterns(&self) -> Vec<&str> {
        match self {
            Topics::All => vec![ALL],
            Topics::These(patterns) => patterns.iter().map(Pattern::as_str).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(patterns: &[&str]) -> Result<Topics> {
        Topics::new(&patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_pattern_is_a_name_or_a_beginning() {
        let some = topics(&["order.*", "mail", "支*"]).unwrap();
        for (topic, is_in) in [
            ("order.close", true),
            ("order.", true),
            ("order", false),
            ("orders", false),
            ("mail", true),
            ("mail.x", false),
            ("Mail", false),
            ("支付宝", true),
            ("*", false),
        ] {
            assert_eq!(some.has(&topic.parse().unwrap()), is_in, "{topic}");
        }
        assert_eq!(some.patterns(), ["order.*", "mail", "支*"]);
        assert_eq!(topics(&["mail", "*"]).unwrap(), Topics::All);
        assert_eq!(Topics::All.patterns(), ["*"]);
        for wrong in [&[][..], &[""], &[" a"], &["a\n"], &["a*b"], &["x"; 101]] {
            assert_eq!(topics(wrong).unwrap_err().at_field(), Some("topics"), "{wrong:?}");
        }
    }
}
