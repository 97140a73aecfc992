//! A bare gRPC server: what gRPC costs by itself, for `linger-bench grpc` to compare with. It answers
//! adds with a job, and streams with as many jobs as there is credit for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use linger_server::proto::linger as pb;
use linger_server::proto::linger::queue_server::{Queue, QueueServer};
use tokio_stream::Stream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming, async_trait};

// As the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let listener = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = tonic::transport::Server::builder().add_service(QueueServer::new(Echo));
    Ok(server.serve_with_incoming(listener).await?)
}

struct Echo;

/// A job much like one that Linger would answer.
fn job(topic: String, id: String) -> pb::Job {
    let time = Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 1_000_000 });
    pb::Job {
        topic,
        id,
        number: 1_000_000,
        state: pb::State::Delayed.into(),
        due: time,
        version: 1,
        priority: 1024,
        created: time,
        ..Default::default()
    }
}

/// Jobs for credit, and a word for each settlement.
struct Consuming(Streaming<pb::ConsumeRequest>);

impl Stream for Consuming {
    type Item = Result<pb::ConsumeResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(request) = ready!(Pin::new(&mut self.0).poll_next(context)?) else {
            return Poll::Ready(None);
        };
        let delivery = |_| pb::Delivery {
            lease: "0123456789abcdef".to_owned(),
            job: Some(pb::Job {
                body: vec![b'x'; 200].into(),
                ..job("due".to_owned(), "1800000000000-123456".to_owned())
            }),
        };
        let settled = |one: pb::Settlement| pb::Settled { number: one.number, error: None };
        Poll::Ready(Some(Ok(pb::ConsumeResponse {
            jobs: (0..request.credit).map(delivery).collect(),
            settled: request.settlements.into_iter().map(settled).collect(),
        })))
    }
}

/// Calls that nobody makes.
macro_rules! none {
    ($($name:ident: $request:ident -> $answer:ident,)+) => {
        #[async_trait]
        impl Queue for Echo {
            async fn add(
                &self,
                request: Request<pb::AddRequest>,
            ) -> Result<Response<pb::AddResponse>, Status> {
                let given = request.into_inner().job.unwrap_or_default();
                let job = Some(job(given.topic, given.id));
                Ok(Response::new(pb::AddResponse { job, how: pb::How::New.into() }))
            }

            type ConsumeStream = Consuming;

            async fn consume(
                &self,
                request: Request<Streaming<pb::ConsumeRequest>>,
            ) -> Result<Response<Consuming>, Status> {
                Ok(Response::new(Consuming(request.into_inner())))
            }

            $(async fn $name(
                &self,
                _: Request<pb::$request>,
            ) -> Result<Response<pb::$answer>, Status> {
                Err(Status::unimplemented("this is only an echo"))
            })+
        }
    };
}

none! {
    add_many: AddManyRequest -> AddManyResponse,
    get: GetRequest -> GetResponse,
    update: UpdateRequest -> Changed,
    delete: DeleteRequest -> Changed,
    pop: PopRequest -> PopResponse,
    finish: FinishRequest -> Changed,
    fail: FailRequest -> Changed,
    release: ReleaseRequest -> Changed,
    touch: TouchRequest -> Changed,
    hold: HoldRequest -> Changed,
    unhold: UnholdRequest -> Changed,
    run: RunRequest -> Changed,
}
