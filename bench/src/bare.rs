//! The bare file: one thread that writes into space that was written before, and syncs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::load::histogram;

const FILE_BYTES: u64 = 64 << 20;
const MIB: usize = 1 << 20;

/// A file of 64 MiB, written once.
pub(crate) struct Bare {
    file: File,
    offset: u64,
}

/// Whether each write is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Each,
    Never,
}

impl Bare {
    pub(crate) fn create(folder: &Path) -> io::Result<Bare> {
        let file = File::create(folder.join("bare"))?;
        for at in 0..FILE_BYTES / MIB as u64 {
            file.write_all_at(&vec![0; MIB], at * MIB as u64)?;
        }
        file.sync_all()?;
        Ok(Bare { file, offset: 0 })
    }

    /// Writes so many bytes again and again; answers how long each time took, in nanoseconds.
    pub(crate) fn write(
        &mut self,
        bytes: usize,
        sync: Sync,
        time: Duration,
    ) -> io::Result<Histogram<u64>> {
        let data = vec![7; bytes.min(FILE_BYTES as usize)];
        let (mut each_ns, start) = (histogram(), Instant::now());
        let mut began = start;
        while began - start < time {
            if self.offset + data.len() as u64 > FILE_BYTES {
                self.offset = 0;
            }
            self.file.write_all_at(&data, self.offset)?;
            self.offset += data.len() as u64;
            if sync == Sync::Each {
                self.file.sync_data()?;
            }
            let ended = Instant::now();
            each_ns.saturating_record((ended - began).as_nanos() as u64);
            began = ended;
        }
        Ok(each_ns)
    }

    /// As [`Bare::write`], synced, while another thread writes as a checkpoint does: a piece at a
    /// time into a growing file, synced at its end.
    pub(crate) fn write_beside(
        &mut self,
        folder: &Path,
        bytes: usize,
        time: Duration,
    ) -> io::Result<Histogram<u64>> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| -> io::Result<()> {
                while !over.load(Ordering::Relaxed) {
                    let file = File::create(folder.join("beside"))?;
                    for at in 0..64 {
                        file.write_all_at(&vec![1; MIB], at * MIB as u64)?;
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    file.sync_all()?;
                }
                std::fs::remove_file(folder.join("beside"))
            });
            let written = self.write(bytes, Sync::Each, time);
            over.store(true, Ordering::Relaxed);
            other.join().expect("it does not panic")?;
            written
        })
    }
}

/// Writes of so many records each, as records a second.
pub(crate) fn per_second(each_ns: &Histogram<u64>, records: u64) -> f64 {
    records as f64 * 1e9 / each_ns.mean()
}
