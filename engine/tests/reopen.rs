//! What opening a folder must not bring back, and what it must not pass over.

use std::sync::Arc;

use bytes::Bytes;
use linger::error::Code;
use linger::queue::{Expect, KvWrite, Queue};
use linger::store::Options;
use linger::store::embedded::{Embedded, Settings};
use linger::testkit::{SimClock, SimDisk};

/// The smallest segments there are.
const SEGMENT_BYTES: u32 = 64 << 10;

fn open(disk: &SimDisk) -> linger::Result<Embedded> {
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::default() };
    let options = Options { clock: SimClock::new(), ..Options::default() };
    Embedded::open_files(Arc::new(disk.clone()), options, settings)
}

#[tokio::test]
async fn what_no_segment_can_hold_is_refused_and_holds_up_nobody() {
    let store = open(&SimDisk::new()).expect("a new store");
    let put = |bytes: usize| KvWrite {
        key: "key".into(),
        value: Some(Bytes::from(vec![0; bytes])),
        expect: Expect::Any,
        ttl: None,
    };
    let refused = store.kv_write(put(64 << 10)).await.expect_err("it is larger than a segment");
    assert_eq!(refused.code(), Code::TooLarge);
    store.kv_write(put(32 << 10)).await.expect("that fits");
    drop(store);
    let settings = Settings { segment_bytes: SEGMENT_BYTES - 1, ..Settings::default() };
    let small = Embedded::open_files(Arc::new(SimDisk::new()), Options::default(), settings);
    assert_eq!(small.err().map(|refused| refused.code()), Some(Code::Invalid));
}
