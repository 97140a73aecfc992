//! A checkpoint as anybody may have written it, then with its checks made right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linger::store::embedded::fuzzing::{checkpoint, mend_checkpoint};

fuzz_target!(|bytes: &[u8]| {
    checkpoint(bytes);
    let mut mended = bytes.to_vec();
    mend_checkpoint(&mut mended);
    checkpoint(&mended);
});
