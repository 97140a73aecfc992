//! A copy of the whole store.

use serde_json::json;

use super::super::operation::Operation;
use super::MOMENT;

pub(super) fn calls() -> Vec<Operation> {
    let lines = format!(
        "{{\"kind\":\"export\",\"format\":\"linger\",\"version\":1,\"at\":\"{MOMENT}\",\
         \"backup\":true,\"jobs\":0,\"of_one_moment\":true}}\n\
         {{\"kind\":\"end\",\"jobs\":0,\"sha256\":\"9f86d081…\"}}\n"
    );
    let backup = Operation::new("get", "/v1/backup", "backup", "A copy of the whole store")
        .note(
            "Lines of JSON, for `linger import`: topics with settings, what is kept beside jobs, and \
             every job with all that is known of it, leases included. The last line has the number of \
             jobs and the SHA-256 of all bytes before it: one who finds none has not got all of it. \
             A store in a folder is shown as it was at one moment (`of_one_moment`), and has one \
             backup at a time. On Redis each job that is there from beginning to end is in it once, as \
             it was at some moment between. Workers are not in it: they register anew.",
        )
        .asks(
            "secrets",
            "Whether the keys that sign what is pushed are in it, as they are.",
            json!({"type": "boolean", "default": false}),
            json!(false),
        )
        .answers_in(
            "application/x-ndjson",
            200,
            "The lines.",
            json!({"type": "string"}),
            json!(lines),
        )
        .reads(&[])
        .tag("nodes");
    vec![backup]
}
