//! What the servers have answered, and what must follow from it.
//!
//! Calls overlap, so that a moment is the place of an event in the order in which clients noticed it: what
//! began after something was answered must know of it. Times are by the clock of this machine, which is
//! Redis's too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Times in answers are cut to the millisecond.
const ROUNDING_MS: u64 = 1;
/// So long after Redis was away an answer may rest on one that was lost.
const UPSET_MS: u64 = 5000;
/// So many of what is wrong are kept as text; all are counted.
const TOLD_MAX: usize = 20;

pub(crate) const STUCK: &str = "stuck";
pub(crate) const TWICE: &str = "twice in the index";

#[derive(Default)]
pub(crate) struct Ledger {
    jobs: HashMap<String, Known>,
    leases: HashSet<String>,
    moment: u64,
    /// Redis is away, or was until shortly before this.
    upset_until_ms: u64,
    wrong: BTreeMap<&'static str, Vec<String>>,
    pub(crate) counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) added: u64,
    pub(crate) finished: u64,
    pub(crate) deleted: u64,
    pub(crate) handed_out: u64,
    pub(crate) pushed: u64,
    pub(crate) occurrences: u64,
    /// Calls whose answer was lost, or that nobody could say the outcome of.
    pub(crate) unknown: u64,
    /// Jobs that were there twice, since their add was sent twice.
    pub(crate) added_again: u64,
}

impl Counts {
    /// How far the work has come.
    pub(crate) fn progress(&self) -> u64 {
        self.added + self.finished + self.deleted + self.pushed
    }
}

/// How a job ends, if nobody deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Popped,
    Pushed,
    /// Due in an hour: never handed out.
    Late,
    /// Popped so many times.
    Repeating(u32),
}

/// A job that is to be added.
#[derive(Clone, Debug)]
pub(crate) struct New {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) delay_ms: u64,
}

/// What is known of the jobs of an id.
#[derive(Debug)]
struct Known {
    topic: String,
    kind: Kind,
    /// It is not due before this.
    due_ms: u64,
    /// How often its add was sent.
    adds: usize,
    added: bool,
    /// How many calls were sent, and pushes have come, by each of which it may be gone.
    ends: u32,
    /// It was finished, deleted, or its push was taken.
    ended: bool,
    /// It was deleted before it was due, and so must never be seen.
    cancelled: bool,
    /// More than one if the add was sent more than once.
    lives: BTreeMap<u64, Life>,
}

/// One job, by its number.
#[derive(Debug, Default)]
struct Life {
    gone: Option<u64>,
    holds: Vec<Hold>,
    /// The occurrences that were finished, and when.
    done: BTreeMap<u64, u64>,
    seen: BTreeSet<u64>,
}

#[derive(Debug)]
struct Hold {
    lease: String,
    from_ms: u64,
    until_ms: u64,
    /// Its end was asked for.
    ending: bool,
}

/// A job as it was handed out.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) number: u64,
    pub(crate) occurrence: u64,
    pub(crate) lease: String,
    pub(crate) due_ms: u64,
    pub(crate) from_ms: u64,
    pub(crate) until_ms: u64,
}

/// How the end of a hold is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Finish,
    /// The job stays.
    Other,
}

/// What a call about a job was answered that was not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) by: By,
    pub(crate) code: &'a str,
    /// It was sent before, and nobody knows what came of that.
    pub(crate) again: bool,
    pub(crate) at_ms: u64,
}

