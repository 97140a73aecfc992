//! How far an opening has come.

use std::sync::atomic::{AtomicU64, Ordering};

use super::checkpoint::Manifest;

/// How much of a store is loaded, for those who wait while it is opened.
///
/// Counted in bytes: those of checkpoints by the blocks that were taken up, those of the log by how
/// far it was read.
#[derive(Debug, Default)]
pub struct Progress {
    all: AtomicU64,
    done: AtomicU64,
}

impl Progress {
    /// The share that is loaded: 0 at first, 1 when all is there. Never falls.
    pub fn share(&self) -> f64 {
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Acquire));
        if all == 0 { 0.0 } else { (done as f64 / all as f64).min(1.0) }
    }

    fn advance_to(&self, done: u64) {
        self.done.fetch_max(done, Ordering::Relaxed);
    }
}

/// What lies before an opening.
pub(crate) struct Course<'a> {
    progress: &'a Progress,
    checkpoint_bytes: u64,
    blocks: u64,
    blocks_done: u64,
    segment_bytes: u64,
    /// The log's segments that are read, and the batch that was read last.
    segments: Vec<u32>,
    at: (u32, u32),
}

impl<'a> Course<'a> {
    /// With checkpoints of so many bytes, the newest of which ends so, and these segments of the
    /// log.
    pub(crate) fn new(
        progress: &'a Progress,
        checkpoints: (u64, Option<Manifest>),
        logs: impl Iterator<Item = u32>,
        segment_bytes: u32,
    ) -> Course<'a> {
        let (checkpoint_bytes, newest) = checkpoints;
        let from = newest.map_or(0, |manifest| manifest.position.segment);
        let segments: Vec<u32> = logs.filter(|number| *number >= from).collect();
        let segment_bytes = u64::from(segment_bytes);
        let log_bytes = segments.len() as u64 * segment_bytes;
        // One more: it is all there only when everything else has been done, too.
        progress.all.store(checkpoint_bytes + log_bytes + 1, Ordering::Release);
        let blocks = newest.map_or(1, |manifest| manifest.blocks.max(1));
        let at = (0, 0);
        Course { progress, checkpoint_bytes, blocks, blocks_done: 0, segment_bytes, segments, at }
    }

    /// A block of a checkpoint was taken up.
    pub(crate) fn took_block(&mut self) {
        self.blocks_done = (self.blocks_done + 1).min(self.blocks);
        let share = self.blocks_done as f64 / self.blocks as f64;
        self.progress.advance_to((self.checkpoint_bytes as f64 * share) as u64);
    }

    /// A record was taken up from the batch at this place.
    pub(crate) fn took_record(&mut self, segment: u32, batch: u32) {
        if self.at == (segment, batch) {
            return;
        }
        self.at = (segment, batch);
        let before = self.segments.partition_point(|number| *number < segment) as u64;
        let log = before * self.segment_bytes + u64::from(batch).min(self.segment_bytes);
        self.progress.advance_to(self.checkpoint_bytes + log);
    }

    /// All is there.
    pub(crate) fn end(&self) {
        self.progress.advance_to(self.progress.all.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::scan::Position;

    #[test]
    fn the_share_grows_step_by_step_to_all() {
        let manifest = Manifest {
            first_batch: 1,
            position: Position { segment: 3, offset: 0 },
            last_batch: 1,
            next_number: 1,
            kv_version: 0,
            blocks: 4,
        };
        let progress = Progress::default();
        assert_eq!(progress.share(), 0.0);
        // Segment 2 lies before what is replayed.
        let mut course = Course::new(&progress, (1000, Some(manifest)), [2, 3, 4].into_iter(), 500);
        let mut shares = Vec::new();
        for _ in 0..4 {
            course.took_block();
            shares.push(progress.share());
        }
        for (segment, batch) in [(3, 100), (3, 100), (3, 400), (4, 250)] {
            course.took_record(segment, batch);
            shares.push(progress.share());
        }
        let rounded: Vec<f64> = shares.iter().map(|share| (share * 1000.0).round()).collect();
        assert_eq!(rounded, [125.0, 250.0, 375.0, 500.0, 550.0, 550.0, 700.0, 875.0]);
        course.end();
        assert_eq!(progress.share(), 1.0);
    }
}
