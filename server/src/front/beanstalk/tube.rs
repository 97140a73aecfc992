//! Tubes are topics. A topic whose name no tube can have is shown in an escape that can be read
//! back: `$` and two digits for each byte that is outside of the alphabet, and for `$` itself.

use linger::topic::Topic;

/// The longest name a tube may have, in bytes.
pub(crate) const TUBE_BYTES_MAX: usize = 200;

/// Whether a name is a tube's by the protocol.
pub(crate) fn is_tube(name: &[u8]) -> bool {
    (1..=TUBE_BYTES_MAX).contains(&name.len())
        && name[0] != b'-'
        && name.iter().copied().all(in_alphabet)
}

/// Whether a byte may stand in a tube's name.
pub(crate) fn in_alphabet(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

/// The topic that a tube is: of the same name, unless the name is the escape of another.
///
/// None if the name is not a tube's.
pub(crate) fn topic_of(tube: &[u8]) -> Option<Topic> {
    if !is_tube(tube) {
        return None;
    }
    let name = std::str::from_utf8(tube).ok()?;
    match meant(name) {
        Some(topic) => Some(topic),
        None => name.parse().ok(),
    }
}

/// The tube that a topic is.
pub(crate) fn tube_of(topic: &Topic) -> String {
    let name = topic.as_str();
    if needs_escape(name) { escaped(name) } else { name.to_owned() }
}

/// Whether a topic cannot be shown as it is: no tube is called so, or it would be read as another.
fn needs_escape(topic: &str) -> bool {
    !is_tube(topic.as_bytes()) || meant(topic).is_some()
}

fn escaped(topic: &str) -> String {
    let mut tube = String::with_capacity(topic.len() + 8);
    for (at, byte) in topic.bytes().enumerate() {
        if in_alphabet(byte) && byte != b'$' && !(at == 0 && byte == b'-') {
            tube.push(char::from(byte));
        } else {
            tube.push_str(&format!("${byte:02X}"));
        }
    }
    tube
}

/// The topic that a name is the escape of, if it is one's.
fn meant(name: &str) -> Option<Topic> {
    if !name.contains('$') {
        return None;
    }
    let topic: Topic = unescaped(name)?.parse().ok()?;
    // One topic has one name: `$41` is not another `A`, but a tube of its own. Each escape is
    // shorter when it is read, so this ends.
    (needs_escape(topic.as_str()) && escaped(topic.as_str()) == name).then_some(topic)
}

fn unescaped(name: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'$' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        // A sign would be read, too.
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_tube_by_length_alphabet_and_first_byte() {
        for good in ["default", "a", "A-Z+0/;.$_()", "9", "$", &"x".repeat(200)] {
            assert!(is_tube(good.as_bytes()), "{good}");
        }
        for bad in ["", "-a", "a b", "a,b", "a\tb", "支", "a:b", "a%", &"x".repeat(201)] {
            assert!(!is_tube(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn topics_are_shown_in_the_alphabet() {
        for (topic, tube) in [
            ("order.close", "order.close"),
            ("a$b", "a$b"),
            ("$41", "$41"),
            ("支付", "$E6$94$AF$E4$BB$98"),
            ("a b", "a$20b"),
            ("-x", "$2Dx"),
            ("a$ b", "a$24$20b"),
            // These are escapes by their looks, so they are escaped once more.
            ("a$20b", "a$2420b"),
            ("a$2420b", "a$242420b"),
        ] {
            let topic: Topic = topic.parse().unwrap();
            assert_eq!(tube_of(&topic), tube);
            assert_eq!(topic_of(tube.as_bytes()), Some(topic));
        }
    }

    #[test]
    fn every_tube_is_one_topic_and_every_topic_one_tube() {
        // All names of up to five of these, which are the ones that matter to an escape.
        let letters = ["$", "2", "4", "0", "D", "-", " ", "é"];
        let mut names = vec![String::new()];
        for _ in 0..5 {
            let longer =
                names.iter().flat_map(|name| letters.map(|letter| format!("{name}{letter}")));
            names = longer.collect();
            for name in &names {
                if let Some(topic) = topic_of(name.as_bytes()) {
                    assert_eq!(tube_of(&topic), *name);
                }
                if let Ok(topic) = name.parse::<Topic>() {
                    let tube = tube_of(&topic);
                    assert!(is_tube(tube.as_bytes()), "{tube}");
                    assert_eq!(topic_of(tube.as_bytes()), Some(topic), "{tube}");
                }
            }
        }
    }
}
