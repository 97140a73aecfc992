//! The port that gRPC shares with HTTP: who is answered how, deadlines, health and reflection.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::client::{PATIENCE, Server, new_job, ok, pb, refused};

/// Sends an empty request, by HTTP/2 or HTTP/1.
async fn send(
    server: &Server,
    http2: bool,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<Bytes> {
    send_body(server, http2, path, headers, b"").await
}

async fn send_body(
    server: &Server,
    http2: bool,
    path: &str,
    headers: &[(&str, &str)],
    body: &'static [u8],
) -> Response<Bytes> {
    let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
    let mut request =
        Request::builder().method("POST").uri(format!("http://{}{path}", server.address()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::<Bytes>::from(body)).expect("a request");
    let answer = client.request(request).await.expect("an answer");
    let (parts, body) = answer.into_parts();
    Response::from_parts(parts, body.collect().await.expect("all of it").to_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_role_api_only_how_it_is_is_told() {
    let server = Server::with(|config| config.role.api = false).await;
    let call = [("content-type", "application/grpc")];
    let answer = send(&server, true, "/linger.v1.Queue/Add", &call).await;
    assert_eq!(answer.headers()["grpc-status"], "14", "{answer:?}");
    let answer = send(&server, true, "/grpc.health.v1.Health/Nothing", &call).await;
    assert_eq!(answer.headers()["grpc-status"], "12", "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_answered_in_its_own_language() {
    let server = Server::start().await;
    for http2 in [true, false] {
        let answer = send(&server, http2, "/linger.v1.Queue/Add", &[]).await;
        assert_eq!(answer.status(), 404);
        assert!(answer.body().starts_with(br#"{"error":{"code":"not_found""#), "{answer:?}");
        let web = [("content-type", "application/grpc-web")];
        let answer = send(&server, http2, "/nothing", &web).await;
        assert_eq!(answer.status(), 404, "{answer:?}");
    }
    let call = [("content-type", "application/grpc")];
    for path in ["/nothing", "/no.Service/Call", "/linger.v1.Queue/Nothing", "/"] {
        let answer = send(&server, true, path, &call).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["grpc-status"], "12", "{path}: {answer:?}");
        assert!(answer.headers().contains_key("x-request-id"));
    }
    let foreign = [("content-type", "application/grpc"), ("origin", "http://evil.example")];
    let answer = send(&server, true, "/linger.v1.Queue/Add", &foreign).await;
    assert_eq!(answer.headers()["grpc-status"], "7");
    assert_eq!(answer.headers()["linger-code"], "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_has_no_more_time_is_told_and_gets_nothing_leased() {
    let server = Server::start().await;
    // By hand: a client that knows its deadline has a timer of its own, and that would ring.
    let headers = [("content-type", "application/grpc"), ("grpc-timeout", "50m")];
    // A pop that waits for 60 s.
    let pop = b"\0\0\0\0\x04\x1a\x02\x08\x3c";
    let late = send_body(&server, true, "/linger.v1.Queue/Pop", &headers, pop);
    let late = tokio::time::timeout(PATIENCE, late).await.expect("in time");
    assert_eq!(late.headers()["grpc-status"], "4", "{late:?}");
    server.add("1").await;
    assert_eq!(server.pop().await.job.expect("a job").attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_at_its_deadline() {
    let server = Server::start().await;
    server.add("1").await;
    let first = pb::ConsumeRequest {
        subscribe: Some(pb::Subscribe::default()),
        credit: 1,
        ..Default::default()
    };
    let requests = tokio_stream::StreamExt::chain(
        tokio_stream::once(first),
        tokio_stream::pending::<pb::ConsumeRequest>(),
    );
    let mut request = tonic::Request::new(requests);
    request.metadata_mut().insert("grpc-timeout", "500m".parse().expect("a value"));
    let mut down = server.queue().consume(request).await.expect("it begins").into_inner();
    let end = async {
        loop {
            match down.message().await {
                Ok(message) => assert_eq!(message.expect("a message").jobs.len(), 1),
                Err(status) => return status,
            }
        }
    };
    let status = tokio::time::timeout(PATIENCE, end).await.expect("in time");
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(server.pop().await.job.expect("a job").attempt, 2, "it was lost with its stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_is_not_taken_for_idle() {
    let server = Server::with(|config| {
        config.limits.idle_time = Duration::from_millis(50);
        config.limits.header_time = Duration::from_secs(5);
    })
    .await;
    let first = pb::ConsumeRequest {
        subscribe: Some(pb::Subscribe { topics: vec!["t".to_owned()], ttr: None }),
        credit: 1,
        ..Default::default()
    };
    let requests = tokio_stream::StreamExt::chain(
        tokio_stream::once(first),
        tokio_stream::pending::<pb::ConsumeRequest>(),
    );
    let channel = server.connect().await;
    let mut queue = pb::queue_client::QueueClient::new(channel);
    let mut down = queue.consume(requests).await.expect("it begins").into_inner();
    // An idle connection is closed meanwhile, and this one is not.
    let mut idle = tokio::net::TcpStream::connect(server.address()).await.expect("a connection");
    let hello = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut idle, hello).await.expect("it is sent");
    let mut answer = Vec::new();
    let closed = tokio::io::AsyncReadExt::read_to_end(&mut idle, &mut answer);
    tokio::time::timeout(PATIENCE, closed).await.expect("in time").expect("it is closed");
    server.add_job(new_job("t", "1")).await;
    let message = tokio::time::timeout(PATIENCE, down.message()).await.expect("in time");
    assert_eq!(message.expect("well").expect("a message").jobs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_whether_calls_are_answered() {
    let server = Server::without_store().await;
    let check = |service: &str| HealthCheckRequest { service: service.to_owned() };
    let mut health = HealthClient::new(server.channel());
    let status = ok(health.check(check("")).await).status();
    assert_eq!(status, ServingStatus::NotServing);
    let answer = server.queue().get(pb::GetRequest { topic: String::new(), id: "1".into() }).await;
    refused(answer, Code::Unavailable, "unavailable", None);

    let server = Server::start().await;
    let mut health = HealthClient::new(server.channel());
    for service in ["", "linger.v1.Queue", "linger.v1.Topics", "pb.DelayQueue"] {
        assert_eq!(ok(health.check(check(service)).await).status(), ServingStatus::Serving);
    }
    let unknown = health.check(check("no.Service")).await.expect_err("it is not there");
    assert_eq!(unknown.code(), Code::NotFound);
    let mut unknown = ok(health.watch(check("no.Service")).await);
    let told = unknown.message().await.expect("well").expect("a message");
    assert_eq!(told.status(), ServingStatus::ServiceUnknown);
    drop(unknown);

    let mut watching = ok(health.watch(check("")).await);
    let told = watching.message().await.expect("well").expect("a message");
    assert_eq!(told.status(), ServingStatus::Serving);
    let stop = tokio::spawn(server.stop());
    let told = watching.message().await.expect("well").expect("a message");
    assert_eq!(told.status(), ServingStatus::NotServing);
    assert!(watching.message().await.expect("well").is_none(), "it ends with the server");
    tokio::time::timeout(PATIENCE, stop).await.expect("in time").expect("it stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_tells_what_there_is() {
    let server = Server::start().await;
    let ask =
        |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let requests = tokio_stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("linger.v1.Queue".to_owned())),
    ]);
    let mut client = ServerReflectionClient::new(server.channel());
    let mut answers = ok(client.server_reflection_info(requests).await);
    let mut next = async || -> ServerReflectionResponse {
        answers.message().await.expect("well").expect("a message")
    };
    let Some(MessageResponse::ListServicesResponse(list)) = next().await.message_response else {
        panic!("no list");
    };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for name in ["linger.v1.Queue", "linger.v1.Topics", "pb.DelayQueue", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|told| told == name), "{name} is not among {names:?}");
    }
    let answer = next().await.message_response;
    assert!(matches!(answer, Some(MessageResponse::FileDescriptorResponse(_))), "{answer:?}");
}
