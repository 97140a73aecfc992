//! Slots by hash, with the keys kept elsewhere.

use hashbrown::HashTable;

/// How many small tables make up the large one. A small one grows by rehashing all it has, so
/// at 20 million entries this is what keeps the longest stop well under a millisecond.
const SHARDS: usize = 4096;

/// A hash table of slots; several may have the same hash.
///
/// Whatever the slots stand for is kept by the caller, who gives a key's hash, tells whether a
/// slot `is` the one meant, and can `rehash` every slot in the table. All bits of a hash must
/// be good.
#[derive(Default)]
pub(crate) struct Table {
    /// None until the first entry.
    shards: Vec<HashTable<u32>>,
    len: usize,
}

impl Table {
    /// An empty table; it takes no memory.
    pub(crate) fn new() -> Table {
        Table::default()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A table of all these slots and their hashes. They are sorted by shard first, so that one
    /// shard after the other is filled while it lies in the processor's cache: several times as
    /// fast as one by one.
    pub(crate) fn of(all: impl Iterator<Item = (u64, u32)> + Clone) -> Table {
        let mut ends = vec![0; SHARDS];
        all.clone().for_each(|(hash, _)| ends[shard_of(hash)] += 1);
        let mut len = 0;
        for end in &mut ends {
            len += std::mem::replace(end, len);
        }
        let mut sorted = vec![(0, 0); len];
        for (hash, slot) in all {
            let end = &mut ends[shard_of(hash)];
            sorted[*end] = (hash, slot);
            *end += 1;
        }
        let mut begin = 0;
        let shards = ends.into_iter().map(|end| {
            let part = &sorted[std::mem::replace(&mut begin, end)..end];
            let mut shard = HashTable::with_capacity(part.len());
            for (hash, slot) in part {
                shard.insert_unique(*hash, *slot, |_| unreachable!("there is room for all"));
            }
            shard
        });
        Table { shards: shards.collect(), len }
    }

    pub(crate) fn insert(&mut self, hash: u64, slot: u32, rehash: impl Fn(u32) -> u64) {
        self.shards()[shard_of(hash)].insert_unique(hash, slot, |slot| rehash(*slot));
        self.len += 1;
    }

    /// Takes out a slot of this hash, the first that `is` the one meant.
    ///
    /// `rehash` is asked about the slots that stay, if their shard gives memory back.
    pub(crate) fn remove(
        &mut self,
        hash: u64,
        is: impl Fn(u32) -> bool,
        rehash: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let shard = self.shards.get_mut(shard_of(hash))?;
        let (slot, _) = shard.find_entry(hash, |slot| is(*slot)).ok()?.remove();
        self.len -= 1;
        // From a third full to two thirds: many must come or go before it grows or shrinks again.
        if shard.len() * 3 < shard.capacity() {
            shard.shrink_to(shard.len() * 3 / 2, |slot| rehash(*slot));
        }
        Some(slot)
    }

    /// The first slot of this hash that `is` the one meant.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.shards.get(shard_of(hash))?.find(hash, |slot| is(*slot)).copied()
    }

    /// Whether there may be a slot of this hash.
    pub(crate) fn has_any(&self, hash: u64) -> bool {
        self.shards.get(shard_of(hash)).is_some_and(|shard| shard.iter_hash(hash).next().is_some())
    }

    /// Visits every slot of this hash, and now and then one of another: the table keeps but a
    /// few bits to tell.
    pub(crate) fn each(&self, hash: u64, mut visit: impl FnMut(u32)) {
        if let Some(shard) = self.shards.get(shard_of(hash)) {
            shard.iter_hash(hash).for_each(|slot| visit(*slot));
        }
    }

    fn shards(&mut self) -> &mut [HashTable<u32>] {
        if self.shards.is_empty() {
            self.shards.resize_with(SHARDS, HashTable::new);
        }
        &mut self.shards
    }
}

