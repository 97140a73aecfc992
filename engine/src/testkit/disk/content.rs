//! What is in one file, and what may be left of it when the power fails.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::testkit::rng::Rng;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// How many of a hundred unsynced sectors get through. Even odds alone would hardly ever lose or
/// keep all of a large write.
const KEPT_PERCENT: [usize; 7] = [0, 2, 20, 50, 80, 98, 100];

/// One file's bytes: as readers see them, with what it takes to go back.
#[derive(Clone, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    /// This much of the length is safe.
    synced_size: usize,
    /// The writes since the last sync, so that a write costs no more than two copies.
    undo: Vec<Undo>,
    /// Sectors that a failed sync has left marked clean: no later sync will write them.
    limbo: Pasts,
}

/// What a write has replaced.
#[derive(Clone)]
struct Undo {
    range: Range<usize>,
    size: usize,
    /// What `range` held, as far as the file went.
    old: Vec<u8>,
}

/// By sector, what it held: the last safe value first, then what was written since, without the
/// present one. As short as the file was then.
type Pasts = BTreeMap<usize, Vec<Box<[u8]>>>;

impl Content {
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: usize) -> usize {
        let there = self.bytes.get(offset..).unwrap_or_default();
        let got = buf.len().min(there.len());
        buf[..got].copy_from_slice(&there[..got]);
        got
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let range = offset..offset + bytes.len();
        let size = self.size();
        if offset > size {
            // Not `resize`: without optimisation it goes byte by byte.
            self.bytes.extend_from_slice(&vec![0; offset - size]);
        }
        let (over, beyond) = bytes.split_at(bytes.len().min(self.size() - offset));
        let replaced = &mut self.bytes[offset..offset + over.len()];
        let old = replaced.to_vec();
        replaced.copy_from_slice(over);
        self.bytes.extend_from_slice(beyond);
        self.undo.push(Undo { range, size, old });
    }

    pub(super) fn sync(&mut self) {
        for undo in self.undo.drain(..) {
            // Writing to a sector has brought it back under the care of a sync.
            if !self.limbo.is_empty() {
                sectors(&undo.range).for_each(|sector| drop(self.limbo.remove(&sector)));
            }
        }
        self.synced_size = self.size();
    }

    /// A sync that fails, as Linux does it: readers still see what was written, and it counts as
    /// clean, so that it may never reach the disk.
    pub(super) fn fail_sync(&mut self) {
        self.limbo = self.pasts();
        self.undo.clear();
    }

    /// Flips bits in all that this file holds or held at `offset`.
    pub(super) fn corrupt(&mut self, offset: usize, xor: u8) {
        self.bytes[offset] ^= xor;
        for undo in self.undo.iter_mut().filter(|undo| undo.range.contains(&offset)) {
            flip(&mut undo.old, offset - undo.range.start, xor);
        }
        for past in self.limbo.get_mut(&(offset / SECTOR)).into_iter().flatten() {
            flip(past, offset % SECTOR, xor);
        }
    }

    /// Whether the power could fail without a change.
    pub(super) fn is_safe(&self) -> bool {
        self.undo.is_empty() && self.limbo.is_empty() && self.synced_size == self.size()
    }

    /// What is left after the power failed.
    ///
    /// Each unsynced sector holds its last safe value or any that was written since. The file
    /// goes at least as far as what survived, at most as far as it went; zeros fill it up.
    pub(super) fn after_crash(&self, rng: &mut Rng) -> Content {
        let kept = rng.pick(&KEPT_PERCENT);
        let mut bytes = self.bytes.clone();
        let mut size = self.synced_size;
        for (sector, pasts) in self.pasts() {
            let place = place(sector, bytes.len());
            if rng.percent(kept) {
                size = size.max(place.end);
                continue;
            }
            let past = pick_past(&pasts, rng);
            size = size.max(if past.is_empty() { 0 } else { place.start + past.len() });
            bytes[place.clone()].fill(0);
            bytes[place.start..place.start + past.len()].copy_from_slice(past);
        }
        let size = match rng.below(3) {
            0 => size,
            1 => bytes.len(),
            _ => size + rng.below(bytes.len() - size + 1),
        };
        bytes.truncate(size);
        Content { bytes, synced_size: size, ..Content::default() }
    }

    fn pasts(&self) -> Pasts {
        let mut bytes = self.bytes.clone();
        let mut newest_first = Pasts::new();
        for undo in self.undo.iter().rev() {
            let start = undo.range.start.min(undo.size);
            bytes.truncate(undo.size);
            bytes[start..start + undo.old.len()].copy_from_slice(&undo.old);
            for sector in sectors(&undo.range) {
                let past = bytes[place(sector, bytes.len())].into();
                newest_first.entry(sector).or_default().push(past);
            }
        }
        let mut pasts = self.limbo.clone();
        for (sector, newest_first) in newest_first {
            pasts.entry(sector).or_default().extend(newest_first.into_iter().rev());
        }
        pasts
    }
}

/// The last safe value as often as all that came after it: a lost write is the common case.
fn pick_past<'a>(pasts: &'a [Box<[u8]>], rng: &mut Rng) -> &'a [u8] {
    let at = if rng.percent(50) { 0 } else { rng.below(pasts.len()) };
    &pasts[at]
}

fn sectors(range: &Range<usize>) -> Range<usize> {
    range.start / SECTOR..range.end.div_ceil(SECTOR)
}

/// Where a sector lies in a file of so many bytes.
fn place(sector: usize, size: usize) -> Range<usize> {
    (sector * SECTOR).min(size)..((sector + 1) * SECTOR).min(size)
}

fn flip(bytes: &mut [u8], at: usize, xor: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= xor;
    }
}
