//! A job as it is stored: `parse` in `lua/common.lua` reads the same bytes.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::dice::Lease;
use crate::error::{Code, Error, Result};
use crate::history::Notes;
use crate::job::{Destination, NewJob, PRIORITY_DEFAULT, Spec, Ttr};
use crate::machine::{Hold, Life, Owner, State, Tally};
use crate::record::Record;
use crate::store::embedded::codec::{
    Cold, Malformed, Reader, StoredPause, StoredTopic, decode_note, encode_cold, encode_note, whole,
};
use crate::time::{Tick, Time};
use crate::topic::Settings;

const DELAYED: u8 = 1;
const RETRY: u8 = 2;
const HELD: u8 = 3;
const HELD_RETRY: u8 = 4;
const READY: u8 = 5;
const RESERVED: u8 = 6;
const DEAD: u8 = 7;
const FINISHED: u8 = 8;

/// It has a target of its own.
const TARGET: u8 = 1;
/// It does not repeat, nor does it say how long it is kept when finished.
const PLAIN: u8 = 2;
/// Something went wrong with it.
const ERROR: u8 = 4;

/// A job and what only this store knows of it.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) record: Record,
    /// Since when it is ready, if it is.
    pub(super) ready_since: Tick,
    topic: u32,
    /// What the call carried that added it, by which it is known again.
    nonce: [u8; 8],
}

/// A new job, as far as scripts need not decide it.
pub(super) struct Fresh {
    pub(super) flags: u8,
    pub(super) ttr_ms: u64,
    pub(super) to: Vec<u8>,
    /// How it is stored from the id on.
    pub(super) tail: Vec<u8>,
}

impl Fresh {
    pub(super) fn of(new: &NewJob) -> Fresh {
        let (to, mut tail) = (destination(&new.spec), Vec::with_capacity(256));
        put_long(&mut tail, new.spec.id.as_str().as_bytes());
        // Nobody holds it, and it is as it was added.
        put_short(&mut tail, &[]);
        put_short(&mut tail, &[]);
        put_long(&mut tail, &to);
        put_long(&mut tail, &[]);
        put_rest(&mut tail, &new.spec, &new.body, new.by.as_ref());
        let ttr_ms = new.spec.ttr.map_or(0, Ttr::as_ms);
        Fresh { flags: flags(&new.spec), ttr_ms, to, tail }
    }
}

impl Kept {
    /// A job that has no place in this store yet.
    pub(super) fn new(record: Record) -> Kept {
        Kept { record, ready_since: Tick::default(), topic: 0, nonce: [0; 8] }
    }

