//! What must be there after a crash: what was decided, in order, and how much of it may be lost.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;

use crate::dice::Lease;
use crate::history::{Notes, What as Noted};
use crate::machine::{Life, Owner, State as At};
use crate::queue::{Delivery, JobInfo, PausedFor, Standing, TopicInfo};
use crate::record::Record;
use crate::store::embedded::Durability;
use crate::store::embedded::trace::{Cold, Decided, Step, What, happened};
use crate::time::{Now, Tick, Time};
use crate::topic::{Pause, Settings, Topic};

/// What differs, in words.
pub(super) type Checked = Result<(), String>;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was killed: all that was written is there.
    Killed,
    /// The power was cut.
    PowerCut,
}

/// Times are stored to the millisecond, rounded up, and read back against a clock rounded alike.
const ROUNDING_US: u64 = 2_000;
/// How long a relaxed store leaves written bytes unsynced.
const RELAXED_US: u64 = 100_000;

/// All there is after some steps.
#[derive(Clone, Default)]
pub(super) struct Known {
    pub(super) jobs: BTreeMap<u64, Record>,
    topics: BTreeMap<Topic, KnownTopic>,
    kv: BTreeMap<Arc<str>, KnownKey>,
    next_number: u64,
    kv_version: u64,
}

#[derive(Clone, Default)]
struct KnownTopic {
    added: u64,
    settings: Arc<Settings>,
    pause: Pause,
}

#[derive(Clone)]
struct KnownKey {
    value: Bytes,
    version: u64,
    end: Option<Tick>,
}

/// What was found after a crash, before anything was done to it.
pub(super) struct Recovered {
    pub(super) jobs: Vec<Record>,
    pub(super) topics: Vec<TopicInfo>,
    pub(super) kv: Vec<(Arc<str>, Bytes, u64, Option<Tick>)>,
    pub(super) next_number: u64,
    pub(super) kv_version: u64,
    pub(super) last_batch: u64,
}

/// What was decided since the store was opened, and what of it was acknowledged.
pub(super) struct Reference {
    durability: Durability,
    /// What had been there when it was opened: none of it may be lost.
    base: Known,
    steps: Vec<Step>,
    /// All that was decided.
    pub(super) now: Known,
    /// Where a job came to a version.
    versions: HashMap<(u64, u64), usize>,
    /// The last step that each caller asked for.
    asked: HashMap<u64, usize>,
    /// How many of the steps must survive each end of the process.
    must_survive_cut: usize,
    must_survive_kill: usize,
    /// What was acknowledged and may not be synced yet: since when, and how many steps.
    relaxed: Vec<(Tick, usize)>,
    leases: HashSet<(u64, Lease)>,
    number_seen: u64,
    /// The latest that the wall clock has ever shown.
    latest: Time,
    /// Whether the wall clock was set: how long something lasts is not told exactly then.
    jumped: bool,
}

impl Known {
    fn apply(&mut self, step: &Step) -> Checked {
        match &step.what {
            What::Added { number, life, decided, cold } => {
                let Cold { spec, body, by, .. } = decoded(cold)?;
                let topic = self.topics.entry(spec.topic.clone()).or_default();
                topic.added = decided.added;
                let Decided { created_ms, .. } = *decided;
                let created = Time::from_ms(created_ms).ok_or("created out of range")?;
                let (number, life, notes) = (*number, life.clone(), Notes::default());
                self.jobs.insert(number, Record { number, spec, body, created, by, life, notes });
                self.next_number = self.next_number.max(number + 1);
            }
            What::Moved { number, life, cold, note, .. } => {
                let job = self.jobs.get_mut(number).ok_or("a job moved that is not there")?;
                job.life = life.clone();
                if let Some(cold) = cold {
                    let Cold { spec, body, .. } = decoded(cold)?;
                    (job.spec, job.body) = (spec, body);
                }
                if let Some(note) = note {
                    job.notes.push(note.clone());
                }
            }
            What::Gone { number } => drop(self.jobs.remove(number)),
            What::Emptied { topic, through } => {
                self.jobs.retain(|number, job| job.spec.topic != *topic || number > through);
            }
            What::Topic { name, added, settings, pause } => {
                let topic = KnownTopic { added: *added, settings: settings.clone(), pause: *pause };
                self.topics.insert(name.clone(), topic);
            }
            What::Kv { key, value, version, end } => {
                self.kv_version = self.kv_version.max(*version);
                match value.clone() {
                    Some(value) => {
                        let known = KnownKey { value, version: *version, end: *end };
                        self.kv.insert(key.clone(), known);
                    }
                    None => drop(self.kv.remove(key)),
                }
            }
        }
        Ok(())
    }
}

