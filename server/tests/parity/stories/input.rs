//! What is given, and what is refused.

use std::time::Duration;

use linger::time::{DAY, HOUR};

use crate::speaker::{Add, Again, Told};
use crate::world::{BODY_BYTES_MAX, World, is_refused};

pub(crate) fn the_same_id_again_is_refused(world: &mut World) -> Told<()> {
    let first = Add { delay: HOUR, ..Add::new("t", "a") };
    world.add(&first)?;
    let again = Add { again: Again::Reject, body: "new".to_owned(), ..first };
    is_refused(world.add(&again))?;
    world.add(&Add { topic: "other".to_owned(), ..again }).map(drop)
}

pub(crate) fn the_same_id_again_is_kept(world: &mut World) -> Told<()> {
    let add = Add { delay: HOUR, again: Again::Keep, ..Add::task("t", "a") };
    world.add(&add)?;
    world.add(&add).map(drop)
}

pub(crate) fn the_same_id_again_is_replaced(world: &mut World) -> Told<()> {
    let first = Add { delay: HOUR, ..Add::new("t", "a") };
    world.add(&first)?;
    let body = "new".to_owned();
    world.add(&Add { again: Again::Replace, body, delay: 2 * HOUR, ..first }).map(drop)
}

pub(crate) fn text_in_any_script_is_kept(world: &mut World) -> Told<()> {
    for (name, body) in [
        ("empty", ""),
        ("scripts", "支付 ✓ \u{1F600} \0 \"\\ \r\n"),
        ("json", r#"{"order": 1.0}"#),
        ("escapes", r"\u0041 %41 $41 +"),
    ] {
        world.add(&Add { body: body.to_owned(), ..Add::new("t", name) })?;
        world.pops("t", body)?;
    }
    Ok(())
}

pub(crate) fn a_body_may_be_as_large_as_the_limit(world: &mut World) -> Told<()> {
    world.add(&Add { body: "x".repeat(BODY_BYTES_MAX), ..Add::new("t", "a") }).map(drop)
}

pub(crate) fn a_body_over_the_limit_is_refused(world: &mut World) -> Told<()> {
    let body = "x".repeat(BODY_BYTES_MAX + 1);
    is_refused(world.add(&Add { body, ..(world.front.simple)("t", "a") }))
}

pub(crate) fn a_topic_of_a_wrong_name_is_refused(world: &mut World) -> Told<()> {
    for topic in [" ", "a\u{7}b", &"x".repeat(201)] {
        is_refused(world.add(&(world.front.simple)(topic, "a")))?;
    }
    Ok(())
}

pub(crate) fn an_empty_topic_is_refused(world: &mut World) -> Told<()> {
    world.needs("empty names")?;
    is_refused(world.add(&(world.front.simple)("", "a")))
}

pub(crate) fn an_id_of_a_wrong_name_is_refused(world: &mut World) -> Told<()> {
    world.needs("id")?;
    for id in ["a\u{7}b", &"x".repeat(257)] {
        is_refused(world.add(&Add::new("t", id)))?;
    }
    Ok(())
}

pub(crate) fn an_empty_id_is_refused(world: &mut World) -> Told<()> {
    world.needs("id")?;
    world.needs("empty names")?;
    is_refused(world.add(&Add::new("t", "")))
}

pub(crate) fn a_time_to_run_out_of_bounds_is_refused(world: &mut World) -> Told<()> {
    world.needs("bounds of ttr")?;
    for ttr in [Duration::ZERO, 8 * DAY] {
        is_refused(world.add(&Add { ttr: Some(ttr), ..Add::new("t", "a") }))?;
    }
    Ok(())
}

pub(crate) fn a_task_waits_and_is_removed(world: &mut World) -> Told<()> {
    let gone = world.add(&Add { delay: HOUR, ..Add::task("t", "gone") })?;
    world.add(&Add { delay: 7 * HOUR, ..Add::task("t", "stays") })?;
    world.add(&Add::task("t", "ready"))?;
    world.speaker.delete(&gone)
}
