//! What must be there: all that was answered, and of what was under way either.

use std::collections::{BTreeMap, HashMap};

use crate::words::*;

/// All that the writers were answered.
#[derive(Default)]
pub(crate) struct Judge {
    jobs: BTreeMap<Name, Known>,
    /// Numbers of jobs that are gone for good, and when that was answered, in lines.
    gone: BTreeMap<u64, u64>,
    keys: BTreeMap<String, (u64, Option<Text>)>,
    /// The calls under way.
    pending: HashMap<usize, (Op, u64)>,
    /// Calls that were under way when their process was killed.
    unsure: Vec<Op>,
    lines: u64,
    pub(crate) answered: u64,
}

#[derive(Clone, Debug)]
struct Known {
    seen: Seen,
    text: Text,
    hold: Option<Hold>,
    /// It was held by a process that was killed: ready again, or past its last attempt.
    lost: bool,
}

/// A hand-out that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    /// The job's version by it.
    granted: u64,
    lease: u64,
    /// It ends with its process.
    local: bool,
}

impl Known {
    fn new(seen: Seen, text: Text) -> Known {
        Known { seen, text, hold: None, lost: false }
    }

    fn is_held(&self) -> bool {
        self.seen.stage == "reserved"
    }
}

/// A job as it was found.
pub(crate) struct Found {
    pub(crate) seen: Seen,
    pub(crate) body: Vec<u8>,
}

impl Judge {
    /// Takes note of a line.
    pub(crate) fn hear(&mut self, line: Line) {
        self.lines += 1;
        match line {
            Line::Opening | Line::Open => {}
            Line::Begin(task, op) => {
                assert!(self.pending.insert(task, (op, self.lines)).is_none(), "{task} is busy");
            }
            Line::End(task, came) => {
                self.answered += 1;
                let (op, begun) = self.pending.remove(&task).expect("a call is begun first");
                self.answer(op, begun, came);
            }
        }
    }

    /// The process was killed: nobody knows what became of the calls under way.
    pub(crate) fn killed(&mut self) {
        self.unsure.extend(self.pending.drain().map(|(_, (op, _))| op));
        for known in self.jobs.values_mut().filter(|known| known.is_held()) {
            // A lease that was tied to the process ends with it, which is a step of its own.
            if known.hold.take_if(|hold| hold.local).is_some() {
                known.seen.version += 1;
                known.seen.stage = "ready".into();
                known.lost = true;
            }
        }
    }

    /// What the next writer may know: nothing that is unsure.
    pub(crate) fn tell(&self) -> Vec<Told> {
        let sure = |(name, known): &(&Name, &Known)| self.touching(name, &known.seen) == 0;
        let told = |(name, known): (&Name, &Known)| Told {
            name: name.clone(),
            number: known.seen.number,
            lease: known.hold.filter(|_| known.is_held()).map(|hold| hold.lease),
        };
        self.jobs.iter().filter(sure).map(told).collect()
    }

    /// The leases that must still hold.
    pub(crate) fn held(&self) -> Vec<(Name, u64, u64)> {
        let held = self.jobs.iter().filter(|(_, known)| known.is_held());
        held.filter_map(|(name, known)| Some((name.clone(), known.seen.number, known.hold?.lease)))
            .collect()
    }

