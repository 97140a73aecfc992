//! What holds for every kind of payload; the facts about single kinds are in `tests/facts.rs`.

mod facts;
mod golden;
mod random;

use bytes::Bytes;

use super::wire::{Malformed, Reader, Result, put_str, put_varint, varint_size, whole};
use super::{
    Cold, Own, StoredKv, StoredTopic, decode_life, decode_note, encode_cold, encode_life,
    encode_note,
};
use crate::job::NewJob;
use crate::machine::{Life, Owner, State};
use crate::schedule::Repeat;
use crate::time::{Now, Tick};
use random::{Rng, for_seeds};

/// A moment to read at, longer after the clock was made than any ttr.
fn now() -> Now {
    Now { wall_us: 1_790_000_000_000_000, tick: Tick::from_us(1 << 40) }
}

fn cold_bytes(job: &NewJob) -> Vec<u8> {
    let mut out = Vec::new();
    encode_cold(&mut out, &job.spec, &job.body, job.by.as_ref(), job.priority, job.held);
    out
}

fn own_bytes(own: &Own) -> Vec<u8> {
    let mut out = Vec::new();
    own.encode(&mut out);
    out
}

fn life_bytes(life: &Life, now: Now) -> Vec<u8> {
    let mut out = Vec::new();
    encode_life(life, now, &mut out);
    out
}

fn note_bytes(note: &crate::history::Entry) -> Vec<u8> {
    let mut out = Vec::new();
    encode_note(note, &mut out);
    out
}

fn topic_bytes(topic: &StoredTopic) -> Vec<u8> {
    let mut out = Vec::new();
    topic.encode(&mut out);
    out
}

fn kv_bytes(kv: &StoredKv<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    kv.encode(&mut out);
    out
}

/// A kind of payload: how to make one up, and how to read one and write it again.
struct Kind {
    name: &'static str,
    sample: fn(&mut Rng) -> Vec<u8>,
    again: fn(&[u8]) -> Result<Vec<u8>>,
}

const KINDS: [Kind; 6] = [
    Kind { name: "cold", sample: |rng| cold_bytes(&rng.job()), again: cold_again },
    Kind {
        name: "own",
        sample: |rng| {
            std::iter::repeat_with(|| Own::of(&rng.job().spec))
                .flatten()
                .next()
                .map(|own| own_bytes(&own))
                .unwrap()
        },
        again: |bytes| whole(bytes, Own::decode).map(|own| own_bytes(&own)),
    },
    Kind { name: "life", sample: |rng| life_bytes(&rng.life(now()), now()), again: life_again },
    Kind {
        name: "note",
        sample: |rng| note_bytes(&rng.note()),
        again: |bytes| whole(bytes, decode_note).map(|note| note_bytes(&note)),
    },
    Kind {
        name: "topic",
        sample: |rng| topic_bytes(&rng.topic()),
        again: |bytes| whole(bytes, StoredTopic::decode).map(|topic| topic_bytes(&topic)),
    },
    Kind {
        name: "kv",
        sample: |rng| {
            let (key, value, version, end) = rng.kv();
            kv_bytes(&StoredKv { key: &key, value: value.as_deref(), version, end })
        },
        again: |bytes| whole(bytes, StoredKv::decode).map(|kv| kv_bytes(&kv)),
    },
];

/// Reads both ways, which must agree, and writes again.
fn cold_again(bytes: &[u8]) -> Result<Vec<u8>> {
    let peeked = Cold::peek(bytes);
    let Cold { spec, body, by, priority, held } = Cold::decode(Bytes::copy_from_slice(bytes))?;
    let peeked = peeked.expect("a job that can be read can be looked at");
    assert_eq!((peeked.topic, peeked.id), (spec.topic.as_str(), spec.id.as_str()));
    assert_eq!((peeked.priority, peeked.held), (priority, held));
    assert_eq!(peeked.own, Own::of(&spec));
    assert_eq!(peeked.body_bytes, body.as_bytes().len());
    let mut out = Vec::new();
    encode_cold(&mut out, &spec, &body, by.as_ref(), priority, held);
    Ok(out)
}

/// Reads, gives the hold an owner if it had one, and writes again.
fn life_again(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut read = whole(bytes, |reader| decode_life(reader, now()))?;
    if let State::Reserved(hold) = &mut read.life.state {
        hold.owner = read.local.then_some(Owner(1));
    }
    Ok(life_bytes(&read.life, now()))
}

#[test]
fn every_value_comes_back_as_it_was() {
    for_seeds(3000, |rng| {
        let job = rng.job();
        let cold = Cold::decode(cold_bytes(&job).into()).unwrap();
        assert_eq!((&cold.spec, &cold.body, &cold.by), (&job.spec, &job.body, &job.by));
        assert_eq!((cold.priority, cold.held), (job.priority, job.held));
        if let Some(own) = Own::of(&job.spec) {
            assert_eq!(whole(&own_bytes(&own), Own::decode), Ok(own));
        }
        let note = rng.note();
        assert_eq!(whole(&note_bytes(&note), decode_note), Ok(note));
        let topic = rng.topic();
        assert_eq!(whole(&topic_bytes(&topic), StoredTopic::decode), Ok(topic));
        let (key, value, version, end) = rng.kv();
        let kv = StoredKv { key: &key, value: value.as_deref(), version, end };
        assert_eq!(whole(&kv_bytes(&kv), StoredKv::decode), Ok(kv));
    });
}

