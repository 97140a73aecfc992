//! One short story, cut at every operation of the disk.

use std::collections::BTreeMap;

use linger::error::Code;
use linger::store::embedded::{Durability, Settings};
use linger::testkit::SimDisk;

use crate::house::{House, SEGMENT_BYTES, long};

/// What is known of a job: its body, or that it is gone.
type Known = Option<String>;

/// What was acknowledged, and what was asked for when the power went off.
#[derive(Default)]
struct Told {
    known: BTreeMap<String, Known>,
    asked: Option<(String, Known)>,
}

impl Told {
    /// Notes what is asked for, then that it was acknowledged.
    fn change<T>(
        &mut self,
        id: &str,
        becomes: Known,
        ask: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        self.asked = Some((id.into(), becomes.clone()));
        let answer = ask()?;
        self.known.insert(id.into(), becomes);
        self.asked = None;
        Some(answer)
    }
}

#[test]
fn every_operation_of_a_short_story_may_be_the_last() {
    let (all, _) = live(None, &mut Told::default());
    let mut house = all;
    assert!(!house.files("checkpoint-").is_empty(), "the story has a checkpoint");
    let segments = house.files("segment-");
    assert!(segments[0] != "segment-0000000001", "the story recycles: {segments:?}");
    let operations = house.disk.operations();
    house.close();
    for last in 1..=operations {
        let mut told = Told::default();
        let (house, done) = live(Some(last), &mut told);
        assert!(!done, "the power goes off in operation {last} of {operations}");
        for seed in 0..2 {
            let seed = last * 2 + seed;
            recover(&house.disk, house.settings, seed, &told, last);
        }
    }
}

/// Adds, deletes, a checkpoint, survivors that are moved, and segments that are used again.
fn live(cut: Option<u64>, told: &mut Told) -> (House, bool) {
    let settings = Settings {
        durability: Durability::Sync,
        segment_bytes: SEGMENT_BYTES,
        checkpoint_records: 25,
    };
    let mut house = House::with(SimDisk::new(), settings);
    if let Some(n) = cut {
        house.disk.cut_power_after(n);
    }
    let done = house.open().is_ok() && story(&mut house, told).is_some();
    (house, done)
}

fn story(house: &mut House, told: &mut Told) -> Option<()> {
    let change = |house: &mut House, told: &mut Told, id: &str, body: Known| {
        told.change(id, body.clone(), || match &body {
            Some(body) => house.replace(id, body).map(|_| ()),
            None => house.delete(id).map(|deleted| deleted.expect("it was there")),
        })
    };
    for round in 0..3 {
        for n in 0..8 {
            let id = format!("{round}-{n}");
            change(house, told, &id, Some(long(&id, 11_000)))?;
        }
        for n in 1..8 {
            change(house, told, &format!("{round}-{n}"), None)?;
        }
        change(house, told, "again", Some(long(&format!("round {round}"), 100)))?;
        house.tidy(6);
        if house.disk.is_off() {
            return None;
        }
    }
    Some(())
}

/// Opens what is left, with another cut on the way, and checks what is there.
fn recover(disk: &SimDisk, settings: Settings, seed: u64, told: &Told, last: u64) {
    let mut house = House::with(disk.crash(seed), settings);
    house.disk.cut_power_after(1 + seed % 7);
    if house.open().is_err() {
        assert!(house.disk.is_off(), "a crash is no damage");
        house = House::with(house.disk.crash(seed), settings);
        house.open().unwrap_or_else(|why| panic!("cut at {last}, seed {seed}: {why}"));
    } else {
        house.close();
        house = House::with(house.disk.crash(seed), settings).opened();
    }
    for (id, known) in &told.known {
        let found = match house.body(id) {
            Ok(body) => Some(body),
            Err(missing) if missing.code() == Code::NotFound => None,
            Err(other) => panic!("cut at {last}, seed {seed}: {other}"),
        };
        let asked = told.asked.as_ref().filter(|(one, _)| one == id).map(|(_, becomes)| becomes);
        let right = found == *known || asked.is_some_and(|becomes| found == *becomes);
        assert!(right, "cut at {last}, seed {seed}: job {id} is {found:?}, not {known:?}");
    }
    if let Some((id, becomes)) = &told.asked
        && !told.known.contains_key(id)
        && let Ok(found) = house.body(id)
    {
        assert_eq!(Some(found), *becomes, "cut at {last}, seed {seed}: job {id}");
    }
}
