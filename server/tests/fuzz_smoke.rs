//! The reader of the beanstalkd protocol is given what no client says: it must neither panic nor keep
//! more than a command, and read the same however the bytes are cut. `fuzz/` does the same for as
//! long as one likes.

use std::fs;
use std::path::Path;

use linger_server::fuzzing::read_in_pieces;

/// Versions of each file.
const VERSIONS: u64 = 3_000;

/// A small generator, so that a failure can be had again: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// The bytes with something wrong: parts twice, gone, or in each other's places, bytes changed.
fn broken(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        let from = dice.below(bytes.len());
        let to = (from + dice.below(20)).min(bytes.len());
        match dice.below(4) {
            0 => drop(bytes.drain(from..to)),
            1 => {
                let part = bytes[from..to].to_vec();
                let at = dice.below(bytes.len());
                bytes.splice(at..at, part);
            }
            2 if from < bytes.len() => bytes[from] = dice.below(256) as u8,
            _ => {
                let odd: [&[u8]; 5] = [b"\r\n", b"\r", b"\0", b"99999999999999999999", b"put "];
                let odd = odd[dice.below(odd.len())];
                bytes.splice(from..from, odd.iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn a_client_that_says_anything_is_read_the_same_in_any_pieces() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/beanstalk");
    let mut read = 0;
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("it is listed").path();
        let bytes = fs::read(&path).expect("it can be read");
        for seed in 1..=VERSIONS {
            let mut dice = Dice(seed);
            let bytes = broken(&bytes, &mut dice);
            let (whole, _) = read_in_pieces(&[&bytes]);
            let step = 1 + dice.below(40);
            let pieces: Vec<&[u8]> = bytes.chunks(step).collect();
            let told = format!("{}, seed {seed}, in pieces of {step}", path.display());
            assert_eq!(read_in_pieces(&pieces).0, whole, "{told}");
            read += whole.len();
        }
    }
    assert!(read > VERSIONS as usize, "only {read} commands were read");
}