fn decoded(cold: &Bytes) -> Result<Cold, String> {
    Cold::decode(cold.clone()).map_err(|why| format!("what a caller encoded is broken: {why:?}"))
}

impl Reference {
    pub(super) fn new(durability: Durability) -> Reference {
        let base = Known { next_number: 1, ..Known::default() };
        Reference {
            durability,
            now: base.clone(),
            base,
            steps: Vec::new(),
            versions: HashMap::new(),
            asked: HashMap::new(),
            must_survive_cut: 0,
            must_survive_kill: 0,
            relaxed: Vec::new(),
            leases: HashSet::new(),
            number_seen: 0,
            latest: Time::MIN,
            jumped: false,
        }
    }

    pub(super) fn clock_shows(&mut self, now: Now) {
        self.latest = self.latest.max(now.time());
    }

    pub(super) fn clock_jumped(&mut self) {
        self.jumped = true;
    }

    /// Takes note of what was decided.
    pub(super) fn decided(&mut self, steps: Vec<Step>) -> Checked {
        for step in steps {
            self.check_step(&step)?;
            self.now.apply(&step)?;
            let at = self.steps.len();
            match &step.what {
                What::Added { number, life, .. } | What::Moved { number, life, .. } => {
                    self.versions.insert((*number, life.version), at);
                }
                _ => {}
            }
            if step.by != 0 {
                self.asked.insert(step.by, at);
            }
            self.steps.push(step);
        }
        Ok(())
    }

