//! A segment of the log as anybody may have written it, then with its checks made right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use linger::store::embedded::fuzzing::{log, mend_log};

fuzz_target!(|bytes: &[u8]| {
    log(bytes);
    let mut mended = bytes.to_vec();
    mend_log(&mut mended);
    log(&mended);
});
