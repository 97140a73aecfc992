//! Which node of a cluster has which keys.

use std::ops::RangeInclusive;

use redis::Value;

use super::fault::named;
use crate::store::redis::address::Node;

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16384;

/// The slot of a key, or of a channel.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(hashed(key)) % SLOTS
}

/// What is between the first `{` and the `}` after it, if that is anything; else all.
fn hashed(key: &[u8]) -> &[u8] {
    let tag = || {
        let from = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[from..].iter().position(|byte| *byte == b'}')?;
        Some(&key[from..from + length])
    };
    tag().filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// CRC-16 as Redis makes it: polynomial 0x1021 from 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Who serves each slot.
#[derive(Clone, Default)]
pub(super) struct Slots {
    primaries: Vec<Node>,
    /// By slot, an index into `primaries`; empty until it is known.
    owners: Vec<Option<u16>>,
}

impl Slots {
    pub(super) fn owner(&self, slot: u16) -> Option<&Node> {
        let owner = (*self.owners.get(usize::from(slot))?)?;
        self.primaries.get(usize::from(owner))
    }

    pub(super) fn primaries(&self) -> &[Node] {
        &self.primaries
    }

    /// From now on `to` serves these.
    pub(super) fn assign(&mut self, slots: RangeInclusive<u16>, to: Node) {
        let known = self.primaries.iter().position(|node| *node == to);
        let index = known.unwrap_or_else(|| {
            self.primaries.push(to);
            self.primaries.len() - 1
        });
        self.owners.resize(usize::from(SLOTS), None);
        for slot in slots {
            self.owners[usize::from(slot)] = u16::try_from(index).ok();
        }
    }

    /// Reads the answer to `CLUSTER SLOTS`: first, last, the primary, its replicas; each a row.
    pub(super) fn read(answer: &Value, by: &Node) -> Option<Slots> {
        let Value::Array(rows) = answer else { return None };
        let mut slots = Slots::default();
        for row in rows {
            let (first, last, primary) = read_row(row, by)?;
            slots.assign(first..=last.min(SLOTS - 1), primary);
        }
        Some(slots)
    }
}

fn read_row(row: &Value, by: &Node) -> Option<(u16, u16, Node)> {
    let Value::Array(parts) = row else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        // A node that has not been told its own name.
        _ => "",
    };
    let node = named(host, u16::try_from(*port).ok()?, by)?;
    Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // By CLUSTER KEYSLOT of a real server.
        let table: [(&[u8], u16); 7] = [
            (b"123456789", 12739),
            (b"foo", 12182),
            (b"{foo}bar", 12182),
            (b"x{foo}{bar}", 12182),
            (b"{}foo", 9500),
            (b"{foo", 13308),
            (b"", 0),
        ];
        for (key, expected) in table {
            assert_eq!(slot(key), expected, "{}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn a_node_without_a_name_has_that_of_the_one_who_told() {
        let by = Node { host: "h".into(), port: 1 };
        let nameless = Value::Array(vec![Value::Nil, Value::Int(7000)]);
        let row = Value::Array(vec![Value::Int(0), Value::Int(5), nameless]);
        let slots = Slots::read(&Value::Array(vec![row]), &by).expect("an answer");
        assert_eq!(slots.owner(5), Some(&Node { host: "h".into(), port: 7000 }));
        assert_eq!(slots.owner(6), None);
    }
}