impl Ledger {
    /// A call begins: what was answered before must hold for it.
    pub(crate) fn begin(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Answers of Redis are lost from now on.
    pub(crate) fn redis_goes(&mut self) {
        self.upset_until_ms = u64::MAX;
    }

    pub(crate) fn redis_is_back(&mut self, now_ms: u64) {
        self.upset_until_ms = now_ms + UPSET_MS;
    }

    pub(crate) fn unknown(&mut self) {
        self.counts.unknown += 1;
    }

    /// These are about to be sent; `now_ms` is a time before that.
    pub(crate) fn sends(&mut self, jobs: &[New], now_ms: u64) {
        for job in jobs {
            let known = self.jobs.entry(job.id.clone()).or_insert_with(|| Known {
                topic: job.topic.clone(),
                kind: job.kind,
                due_ms: now_ms + job.delay_ms,
                adds: 0,
                added: false,
                ends: 0,
                ended: false,
                cancelled: false,
                lives: BTreeMap::new(),
            });
            known.adds += 1;
        }
    }

    pub(crate) fn added(&mut self, id: &str, number: u64) {
        let Some(_) = self.life("added", id, number) else { return };
        self.known(id).added = true;
        self.counts.added += 1;
    }

    /// A pop that began at this moment was answered with this job.
    pub(crate) fn handed_out(&mut self, begun: u64, job: &Handed) {
        self.counts.handed_out += 1;
        self.check_due("handed out early", job, job.from_ms);
        if !self.leases.insert(job.lease.clone()) {
            self.wrong("one lease for two", format!("{job:?}"));
        }
        let Some(life) = self.life("handed out", &job.id, job.number) else { return };
        let gone = life.gone.is_some_and(|gone| gone < begun);
        let done = life.done.get(&job.occurrence).is_some_and(|done| *done < begun);
        let held =
            life.holds.iter().find(|hold| hold.overlaps(job)).map(|hold| format!("{hold:?}"));
        life.seen.insert(job.occurrence);
        let Handed { lease, from_ms, until_ms, .. } = job.clone();
        life.holds.push(Hold { lease, from_ms, until_ms, ending: false });
        if gone || done {
            self.wrong(
                "handed out after it was gone",
                format!("{job:?}: {:?}", self.jobs[&job.id]),
            );
        }
        if let Some(held) = held {
            self.wrong("held by two", format!("{job:?}, held as {held}"));
        }
    }

    fn check_due(&mut self, what: &'static str, job: &Handed, at_ms: u64) {
        let first_ms = self.jobs.get(&job.id).map_or(0, |known| known.due_ms);
        if at_ms + ROUNDING_MS < job.due_ms || job.due_ms < first_ms {
            self.wrong(what, format!("{job:?}, not due before {first_ms}"));
        }
    }

    /// The end of a hold is about to be asked for.
    pub(crate) fn ends(&mut self, job: &Handed, by: By) {
        self.known(&job.id).ends += u32::from(by == By::Finish);
        self.with_hold(job, |hold| hold.ending = true);
    }

    /// The hold lasts longer.
    pub(crate) fn touched(&mut self, job: &Handed, until_ms: u64) {
        self.with_hold(job, |hold| hold.until_ms = until_ms);
    }

    fn with_hold(&mut self, job: &Handed, act: impl FnOnce(&mut Hold)) {
        let life = self.known(&job.id).lives.get_mut(&job.number);
        let hold = life.and_then(|life| life.holds.iter_mut().find(|it| it.lease == job.lease));
        hold.map(act);
    }

    /// It was finished; `at_ms` is a time after that.
    pub(crate) fn finished(&mut self, job: &Handed, again: bool, at_ms: u64) {
        let at = self.begin();
        let upset = at_ms < self.upset_until_ms;
        let known = self.known(&job.id);
        if let Kind::Repeating(count) = known.kind {
            known.ended |= job.occurrence + 1 == u64::from(count);
            let life = known.lives.entry(job.number).or_default();
            // Sent again, it may be the answer to the first.
            if life.done.insert(job.occurrence, at).is_some() && !again {
                self.wrong("an occurrence was finished twice", format!("{job:?}"));
            }
            self.counts.occurrences += 1;
            return;
        }
        known.ended = true;
        let life = known.lives.entry(job.number).or_default();
        // A server whose finish is lost sends it again, and takes a job that is gone for finished.
        if life.gone.is_some() && !again && !upset {
            let text = format!("{job:?}: {:?}", self.jobs[&job.id]);
            self.wrong("finished after it was gone", text);
            return;
        }
        life.gone = Some(at);
        self.counts.finished += 1;
    }

    /// The end of a hold was refused.
    pub(crate) fn refused(&mut self, job: &Handed, refused: Refused<'_>) {
        let known = self.known(&job.id);
        let life = known.lives.get(&job.number);
        let until = life.and_then(|life| life.holds.iter().find(|it| it.lease == job.lease));
        let is_over = until.is_some_and(|hold| hold.until_ms <= refused.at_ms + ROUNDING_MS);
        let own = u32::from(refused.by == By::Finish);
        let may = match refused.code {
            // Of those that are added again the lease may be of the first.
            "lease_lost" => is_over || refused.again || known.adds > 1,
            "not_found" => refused.again && own == 1 || known.ends > own,
            _ => false,
        };
        if refused.code == "not_found" && refused.again {
            known.ended = true;
        } else if !refused.again {
            known.ends -= own;
        }
        if !may {
            let text = format!("{refused:?} for {job:?}: {:?}", self.jobs[&job.id]);
            self.wrong("a hold was lost", text);
        }
    }

    /// A delete is about to be sent.
    pub(crate) fn deletes(&mut self, id: &str) {
        self.known(id).ends += 1;
    }

    /// It was deleted; `at_ms` is a time after that.
    pub(crate) fn deleted(&mut self, id: &str, at_ms: u64) {
        let at = self.begin();
        let known = self.known(id);
        known.ended = true;
        known.cancelled |= at_ms < known.due_ms && known.adds == 1;
        for life in known.lives.values_mut() {
            life.gone.get_or_insert(at);
        }
        self.counts.deleted += 1;
    }

    /// It was not there to be deleted; `again` if that was sent before, and nobody knows what came of it.
    pub(crate) fn not_deleted(&mut self, id: &str, code: &str, again: bool) {
        let known = self.known(id);
        if code == "not_found" && (again || known.ends > 1) {
            known.ended = true;
        } else {
            let text = format!("{code} for {id}: {:?}", self.jobs[id]);
            self.wrong("not there to be deleted", text);
        }
    }

    /// A push has come, and is answered that it was done, or not.
    pub(crate) fn pushed(&mut self, job: &Handed, done: bool) {
        self.counts.pushed += 1;
        self.check_due("pushed early", job, job.from_ms);
        if !self.leases.insert(job.lease.clone()) {
            self.wrong("pushed twice by one lease", format!("{job:?}"));
        }
        if self.life("pushed", &job.id, job.number).is_none() {
            return;
        }
        let known = self.known(&job.id);
        known.ends += 1;
        known.ended |= done;
        if known.cancelled {
            let text = format!("{job:?}: {:?}", self.jobs[&job.id]);
            self.wrong("pushed after it was deleted", text);
        }
    }

    /// Those of a topic that must still be there.
    pub(crate) fn alive(&self, topic: &str) -> BTreeSet<String> {
        let alive =
            self.jobs.iter().filter(|(_, job)| job.topic == topic && job.added && !job.ended);
        alive.map(|(id, _)| id.clone()).collect()
    }

    /// Holds what is there, now that nobody calls, against what must be.
    pub(crate) fn found(&mut self, topic: &str, found: &[(String, u64)]) {
        let mut missing = self.alive(topic);
        let mut twice = HashSet::new();
        for (id, number) in found {
            missing.remove(id);
            if !twice.insert(id) {
                self.wrong(TWICE, id.clone());
            }
            let Some(life) = self.life("found", id, *number) else { continue };
            if life.gone.is_some() {
                let text = format!("{id}: {:?}", self.jobs[id]);
                self.wrong("there again after it was gone", text);
            }
        }
        for id in missing {
            let text = format!("{id}: {:?}", self.jobs[&id]);
            self.wrong("an acknowledged job is lost", text);
        }
    }

    /// Every job has come to its end.
    pub(crate) fn close(&mut self) {
        let mut wrong = Vec::new();
        for (id, known) in &self.jobs {
            if known.added && !known.ended {
                wrong.push(("an acknowledged job is lost", format!("{id}: {known:?}")));
            }
            let Kind::Repeating(count) = known.kind else { continue };
            let seen: BTreeSet<u64> =
                known.lives.values().flat_map(|life| &life.seen).copied().collect();
            if !seen.iter().copied().eq(0..u64::from(count)) {
                wrong.push(("not every occurrence was handed out", format!("{id}: {seen:?}")));
            }
        }
        wrong.into_iter().for_each(|(what, text)| self.wrong(what, text));
    }

    /// What went wrong: how often, and some of it.
    pub(crate) fn wrongs(&self) -> Vec<(&'static str, usize, &[String])> {
        let told = |all: &'_ [String]| all.len().min(TOLD_MAX);
        self.wrong.iter().map(|(what, all)| (*what, all.len(), &all[..told(all)])).collect()
    }

    /// Something is not as it must be.
    pub(crate) fn wrong(&mut self, what: &'static str, text: String) {
        self.wrong.entry(what).or_default().push(text);
    }

    fn known(&mut self, id: &str) -> &mut Known {
        self.jobs.get_mut(id).unwrap_or_else(|| panic!("nobody sent {id}"))
    }

    /// The job of this number; nothing if nobody can have added it.
    fn life(&mut self, what: &str, id: &str, number: u64) -> Option<&mut Life> {
        let Some(known) = self.jobs.get(id) else {
            self.wrong("invented", format!("{what}: {id}"));
            return None;
        };
        let is_new = !known.lives.contains_key(&number);
        // Each time that it is sent, it may be added once.
        if is_new && known.lives.len() >= known.adds {
            let text = format!("{what} as {number}: {id}: {known:?}");
            self.wrong("added twice by one call", text);
            return None;
        }
        self.counts.added_again += u64::from(is_new && !known.lives.is_empty());
        Some(self.known(id).lives.entry(number).or_default())
    }
}

impl Hold {
    /// Whether both hold the job at the same time, though nobody asked for the end of this one.
    fn overlaps(&self, job: &Handed) -> bool {
        !self.ending
            && job.from_ms + ROUNDING_MS < self.until_ms
            && self.from_ms + ROUNDING_MS < job.until_ms
    }
}