    fn answer(&mut self, op: Op, begun: u64, came: Came) {
        match (op, came) {
            (Op::Add(batch), Came::Added(seen)) => {
                for ((name, text), seen) in batch.into_iter().zip(seen) {
                    self.added(name, text, seen);
                }
            }
            (Op::Pop { local, .. }, Came::Popped(popped)) => {
                for (name, seen, lease) in popped {
                    self.popped(name, seen, Hold { granted: 0, lease, local }, begun);
                }
            }
            (Op::Settle(batch), Came::Stands(answers)) => {
                for (one, answer) in batch.into_iter().zip(answers) {
                    self.stands(&one.name, one.number, answer, None);
                }
            }
            (Op::Change(one), Came::Stands(mut answers)) => {
                let answer = answers.remove(0);
                if let (How::Body(text), Ok(Some(seen))) = (one.how, &answer)
                    && let Some(known) = self.jobs.get_mut(&one.name)
                    && known.seen.number == seen.number
                {
                    known.text = text;
                }
                self.stands(&one.name, one.number, answer, Some("wrong_state"));
            }
            (Op::Empty { topic }, Came::Emptied) => {
                let gone = self.jobs.extract_if(.., |name, _| name.topic == topic);
                self.gone.extend(gone.map(|(_, known)| (known.seen.number, self.lines)));
            }
            (Op::Put { key, value }, Came::Put(Ok(version))) => {
                let before = self.keys.insert(key.clone(), (version, value));
                let before = before.map_or(0, |(version, _)| version);
                assert!(version > before, "key {key} went from version {before} to {version}");
            }
            (Op::Put { key, value: None }, Came::Put(Err(code))) if code == "not_found" => {
                let there = self.keys.get(&key).is_some_and(|(_, value)| value.is_some());
                assert!(!there || self.is_unsure_key(&key), "key {key} is not found");
            }
            (op, came) => panic!("{op:?} was answered {came:?}"),
        }
    }

    fn added(&mut self, name: Name, text: Text, seen: Seen) {
        // Another may have popped and even finished it before its adder could say that it is there.
        if self.gone.contains_key(&seen.number) {
            return;
        }
        match self.jobs.get_mut(&name) {
            Some(known) if known.seen.number == seen.number => known.text = text,
            before => {
                if let Some(before) = before {
                    let (old, new) = (before.seen.number, seen.number);
                    assert!(old < new, "{name:?} went from {old} to {new}");
                    self.gone.insert(old, self.lines);
                }
                self.jobs.insert(name, Known::new(seen, text));
            }
        }
    }

    fn popped(&mut self, name: Name, seen: Seen, hold: Hold, begun: u64) {
        if let Some(gone) = self.gone.get(&seen.number) {
            // Otherwise it was handed out first, and this is only told late.
            assert!(*gone > begun, "{name:?} was gone and is handed out: {seen:?}");
            return;
        }
        let hold = Hold { granted: seen.version, ..hold };
        let known = self.jobs.get(&name).filter(|known| known.seen.number == seen.number);
        if let Some(known) = known.filter(|known| known.is_held() && known.hold.is_some()) {
            // Only if who held it may have given it back.
            let mut ops = ops(&self.pending, &self.unsure);
            let free =
                ops.any(|op| touches(op, &name, seen.number) && !matches!(op, Op::Pop { .. }));
            assert!(free, "{name:?} is held and handed out again: {known:?}, {seen:?}");
        }
        match self.jobs.get_mut(&name) {
            Some(known) if known.seen.number == seen.number => {
                if known.hold.is_none_or(|before| before.granted < hold.granted) {
                    known.hold = Some(hold);
                }
                if seen.version > known.seen.version {
                    known.seen = seen;
                }
            }
            before => {
                if let Some(before) = before {
                    assert!(before.seen.number < seen.number, "{name:?} was replaced: {seen:?}");
                    self.gone.insert(before.seen.number, self.lines);
                }
                let text = self.pending_text(&name);
                let text = text.unwrap_or_else(|| panic!("nobody added {name:?}: {seen:?}"));
                self.jobs.insert(name, Known { hold: Some(hold), ..Known::new(seen, text) });
            }
        }
    }

