//! As much of MessagePack as a job of others is written in: a map of texts and whole numbers.

/// A value, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text(&'a [u8]),
    Int(i64),
}

/// The pairs of a map, in order; none if the bytes are anything else.
pub(super) fn map(mut bytes: &[u8]) -> Option<Vec<(Value<'_>, Value<'_>)>> {
    let pairs = match take(&mut bytes)? {
        short @ 0x80..=0x8f => usize::from(short & 0x0f),
        0xde => number(&mut bytes, 2)? as usize,
        _ => return None,
    };
    let pairs: Option<Vec<_>> =
        (0..pairs).map(|_| Some((value(&mut bytes)?, value(&mut bytes)?))).collect();
    pairs.filter(|_| bytes.is_empty())
}

fn value<'a>(bytes: &mut &'a [u8]) -> Option<Value<'a>> {
    let kind = take(bytes)?;
    Some(match kind {
        0x00..=0x7f => Value::Int(kind.into()),
        0xe0..=0xff => Value::Int(i64::from(kind as i8)),
        0xa0..=0xbf => Value::Text(text(bytes, usize::from(kind & 0x1f))?),
        // Texts, and bytes, with their lengths in front.
        0xd9 | 0xc4 => length_and_text(bytes, 1)?,
        0xda | 0xc5 => length_and_text(bytes, 2)?,
        0xdb | 0xc6 => length_and_text(bytes, 4)?,
        // Without a sign, then with one.
        0xcc..=0xcf => Value::Int(i64::try_from(number(bytes, 1 << (kind - 0xcc))?).ok()?),
        0xd0 => Value::Int((number(bytes, 1)? as i8).into()),
        0xd1 => Value::Int((number(bytes, 2)? as i16).into()),
        0xd2 => Value::Int((number(bytes, 4)? as i32).into()),
        0xd3 => Value::Int(number(bytes, 8)? as i64),
        _ => return None,
    })
}

fn length_and_text<'a>(bytes: &mut &'a [u8], width: usize) -> Option<Value<'a>> {
    let length = usize::try_from(number(bytes, width)?).ok()?;
    text(bytes, length).map(Value::Text)
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    text(bytes, 1).map(|byte| byte[0])
}

fn text<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

fn number(bytes: &mut &[u8], width: usize) -> Option<u64> {
    let digits = text(bytes, width)?;
    Some(digits.iter().fold(0, |sum, digit| sum << 8 | u64::from(*digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_of_every_width_are_read() {
        let bytes =
            b"\x86\xa11\x05\xa12\xff\xa13\xcd\x01\x00\xa14\xd3\xff\xff\xff\xff\xff\xff\xff\xfe\
            \xd9\x01x\xda\x00\x02hi\xc4\x01b\xce\x80\x00\x00\x00";
        let found: Vec<_> = map(bytes).unwrap().into_iter().map(|(_, value)| value).collect();
        use Value::{Int, Text};
        assert_eq!(found, [Int(5), Int(-1), Int(256), Int(-2), Text(b"hi"), Int(1 << 31)]);
    }

    #[test]
    fn what_is_cut_short_or_something_else_is_none() {
        for bytes in
            [&b""[..], b"\x81", b"\x81\xa1", b"\x81\xa1a\xc0", b"\x80\x00", b"hello", b"\x93\x01"]
        {
            assert_eq!(map(bytes), None, "{bytes:?}");
        }
        assert_eq!(map(b"\x80"), Some(Vec::new()));
    }
}
