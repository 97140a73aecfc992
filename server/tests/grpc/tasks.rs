//! The second lineage's service.

use tonic::Code;
use tonic::transport::Channel;

use super::client::{Server, ok, refused};

use linger_server::proto::tasks;
use tasks::delay_queue_client::DelayQueueClient;

fn wanted() -> tasks::AddReq {
    tasks::AddReq {
        name: "order".to_owned(),
        time: Some(tasks::ExecTime { duration: 600, relative: true }),
        callback: Some(tasks::CallbackInfo {
            schema: "http".to_owned(),
            address: "127.0.0.1:9".to_owned(),
            path: "/done".to_owned(),
        }),
        args: "1001".to_owned(),
    }
}

fn client(server: &Server) -> DelayQueueClient<Channel> {
    DelayQueueClient::new(server.channel())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_added_once_looked_at_and_removed() {
    let server = Server::start().await;
    let uid = ok(client(&server).add(wanted()).await).uid;
    assert_eq!(ok(client(&server).add(wanted()).await).uid, uid, "the same request");
    let task = ok(client(&server).get(tasks::RetrieveReq { uid: uid.clone() }).await);
    assert_eq!((task.name.as_str(), task.r#type()), ("order", tasks::TaskType::TaskDelay));
    assert_eq!(task.exec_time - task.created_at, 600);
    assert_eq!(
        (task.schema.as_str(), task.address.as_str(), task.path.as_str()),
        ("http", "127.0.0.1:9", "/done")
    );
    ok(client(&server).remove(tasks::RemoveReq { uid: uid.clone() }).await);
    let gone = client(&server).get(tasks::RetrieveReq { uid }).await;
    refused(gone, Code::NotFound, "not_found", None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said() {
    let server = Server::start().await;
    let wrong = |change: fn(&mut tasks::AddReq)| {
        let mut request = wanted();
        change(&mut request);
        request
    };
    let duration = |duration| tasks::ExecTime { duration, relative: true };
    let negative = tasks::AddReq { time: Some(duration(-1)), ..wanted() };
    for (request, field) in [
        (wrong(|request| request.callback = None), "callback"),
        (wrong(|request| request.name = String::new()), "topic"),
        (
            wrong(|request| request.callback.as_mut().expect("it is there").schema = "ftp".into()),
            "callback.schema",
        ),
        (
            wrong(|request| request.callback.as_mut().expect("it is there").address.clear()),
            "callback.address",
        ),
        (negative, "time.duration"),
    ] {
        let answer = client(&server).add(request).await;
        refused(answer, Code::InvalidArgument, "invalid", Some(field));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_turned_off() {
    let mut server = Server::start().await;
    server.set(|config| config.fronts.tasks = false);
    let answer = client(&server).add(wanted()).await;
    assert_eq!(answer.expect_err("it is off").code(), Code::Unimplemented);
}
