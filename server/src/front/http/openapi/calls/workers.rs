//! The registry of workers.

use linger::error::Code;
use linger::queue::PAGE_MAX;
use serde_json::{Value, json};

use super::super::operation::{Operation, named};
use super::MOMENT;

const WORKERS: &str = "/v1/workers";
const WORKER: &str = "/v1/workers/{worker}";

pub(super) fn calls() -> Vec<Operation> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": 100});
    let register = Operation::new(
        "post",
        WORKERS,
        "registerWorker",
        "Registers a worker, to be called for jobs of its topics",
    )
    .note(
        "Jobs with the target `worker:` go to any live worker for their topic, those with \
            `worker:APP` to one of that application, by turns. It is forgotten when its lease is \
            over unless a heartbeat comes. One with the same id, or of the same application at the \
            same url, is replaced and keeps its id.",
    )
    .needs(
        "NewWorker",
        &[
            (
                "By a name of its own",
                json!({
                    "id": "shop-1", "app": "shop", "topics": ["order.close"],
                    "url": "http://10.0.0.7:8080/jobs", "lease": "30s",
                }),
            ),
            (
                "By a name that is made",
                json!({
                    "app": "mail", "topics": ["mail", "report"], "url": "https://mail.example/jobs",
                }),
            ),
        ],
    )
    .answers(201, "The worker.", "Worker", worker())
    .answers(200, "The worker, which took the place of one.", "Worker", worker())
    .writes(&[]);
    let list = Operation::new("get", WORKERS, "listWorkers", "Who is registered")
        .asks("app", "Of this application.", named("App"), json!("shop"))
        .asks("topic", "For this topic.", named("Topic"), json!("order.close"))
        .asks("limit", "At most so many.", limit, json!(100))
        .asks("cursor", "Where the page before left off.", named("Id"), json!(""))
        .answers(200, "The workers, by id.", "WorkerPage", json!({"workers": [worker()]}))
        .reads(&[]);
    let look = one("get", WORKER, "getWorker", "A worker, and how it does")
        .answers(200, "The worker.", "Worker", worker())
        .reads(&[Code::NotFound]);
    let heartbeat = one(
        "put",
        "/v1/workers/{worker}/heartbeat",
        "keepWorker",
        "Says that a worker is alive: it has a full lease again",
    )
    .note(
        "`not_found` means that it is to register again; `wrong_state`, that it is registered in \
            Eureka.",
    )
    .takes("Heartbeat", &[("Alive", json!({})), ("Alive, and no more", json!({"draining": true}))])
    .answers(200, "The worker.", "Worker", worker())
    .writes(&[Code::NotFound, Code::WrongState]);
    let drain = one(
        "post",
        "/v1/workers/{worker}/drain",
        "drainWorker",
        "Calls a worker for no new jobs; what it has it may end",
    )
    .takes("Nothing", &[("Nothing to say", json!({}))])
    .answers(200, "The worker.", "Worker", draining())
    .writes(&[Code::NotFound, Code::WrongState]);
    let deregister = one("delete", WORKER, "deregisterWorker", "Forgets a worker")
        .answers(200, "The worker, as it stood.", "Worker", worker())
        .writes(&[Code::NotFound, Code::WrongState]);
    let calls = [register, list, look, heartbeat, drain, deregister];
    calls.into_iter().map(|call| call.tag("workers")).collect()
}

fn one(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    let about = "The worker's id, percent-encoded.";
    Operation::new(method, path, id, summary).in_path("worker", about, named("Id"), "shop-1")
}

fn worker() -> Value {
    json!({
        "id": "shop-1", "app": "shop", "topics": ["order.close"],
        "url": "http://10.0.0.7:8080/jobs", "state": "live", "lease": "30s", "registered": MOMENT,
        "expires": "2026-12-01T09:00:30.000Z", "under_way": 0, "deliveries": 0, "failures": 0,
    })
}

fn draining() -> Value {
    let mut worker = worker();
    worker["state"] = json!("draining");
    worker
}
