//! The part of a job that moves: written at every step.

use super::part::{put_ttr, ttr};
use super::wire::{Malformed, Reader, Result, flag, put_time, put_u16, put_u64, put_varint};
use crate::dice::Lease;
use crate::job::{PRIORITY_DEFAULT, Ttr};
use crate::machine::{Hold, Life, State, Tally};
use crate::time::{Now, Tick, Time, duration_ms};

/// A life as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The life. A hold in it has no owner: whoever that was is gone.
    pub(crate) life: Life,
    /// Whether it is a hold that had an owner, and must end with it.
    pub(crate) local: bool,
}

const KIND: u16 = 0b111;
const FIRST_DUE: u16 = 1 << 3;
const BASE: u16 = 1 << 4;
const SLOT: u16 = 1 << 5;
const PRIORITY: u16 = 1 << 6;
const ATTEMPT: u16 = 1 << 7;
const HAND_OUTS: u16 = 1 << 8;
const RESERVES: u16 = 1 << 9;
const OCCURRENCE: u16 = 1 << 10;
const TALLY: u16 = 1 << 11;
const LOCAL: u16 = 1 << 12;
const LONGER: u16 = 1 << 13;
const LEASE: u16 = 1 << 14;
const UNKNOWN: u16 = 1 << 15;

const WAITING: u16 = 0;
const WAITING_RETRY: u16 = 1;
const WAITING_HELD: u16 = 2;
const WAITING_RETRY_HELD: u16 = 3;
const READY: u16 = 4;
const RESERVED: u16 = 5;
const DEAD: u16 = 6;
const FINISHED: u16 = 7;

/// Writes a life. What is as usual takes no room: times as this occurrence was first due,
/// counters at zero or at the counter that they mostly follow.
pub(crate) fn encode_life(life: &Life, now: Now, out: &mut Vec<u8>) {
    let flags_at = out.len();
    put_u16(out, 0);
    put_time(out, life.due);
    put_varint(out, life.version);
    let mut sparse = Sparse { out, flags: kind(&life.state) };
    sparse.time(FIRST_DUE, life.first_due, life.due);
    sparse.time(BASE, life.base, life.first_due);
    sparse.time(SLOT, life.slot, life.first_due);
    sparse.count(PRIORITY, life.priority, PRIORITY_DEFAULT);
    sparse.count(ATTEMPT, life.attempt, 0);
    sparse.count(HAND_OUTS, life.hand_outs, life.attempt);
    sparse.count(RESERVES, life.tally.reserves, life.hand_outs);
    sparse.count(OCCURRENCE, life.occurrence, 0);
    sparse.tally(&life.tally);
    sparse.state(&life.state, now);
    let flags = sparse.flags;
    out[flags_at..flags_at + 2].copy_from_slice(&flags.to_le_bytes());
}

/// Reads a life. A lease has at most the time left that it could have had when it was written,
/// whatever the clock on the wall has done since.
pub(crate) fn decode_life(reader: &mut Reader<'_>, now: Now) -> Result<Stored> {
    let flags = reader.u16()?;
    check_flags(flags)?;
    let (due, version) = (reader.time()?, reader.varint()?);
    let first_due = time(reader, flags & FIRST_DUE, due)?;
    let base = time(reader, flags & BASE, first_due)?;
    let slot = time(reader, flags & SLOT, first_due)?;
    let priority = count(reader, flags & PRIORITY, PRIORITY_DEFAULT)?;
    let attempt = count(reader, flags & ATTEMPT, 0)?;
    let hand_outs = count(reader, flags & HAND_OUTS, attempt)?;
    let reserves = count(reader, flags & RESERVES, hand_outs)?;
    let occurrence = count(reader, flags & OCCURRENCE, 0)?;
    let tally = tally(reader, flags & TALLY, reserves)?;
    let state = state(reader, flags, now)?;
    // A recalled hand-out is counted down again, so that there must be one.
    if flags & KIND == RESERVED && [attempt, hand_outs, reserves].contains(&0) {
        return Err(Malformed("a reserved job was never handed out"));
    }
    let life = Life {
        state,
        due,
        priority,
        attempt,
        version,
        first_due,
        base,
        slot,
        occurrence,
        hand_outs,
        tally,
    };
    Ok(Stored { life, local: flags & LOCAL != 0 })
}

fn check_flags(flags: u16) -> Result<()> {
    let strange = match flags & KIND {
        RESERVED => UNKNOWN | LEASE,
        FINISHED => UNKNOWN | LOCAL | LONGER,
        _ => UNKNOWN | LEASE | LOCAL | LONGER,
    };
    if flags & strange == 0 { Ok(()) } else { Err(Malformed("a life has unknown flags")) }
}

/// Writes what is not as usual, and flags it.
struct Sparse<'a> {
    out: &'a mut Vec<u8>,
    flags: u16,
}