/// Which shard a hash belongs to.
///
/// A shard finds its entries by the lowest bits of the hash and the highest 7, so this takes
/// 28 others. With those as a number `u` from 0 to 1, it is shard `u(4-u)/3` of all: the last
/// has twice as many entries as the first. Equal ones would all double at about the same time;
/// these take turns, and the memory an entry takes hardly depends on how many there are.
fn shard_of(hash: u64) -> usize {
    const ONE: u64 = 1 << 28;
    let u = (hash >> 29) & (ONE - 1);
    (u * (4 * ONE - u) / (3 * ONE * ONE / SHARDS as u64)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::index::rng::{Rng, mix};

    /// Few different hashes of keys, so that many entries share one.
    fn hash(slot: u32) -> u64 {
        mix(u64::from(slot / 3))
    }

    /// Which part of all entries each shard has: the inverse of [`shard_of`].
    fn parts() -> impl Iterator<Item = f64> {
        let start = |shard: usize| 2.0 - (4.0 - 3.0 * shard as f64 / SHARDS as f64).sqrt();
        (0..SHARDS).map(move |shard| start(shard + 1) - start(shard))
    }

    fn put(table: &mut Table, slot: u32) {
        table.insert(hash(slot), slot, hash);
    }

    fn take(table: &mut Table, slot: u32) -> Option<u32> {
        table.remove(hash(slot), |found| found == slot, hash)
    }

    fn has(table: &Table, slot: u32) -> bool {
        table.find(hash(slot), |found| found == slot).is_some()
    }

    fn room(table: &Table) -> usize {
        table.shards.iter().map(HashTable::capacity).sum()
    }

    #[test]
    fn an_empty_table_is_small_and_finds_nothing() {
        let mut table = Table::new();
        assert!(size_of::<Table>() <= 32);
        assert!(table.is_empty() && table.shards.capacity() == 0);
        assert!(!has(&table, 1));
        assert_eq!(take(&mut table, 1), None);
        table.each(hash(1), |slot| panic!("there is no {slot}"));
    }

    #[test]
    fn slots_with_the_same_hash_stand_side_by_side() {
        let mut table = Table::new();
        (0..3000).for_each(|slot| put(&mut table, slot));
        let mut seen = Vec::new();
        table.each(hash(31), |slot| seen.push(slot));
        seen.retain(|slot| hash(*slot) == hash(31));
        seen.sort_unstable();
        assert_eq!(seen, [30, 31, 32]);

        assert_eq!(take(&mut table, 31), Some(31));
        assert_eq!(take(&mut table, 31), None);
        assert!(has(&table, 30) && !has(&table, 31) && has(&table, 32));
        assert_eq!(table.len(), 2999);
    }

    #[test]
    fn the_table_does_as_a_plain_set_does() {
        const SLOTS: usize = 40_000;
        for seed in 0..4 {
            let mut rng = Rng::new(seed);
            let (mut table, mut model) = (Table::new(), vec![false; SLOTS]);
            for step in 0..200_000 {
                let slot = rng.below(SLOTS);
                // Long stretches of growing, then of shrinking.
                let grow = rng.below(100) < if step / 50_000 % 2 == 0 { 80 } else { 20 };
                let at = slot as u32;
                if model[slot] {
                    assert!(has(&table, at), "seed {seed}: {slot} is lost at step {step}");
                    if !grow {
                        assert_eq!(take(&mut table, at), Some(at), "seed {seed}, step {step}");
                        model[slot] = false;
                    }
                } else {
                    assert_eq!(take(&mut table, at), None, "seed {seed}, step {step}");
                    if grow {
                        put(&mut table, at);
                        model[slot] = true;
                    }
                }
            }
            let len = model.iter().filter(|here| **here).count();
            assert_eq!(table.len(), len, "seed {seed}");
            for (slot, here) in (0..).zip(&model) {
                assert_eq!(has(&table, slot), *here, "seed {seed}: {slot}");
            }
        }
    }

    #[test]
    fn a_table_that_was_emptied_keeps_no_room() {
        let mut table = Table::new();
        (0..200_000).for_each(|slot| put(&mut table, slot));
        (20_000..200_000).for_each(|slot| assert_eq!(take(&mut table, slot), Some(slot)));
        assert!(room(&table) < 5 * 20_000, "{} for 20000", room(&table));
        (0..20_000).for_each(|slot| assert!(has(&table, slot), "{slot} is lost"));
        (0..20_000).for_each(|slot| assert_eq!(take(&mut table, slot), Some(slot)));
        assert_eq!((table.len(), room(&table)), (0, 0));
    }

    #[test]
    fn a_table_made_at_once_is_as_one_that_was_filled() {
        for n in [0, 1, 1000, 300_000] {
            let mut table = Table::of((0..n).map(|slot| (hash(slot), slot)));
            assert_eq!(table.len(), n as usize);
            (0..n).for_each(|slot| assert!(has(&table, slot), "{slot} of {n} is lost"));
            assert!(!has(&table, n) && room(&table) <= 3 * n as usize);
            put(&mut table, n);
            (0..=n).for_each(|slot| assert_eq!(take(&mut table, slot), Some(slot)));
        }
    }

    #[test]
    fn the_last_shard_has_twice_the_part_of_the_first() {
        assert_eq!((shard_of(0), shard_of(u64::MAX)), (0, SHARDS - 1));
        let parts: Vec<_> = parts().collect();
        assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((parts[SHARDS - 1] / parts[0] - 2.0).abs() < 0.01);

        let mut counts = vec![0.0; SHARDS];
        (0..2_000_000).for_each(|number| counts[shard_of(mix(number))] += 1.0);
        for (shard, (count, part)) in counts.iter().zip(&parts).enumerate() {
            let share = part * 2e6;
            assert!((count - share).abs() < 6.0 * share.sqrt(), "{shard}: {count}, not {share}");
        }
    }

    #[test]
    fn the_bits_a_shard_searches_by_do_not_choose_the_shard() {
        for hash in (0..1000).map(mix) {
            for bit in (0..29).chain(57..64) {
                assert_eq!(shard_of(hash), shard_of(hash ^ 1 << bit), "bit {bit} of {hash}");
            }
        }
    }

    #[test]
    fn shards_take_turns_at_growing() {
        let mut table = Table::new();
        let hash = |slot| mix(u64::from(slot));
        let mut slots = 0..;
        for total in [500_000, 600_000, 700_000, 800_000, 900_000, 1_000_000] {
            let more = total - table.len();
            slots.by_ref().take(more).for_each(|slot| table.insert(hash(slot), slot, hash));
            let spare = room(&table) as f64 / total as f64;
            assert!((1.3..1.6).contains(&spare), "room for {spare} of {total}");
        }
    }
}
