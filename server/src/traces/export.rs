//! How spans are sent: in batches, from a thread of their own, over the HTTP client that the rest has too.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use crate::config::{Endpoint, Traces};
use crate::sink::HttpClient;

/// How long the receiver may take to answer.
const TIME: Duration = Duration::from_secs(10);
/// The most that is read of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What makes spans, and sends them.
pub(super) fn start(
    endpoint: &Endpoint,
    config: &Traces,
    http: HttpClient,
    instance: &str,
) -> anyhow::Result<(SdkTracerProvider, SdkTracer)> {
    let sender = Sender {
        http,
        runtime: Handle::current(),
        endpoint: endpoint.as_str().to_owned(),
        is_away: AtomicBool::new(false),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(sender)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint.as_str())
        .with_timeout(TIME)
        .with_headers(config.headers.iter().collect())
        .build()
        .context("cannot send traces")?;
    let resource = Resource::builder()
        .with_service_name("linger")
        .with_attributes([
            KeyValue::new("service.instance.id", instance.to_owned()),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ])
        .build();
    // Who calls has decided for the trace that is continued.
    let begun = Sampler::TraceIdRatioBased(config.ratio.as_f64());
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .with_sampler(Sampler::ParentBased(Box::new(begun)))
        .build();
    let tracer = provider.tracer("linger");
    Ok((provider, tracer))
}

/// Sends for the exporter, whose thread knows no runtime: calls are made on ours.
struct Sender {
    http: HttpClient,
    runtime: Handle,
    endpoint: String,
    /// Whether the last call failed, so that it is told once.
    is_away: AtomicBool,
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl opentelemetry_http::HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.runtime.spawn(send(self.http.clone(), request));
        let answer = sent.await.unwrap_or_else(|stopped| Err(stopped.into()));
        self.note(&answer);
        answer
    }
}

impl Sender {
    fn note(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let why = match answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status())),
            Err(why) => Some(why.to_string()),
        };
        let endpoint = &self.endpoint;
        match (why, self.is_away.load(Ordering::Relaxed)) {
            (Some(why), false) => {
                tracing::warn!(endpoint, "traces cannot be sent and are dropped: {why}");
                self.is_away.store(true, Ordering::Relaxed);
            }
            (None, true) => {
                tracing::info!(endpoint, "traces are sent again");
                self.is_away.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

async fn send(http: HttpClient, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let called = async {
        let (head, body) = http.request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    match tokio::time::timeout(TIME, called).await {
        Ok(answer) => answer,
        Err(_) => Err("it does not answer in time".into()),
    }
}