    /// Notes since when it is ready, if it was not before.
    pub(super) fn ready_if(&mut self, was: &State, now: Tick) {
        if self.record.life.state == State::Ready && *was != State::Ready {
            self.ready_since = now;
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Record { spec, life, .. } = &self.record;
        let mut out = Vec::with_capacity(256);
        let (state, at, hold) = self.state();
        out.push(state);
        let error = self.record.notes.last_error();
        out.push(flags(spec) | if error.is_some() { ERROR } else { 0 });
        out.extend(life.priority.to_be_bytes());
        put(&mut out, life.due.as_ms());
        put(&mut out, life.version);
        for count in [life.attempt, life.hand_outs, life.tally.reserves] {
            out.extend(count.to_be_bytes());
        }
        put(&mut out, at);
        put(&mut out, spec.ttr.map_or(0, Ttr::as_ms));
        out.extend(self.topic.to_be_bytes());
        put(&mut out, self.record.created.as_ms());
        out.extend(self.nonce);
        put_long(&mut out, spec.id.as_str().as_bytes());
        put_short(&mut out, &hold);
        put_short(&mut out, &rest_of_life(life));
        put_long(&mut out, &destination(spec));
        put_long(&mut out, error.map_or(&[], |error| error.as_bytes()));
        put_rest(&mut out, spec, &self.record.body, self.record.by.as_ref());
        self.record.notes.entries().for_each(|entry| encode_note(entry, &mut out));
        out
    }

    /// The state's number, what it is sorted by, and what else there is to it.
    fn state(&self) -> (u8, u64, Vec<u8>) {
        match self.record.life.state {
            State::Waiting { retry: false, held: false } => (DELAYED, 0, Vec::new()),
            State::Waiting { retry: true, held: false } => (RETRY, 0, Vec::new()),
            State::Waiting { retry: false, held: true } => (HELD, 0, Vec::new()),
            State::Waiting { retry: true, held: true } => (HELD_RETRY, 0, Vec::new()),
            State::Ready => (READY, self.ready_since.as_us(), Vec::new()),
            State::Reserved(hold) => {
                let mut out = hold.lease.to_string().into_bytes();
                put(&mut out, hold.since.as_us());
                put(&mut out, hold.ttr.as_ms());
                put(&mut out, hold.owner.map_or(0, |owner| owner.0));
                (RESERVED, hold.until.as_us(), out)
            }
            State::Dead { at } => (DEAD, at.as_ms(), Vec::new()),
            State::Finished { at, until, lease } => {
                let mut out = Vec::new();
                put(&mut out, until.as_ms());
                out.extend(lease.map_or_else(String::new, |lease| lease.to_string()).into_bytes());
                (FINISHED, at.as_ms(), out)
            }
        }
    }

    pub(super) fn decode(number: u64, bytes: &Bytes) -> Result<Kept> {
        read(number, bytes).map_err(damaged)
    }
}

/// The settings of a topic, of which there are none where it says nothing.
pub(super) fn decode_settings(bytes: &[u8]) -> Result<Settings> {
    if bytes.is_empty() {
        return Ok(Settings::default());
    }
    whole(bytes, StoredTopic::decode).map(|topic| topic.settings).map_err(damaged)
}

pub(super) fn encode_settings(settings: &Settings) -> Vec<u8> {
    let mut out = Vec::new();
    if *settings != Settings::default() {
        StoredTopic { settings: settings.clone(), pause: StoredPause::No }.encode(&mut out);
    }
    out
}

type Decoded<T> = std::result::Result<T, Malformed>;

fn read(number: u64, bytes: &Bytes) -> Decoded<Kept> {
    let reader = &mut Reader::new(bytes);
    let state = reader.u8()?;
    let flags = reader.u8()?;
    let priority = u32_be(reader)?;
    let due = time(reader)?;
    let version = u64_be(reader)?;
    let (attempt, hand_outs, reserves) = (u32_be(reader)?, u32_be(reader)?, u32_be(reader)?);
    let at = u64_be(reader)?;
    let _ttr = u64_be(reader)?;
    let (topic, created, nonce) = (u32_be(reader)?, time(reader)?, reader.array()?);
    let _id = long(reader)?;
    let hold = short(reader)?;
    let life = short(reader)?;
    let _to = long(reader)?;
    let error = std::str::from_utf8(long(reader)?).map_err(|_| Malformed("an error is no text"))?;
    let cold = bytes.slice_ref(reader.rest());
    let cold_len = reader.array().map(u32::from_be_bytes)? as usize;
    reader.take(cold_len)?;
    let cold = Cold::decode(cold.slice(4..4 + cold_len))?;
    let mut entries = VecDeque::new();
    while !reader.rest().is_empty() {
        entries.push_back(decode_note(reader)?);
    }
    let mut life = read_life(life, due)?;
    life.state = read_state(state, at, hold)?;
    (life.priority, life.version) = (priority, version);
    (life.attempt, life.hand_outs, life.tally.reserves) = (attempt, hand_outs, reserves);
    let last_error = (flags & ERROR != 0).then(|| error.into());
    let notes = Notes::kept(last_error, entries);
    let Cold { spec, body, by, .. } = cold;
    let record = Record { number, spec, body, created, by, life, notes };
    let ready_since = Tick::from_us(if state == READY { at } else { 0 });
    Ok(Kept { record, ready_since, topic, nonce })
}

fn read_state(state: u8, at: u64, hold: &[u8]) -> Decoded<State> {
    let moment = |ms| Time::from_ms(ms).ok_or(Malformed("a time is after the year 9999"));
    let reader = &mut Reader::new(hold);
    Ok(match state {
        DELAYED => State::Waiting { retry: false, held: false },
        RETRY => State::Waiting { retry: true, held: false },
        HELD => State::Waiting { retry: false, held: true },
        HELD_RETRY => State::Waiting { retry: true, held: true },
        READY => State::Ready,
        RESERVED => State::Reserved(Hold {
            lease: lease(reader.take(16)?)?,
            since: Tick::from_us(u64_be(reader)?),
            until: Tick::from_us(at),
            ttr: Ttr::new(std::time::Duration::from_millis(u64_be(reader)?))
                .map_err(|_| Malformed("a ttr is out of range"))?,
            owner: Some(u64_be(reader)?).filter(|owner| *owner != 0).map(Owner),
        }),
        DEAD => State::Dead { at: moment(at)? },
        FINISHED => State::Finished {
            at: moment(at)?,
            until: time(reader)?,
            lease: if reader.rest().is_empty() { None } else { Some(lease(reader.rest())?) },
        },
        _ => return Err(Malformed("a job is in no state")),
    })
}

fn lease(hex: &[u8]) -> Decoded<Lease> {
    let text = std::str::from_utf8(hex).ok().and_then(|text| text.parse().ok());
    text.ok_or(Malformed("a lease is not one"))
}

/// What scripts do not look at. Nothing of it is kept of a job that is as it was added.
fn rest_of_life(life: &Life) -> Vec<u8> {
    let tally = Tally { reserves: 0, ..life.tally };
    let as_added = [life.first_due, life.base, life.slot].iter().all(|time| *time == life.due);
    let mut out = Vec::new();
    if as_added && life.occurrence == 0 && tally == Tally::default() {
        return out;
    }
    for time in [life.first_due, life.base, life.slot] {
        put(&mut out, time.as_ms());
    }
    let Tally { timeouts, releases, buries, kicks, deaths, .. } = tally;
    for count in [life.occurrence, timeouts, releases, buries, kicks, deaths] {
        out.extend(count.to_be_bytes());
    }
    out
}

fn read_life(bytes: &[u8], due: Time) -> Decoded<Life> {
    let mut life = Life::new(due, PRIORITY_DEFAULT, false);
    if bytes.is_empty() {
        return Ok(life);
    }
    let reader = &mut Reader::new(bytes);
    life.first_due = time(reader)?;
    life.base = time(reader)?;
    life.slot = time(reader)?;
    life.occurrence = u32_be(reader)?;
    let tally = &mut life.tally;
    for count in [
        &mut tally.timeouts,
        &mut tally.releases,
        &mut tally.buries,
        &mut tally.kicks,
        &mut tally.deaths,
    ] {
        *count = u32_be(reader)?;
    }
    Ok(life)
}

fn put_rest(
    out: &mut Vec<u8>,
    spec: &Spec,
    body: &crate::job::Body,
    by: Option<&crate::job::Caller>,
) {
    let start = out.len();
    out.extend([0; 4]);
    encode_cold(out, spec, body, by, PRIORITY_DEFAULT, false);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

fn flags(spec: &Spec) -> u8 {
    let target = if spec.target.is_some() { TARGET } else { 0 };
    target | if spec.repeat.is_none() && spec.retain.is_none() { PLAIN } else { 0 }
}

fn destination(spec: &Spec) -> Vec<u8> {
    let to = spec.target.as_ref().map(|target| Destination::of(&spec.topic, target));
    to.map_or_else(Vec::new, |to| to.as_str().into())
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_be_bytes());
}

fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(bytes.len() as u8);
    out.extend(bytes);
}

fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

fn u32_be(reader: &mut Reader<'_>) -> Decoded<u32> {
    reader.array().map(u32::from_be_bytes)
}

fn u64_be(reader: &mut Reader<'_>) -> Decoded<u64> {
    reader.array().map(u64::from_be_bytes)
}

fn time(reader: &mut Reader<'_>) -> Decoded<Time> {
    Time::from_ms(u64_be(reader)?).ok_or(Malformed("a time is after the year 9999"))
}

fn short<'a>(reader: &mut Reader<'a>) -> Decoded<&'a [u8]> {
    let len = reader.u8()?;
    reader.take(len.into())
}

fn long<'a>(reader: &mut Reader<'a>) -> Decoded<&'a [u8]> {
    let len = reader.array().map(u16::from_be_bytes)?;
    reader.take(len.into())
}

fn damaged(why: Malformed) -> Error {
    Error::new(Code::StorageFailed, format!("what Redis has is no job of ours: {why}"))
}
