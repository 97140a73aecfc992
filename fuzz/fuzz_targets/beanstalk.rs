//! Commands of the beanstalkd protocol, as they come from a connection. The first byte says in what
//! pieces: however they are cut, they are the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linger_server::fuzzing::read_in_pieces;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let pieces: Vec<&[u8]> = bytes.chunks(usize::from(*first).max(1)).collect();
    assert_eq!(read_in_pieces(&pieces).0, read_in_pieces(&[bytes]).0);
});