    fn stands(
        &mut self,
        name: &Name,
        number: u64,
        answer: Result<Option<Seen>, String>,
        refusal: Option<&str>,
    ) {
        match answer {
            Ok(None) => {
                self.gone.insert(number, self.lines);
                self.jobs.extract_if(.., |_, known| known.seen.number == number).for_each(drop);
            }
            // Told late, when others have gone on with it.
            Ok(Some(_)) if self.gone.contains_key(&number) => {}
            Ok(Some(seen)) => {
                let known = self.jobs.get_mut(name).expect("it was there to be changed");
                if known.seen.number == number && known.seen.version < seen.version {
                    // Someone else may have been handed it in a step that was not told yet.
                    if known.seen.version + 1 < seen.version || seen.stage != "reserved" {
                        known.hold = None;
                    }
                    known.seen = seen;
                    known.lost = false;
                }
            }
            Err(code) if code == "not_found" || code == "lease_lost" => {
                let is_gone = self.gone.contains_key(&number)
                    || ops(&self.pending, &self.unsure).any(|op| may_remove(op, name, number));
                assert!(is_gone, "{name:?}, number {number}, was there, and is {code}");
            }
            Err(code) => assert_eq!(Some(code.as_str()), refusal, "{name:?}"),
        }
    }

    fn is_unsure_key(&self, wanted: &str) -> bool {
        self.unsure.iter().any(|op| matches!(op, Op::Put { key, .. } if key == wanted))
    }

    /// How many calls whose end nobody knows may have changed this job.
    fn touching(&self, name: &Name, seen: &Seen) -> u64 {
        let touching = self.unsure.iter().filter(|op| touches(op, name, seen.number));
        let (pops, others): (Vec<&Op>, Vec<&Op>) =
            touching.partition(|op| matches!(op, Op::Pop { .. }));
        let ready = seen.stage == "ready" || !others.is_empty();
        (others.len() + if ready { pops.len() } else { 0 }) as u64
    }

    fn pending_text(&self, wanted: &Name) -> Option<Text> {
        ops(&self.pending, &self.unsure).find_map(|op| match op {
            Op::Add(batch) => batch.iter().find(|(name, _)| name == wanted).map(|(_, text)| *text),
            _ => None,
        })
    }

    /// Compares what is there with what must be, and takes it over: nothing is unsure any more.
    pub(crate) fn check(
        &mut self,
        mut found: BTreeMap<Name, Found>,
        keys: BTreeMap<String, (u64, Vec<u8>)>,
    ) {
        assert!(self.pending.is_empty(), "the writer is dead");
        for (name, job) in &found {
            let number = job.seen.number;
            assert!(!self.gone.contains_key(&number), "{name:?}, {number}, was gone and is back");
        }
        let mut after = BTreeMap::new();
        for (name, known) in std::mem::take(&mut self.jobs) {
            let unsure = self.unsure.iter();
            let Some(job) = found.remove(&name) else {
                let removed = unsure.clone().any(|op| may_remove(op, &name, known.seen.number));
                assert!(removed, "{name:?} is lost: {known:?}");
                self.gone.insert(known.seen.number, self.lines);
                continue;
            };
            after.insert(name.clone(), self.compare(&name, known, job));
        }
        for (name, job) in found {
            let text = self.pending_text(&name);
            let text = text.unwrap_or_else(|| panic!("nobody added {name:?}: {:?}", job.seen));
            assert_eq!(job.body, text.bytes(), "the body of {name:?}");
            after.insert(name, Known::new(job.seen, text));
        }
        self.jobs = after;
        self.check_keys(keys);
        self.unsure.clear();
    }

    fn compare(&mut self, name: &Name, known: Known, job: Found) -> Known {
        let (was, is) = (&known.seen, &job.seen);
        let text = self.right_text(name, &known, &job);
        if is.number != was.number {
            let replaced = self.pending_text(name).is_some() && is.number > was.number;
            assert!(replaced, "{name:?} was {was:?} and is {is:?}");
            self.gone.insert(was.number, self.lines);
            return Known::new(job.seen, text);
        }
        if is.version == was.version {
            assert!(is == was || known.lost, "{name:?} was {was:?} and is {is:?}");
            return Known { seen: job.seen, text, lost: false, ..known };
        }
        assert!(is.version > was.version, "{name:?} went back from {was:?} to {is:?}");
        // A local hand-out and its end are two steps.
        let steps = 2 * self.touching(name, was);
        assert!(is.version - was.version <= steps, "{name:?} was {was:?} and is {is:?}");
        Known::new(job.seen, text)
    }