#[test]
fn every_life_comes_back_without_the_owner_of_its_hold() {
    for_seeds(10_000, |rng| {
        let now = rng.now();
        let mut life = rng.life(now);
        let bytes = life_bytes(&life, now);
        let read = whole(&bytes, |reader| decode_life(reader, now)).unwrap();
        let mut local = false;
        if let State::Reserved(hold) = &mut life.state {
            local = hold.owner.take().is_some();
        }
        assert_eq!((read.life, read.local), (life, local));
    });
}

#[test]
fn a_payload_that_is_cut_or_has_more_behind_it_is_refused() {
    for Kind { name, sample, again } in KINDS {
        for_seeds(60, |rng| {
            let mut bytes = sample(rng);
            for end in 0..bytes.len() {
                assert!(again(&bytes[..end]).is_err(), "{name} cut at {end}");
            }
            assert_eq!(again(&bytes).as_ref(), Ok(&bytes), "{name}");
            bytes.push(rng.u64() as u8);
            assert!(again(&bytes).is_err(), "{name} with a byte more");
        });
    }
}

#[test]
fn a_cut_job_cannot_be_looked_at_either() {
    for_seeds(60, |rng| {
        let bytes = cold_bytes(&rng.job());
        for end in 0..bytes.len() {
            assert!(Cold::peek(&bytes[..end]).is_err(), "cut at {end}");
        }
    });
}

#[test]
fn damaged_payloads_are_refused_or_read_as_something_valid() {
    for Kind { name, sample, again } in KINDS {
        for_seeds(6000, |rng| {
            let mut bytes = sample(rng);
            (0..=rng.below(3)).for_each(|_| damage(&mut bytes, rng));
            settles(name, &bytes, again);
        });
    }
}

#[test]
fn garbage_is_refused_or_read_as_something_valid() {
    for Kind { name, again, .. } in KINDS {
        for_seeds(15_000, |rng| {
            let len = rng.below(64);
            let mut bytes = rng.bytes(len);
            // Small numbers get further than most: they are short lengths and known flags.
            let mask = rng.pick(&[0xff, 0x7f, 0x1f, 0x07]);
            bytes.iter_mut().for_each(|byte| *byte &= mask);
            settles(name, &bytes, again);
        });
    }
}

/// What can be read is written again in no more room, and for good.
fn settles(name: &str, bytes: &[u8], again: fn(&[u8]) -> Result<Vec<u8>>) {
    let Ok(written) = again(bytes) else { return };
    assert!(written.len() <= bytes.len(), "{name} grew from {bytes:x?} to {written:x?}");
    assert_eq!(again(&written).as_ref(), Ok(&written), "{name} from {bytes:x?}");
}

fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len().max(1) as u64) as usize;
    match rng.below(5) {
        _ if bytes.is_empty() => bytes.push(rng.u64() as u8),
        0 => bytes[at] = rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        1 => bytes.insert(at, rng.u64() as u8),
        2 => drop(bytes.remove(at)),
        // Near the front, where flags and lengths are.
        3 => {
            let at = at.min(rng.below(24) as usize);
            bytes[at] ^= 1 << rng.below(8);
        }
        _ => bytes[at] ^= 1 << rng.below(8),
    }
}

#[test]
fn no_cron_expression_or_zone_on_disk_can_do_harm() {
    let pieces = [
        "*",
        "/",
        "0",
        "5",
        "59",
        "99",
        ",",
        "-",
        "L",
        "W",
        "#",
        "?",
        " ",
        " ",
        " ",
        " ",
        "@daily",
        "FRI",
        "JAN",
        "\0",
        "é",
        "18446744073709551616",
    ];
    let zones = ["UTC", "Asia/Shanghai", "", "..", "/etc/passwd", "localtime", "Europe/Nowhere"];
    for_seeds(5000, |rng| {
        let expression: String = (0..rng.below(16)).map(|_| rng.pick(&pieces)).collect();
        let mut bytes = vec![1 << 2, 1];
        put_str(&mut bytes, &expression);
        let zone = rng.pick(&zones);
        put_str(&mut bytes, zone);
        let read = whole(&bytes, Own::decode).ok().and_then(|own| own.repeat);
        assert_eq!(read, Repeat::cron(&expression, Some(zone)).ok(), "{expression:?} in {zone:?}");
    });
}

#[test]
fn a_number_has_one_form_and_an_end() {
    let numbers = (0..64).flat_map(|shift| [(1 << shift) - 1, 1 << shift]).chain([u64::MAX]);
    for number in numbers {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number);
        assert_eq!(bytes.len(), varint_size(number), "{number}");
        assert_eq!(whole(&bytes, Reader::varint), Ok(number));
        let narrow = whole(&bytes, Reader::varint_u32);
        assert_eq!(narrow.ok(), u32::try_from(number).ok(), "{number}");
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(0);
        assert!(whole(&bytes, Reader::varint).is_err(), "{number}, padded");
    }
    let wide = |last: u8| whole(&[&[0xff; 9][..], &[last]].concat(), Reader::varint);
    assert_eq!(wide(1), Ok(u64::MAX));
    let refused = [2, 3, 0x7f, 0x80, 0x81, 0xff].map(wide);
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert_eq!(
        Reader::new(&[0x80; 20]).varint(),
        Err(Malformed("a number takes more than 64 bits"))
    );
}

#[test]
fn a_length_that_lies_takes_no_memory() {
    for len in [1, u64::from(u32::MAX), 1 << 40, u64::MAX] {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, len);
        assert_eq!(whole(&bytes, Reader::bytes), Err(Malformed("the bytes end too soon")));
        // A ladder with so many steps.
        let mut ladder = vec![1 << 1, 1, 5];
        put_varint(&mut ladder, len);
        assert!(whole(&ladder, Own::decode).is_err(), "{len} steps");
    }
}
