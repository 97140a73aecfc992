//! What holds for all jobs of a topic.

use linger::time::HOUR;

use crate::speaker::{Add, Settings, Told};
use crate::world::World;

pub(crate) fn a_topic_is_paused_and_resumed(world: &mut World) -> Told<()> {
    for topic in ["paused", "resumed"] {
        world.add(&Add::new(topic, topic))?;
        world.speaker.pause(topic, 3 * HOUR)?;
        world.pops_nothing(topic)?;
    }
    world.speaker.resume("resumed")?;
    world.pops("resumed", "resumed").map(drop)
}

pub(crate) fn a_paused_topic_hands_nothing_out(world: &mut World) -> Told<()> {
    world.hand.pause("t", 3 * HOUR)?;
    world.add(&Add::new("t", "a"))?;
    world.pops_nothing("t")?;
    world.hand.resume("t")?;
    world.pops("t", "a").map(drop)
}

pub(crate) fn no_more_are_under_way_than_the_topic_allows(world: &mut World) -> Told<()> {
    world.hand.configure("t", &Settings { concurrency: Some(1), ..Settings::default() })?;
    for name in ["a", "b", "c"] {
        world.add(&Add::new("t", name))?;
    }
    let a = world.pops("t", "a")?;
    world.pops_nothing("t")?;
    world.speaker.finish(&a)?;
    world.pops("t", "b")?;
    world.pops_nothing("t")
}

pub(crate) fn the_topics_time_to_run_holds_for_jobs_without_one(world: &mut World) -> Told<()> {
    let add = Add { ttr: None, ..Add::new("t", "a") };
    world.add_by_hand(&add)?;
    world.hand.configure("t", &Settings { ttr: Some(6 * HOUR), ..Settings::default() })?;
    world.pops("t", "a").map(drop)
}
