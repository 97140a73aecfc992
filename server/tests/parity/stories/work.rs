//! Jobs that are handed out.

use std::time::Duration;

use linger::time::{HOUR, SECOND};

use crate::speaker::{Add, Told, Update};
use crate::world::{World, is_refused};

pub(crate) fn a_job_is_added_popped_and_finished(world: &mut World) -> Told<()> {
    world.add(&Add::new("t", "a"))?;
    world.add(&Add::new("t", "b"))?;
    world.add(&Add::new("other", "c"))?;
    let a = world.pops("t", "a")?;
    world.speaker.finish(&a)?;
    // This one is left with its holder.
    world.pops("t", "b")?;
    world.pops_nothing("t")
}

pub(crate) fn a_job_that_waits_is_not_handed_out(world: &mut World) -> Told<()> {
    world.add(&Add { delay: 3 * HOUR, ..Add::new("t", "a") })?;
    world.pops_nothing("t")
}

pub(crate) fn a_job_comes_when_it_is_due(world: &mut World) -> Told<()> {
    world.add(&Add { delay: HOUR, ..Add::new("t", "later") })?;
    world.add(&Add { delay: SECOND, ..Add::new("t", "soon") })?;
    world.pops("t", "soon")?;
    world.pops_nothing("t")
}

pub(crate) fn a_job_is_handed_out_again_when_its_time_is_up(world: &mut World) -> Told<()> {
    let job = world.add(&Add { ttr: Some(SECOND), ..Add::new("t", "a") })?;
    world.pops("t", "a")?;
    world.pops("t", "a")?;
    world.until(&job, "ready")
}

pub(crate) fn a_late_worker_cannot_finish(world: &mut World) -> Told<()> {
    world.needs("finish apart from delete")?;
    let job = world.add_by_hand(&Add { ttr: Some(SECOND), ..Add::new("t", "a") })?;
    let late = world.pops("t", "a")?;
    world.until(&job, "ready")?;
    // From now on a lease lasts.
    let job = world.by_hand(&job);
    let longer = Update { ttr: Some(HOUR), ..Update::default() };
    world.hand.update(&job, &longer)?;
    let holder = world.pops("t", "a")?;
    is_refused(world.speaker.finish(&late))?;
    is_refused(world.speaker.touch(&late))?;
    is_refused(world.speaker.release(&late, Duration::ZERO, 1))?;
    world.speaker.touch(&holder)
}

pub(crate) fn a_released_job_waits_as_it_is_told(world: &mut World) -> Told<()> {
    world.add(&Add::new("t", "a"))?;
    let a = world.pops("t", "a")?;
    world.speaker.release(&a, Duration::ZERO, 7)?;
    let a = world.pops("t", "a")?;
    world.speaker.release(&a, 2 * HOUR, 8)?;
    is_refused(world.speaker.release(&a, HOUR, 9))?;
    world.pops_nothing("t")
}

pub(crate) fn a_touched_job_stays_with_its_holder(world: &mut World) -> Told<()> {
    world.add(&Add { ttr: Some(2 * HOUR), ..Add::new("t", "a") })?;
    let a = world.pops("t", "a")?;
    world.speaker.touch(&a)?;
    world.speaker.touch(&a)
}

pub(crate) fn a_failed_job_is_tried_again_and_dies(world: &mut World) -> Told<()> {
    for name in ["waits", "dies"] {
        world.add(&Add { attempts: Some(2), ..Add::new(name, name) })?;
        let first = world.pops(name, name)?;
        let wait = if name == "waits" { HOUR } else { Duration::ZERO };
        world.speaker.fail(&first, "no answer", Some(wait))?;
        is_refused(world.speaker.fail(&first, "twice", None))?;
    }
    let last = world.pops("dies", "dies")?;
    world.speaker.fail(&last, "still no answer", None)?;
    world.pops_nothing("dies")
}

pub(crate) fn not_yet_is_no_failure(world: &mut World) -> Told<()> {
    world.add(&Add::new("t", "a"))?;
    let a = world.pops("t", "a")?;
    world.speaker.again(&a, 5 * HOUR)?;
    world.pops_nothing("t")
}

pub(crate) fn a_buried_job_is_dead_until_it_is_kicked(world: &mut World) -> Told<()> {
    for name in ["a", "b"] {
        world.add(&Add::new(name, name))?;
        let popped = world.pops(name, name)?;
        world.speaker.bury(&popped, 5)?;
        world.pops_nothing(name)?;
    }
    assert_eq!(world.speaker.redrive("a")?, 1);
    assert_eq!(world.speaker.redrive("a")?, 0);
    world.pops("a", "a").map(drop)
}

pub(crate) fn the_most_urgent_comes_first(world: &mut World) -> Told<()> {
    for (name, priority) in [("c", 9), ("a", 0), ("d", u32::MAX), ("b", 9)] {
        world.add(&Add { priority, ..Add::new("t", name) })?;
    }
    for name in ["a", "c", "b"] {
        let popped = world.pops("t", name)?;
        world.speaker.finish(&popped)?;
    }
    Ok(())
}

pub(crate) fn the_most_urgent_is_popped_first_whoever_added_it(world: &mut World) -> Told<()> {
    for (name, priority) in [("c", 9), ("a", 0), ("d", u32::MAX), ("b", 9)] {
        world.add_by_hand(&Add { priority, ..Add::new("t", name) })?;
    }
    for name in ["a", "c", "b"] {
        world.pops("t", name)?;
    }
    Ok(())
}