impl Sparse<'_> {
    fn time(&mut self, flag: u16, time: Time, usual: Time) {
        if time != usual {
            self.flags |= flag;
            put_time(self.out, time);
        }
    }

    fn count(&mut self, flag: u16, count: u32, usual: u32) {
        if count != usual {
            self.flags |= flag;
            put_varint(self.out, count.into());
        }
    }

    fn tally(&mut self, tally: &Tally) {
        let counts = rare(tally);
        let there = (0..).zip(counts).map(|(at, count)| u8::from(count != 0) << at);
        let there = there.fold(0, |all, one| all | one);
        if there == 0 {
            return;
        }
        self.flags |= TALLY;
        self.out.push(there);
        for count in counts.into_iter().filter(|count| *count != 0) {
            put_varint(self.out, count.into());
        }
    }

    fn state(&mut self, state: &State, now: Now) {
        match state {
            State::Waiting { .. } | State::Ready => {}
            State::Reserved(hold) => self.hold(hold, now),
            State::Dead { at } => put_time(self.out, *at),
            State::Finished { at, until, lease } => {
                put_time(self.out, *at);
                put_time(self.out, *until);
                if let Some(lease) = lease {
                    self.flags |= LEASE;
                    put_u64(self.out, lease.as_u64());
                }
            }
        }
    }

    fn hold(&mut self, hold: &Hold, now: Now) {
        self.flags |= flag(LOCAL, hold.owner.is_some());
        put_time(self.out, now.time_at(hold.until));
        put_u64(self.out, hold.lease.as_u64());
        put_ttr(self.out, hold.ttr);
        // A touch may give more time than the hand-out did, and leaves the ttr as it was.
        let left_ms = hold.until.ms_since(now.tick).min(duration_ms(Ttr::MAX));
        if left_ms > hold.ttr.as_ms() {
            self.flags |= LONGER;
            put_varint(self.out, left_ms);
        }
    }
}

fn kind(state: &State) -> u16 {
    match state {
        State::Waiting { retry: false, held: false } => WAITING,
        State::Waiting { retry: true, held: false } => WAITING_RETRY,
        State::Waiting { retry: false, held: true } => WAITING_HELD,
        State::Waiting { retry: true, held: true } => WAITING_RETRY_HELD,
        State::Ready => READY,
        State::Reserved(_) => RESERVED,
        State::Dead { .. } => DEAD,
        State::Finished { .. } => FINISHED,
    }
}

/// What happens to few jobs.
fn rare(tally: &Tally) -> [u32; RARE] {
    [tally.timeouts, tally.releases, tally.buries, tally.kicks, tally.deaths]
}

const RARE: usize = 5;

fn time(reader: &mut Reader<'_>, flag: u16, usual: Time) -> Result<Time> {
    if flag == 0 { Ok(usual) } else { reader.time() }
}

fn count(reader: &mut Reader<'_>, flag: u16, usual: u32) -> Result<u32> {
    if flag == 0 { Ok(usual) } else { reader.varint_u32() }
}

fn tally(reader: &mut Reader<'_>, flag: u16, reserves: u32) -> Result<Tally> {
    let there = if flag == 0 { 0 } else { reader.u8()? };
    if there >> RARE != 0 {
        return Err(Malformed("a tally counts unknown things"));
    }
    let mut next = |at: u16| count(reader, u16::from(there) & (1 << at), 0);
    Ok(Tally {
        reserves,
        timeouts: next(0)?,
        releases: next(1)?,
        buries: next(2)?,
        kicks: next(3)?,
        deaths: next(4)?,
    })
}

fn state(reader: &mut Reader<'_>, flags: u16, now: Now) -> Result<State> {
    Ok(match flags & KIND {
        READY => State::Ready,
        RESERVED => State::Reserved(hold(reader, flags, now)?),
        DEAD => State::Dead { at: reader.time()? },
        FINISHED => State::Finished {
            at: reader.time()?,
            until: reader.time()?,
            lease: reader.option(flags & LEASE != 0, Reader::u64)?.map(Lease::from_u64),
        },
        kind => State::Waiting {
            retry: [WAITING_RETRY, WAITING_RETRY_HELD].contains(&kind),
            held: [WAITING_HELD, WAITING_RETRY_HELD].contains(&kind),
        },
    })
}

fn hold(reader: &mut Reader<'_>, flags: u16, now: Now) -> Result<Hold> {
    let until = reader.time()?;
    let lease = Lease::from_u64(reader.u64()?);
    let given = ttr(reader)?;
    let longest = reader.option(flags & LONGER != 0, ttr)?.unwrap_or(given);
    let left_ms = until.ms_since(now.time()).min(longest.max(given).as_ms());
    let until = now.tick.plus_ms(left_ms);
    // As if it had not been touched; a hand-out before this process began is cut to its start.
    let since_us = until.as_us().saturating_sub(given.as_ms() * 1000).min(now.tick.as_us());
    Ok(Hold { lease, since: Tick::from_us(since_us), until, ttr: given, owner: None })
}
