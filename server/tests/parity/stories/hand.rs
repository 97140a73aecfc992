//! What people do to jobs by hand.

use std::time::Duration;

use linger::time::{DAY, HOUR, SECOND};

use crate::speaker::{Add, Settings, Told, Update};
use crate::world::{World, is_refused};

pub(crate) fn a_cancelled_job_is_gone(world: &mut World) -> Told<()> {
    let later = world.add(&Add { delay: HOUR, ..Add::new("t", "later") })?;
    let now = world.add(&Add::new("t", "now"))?;
    world.add(&Add { delay: HOUR, ..Add::new("t", "kept") })?;
    world.speaker.delete(&later)?;
    world.speaker.delete(&now)?;
    world.pops_nothing("t")
}

pub(crate) fn a_cancelled_job_is_lost_to_its_holder(world: &mut World) -> Told<()> {
    world.needs("absence")?;
    world.needs("delete from its holder")?;
    let job = world.add(&Add::new("t", "a"))?;
    let held = world.pops("t", "a")?;
    world.speaker.delete(&job)?;
    is_refused(world.speaker.finish(&held))
}

pub(crate) fn what_is_not_there_is_refused(world: &mut World) -> Told<()> {
    world.needs("absence")?;
    let job = world.add(&Add { delay: HOUR, ..(world.front.simple)("t", "a") })?;
    world.speaker.delete(&job)?;
    is_refused(world.speaker.delete(&job))
}

pub(crate) fn a_job_can_be_looked_at(world: &mut World) -> Told<()> {
    let job = world.add(&Add { delay: HOUR, ..(world.front.simple)("t", "a") })?;
    let seen = world.speaker.look(&job)?;
    assert!(seen.body.is_none_or(|body| body == "a"));
    assert!(seen.state.is_none_or(|state| state == "delayed"));
    world.speaker.delete(&job)?;
    is_refused(world.speaker.look(&job))
}

pub(crate) fn a_job_that_waits_is_changed(world: &mut World) -> Told<()> {
    let job = world.add(&Add { delay: HOUR, ..Add::new("t", "a") })?;
    let body = Some("new".to_owned());
    let update = Update { body, delay: Some(9 * HOUR), ttr: Some(2 * HOUR), priority: Some(3) };
    world.speaker.update(&job, &update)?;
    // Made ready, it is another's and cannot be put off.
    world.speaker.update(&job, &Update { delay: Some(Duration::ZERO), ..Update::default() })?;
    world.pops("t", "new")?;
    is_refused(world.speaker.update(&job, &Update { delay: Some(HOUR), ..Update::default() }))?;
    world.speaker.update(&job, &Update { priority: Some(4), ..Update::default() })
}

pub(crate) fn a_job_is_run_before_its_time(world: &mut World) -> Told<()> {
    let job = world.add(&Add { delay: HOUR, ..Add::new("t", "a") })?;
    world.speaker.run(&job)?;
    world.pops("t", "a")?;
    is_refused(world.speaker.run(&job))
}

pub(crate) fn a_job_is_set_aside_and_let_go(world: &mut World) -> Told<()> {
    let job = world.add(&Add::new("t", "a"))?;
    world.add(&Add { delay: HOUR, held: true, ..Add::new("t", "b") })?;
    world.speaker.hold(&job)?;
    world.pops_nothing("t")?;
    world.speaker.unhold(&job)?;
    world.pops("t", "a").map(drop)
}

pub(crate) fn a_job_that_is_set_aside_is_not_handed_out(world: &mut World) -> Told<()> {
    let job = world.add(&Add::new("t", "a"))?;
    let job = world.by_hand(&job);
    world.hand.hold(&job)?;
    world.pops_nothing("t")?;
    world.hand.unhold(&job)?;
    world.pops("t", "a").map(drop)
}

pub(crate) fn dead_jobs_are_redriven(world: &mut World) -> Told<()> {
    for name in ["a", "b", "c"] {
        world.add_by_hand(&Add { attempts: Some(1), ..Add::new("t", name) })?;
        let popped = world.hand.pop("t", Duration::ZERO)?.expect("there is a job");
        world.hand.fail(&popped, "no answer", None)?;
    }
    assert_eq!(world.speaker.redrive("t")?, 3);
    assert_eq!(world.speaker.redrive("t")?, 0);
    // Of a kick the jobs come in the order in which they were dead.
    world.pops("t", "a").map(drop)
}

pub(crate) fn a_job_whose_time_was_up_too_often_is_dead_until_it_is_redriven(
    world: &mut World,
) -> Told<()> {
    let add = Add { attempts: Some(1), ttr: Some(SECOND), ..Add::new("t", "a") };
    let job = world.add_by_hand(&add)?;
    world.pops("t", "a")?;
    world.until(&job, "dead")?;
    world.pops_nothing("t")?;
    world.hand.redrive("t")?;
    world.pops("t", "a")?;
    world.until(&job, "dead")
}

pub(crate) fn a_repeating_job_goes_on_when_it_is_finished(world: &mut World) -> Told<()> {
    world.needs("finish apart from delete")?;
    let every = Some(4 * HOUR);
    let job = world.add_by_hand(&Add { repeat: every, delay: HOUR, ..Add::new("t", "a") })?;
    world.hand.run(&job)?;
    let popped = world.pops("t", "a")?;
    world.speaker.finish(&popped)?;
    world.pops_nothing("t")
}

pub(crate) fn a_finished_job_is_kept_as_the_topic_says(world: &mut World) -> Told<()> {
    world.needs("finish apart from delete")?;
    world.hand.configure("t", &Settings { retain: Some(DAY), ..Settings::default() })?;
    world.add(&Add::new("t", "a"))?;
    let popped = world.pops("t", "a")?;
    world.speaker.finish(&popped)?;
    world.pops_nothing("t")
}
