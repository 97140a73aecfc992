//! What is asked of everybody who is measured, and what comes of it: the same of those who are called
//! from here and of those who have a program of their own (`bench/peers`).

use serde_json::Value;

use crate::Result;
use crate::load::Limit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Adds jobs that are due in a day, one a call.
    Add,
    /// The same, [`BATCH`] a call.
    Batch,
    /// Takes jobs that are due, and finishes each before the next.
    Consume,
    /// Adds jobs that are due, while as many others take and finish them.
    Round,
    /// Takes away jobs that wait, by their ids.
    Cancel,
    /// Adds jobs that are due in a day, as fast as it goes.
    Fill,
    /// Jobs that fall due at this pace a second.
    Lateness(u64),
    /// Jobs that fall due all at once.
    Burst,
}

/// Jobs of a batch.
pub(super) const BATCH: u64 = 100;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) work: Work,
    /// Connections, or calls under way.
    pub(super) at_once: usize,
    /// Of jobs, and of time.
    pub(super) limit: Limit,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    PerSecond(f64),
    Late(Late),
    /// When the last was finished, after all were due.
    LastMs(f64),
    /// It cannot be done there, and why.
    Not(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Late {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// Jobs that were handed out before they were due.
    pub(super) early: f64,
}

impl Work {
    /// What programs are told.
    pub(super) fn word(self) -> &'static str {
        match self {
            Work::Add => "add",
            Work::Batch => "batch",
            Work::Consume => "work",
            Work::Round => "round",
            Work::Cancel => "cancel",
            Work::Fill => "fill",
            Work::Lateness(_) => "lateness",
            Work::Burst => "burst",
        }
    }
}

impl Told {
    /// Reads what a program said.
    pub(super) fn read(line: &str) -> Result<Told> {
        let json: Value = serde_json::from_str(line)?;
        let number = |name: &str| json[name].as_f64();
        let told = if let Some(why) = json["unsupported"].as_str() {
            Some(Told::Not(why.to_owned()))
        } else if let Some(ms) = number("last_ms") {
            Some(Told::LastMs(ms))
        } else if let Some(p50_ms) = number("p50_ms") {
            let late = |p99_ms, max_ms, early| Late { p50_ms, p99_ms, max_ms, early };
            let rest = number("p99_ms").zip(number("max_ms")).zip(number("early"));
            rest.map(|((p99, max), early)| Told::Late(late(p99, max, early)))
        } else {
            number("jobs").zip(number("seconds")).map(|(jobs, s)| Told::PerSecond(jobs / s))
        };
        Ok(told.ok_or_else(|| format!("it said {line}"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_is_read() {
        let read = |line| Told::read(line).ok();
        assert_eq!(read(r#"{"jobs":500,"seconds":0.5}"#), Some(Told::PerSecond(1000.0)));
        assert_eq!(read(r#"{"last_ms":7}"#), Some(Told::LastMs(7.0)));
        assert_eq!(read(r#"{"unsupported":"no ids"}"#), Some(Told::Not("no ids".into())));
        let late = Late { p50_ms: 1.0, p99_ms: 2.5, max_ms: 3.0, early: 4.0 };
        let line = r#"{"p50_ms":1,"p99_ms":2.5,"max_ms":3,"early":4}"#;
        assert_eq!(read(line), Some(Told::Late(late)));
        for wrong in ["", "{}", r#"{"p50_ms":1}"#, r#"{"jobs":1}"#] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
