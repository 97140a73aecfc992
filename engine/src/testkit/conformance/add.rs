//! Adding jobs.

use super::suite;
use super::trial::{ids, topic};
use crate::error::Code;
use crate::job::{Form, Job, OnConflict};
use crate::machine::Stage;
use crate::queue::{How, Query};
use crate::time::{MINUTE, SECOND};

suite! {
    async fn a_job_without_delay_is_ready_at_once(t) {
        let job = t.add(Job::new("orders", "x").id("1")).await;
        assert_eq!(job.stage, Stage::Ready);
        assert_eq!(job.due, t.now());
    }

    async fn a_job_with_a_delay_waits_for_its_due_time(t) {
        let job = t.add(Job::new("orders", "x").id("1").delay(30 * MINUTE)).await;
        assert_eq!(job.stage, Stage::Delayed);
        assert_eq!(job.due.ms_since(t.now()), 30 * 60 * 1000);
        assert!(t.pop("orders").await.is_none());
        t.pass(30 * MINUTE).await;
        assert_eq!(t.popped("orders").await.id().as_str(), "1");
    }

    async fn the_body_comes_back_as_it_was_given(t) {
        let body = crate::job::Body::json("{ \"a\": 1.0 }").unwrap();
        t.add(Job::new("orders", body).id("1")).await;
        let delivery = t.popped("orders").await;
        assert_eq!((delivery.body().form(), delivery.body().as_str()), (Form::Json, Some("{ \"a\": 1.0 }")));
    }

    async fn the_same_id_again_is_refused(t) {
        t.add(Job::new("orders", "x").id("1").delay(SECOND)).await;
        let refused = t.try_add(Job::new("orders", "y").id("1")).await.unwrap_err();
        assert_eq!((refused.code(), refused.at_field()), (Code::AlreadyExists, Some("id")));
        assert_eq!(t.get("orders", "1").await.body.unwrap().as_str(), Some("x"));
    }

    async fn keep_answers_the_job_that_is_there(t) {
        let first = t.add(Job::new("orders", "x").id("1")).await;
        let kept = t.try_add(Job::new("orders", "y").id("1").on_conflict(OnConflict::Keep)).await.unwrap();
        assert_eq!((kept.how, kept.job.number), (How::Kept, first.number));
        assert_eq!(ids(&t.browse(Query::all(topic("orders"))).await), ["1"]);
    }
}
