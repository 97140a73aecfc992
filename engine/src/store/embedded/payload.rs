//! The payloads that are about topics and places rather than about one job.

use super::codec::{Malformed, Reader, Result, StoredTopic, put_str, put_varint, whole};
use super::place::Place;
use crate::topic::Topic;

/// A topic as it is stored.
pub(crate) struct NamedTopic {
    pub(crate) name: Topic,
    /// Jobs ever added to it.
    pub(crate) added: u64,
    pub(crate) stored: StoredTopic,
}

impl NamedTopic {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_str(out, self.name.as_str());
        put_varint(out, self.added);
        self.stored.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<NamedTopic> {
        let (name, added) = (name(reader)?, reader.varint()?);
        Ok(NamedTopic { name, added, stored: StoredTopic::decode(reader)? })
    }
}

/// Which topic was emptied. Up to which number is told by the record's head.
pub(crate) fn encode_emptied(name: &Topic, out: &mut Vec<u8>) {
    put_str(out, name.as_str());
}

pub(crate) fn decode_emptied(payload: &[u8]) -> Result<Topic> {
    whole(payload, name)
}

/// From where to where a record was moved.
pub(crate) fn encode_moved(from: Place, to: Place, out: &mut Vec<u8>) {
    put_place(out, from);
    put_place(out, to);
}

pub(crate) fn decode_moved(payload: &[u8]) -> Result<(Place, Place)> {
    whole(payload, |reader| Ok((place(reader)?, place(reader)?)))
}

pub(crate) fn put_place(out: &mut Vec<u8>, place: Place) {
    put_varint(out, place.segment.into());
    put_varint(out, place.offset.into());
    put_varint(out, place.len.into());
}

pub(crate) fn place(reader: &mut Reader<'_>) -> Result<Place> {
    Ok(Place {
        segment: reader.varint_u32()?,
        offset: reader.varint_u32()?,
        len: reader.varint_u32()?,
    })
}

fn name(reader: &mut Reader<'_>) -> Result<Topic> {
    reader.str()?.parse().map_err(|_| Malformed("a topic's name is out of range"))
}
