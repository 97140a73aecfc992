//! Work as it is asked for, handed out and settled.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{JobInfo, Key, POP_MAX, Room};
use crate::dice::Lease;
use crate::error::{Error, Result};
use crate::history::Report;
use crate::job::{Body, Caller, Confirm, Envelope, Id, Target, Ttr};
use crate::machine::Owner;
use crate::time::{Time, duration_ms};
use crate::topic::{Headers, Settings, Topic};

/// A job that was handed out, with the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The job, with its body, without history.
    pub job: JobInfo,
    /// The proof that it is yours.
    pub lease: Lease,
    /// Until when.
    pub until: Time,
    /// How long it was given for.
    pub ttr: Ttr,
    /// How long an attempt to push it may take: ttr, at most the topic's time-out.
    pub within: Duration,
    /// Where to push it: the job's own target or its topic's.
    pub target: Option<Target>,
    /// When a push counts as finished: the job's own say or its topic's.
    pub confirm: Confirm,
    /// What a push makes of the body: the job's own say or its topic's.
    pub envelope: Envelope,
    /// What a push brings along besides.
    pub headers: Headers,
}

impl Delivery {
    /// How to name the job when settling it.
    pub fn key(&self) -> Key {
        Key::Number(self.job.number)
    }

    /// The topic.
    pub fn topic(&self) -> &Topic {
        &self.job.spec.topic
    }

    /// The id.
    pub fn id(&self) -> &Id {
        &self.job.spec.id
    }

    /// What the job carries.
    pub fn body(&self) -> &Body {
        self.job.body.as_ref().expect("a delivery has a body")
    }

    /// The body, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        self.body().parse()
    }
}

/// A wish for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// From which topics: best priority first, then oldest.
    pub from: Source,
    /// Jobs to be popped, or jobs to be pushed.
    pub lane: Lane,
    /// At most so many, 1 to [`POP_MAX`].
    pub max: u32,
    /// How long to wait for the first.
    pub wait: Duration,
    /// On what terms they are leased.
    pub terms: Terms,
    /// For how many there is room by where they go; for any, if not given. Of the push lane.
    pub room: Option<Arc<Room>>,
}

impl Ask {
    /// One job of one topic, now or never.
    pub fn one(topic: Topic) -> Ask {
        Ask {
            from: Source::These(vec![topic]),
            lane: Lane::Pull,
            max: 1,
            wait: Duration::ZERO,
            terms: Terms::default(),
            room: None,
        }
    }

    /// Refuses an ask that could never be served.
    pub fn check(&self) -> Result<()> {
        if self.max == 0 || self.max > POP_MAX {
            let max = self.max;
            return Err(Error::invalid("max", format!("max is {max}; give 1 to {POP_MAX}")));
        }
        if self.room.is_some() && self.lane == Lane::Pull {
            let message =
                "room is limited for jobs that are pushed; ask for those, or leave it out";
            return Err(Error::invalid("room", message));
        }
        match &self.from {
            Source::These(topics) if topics.is_empty() => {
                Err(Error::invalid("topics", "topics is empty; name at least one"))
            }
            _ => Ok(()),
        }
    }
}

/// Where a pop looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In these topics.
    These(Vec<Topic>),
    /// In every topic, those to come included.
    Any,
}

/// A job with a target is pushed and never popped; one without is popped and never pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Jobs without a target.
    #[default]
    Pull,
    /// Jobs with one, of their own or by their topic.
    Push,
}

/// How a job is leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terms {
    /// For this long; else as the job or its topic says.
    pub ttr: Option<Ttr>,
    /// Tied to this connection, stream or runner.
    pub owner: Option<Owner>,
    /// For a push: the lease lasts this much longer than the attempt may take, so that its outcome
    /// can be told.
    pub grace: Option<Duration>,
}

impl Terms {
    /// How long a job with this ttr is leased for at first.
    pub(crate) fn lease_ms(&self, ttr: Ttr, settings: &Settings) -> u64 {
        match self.grace {
            None => ttr.as_ms(),
            // No lease is stored that lasts longer than a ttr may be.
            Some(grace) => {
                duration_ms(settings.attempt_time(ttr).saturating_add(grace).min(Ttr::MAX))
            }
        }
    }
}

/// The end of an attempt, or more time for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    /// Which job.
    pub key: Key,
    /// The holder's proof; without, whoever holds it.
    pub lease: Option<Lease>,
    /// What is to happen.
    pub verdict: Verdict,
    /// What the receiver answered, for the history.
    pub report: Option<Report>,
    /// Who says so.
    pub by: Option<Caller>,
}

impl Settle {
    /// Settles a delivery by its lease.
    pub fn delivery(delivery: &Delivery, verdict: Verdict) -> Settle {
        Settle { lease: Some(delivery.lease), ..Settle::key(delivery.key(), verdict) }
    }

    /// Settles a job whoever holds it.
    pub fn key(key: Key, verdict: Verdict) -> Settle {
        Settle { key, lease: None, verdict, report: None, by: None }
    }
}

/// What is to happen to a job that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Finish,
    /// The attempt failed.
    Fail {
        /// Why.
        error: Arc<str>,
        /// Wait this long instead of the next step.
        retry_in: Option<Duration>,
    },
    /// Not yet: ask again at the next step. Told apart from failures.
    Again {
        /// Wait this long instead of the next step.
        retry_in: Option<Duration>,
    },
    /// Give it back; no attempt is used.
    Release {
        /// Not before this long.
        delay: Duration,
        /// With a new priority.
        priority: Option<u32>,
    },
    /// Give it more time.
    Touch {
        /// This much from now; else as long as it was given for.
        ttr: Option<Ttr>,
    },
    /// Leave it reserved, for whoever has the lease to settle: for its ttr from now, and whatever
    /// becomes of the connection it was tied to.
    Leave,
    /// It was never begun: as if it had not been handed out.
    Recall,
    /// Put it on the dead shelf.
    Bury {
        /// Why.
        error: Option<Arc<str>>,
        /// With a new priority.
        priority: Option<u32>,
    },
}

/// How the leases of an owner are let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// The connection is gone: an attempt is used up.
    Lost,
    /// In good order: the attempt is given back.
    Released,
}
