//! Jobs that are pushed: by how much room there is where they go, and for how long.

use std::collections::HashMap;
use std::sync::Arc;

use super::trial::{TOUCH, handed, over, topic, ttr};
use super::{Subject, Trial, suite};
use crate::error::Code;
use crate::history::What;
use crate::job::{Destination, Edit, Envelope, Job, Patch};
use crate::machine::Owner;
use crate::queue::{Action, Ask, Lane, LetGo, Queue, Room, Source, Terms, Verdict};
use crate::time::{HOUR, MINUTE, SECOND};
use crate::topic::{Headers, Settings};

suite! {
    async fn no_more_is_handed_out_than_there_is_room_where_it_goes(t) {
        add(&t, "orders", &[("1", "http://a/x"), ("2", "http://a/y"), ("3", "http://b"), ("4", "http://b")]).await;
        let got = t.pop_by(any(room(1, &[]))).await;
        assert_eq!(handed(&got), ["1", "3"]);
        let got = t.pop_by(any(room(1, &[("http://a", 5)]))).await;
        assert_eq!(handed(&got), ["2", "4"]);
    }

    async fn a_destination_without_room_holds_up_none_behind_it(t) {
        add(&t, "orders", &[("1", "http://down"), ("2", "http://up"), ("3", "http://down")]).await;
        let got = t.pop_by(any(room(9, &[("http://down", 0)]))).await;
        assert_eq!(handed(&got), ["2"]);
        assert_eq!(t.counts("orders").await.ready, 2);
        assert_eq!(t.get("orders", "1").await.attempt, 0);
        assert_eq!(handed(&t.pop_by(any(room(9, &[]))).await), ["1", "3"]);
    }

    async fn a_topics_target_has_a_destination_too(t) {
        let target = Some("http://down/hook".parse().unwrap());
        t.set("orders", Settings { target, ..Settings::default() }).await;
        t.add(Job::new("orders", "x").id("1")).await;
        t.add(Job::new("orders", "x").id("2").target("http://up")).await;
        t.add(Job::new("orders", "x").id("3").target("http://down/other")).await;
        assert_eq!(handed(&t.pop_by(any(room(9, &[("http://down", 0)]))).await), ["2"]);
        assert_eq!(handed(&t.pop_by(any(room(9, &[("http://down", 1)]))).await), ["1"]);
        assert_eq!(handed(&t.pop_by(any(room(1, &[]))).await), ["3"]);
    }

    async fn workers_of_each_topic_are_a_destination_of_their_own(t) {
        add(&t, "a", &[("1", "worker:")]).await;
        add(&t, "b", &[("2", "worker:")]).await;
        assert_eq!(handed(&t.pop_by(any(room(9, &[("worker:/a", 0)]))).await), ["2"]);
    }

    async fn no_more_of_a_topic_is_handed_out_than_there_is_room_for(t) {
        add(&t, "a", &[("1", "http://x"), ("2", "http://y")]).await;
        add(&t, "b", &[("3", "http://x"), ("4", "http://y")]).await;
        let limited = Room { each_topic: 1, ..room(9, &[]) };
        assert_eq!(handed(&t.pop_by(any(limited)).await), ["1", "3"]);
        let mut closed = room(9, &[]);
        closed.topics.insert(topic("a"), 0);
        assert_eq!(handed(&t.pop_by(any(closed)).await), ["4"]);
    }

    async fn the_best_that_has_room_comes_first_whatever_stands_before_it(t) {
        t.add(Job::new("a", "x").id("1").target("http://down").priority(0)).await;
        t.add(Job::new("a", "x").id("2").target("http://up").priority(9)).await;
        t.add(Job::new("b", "x").id("3").target("http://up").priority(5)).await;
        let down = || room(9, &[("http://down", 0)]);
        assert_eq!(handed(&t.pop_by(any(down())).await), ["3", "2"]);
    }

    async fn room_is_limited_in_named_topics_too(t) {
        add(&t, "orders", &[("1", "http://down"), ("2", "http://up")]).await;
        let ask = Ask { from: Source::These(vec![topic("orders")]), ..any(room(9, &[("http://down", 0)])) };
        assert_eq!(handed(&t.pop_by(ask).await), ["2"]);
    }

    async fn a_waiting_push_is_given_what_there_is_room_for_and_nothing_else(t) {
        let mut push = t.begin(Ask { wait: MINUTE, ..any(room(9, &[("http://down", 0)])) });
        add(&t, "orders", &[("1", "http://down")]).await;
        assert!(t.answered(&mut push).await.is_none());
        add(&t, "orders", &[("2", "http://up")]).await;
        assert_eq!(handed(&push.await), ["2"]);
    }

    async fn a_waiting_push_without_room_holds_up_no_other(t) {
        let mut first = t.begin(Ask { wait: MINUTE, ..any(room(9, &[("http://a", 0)])) });
        let second = t.begin(Ask { wait: MINUTE, ..any(room(9, &[])) });
        add(&t, "orders", &[("1", "http://a")]).await;
        assert_eq!(handed(&second.await), ["1"]);
        assert!(t.answered(&mut first).await.is_none());
    }

    async fn a_ready_job_whose_target_changes_goes_where_there_is_room(t) {
        add(&t, "orders", &[("1", "http://down")]).await;
        let mut push = t.begin(Ask { wait: MINUTE, ..any(room(9, &[("http://down", 0)])) });
        assert!(t.answered(&mut push).await.is_none());
        let target = Edit::Set("http://up".parse().unwrap());
        t.change("orders", "1", Action::Update(Patch { target, ..Patch::default() })).await.unwrap();
        assert_eq!(handed(&push.await), ["1"]);
    }

    async fn room_is_for_jobs_that_are_pushed(t) {
        let ask = Ask { lane: Lane::Pull, ..any(room(9, &[])) };
        let refused = t.queue.pop(ask).await.unwrap_err();
        assert_eq!((refused.code(), refused.at_field()), (Code::Invalid, Some("room")));
    }

    async fn an_attempt_to_push_has_its_ttr_at_most_the_topics_time_out(t) {
        let push = || Ask { terms: Terms { grace: Some(5 * SECOND), ..Terms::default() }, ..any(room(9, &[])) };
        for (own, timeout, within) in [
            (HOUR, None, 30 * SECOND),
            (10 * SECOND, None, 10 * SECOND),
            (HOUR, Some(MINUTE), MINUTE),
        ] {
            let timeout = timeout.map(ttr);
            t.set("orders", Settings { timeout, ..Settings::default() }).await;
            t.add(Job::new("orders", "x").id("1").target("http://a").ttr(own)).await;
            let got = t.pop_by(push()).await.remove(0);
            assert_eq!((got.within, got.ttr.as_duration()), (within, own));
            assert_eq!(got.until, t.after(within + 5 * SECOND));
            t.finish(&got).await;
        }
    }

    async fn a_job_that_is_left_is_reserved_for_its_ttr_from_then_on(t) {
        let terms = Terms { grace: Some(5 * SECOND), owner: Some(Owner(1)), ttr: None };
        t.add(Job::new("orders", "x").id("1").target("http://a").ttr(HOUR)).await;
        let got = t.pop_by(Ask { terms, ..any(room(9, &[])) }).await.remove(0);
        t.pass(10 * SECOND).await;
        let left = t.settle(&got, Verdict::Leave).await.unwrap().job.unwrap();
        assert_eq!(left.reserved_until, Some(t.after(HOUR)));
        let told = t.get("orders", "1").await.history.pop().unwrap();
        assert_eq!((told.what, told.took_ms), (What::Delivered, Some(10_000)));
        assert_eq!(t.queue.let_go(Owner(1), LetGo::Lost).await.unwrap(), 0, "it is not tied to anyone");
        t.pass(HOUR / 2).await;
        let touched = t.settle(&got, TOUCH).await.unwrap().job.unwrap();
        assert_eq!(touched.reserved_until, Some(t.after(HOUR)));
        t.finish(&got).await;
    }

    async fn what_was_never_begun_is_as_if_it_had_not_been_handed_out(t) {
        t.set("orders", Settings { rate: "1/d".parse().ok(), ..Settings::default() }).await;
        let before = t.add(Job::new("orders", "x").id("1").target("http://a")).await;
        for _ in 0..3 {
            let got = t.pop_by(any(room(9, &[]))).await.remove(0);
            assert_eq!(got.job.attempt, 1);
            t.settle(&got, Verdict::Recall).await.unwrap();
        }
        let after = t.get("orders", "1").await;
        assert_eq!((after.stage, after.attempt, after.tally), (before.stage, 0, before.tally));
        assert_eq!(after.history.len(), 1, "nothing is written about it");
        let refused = t.settle_id("orders", "1", Verdict::Finish).await.unwrap_err();
        assert_eq!(refused.code(), Code::WrongState, "nobody has seen it");
    }

    async fn the_envelope_is_the_jobs_else_the_topics_and_the_headers_the_topics(t) {
        let headers = Headers::new([("x-shop", "1")]).unwrap();
        let envelope = Some(Envelope::CloudEvents);
        let target = "http://a".parse().ok();
        t.set("orders", Settings { envelope, target, headers: headers.clone(), ..Settings::default() }).await;
        t.add(Job::new("orders", "x").id("topics")).await;
        t.add(Job::new("orders", "x").id("own").envelope(Envelope::Task)).await;
        let got = t.pop_by(any(room(9, &[]))).await;
        let envelopes: Vec<_> = got.iter().map(|got| got.envelope).collect();
        assert_eq!(envelopes, [Envelope::CloudEvents, Envelope::Task]);
        assert!(got.iter().all(|got| got.headers == headers));
        assert_eq!(t.get("orders", "own").await.spec.envelope, Some(Envelope::Task));
    }
}

async fn add<S: Subject>(t: &Trial<S>, topic: &str, jobs: &[(&str, &str)]) {
    t.add_many(jobs.iter().map(|(id, target)| Job::new(topic, "x").id(*id).target(*target))).await;
}

/// A push from every topic that has this much room.
fn any(room: Room) -> Ask {
    let room = Some(Arc::new(room));
    Ask { from: Source::Any, lane: Lane::Push, max: 9, room, ..over(&[]) }
}

/// Room for so many jobs for each destination, apart from these.
fn room(each: u32, named: &[(&str, u32)]) -> Room {
    let destination = |text: &str| match text.strip_prefix("worker:/") {
        Some(name) => Destination::of(&topic(name), &"worker:".parse().expect("a target")),
        None => Destination::of(&topic("any"), &text.parse().expect("a target")),
    };
    Room {
        each_destination: each,
        destinations: named.iter().map(|(text, room)| (destination(text), *room)).collect(),
        each_topic: 9,
        topics: HashMap::new(),
    }
}
