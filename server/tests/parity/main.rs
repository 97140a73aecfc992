//! One story, told once, run through every front end that can tell it: each must leave the same
//! in the store.
//!
//! A front end that cannot tell a story says so in its file, with what it lacks, and that is
//! checked: none drops out in silence.

mod fronts;
mod speaker;
mod state;
mod stories;
mod world;

use fronts::{FRONTS, Front};
use speaker::{No, Told};
use state::State;
use world::World;

type Story = fn(&mut World) -> Told<()>;

/// Every story, as a test each, and their names as a list.
macro_rules! stories {
    ($($module:ident: $($name:ident)*;)*) => {
        const STORIES: &[&str] = &[$($(stringify!($name),)*)*];
        $($(
            #[test]
            fn $name() {
                tell(stringify!($name), stories::$module::$name);
            }
        )*)*
    };
}

stories! {
    work:
        a_job_is_added_popped_and_finished
        a_job_that_waits_is_not_handed_out
        a_job_comes_when_it_is_due
        a_job_is_handed_out_again_when_its_time_is_up
        a_late_worker_cannot_finish
        a_released_job_waits_as_it_is_told
        a_touched_job_stays_with_its_holder
        a_failed_job_is_tried_again_and_dies
        not_yet_is_no_failure
        a_buried_job_is_dead_until_it_is_kicked
        the_most_urgent_comes_first
        the_most_urgent_is_popped_first_whoever_added_it;
    hand:
        a_cancelled_job_is_gone
        a_cancelled_job_is_lost_to_its_holder
        what_is_not_there_is_refused
        a_job_can_be_looked_at
        a_job_that_waits_is_changed
        a_job_is_run_before_its_time
        a_job_is_set_aside_and_let_go
        a_job_that_is_set_aside_is_not_handed_out
        dead_jobs_are_redriven
        a_job_whose_time_was_up_too_often_is_dead_until_it_is_redriven
        a_repeating_job_goes_on_when_it_is_finished
        a_finished_job_is_kept_as_the_topic_says;
    topic:
        a_topic_is_paused_and_resumed
        a_paused_topic_hands_nothing_out
        no_more_are_under_way_than_the_topic_allows
        the_topics_time_to_run_holds_for_jobs_without_one;
    input:
        the_same_id_again_is_refused
        the_same_id_again_is_kept
        the_same_id_again_is_replaced
        text_in_any_script_is_kept
        a_body_may_be_as_large_as_the_limit
        a_body_over_the_limit_is_refused
        a_topic_of_a_wrong_name_is_refused
        an_empty_topic_is_refused
        an_id_of_a_wrong_name_is_refused
        an_empty_id_is_refused
        a_time_to_run_out_of_bounds_is_refused
        a_task_waits_and_is_removed;
}

/// Runs a story through all front ends, and says of each what is wrong with it.
fn tell(name: &str, story: Story) {
    let mut first: Option<(&Front, State)> = None;
    let mut tellers = Vec::new();
    let mut wrong = Vec::new();
    for front in FRONTS {
        eprintln!("{name}, by {}", front.name);
        let mut world = World::new(front);
        let told = story(&mut world);
        if let Some(why) = is_wrong(name, front, &told) {
            wrong.push(why);
        }
        if told.is_err() {
            continue;
        }
        let state = world.end();
        tellers.push(front.name);
        match &first {
            None => first = Some((front, state)),
            Some((told, expected)) => wrong.extend(differs((front, &state), (told, expected))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tellers.len() > 1, "a story for {tellers:?} alone compares nothing");
}

/// Whether a front end told a story that it says it cannot, or the other way round.
fn is_wrong(name: &str, front: &Front, told: &Told<()>) -> Option<String> {
    let teller = front.name;
    match (told, front.lack_for(name)) {
        (Ok(()), None) => None,
        (Ok(()), Some(_)) => Some(format!("{teller} can tell it, and says it cannot")),
        (Err(No::Cannot(what)), Some(lack)) if *what == lack => None,
        (Err(No::Cannot(what)), _) => Some(format!("{teller} cannot tell it for lack of {what}")),
        (Err(No::Refused(words)), _) => Some(format!("{teller} was refused: {words}")),
    }
}

/// How a front end left another state than another.
fn differs(
    (front, state): (&Front, &State),
    (other, expected): (&Front, &State),
) -> Option<String> {
    let fine = "finish apart from delete";
    let blurred = front.lacks(fine) || other.lacks(fine);
    let same = match blurred {
        true => state.blurred() == expected.blurred(),
        false => state == expected,
    };
    let (teller, other) = (front.name, other.name);
    (!same).then(|| format!("{teller} left {state:#?}\nbut {other} left {expected:#?}"))
}

#[test]
fn what_a_front_end_lacks_is_why_it_cannot_tell_a_story() {
    for front in FRONTS {
        for lack in front.lacks {
            let (teller, what) = (front.name, lack.what);
            assert!(!lack.why.is_empty(), "{teller} does not say why it lacks {what}");
            assert!(!lack.stories.is_empty(), "{teller} lacks {what}, which no story needs");
            for story in lack.stories {
                assert!(STORIES.contains(story), "there is no story {story}");
                assert_eq!(front.lack_for(story), Some(what), "{teller}: {story} stands twice");
            }
        }
        let untold: usize = front.lacks.iter().map(|lack| lack.stories.len()).sum();
        assert!(untold < STORIES.len(), "{} tells nothing", front.name);
    }
}
