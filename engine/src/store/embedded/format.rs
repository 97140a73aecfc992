//! What the folder says about itself, and what its files are called.

use std::io;

use super::files::Files;
use crate::error::{Code, Error, Result, excerpt};

/// The format that this version writes. Older ones are read; newer ones are refused.
pub(crate) const FORMAT: u32 = 1;

const NAME: &str = "FORMAT";
const TITLE: &str = "linger store, format ";

/// The key by which the store's ids are hashed.
pub(crate) type HashKey = [u8; 16];

/// The format of the store in a folder, which is only looked at; none if there is none. Refuses one that
/// this version cannot read.
pub fn format(folder: impl AsRef<std::path::Path>) -> Result<Option<u32>> {
    let look = |cause| failed("reading the folder", cause);
    let files = super::files::Folder::look(folder).map_err(look)?;
    // There was no other yet.
    Ok(read(&files)?.map(|_| FORMAT))
}

/// Reads what the folder says about itself; none if it is new.
pub(crate) fn read(files: &dyn Files) -> Result<Option<HashKey>> {
    let file = match files.open(NAME) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed("reading FORMAT", cause)),
    };
    let mut bytes = [0; 256];
    let len = file.read_at(&mut bytes, 0).map_err(|cause| failed("reading FORMAT", cause))?;
    let text = String::from_utf8_lossy(&bytes[..len]);
    parse(&text).map(Some)
}

/// Writes down what the folder is, for good.
pub(crate) fn create(files: &dyn Files, key: HashKey) -> Result<()> {
    write_whole(files, NAME, text(FORMAT, key).as_bytes())
        .map_err(|cause| failed("writing FORMAT", cause))
}

fn text(format: u32, key: HashKey) -> String {
    let text = format!("{TITLE}{format}\nkey {:032x}\n", u128::from_be_bytes(key));
    // A digit that was flipped would be another key, by which no id is found.
    format!("{text}check {:08x}\n", crc32c::crc32c(text.as_bytes()))
}

/// Writes a small file so that it is there whole or not at all.
pub(crate) fn write_whole(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    match files.remove(&temporary) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
        _ => {}
    }
    let file = files.create(&temporary)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    files.rename(&temporary, name)?;
    files.sync_folder()
}

fn parse(found: &str) -> Result<HashKey> {
    let wrong = || {
        let message = format!("FORMAT says `{}`, which is no store of ours", excerpt(found));
        Error::new(Code::StorageFailed, message)
    };
    let mut lines = found.lines();
    let title = lines.next().and_then(|line| line.strip_prefix(TITLE)).ok_or_else(wrong)?;
    let format: u32 = title.parse().map_err(|_| wrong())?;
    if format > FORMAT {
        let message = format!(
            "the store has format {format}, and this version of Linger reads up to {FORMAT}; use a newer version"
        );
        return Err(Error::new(Code::StorageFailed, message));
    }
    let key = lines.next().and_then(|line| line.strip_prefix("key ")).ok_or_else(wrong)?;
    let key = u128::from_str_radix(key, 16).map_err(|_| wrong())?.to_be_bytes();
    if found == text(format, key) { Ok(key) } else { Err(wrong()) }
}

/// A failure of the disk, while opening.
pub(crate) fn failed(what: &str, cause: io::Error) -> Error {
    let message = format!("{what} failed: {cause}");
    Error::new(Code::StorageFailed, message).because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_refused_and_names_both() {
        let refused = parse(&text(FORMAT + 1, [0; 16])).unwrap_err();
        assert_eq!(refused.code(), Code::StorageFailed);
        assert!(refused.message().contains("format 2"), "{refused}");
        for text in ["", "hello", "linger store, format x\n", "linger store, format 1\n"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let whole = text(FORMAT, *b"0123456789abcdef");
        assert_eq!(parse(&whole).expect("it is whole"), *b"0123456789abcdef");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&String::from_utf8_lossy(&bytes)).is_err(), "bit {bit}");
        }
    }
}
