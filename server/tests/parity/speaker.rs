//! What a front end can be asked for, in the words of the engine. Each file in `fronts/` says it in
//! the words of a protocol.

use std::time::Duration;

use linger::time::{DAY, MINUTE};

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum No {
    /// The protocol has no words for it.
    Cannot(&'static str),
    /// It was said and refused, in these words.
    Refused(String),
}

/// What came of saying something.
pub(crate) type Told<T> = Result<T, No>;

/// For what a protocol has no words for.
pub(crate) fn cannot<T>(what: &'static str) -> Told<T> {
    Err(No::Cannot(what))
}

/// For what was refused.
pub(crate) fn refused<T>(words: impl Into<String>) -> Told<T> {
    Err(No::Refused(words.into()))
}

/// One who speaks a protocol to a server of its own. What it leaves out, it cannot say.
pub(crate) trait Speaker {
    fn add(&mut self, add: &Add) -> Told<Job>;

    /// Looks at a job.
    fn look(&mut self, _job: &Job) -> Told<Seen> {
        cannot("look")
    }

    /// Pops one job, waiting so long for it or, if that is shorter than it can say, a bit longer.
    fn pop(&mut self, _topic: &str, _wait: Duration) -> Told<Option<Popped>> {
        cannot("pop")
    }

    fn finish(&mut self, _popped: &Popped) -> Told<()> {
        cannot("finish")
    }

    fn fail(&mut self, _popped: &Popped, _error: &str, _retry_in: Option<Duration>) -> Told<()> {
        cannot("fail")
    }

    /// Says "not yet".
    fn again(&mut self, _popped: &Popped, _retry_in: Duration) -> Told<()> {
        cannot("again")
    }

    fn release(&mut self, _popped: &Popped, _delay: Duration, _priority: u32) -> Told<()> {
        cannot("release")
    }

    fn touch(&mut self, _popped: &Popped) -> Told<()> {
        cannot("touch")
    }

    /// Puts a job on the dead shelf.
    fn bury(&mut self, _popped: &Popped, _priority: u32) -> Told<()> {
        cannot("bury")
    }

    fn delete(&mut self, _job: &Job) -> Told<()> {
        cannot("delete")
    }

    fn update(&mut self, _job: &Job, _update: &Update) -> Told<()> {
        cannot("update")
    }

    fn run(&mut self, _job: &Job) -> Told<()> {
        cannot("run")
    }

    fn hold(&mut self, _job: &Job) -> Told<()> {
        cannot("hold")
    }

    fn unhold(&mut self, _job: &Job) -> Told<()> {
        cannot("hold")
    }

    /// Redrives all dead jobs of a topic, and counts them.
    fn redrive(&mut self, _topic: &str) -> Told<u64> {
        cannot("redrive")
    }

    fn pause(&mut self, _topic: &str, _length: Duration) -> Told<()> {
        cannot("pause")
    }

    fn resume(&mut self, _topic: &str) -> Told<()> {
        cannot("pause")
    }

    /// Gives a topic settings.
    fn configure(&mut self, _topic: &str, _settings: &Settings) -> Told<()> {
        cannot("configure")
    }
}

/// A job to add. A front end can say some of these; the others must then be as [`Add::new`] has
/// them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Add {
    pub(crate) topic: String,
    /// What stories call it: its id, if the front end can choose that.
    pub(crate) name: String,
    pub(crate) body: String,
    pub(crate) delay: Duration,
    pub(crate) ttr: Option<Duration>,
    pub(crate) priority: u32,
    /// Without a limit if 0, as by default if none.
    pub(crate) attempts: Option<u32>,
    pub(crate) repeat: Option<Duration>,
    pub(crate) target: Option<String>,
    /// Whether it is pushed as a callback of the task calls.
    pub(crate) as_task: bool,
    pub(crate) retain: Option<Duration>,
    pub(crate) held: bool,
    pub(crate) again: Again,
}

/// What becomes of an add whose id is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Again {
    /// It is not.
    New,
    Reject,
    Keep,
    Replace,
}

impl Add {
    /// A job whose body is its name. It is tried without a limit, as the older protocols mean it.
    pub(crate) fn new(topic: &str, name: &str) -> Add {
        Add {
            topic: topic.to_owned(),
            name: name.to_owned(),
            body: name.to_owned(),
            delay: Duration::ZERO,
            ttr: Some(MINUTE),
            priority: 1024,
            attempts: Some(0),
            repeat: None,
            target: None,
            as_task: false,
            retain: None,
            held: false,
            again: Again::New,
        }
    }

    /// Whether it asks for no more than was `said` of it; otherwise what that lacks.
    pub(crate) fn is_said_by(&self, said: &Add) -> Told<()> {
        let again = match self.again {
            Again::New => "id",
            Again::Reject => "reject",
            Again::Keep => "keep",
            Again::Replace => "replace",
        };
        for (what, same) in [
            ("target", self.target == said.target),
            ("envelope", self.as_task == said.as_task),
            ("ttr", self.ttr == said.ttr),
            ("priority", self.priority == said.priority),
            ("attempts", self.attempts == said.attempts),
            ("repeat", self.repeat == said.repeat),
            ("retain", self.retain == said.retain),
            ("held", self.held == said.held),
            (again, self.again == said.again),
        ] {
            if !same {
                return cannot(what);
            }
        }
        assert_eq!(self, said, "nothing is said wrongly");
        Ok(())
    }

    /// A job as the task calls mean it.
    pub(crate) fn task(topic: &str, name: &str) -> Add {
        Add {
            ttr: None,
            attempts: None,
            target: Some("http://127.0.0.1:9/done".to_owned()),
            as_task: true,
            retain: Some(DAY),
            ..Add::new(topic, name)
        }
    }
}

/// A job that was added.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) topic: String,
    pub(crate) id: String,
    /// Known to those who are told it.
    pub(crate) number: Option<u64>,
}

/// A job as it was seen: as much of it as the front end shows.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) state: Option<String>,
    pub(crate) body: Option<String>,
}

/// A job that was handed out.
#[derive(Clone, Debug)]
pub(crate) struct Popped {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) body: String,
    /// By what its speaker knows the lease.
    pub(crate) lease: String,
}

/// What is to be changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Update {
    pub(crate) body: Option<String>,
    pub(crate) delay: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) priority: Option<u32>,
}

/// Settings of a topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) concurrency: Option<u32>,
    pub(crate) retain: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
}
