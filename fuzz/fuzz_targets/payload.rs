//! The payload of a record, its kind in the first byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linger::store::embedded::fuzzing::payload;

fuzz_target!(|bytes: &[u8]| {
    payload(bytes);
});
