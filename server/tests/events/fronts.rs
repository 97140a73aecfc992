//! Whichever way somebody comes, the log says which.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tonic::transport::Channel;

use linger_server::proto::linger as pb;
use pb::queue_client::QueueClient;
use pb::settlement::Verdict;

use crate::receiver::Receiver;
use crate::served::Served;
use crate::{Place, add, events, kinds};

fn front(event: &Value) -> &str {
    event["caller"]["front"].as_str().expect("a front")
}

/// Someone who speaks beanstalkd's protocol.
struct Tube(BufReader<TcpStream>);

impl Tube {
    /// Says a line, and answers the first of what is said to that.
    async fn say(&mut self, text: &str) -> String {
        self.0.get_mut().write_all(format!("{text}\r\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        if let Some(bytes) =
            line.strip_prefix("RESERVED ").and_then(|l| l.split_whitespace().nth(1))
        {
            let mut body = vec![0; bytes.parse::<usize>().unwrap() + 2];
            self.0.read_exact(&mut body).await.unwrap();
        }
        line.trim_end().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn beanstalkd_is_told_by_the_names_of_its_jobs() {
    for place in Place::both() {
        let mut served = Served::listening(&place.path(), &["--beanstalkd", "127.0.0.1:0"]).await;
        let line = served.says("the beanstalkd protocol is served on ").await;
        let address = line.rsplit(' ').next().unwrap().to_owned();
        served.says(" ready").await;
        let server = served.caller();
        let mut tube = Tube(BufReader::new(TcpStream::connect(&address).await.unwrap()));
        let peer = tube.0.get_ref().local_addr().unwrap().to_string();
        let put = |body: &str| format!("put 0 0 60 {}\r\n{body}", body.len());
        let number = |inserted: String| inserted.rsplit(' ').next().unwrap().to_owned();
        let done = number(tube.say(&put("done")).await);
        assert!(tube.say("reserve").await.starts_with("RESERVED"));
        assert_eq!(tube.say(&format!("delete {done}")).await, "DELETED");
        let buried = number(tube.say(&put("buried")).await);
        assert!(tube.say("reserve").await.starts_with("RESERVED"));
        assert_eq!(tube.say(&format!("bury {buried} 0")).await, "BURIED");
        assert_eq!(tube.say(&format!("kick-job {buried}")).await, "KICKED");
        assert_eq!(tube.say(&format!("delete {buried}")).await, "DELETED");
        tube.say(&put("lost")).await;
        assert!(tube.say("reserve").await.starts_with("RESERVED"));
        drop(tube);

        let all = events(&server, "topic=default", 11).await;
        let right = [
            "added",
            "handed_out",
            "finished",
            "added",
            "handed_out",
            "died",
            "run",
            "deleted",
            "added",
            "handed_out",
            "lost",
        ];
        assert_eq!(kinds(&all), right);
        for event in &all[..10] {
            assert_eq!((front(event), &event["caller"]["address"]), ("beanstalkd", &json!(peer)));
        }
        let id = |at: usize| all[at]["id"].as_str().expect("a name").to_owned();
        assert!((1..3).all(|at| id(at) == id(0)) && (4..8).all(|at| id(at) == id(3)));
        assert_eq!(all[5]["error"], "buried");
        assert_eq!((front(&all[10]), &all[10]["error"]), ("server", &json!("connection lost")));
        assert_eq!(id(10), id(8));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_is_told_calls_and_streams() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        let endpoint = Channel::from_shared(format!("http://{}", served.address)).unwrap();
        let mut queue = QueueClient::new(endpoint.connect().await.unwrap());
        let job = pb::NewJob { topic: "mail".into(), id: "1".into(), ..Default::default() };
        queue.add(pb::AddRequest { job: Some(job), ..Default::default() }).await.unwrap();
        let subscribe = pb::Subscribe { topics: vec!["mail".into()], ..Default::default() };
        let (requests, sent) = tokio::sync::mpsc::channel(8);
        let first =
            pb::ConsumeRequest { subscribe: Some(subscribe), credit: 1, ..Default::default() };
        requests.send(first).await.unwrap();
        let sent = tokio_stream::wrappers::ReceiverStream::new(sent);
        let mut stream = queue.consume(sent).await.unwrap().into_inner();
        let handed = stream.message().await.unwrap().unwrap().jobs.remove(0);
        let settlement = pb::Settlement {
            number: handed.job.as_ref().map_or(0, |job| job.number),
            lease: handed.lease,
            verdict: Some(Verdict::Finish(pb::Finished {})),
        };
        let settled = pb::ConsumeRequest { settlements: vec![settlement], ..Default::default() };
        requests.send(settled).await.unwrap();
        stream.message().await.unwrap().unwrap();
        // Settled by its number, it is told by its name.
        let all = events(&server, "topic=mail&id=1", 3).await;
        assert_eq!(kinds(&all), ["added", "handed_out", "finished"]);
        for event in &all {
            assert_eq!(front(event), "grpc", "{event}");
            assert!(event["caller"]["address"].is_string(), "{event}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_told_with_what_the_receiver_said() {
    for place in Place::both() {
        let served = place.serve(&[]).await;
        let server = served.caller();
        let mut receiver = Receiver::start().await;
        let target = receiver.url("/paid");
        let retry = r#"{"attempts":2,"ladder":["300ms"]}"#;
        add(
            &server,
            &format!(r#"{{"topic":"mail","id":"1","target":"{target}","retry":{retry}}}"#),
        )
        .await;
        receiver.next().await.answer_with(500, &[], "out of order");
        receiver.next().await.answer_with(204, &[], "");
        let all = events(&server, "topic=mail", 5).await;
        let right = ["added", "handed_out", "failed", "handed_out", "finished"];
        assert_eq!(kinds(&all), right);
        assert_eq!(front(&all[0]), "http");
        assert!(all[1..].iter().all(|event| front(event) == "push"), "{all:#?}");
        assert_eq!((&all[2]["status"], &all[4]["status"]), (&json!(500), &json!(204)));
        assert!(all[2]["error"].as_str().unwrap().contains("500"), "{}", all[2]);
        assert_eq!(all[4]["id"], "1");
    }
}