    fn right_text(&self, name: &Name, known: &Known, job: &Found) -> Text {
        let updates = self.unsure.iter().filter_map(|op| match op {
            Op::Change(Edited { name: other, how: How::Body(text), .. }) if other == name => {
                Some(*text)
            }
            _ => None,
        });
        let mut texts = [known.text].into_iter().chain(updates).chain(self.pending_text(name));
        let right = texts.find(|text| text.bytes() == job.body);
        right.unwrap_or_else(|| panic!("the body of {name:?} is {} other bytes", job.body.len()))
    }

    fn check_keys(&mut self, mut found: BTreeMap<String, (u64, Vec<u8>)>) {
        for (key, known) in std::mem::take(&mut self.keys) {
            let unsure = self.is_unsure_key(&key);
            match (known, found.remove(&key)) {
                ((version, Some(text)), Some((is, value))) if version == is => {
                    assert_eq!(value, text.bytes(), "key {key}");
                    self.keys.insert(key, known);
                }
                ((version, _), Some((is, value))) => {
                    assert!(unsure && is > version, "key {key} was at {version} and is at {is}");
                    self.keys.insert(key.clone(), (is, Some(self.unsure_value(&key, &value))));
                }
                ((_, None), None) => {
                    self.keys.insert(key, known);
                }
                ((version, Some(_)), None) => {
                    assert!(unsure, "key {key} is lost");
                    self.keys.insert(key, (version, None));
                }
            }
        }
        for (key, (version, value)) in found {
            let text = self.unsure_value(&key, &value);
            self.keys.insert(key, (version, Some(text)));
        }
    }

    fn unsure_value(&self, wanted: &str, value: &[u8]) -> Text {
        let written = self.unsure.iter().find_map(|op| match op {
            Op::Put { key, value: Some(text) } if key == wanted && text.bytes() == value => {
                Some(*text)
            }
            _ => None,
        });
        written.unwrap_or_else(|| panic!("nobody wrote what key {wanted} holds"))
    }

    /// Takes over what the judge itself has made of the jobs.
    pub(crate) fn take_over(&mut self, found: BTreeMap<Name, Found>) {
        for (name, known) in std::mem::take(&mut self.jobs) {
            match found.get(&name) {
                None => drop(self.gone.insert(known.seen.number, self.lines)),
                Some(job) => {
                    let hold = known.hold.filter(|_| job.seen.stage == "reserved");
                    self.jobs.insert(name, Known { seen: job.seen.clone(), hold, ..known });
                }
            }
        }
    }
}

fn ops<'a>(
    pending: &'a HashMap<usize, (Op, u64)>,
    unsure: &'a [Op],
) -> impl Iterator<Item = &'a Op> {
    pending.values().map(|(op, _)| op).chain(unsure)
}

/// Whether a call may change this job.
fn touches(op: &Op, name: &Name, number: u64) -> bool {
    match op {
        Op::Add(batch) => batch.iter().any(|(added, _)| added == name),
        Op::Pop { topic, .. } | Op::Empty { topic } => *topic == name.topic,
        Op::Settle(batch) => batch.iter().any(|one| one.number == number),
        Op::Change(one) => one.number == number,
        Op::Put { .. } => false,
    }
}

/// Whether a call may take this job away.
fn may_remove(op: &Op, name: &Name, number: u64) -> bool {
    match op {
        Op::Settle(batch) => {
            batch.iter().any(|one| one.number == number && one.verb == Verb::Finish)
        }
        Op::Change(one) => one.number == number && one.how == How::Delete,
        Op::Pop { .. } | Op::Put { .. } => false,
        Op::Add(_) | Op::Empty { .. } => touches(op, name, number),
    }
}