    fn check_step(&self, step: &Step) -> Checked {
        match &step.what {
            What::Added { number, .. } if *number <= self.number_seen => {
                Err(format!("number {number} is used again"))
            }
            What::Moved { number, life, note: Some(note), .. } if note.what == Noted::Lost => {
                let before = &self.now.jobs.get(number).ok_or("a lost job is not there")?.life;
                if was_owned_before(before) {
                    happened("owned lease was let go");
                }
                let attempt = if life.state == At::Ready { before.attempt } else { life.attempt };
                same("the attempt that a lost lease uses up", &attempt, &life.attempt)
            }
            What::Moved { number, hand_out: true, .. } => {
                let before = &self.now.jobs.get(number).ok_or("a job handed out is not there")?;
                if let At::Reserved(_) = before.life.state {
                    return Err(format!("job {number} was handed out while someone held it"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The batches in which a caller's steps lie.
    pub(super) fn batches_of(&self, caller: u64) -> Vec<u64> {
        let mut batches: Vec<u64> =
            self.steps.iter().filter(|step| step.by == caller).map(|step| step.batch).collect();
        batches.dedup();
        batches
    }

    /// All that a caller asked for is done, and it was told so.
    pub(super) fn acknowledged(&mut self, caller: u64, now: Now) {
        if let Some(at) = self.asked.get(&caller).copied() {
            self.must_survive(at + 1, now);
        }
    }

    fn must_survive(&mut self, steps: usize, now: Now) {
        self.must_survive_kill = self.must_survive_kill.max(steps);
        match self.durability {
            Durability::Sync => self.must_survive_cut = self.must_survive_cut.max(steps),
            Durability::Relaxed => self.relaxed.push((now.tick, steps)),
        }
    }

    /// The syncer has had its turn.
    pub(super) fn synced(&mut self, now: Now) {
        let mut safe = self.must_survive_cut;
        self.relaxed.retain(|(since, steps)| {
            let due = since.as_us() + RELAXED_US <= now.tick.as_us();
            safe = if due { safe.max(*steps) } else { safe };
            !due
        });
        self.must_survive_cut = safe;
    }

    /// Someone was shown a job that stands like this.
    pub(super) fn shown_standing(&mut self, shown: &Standing, now: Now) -> Checked {
        let life = self.shown(shown.number, shown.version, now)?;
        let told = (shown.due, shown.priority, shown.attempt, shown.occurrence);
        same("a job's standing", &(life.due, life.priority, life.attempt, life.occurrence), &told)
    }

    /// Someone was shown a job.
    pub(super) fn shown_job(&mut self, shown: &JobInfo, now: Now) -> Checked {
        let life = self.shown(shown.number, shown.version, now)?;
        let told = (shown.due, shown.priority, shown.attempt, shown.occurrence, shown.tally);
        let known = (life.due, life.priority, life.attempt, life.occurrence, life.tally);
        same("a job that is shown", &known, &told)?;
        if let Some(body) = &shown.body {
            let cold = self.cold_at(shown.number, shown.version)?;
            same("the body that is shown", &cold.body, body)?;
            same("the spec that is shown", &cold.spec, &shown.spec)?;
        }
        Ok(())
    }

    /// Someone was handed a job.
    pub(super) fn handed_out(&mut self, delivery: &Delivery, early: bool, now: Now) -> Checked {
        let number = delivery.job.number;
        self.shown_job(&delivery.job, now)?;
        if !early && delivery.job.due > self.latest {
            let (due, latest) = (delivery.job.due, self.latest);
            return Err(format!("job {number} is due {due} and was handed out by {latest}"));
        }
        if !self.leases.insert((number, delivery.lease)) {
            return Err(format!("a lease of job {number} was given twice"));
        }
        Ok(())
    }

    /// A job was shown at a version: so it must not be lost. Answers its life then.
    fn shown(&mut self, number: u64, version: u64, now: Now) -> Result<Life, String> {
        self.number_seen = self.number_seen.max(number);
        let Some(at) = self.versions.get(&(number, version)).copied() else {
            let base = self.base.jobs.get(&number).filter(|job| job.life.version == version);
            let base = base.ok_or_else(|| {
                format!("job {number} at version {version} is shown, and nobody made it so")
            })?;
            return Ok(base.life.clone());
        };
        // A hand-out of the last moments may be forgotten, not what it rests on.
        let rests = |step: &Step| match &step.what {
            What::Added { number: one, .. } => *one == number,
            What::Moved { number: one, hand_out, .. } => *one == number && !hand_out,
            _ => false,
        };
        if let Some(rests_on) = self.steps[..=at].iter().rposition(rests) {
            self.must_survive(rests_on + 1, now);
        }
        self.must_survive_kill = self.must_survive_kill.max(at + 1);
        match &self.steps[at].what {
            What::Added { life, .. } | What::Moved { life, .. } => Ok(life.clone()),
            other => Err(format!("{other:?} is no job")),
        }
    }

    /// What a caller gave, as of a version.
    fn cold_at(&self, number: u64, version: u64) -> Result<Cold, String> {
        let through = self.versions.get(&(number, version)).map_or(0, |at| at + 1);
        let cold = self.steps[..through].iter().rev().find_map(|step| match &step.what {
            What::Added { number: one, cold, .. } if *one == number => Some(cold),
            What::Moved { number: one, cold: Some(cold), .. } if *one == number => Some(cold),
            _ => None,
        });
        if let Some(cold) = cold {
            return decoded(cold);
        }
        let base = self.base.jobs.get(&number).ok_or("a job without a beginning")?;
        let (spec, body, by) = (base.spec.clone(), base.body.clone(), base.by.clone());
        Ok(Cold { spec, body, by, priority: 0, held: false })
    }

    /// Whether what was found after a crash is what was decided up to some moment, with all that
    /// may not be lost; goes on from there.
    pub(super) fn recovered(&mut self, found: &Recovered, end: End, now: Now) -> Checked {
        let there = self.steps.iter().filter(|step| step.batch <= found.last_batch).count();
        let must = match end {
            End::Killed => self.must_survive_kill,
            End::PowerCut => self.must_survive_cut,
        };
        if there < must {
            let lost = &self.steps[must - 1];
            return Err(format!(
                "{must} steps were acknowledged and only {there} are left after {end:?}, through \
                 batch {}; the last that is lost is {lost:?}",
                found.last_batch
            ));
        }
        if there < self.must_survive_kill && self.durability == Durability::Relaxed {
            happened("acknowledged was lost, relaxed");
        }
        if there < self.steps.len() {
            happened("unacknowledged was lost");
        }
        if there > must {
            happened("unacknowledged was kept");
        }
        let mut known = std::mem::take(&mut self.base);
        self.steps[..there].iter().try_for_each(|step| known.apply(step))?;
        if self.durability == Durability::Relaxed && end == End::PowerCut {
            // The number of a job that was lost is free again.
            self.number_seen = known.next_number - 1;
        }
        self.compare(&known, found, now)?;
        self.steps.clear();
        self.versions.clear();
        self.asked.clear();
        self.relaxed.clear();
        (self.must_survive_cut, self.must_survive_kill) = (0, 0);
        // Where leases end and what has become ready is the store's to tell from here on.
        known.jobs = found.jobs.iter().map(|job| (job.number, job.clone())).collect();
        for (key, _, _, end) in &found.kv {
            known.kv.get_mut(key).expect("it was compared").end = *end;
        }
        known.kv.retain(|key, _| found.kv.iter().any(|(there, ..)| there == key));
        for topic in &found.topics {
            let pause = &mut known.topics.get_mut(&topic.topic).expect("it was compared").pause;
            *pause = match topic.paused {
                None => Pause::No,
                Some(PausedFor::Ever) => Pause::Indefinitely,
                Some(PausedFor::Only(left)) => {
                    Pause::Until(now.tick.plus_ms(left.as_millis() as u64))
                }
            };
        }
        self.now = known.clone();
        self.base = known;
        Ok(())
    }

    fn compare(&self, known: &Known, found: &Recovered, now: Now) -> Checked {
        let jobs: BTreeMap<u64, &Record> = found.jobs.iter().map(|job| (job.number, job)).collect();
        same("how many jobs there are", &jobs.len(), &found.jobs.len())?;
        let numbers: Vec<_> = jobs.keys().collect();
        same("the jobs there are", &known.jobs.keys().collect::<Vec<_>>(), &numbers)?;
        for (number, expected) in &known.jobs {
            self.compare_job(expected, jobs[number], now)
                .map_err(|why| format!("job {number}: {why}"))?;
        }
        self.compare_topics(known, found, now)?;
        self.compare_kv(known, found, now)?;
        same("the next number", &known.next_number, &found.next_number)?;
        same("the version of the key-value side", &known.kv_version, &found.kv_version)
    }

    fn compare_job(&self, expected: &Record, found: &Record, now: Now) -> Checked {
        same("its spec", &expected.spec, &found.spec)?;
        same("its body", &expected.body, &found.body)?;
        same("when it was added", &expected.created, &found.created)?;
        same("who added it", &expected.by, &found.by)?;
        same("its notes", &expected.notes, &found.notes)?;
        let (expected, mut life) = (&expected.life, found.life.clone());
        match (&expected.state, &mut life.state) {
            (At::Reserved(expected), At::Reserved(found)) => {
                same(
                    "whether its lease has an owner",
                    &expected.owner.is_some(),
                    &found.owner.is_some(),
                )?;
                if !self.jumped {
                    same_tick("the end of its lease", expected.until, found.until, now)?;
                }
                (found.owner, found.since, found.until) =
                    (expected.owner, expected.since, expected.until);
            }
            // That is derived from the clock, and may be known to a checkpoint.
            (waiting @ At::Waiting { held: false, .. }, ready @ At::Ready)
                if expected.due <= self.latest =>
            {
                *ready = *waiting;
            }
            _ => {}
        }
        if matches!(life.state, At::Reserved(_)) {
            happened("lease survived");
        }
        same("its life", expected, &life)
    }

    fn compare_topics(&self, known: &Known, found: &Recovered, now: Now) -> Checked {
        let there: BTreeMap<_, _> = found.topics.iter().map(|info| (&info.topic, info)).collect();
        let is_used = |name: &Topic| known.jobs.values().any(|job| job.spec.topic == *name);
        let none = Settings::default();
        for (name, topic) in &known.topics {
            // One that ended before the wall clock was set back begins anew at opening.
            let pause = match topic.pause {
                Pause::Indefinitely => Some(true),
                _ if self.jumped => None,
                Pause::Until(end) if end.as_us() <= now.tick.as_us() + ROUNDING_US => None,
                pause => Some(pause != Pause::No),
            };
            let kept = is_used(name) || *topic.settings != none || pause == Some(true);
            let Some(info) = there.get(name) else {
                same(&format!("whether topic `{name}` is there"), &kept, &false)?;
                continue;
            };
            same(&format!("the settings of topic `{name}`"), &*topic.settings, &info.settings)?;
            if let Some(pause) = pause {
                same(&format!("whether `{name}` is paused"), &pause, &info.paused.is_some())?;
            }
            if let (Pause::Until(expected), Some(PausedFor::Only(left)), false) =
                (topic.pause, info.paused, self.jumped)
            {
                let end = now.tick.plus_ms(left.as_millis() as u64);
                same_tick(&format!("the end of the pause of `{name}`"), expected, end, now)?;
            }
            if kept {
                same(&format!("the jobs ever added to `{name}`"), &topic.added, &info.added)?;
            }
        }
        match there.keys().find(|name| !known.topics.contains_key(**name)) {
            Some(name) => Err(format!("nobody made topic `{name}`")),
            None => Ok(()),
        }
    }

    fn compare_kv(&self, known: &Known, found: &Recovered, now: Now) -> Checked {
        for (key, value, version, end) in &found.kv {
            let Some(expected) = known.kv.get(key) else {
                return Err(format!("nobody wrote key `{key}`"));
            };
            same(
                &format!("key `{key}`"),
                &(&expected.value, expected.version, expected.end.is_some()),
                &(value, *version, end.is_some()),
            )?;
            if let (Some(expected), Some(end), false) = (expected.end, end, self.jumped) {
                same_tick(&format!("the end of key `{key}`"), expected, *end, now)?;
            }
        }
        let lasts = |key: &KnownKey| {
            key.end.is_none_or(|end| !self.jumped && end.as_us() > now.tick.as_us() + ROUNDING_US)
        };
        for key in known.kv.iter().filter(|(_, known)| lasts(known)).map(|(key, _)| key) {
            if !found.kv.iter().any(|(there, ..)| there == key) {
                return Err(format!("key `{key}` is lost"));
            }
        }
        Ok(())
    }
}

/// Whether a job is held by someone whose process has ended.
fn was_owned_before(life: &Life) -> bool {
    matches!(life.state, At::Reserved(hold) if hold.owner == Some(Owner(u64::MAX)))
}

fn same_tick(what: &str, expected: Tick, found: Tick, now: Now) -> Checked {
    let expected = expected.as_us().max(now.tick.as_us());
    if expected.abs_diff(found.as_us()) <= ROUNDING_US {
        return Ok(());
    }
    Err(format!("{what} is at {} us, not {expected} us; now is {:?}", found.as_us(), now.tick))
}

/// Compares one thing.
pub(super) fn same<T: PartialEq + Debug>(what: &str, expected: &T, found: &T) -> Checked {
    if expected == found {
        return Ok(());
    }
    Err(format!("{what} differs\n--- expected:\n{expected:#?}\n--- found:\n{found:#?}"))
}
