//! Attempts and pace as a setting: in the shapes of the HTTP API, or a ladder as plain text.

use std::collections::BTreeMap;
use std::time::Duration;

use linger::retry::{Pace, Retry, StepsFrom};
use serde::Deserialize;

use super::value::{Raw, Value, quoted};

/// Attempts and pace as the HTTP API takes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryShape {
    attempts: Option<u32>,
    backoff: Option<BackoffShape>,
    ladder: Option<Raw>,
    from: Option<FromShape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackoffShape {
    base: Option<Raw>,
    max: Option<Raw>,
    jitter: Option<f64>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum FromShape {
    Failure,
    Due,
}

impl Value for Retry {
    fn read(raw: &Raw) -> Result<Retry, String> {
        match raw {
            // The environment and flags can have a table too, written as in the file.
            Raw::String(text) if text.trim_start().starts_with('{') => {
                let table: Raw = text.parse().map_err(|cause| {
                    let cause: toml::de::Error = cause;
                    format!("{} is not TOML: {}", quoted(raw), cause.message())
                })?;
                Retry::read(&table)
            }
            Raw::String(_) | Raw::Array(_) => read_ladder(raw),
            Raw::Table(_) => {
                let shape: RetryShape = raw.clone().try_into().map_err(|cause| {
                    let cause: toml::de::Error = cause;
                    format!("{} is wrong: {}", quoted(raw), cause.message())
                })?;
                shape.read()
            }
            _ => Err(format!(
                "{} is no retry; write {{ attempts = 16 }}, or a ladder such as \"15s 3m 10m\"",
                quoted(raw)
            )),
        }
    }

    fn show(&self) -> Raw {
        let mut table = BTreeMap::from([("attempts", Raw::from(self.attempts_max()))]);
        let length = |ms| Duration::from_millis(ms).show();
        match self.pace() {
            Pace::Backoff(backoff) => {
                let jitter = f64::from(backoff.jitter_permille) / 1000.0;
                let backoff = BTreeMap::from([
                    ("base", length(backoff.base_ms)),
                    ("max", length(backoff.max_ms)),
                    ("jitter", Raw::from(jitter)),
                ]);
                table.insert("backoff", Raw::from(backoff));
            }
            Pace::Ladder { steps_ms, from } => {
                let steps = steps_ms.iter().map(|ms| length(*ms)).collect();
                table.insert("ladder", Raw::Array(steps));
                if *from == StepsFrom::Due {
                    table.insert("from", Raw::from("due"));
                }
            }
        }
        Raw::from(table)
    }
}

impl RetryShape {
    fn read(self) -> Result<Retry, String> {
        let mut retry = match (self.ladder, self.backoff) {
            (Some(_), Some(_)) => return Err("give a ladder or a backoff, not both".into()),
            (Some(ladder), None) => read_ladder(&ladder)?,
            (None, _) if self.from.is_some() => return Err("`from` is for a ladder alone".into()),
            (None, Some(backoff)) => backoff.read()?,
            (None, None) => Retry::default(),
        };
        if let Some(attempts) = self.attempts {
            retry = retry.attempts(attempts);
        }
        Ok(if self.from == Some(FromShape::Due) { retry.from_due() } else { retry })
    }
}

impl BackoffShape {
    fn read(self) -> Result<Retry, String> {
        let Pace::Backoff(usual) = *Retry::default().pace() else {
            unreachable!("the usual pace is a backoff")
        };
        let length = |given: Option<Raw>, usual_ms| match given {
            Some(raw) => Duration::read(&raw),
            None => Ok(Duration::from_millis(usual_ms)),
        };
        let jitter = self.jitter.unwrap_or(f64::from(usual.jitter_permille) / 1000.0);
        Retry::backoff(length(self.base, usual.base_ms)?, length(self.max, usual.max_ms)?, jitter)
            .map_err(|cause| cause.message().to_owned())
    }
}

/// The steps of a ladder: a list, or one text with blanks between them.
fn read_ladder(raw: &Raw) -> Result<Retry, String> {
    let retry = match raw {
        Raw::String(text) => text.parse(),
        Raw::Array(steps) => {
            let steps: Result<Vec<Duration>, String> = steps.iter().map(Duration::read).collect();
            Retry::ladder(&steps?)
        }
        _ => return Err(format!("{} is no ladder; write [\"15s\", \"3m\", \"10m\"]", quoted(raw))),
    };
    retry.map_err(|cause| cause.message().to_owned())
}

#[cfg(test)]
mod tests {
    use linger::time::{HOUR, MINUTE, SECOND};

    use super::*;

    fn read(toml: &str) -> Result<Retry, String> {
        Retry::read(&toml.parse().unwrap())
    }

    #[test]
    fn a_retry_is_read_in_every_shape_and_written_back() {
        let ladder = Retry::ladder(&[15 * SECOND, 3 * MINUTE]).unwrap();
        let backoff = |base, max, jitter| Retry::backoff(base, max, jitter).unwrap();
        for (toml, expected) in [
            ("{ attempts = 1 }", Retry::none()),
            ("{}", Retry::default()),
            ("{ ladder = ['15s', '3m'] }", ladder.clone()),
            ("{ ladder = '15s 3m' }", ladder.clone()),
            ("{ ladder = [15, 180] }", ladder.clone()),
            ("'15s 3m'", ladder.clone()),
            ("['15s', '3m']", ladder.clone()),
            ("'{ ladder = [\"15s\", \"3m\"] }'", ladder.clone()),
            ("{ ladder = ['15s', '3m'], attempts = 0 }", ladder.clone().attempts(0)),
            ("{ ladder = ['15s', '3m'], from = 'due' }", ladder.clone().from_due()),
            ("{ ladder = ['15s', '3m'], from = 'failure' }", ladder),
            (
                "{ attempts = 3, backoff = { base = '2s', max = '1m', jitter = 0.5 } }",
                backoff(2 * SECOND, MINUTE, 0.5).attempts(3),
            ),
            ("{ backoff = { base = 2 } }", backoff(2 * SECOND, HOUR, 0.2)),
            ("{ backoff = { jitter = 0.125 } }", backoff(SECOND, HOUR, 0.125)),
        ] {
            let retry = read(toml).unwrap();
            assert_eq!(retry, expected, "{toml}");
            let shown = retry.show();
            assert_eq!(Retry::read(&shown), Ok(expected.clone()), "{shown}");
            assert_eq!(Retry::read(&Raw::String(shown.to_string())), Ok(expected), "{shown}");
        }
    }

    #[test]
    fn a_wrong_retry_says_why() {
        for (toml, why) in [
            ("5", "is no retry"),
            ("''", "0 steps"),
            ("'15s,3m'", "not a duration"),
            ("'{ attempts = '", "is not TOML"),
            ("{ atempts = 1 }", "unknown field `atempts`"),
            ("{ attempts = -1 }", "-1"),
            ("{ attempts = 'x' }", "expected u32"),
            ("{ ladder = [] }", "0 steps"),
            ("{ ladder = 5 }", "is no ladder"),
            ("{ ladder = ['5x'] }", "`5x` is not a duration"),
            ("{ ladder = ['5s'], backoff = {} }", "not both"),
            ("{ from = 'due' }", "for a ladder alone"),
            ("{ ladder = ['5s'], from = 'start' }", "unknown variant `start`"),
            ("{ backoff = { base = '2h' } }", "over its max of 1h"),
            ("{ backoff = { jitter = 2.0 } }", "from 0 to 1"),
            ("{ backoff = { bas = '1s' } }", "unknown field `bas`"),
        ] {
            let wrong = read(toml).unwrap_err();
            assert!(wrong.contains(why), "{toml}: {wrong}");
        }
    }
}
