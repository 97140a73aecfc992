//! The server: listens, opens the store, serves, and stops in good order.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use linger::store::embedded::Embedded;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, Loaded, LogFormat};
use crate::front::http::{self, App};

/// Serves until it is told to stop.
pub fn run(loaded: Loaded) -> anyhow::Result<()> {
    let set_level = start_logging(&loaded.config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(loaded, &*set_level))
}

/// Changes what is logged.
type SetLevel = dyn Fn(EnvFilter) + Send + Sync;

fn start_logging(config: &Config) -> Box<SetLevel> {
    let logs = tracing_subscriber::fmt()
        .with_env_filter(config.log.level.filter())
        .with_target(false)
        .with_writer(io::stderr);
    // The only way in which setting it fails is that nobody logs any more.
    match config.log.format {
        LogFormat::Human => {
            let logs = logs.with_ansi(io::stderr().is_terminal()).with_filter_reloading();
            let filter = logs.reload_handle();
            logs.init();
            Box::new(move |level| _ = filter.reload(level))
        }
        LogFormat::Json => {
            let logs = logs.json().with_filter_reloading();
            let filter = logs.reload_handle();
            logs.init();
            Box::new(move |level| _ = filter.reload(level))
        }
    }
}

async fn serve(mut loaded: Loaded, set_level: &SetLevel) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt, mut hangup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    let mut running = start(loaded.config.clone()).await?;
    greet(&loaded.config, running.address());
    running.ready().await?;
    tracing::info!("ready");
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => loaded = reloaded(loaded, &running, set_level),
        }
    }
    tracing::info!("stopping; once more to stop at once");
    tokio::select! {
        stopped = running.stop() => stopped?,
        _ = terminate.recv() => anyhow::bail!("stopped at once"),
        _ = interrupt.recv() => anyhow::bail!("stopped at once"),
    }
    tracing::info!("stopped");
    Ok(())
}

/// Says where it is, and what to try first.
fn greet(config: &Config, address: SocketAddr) {
    let store = config.store.display();
    eprintln!("linger listens on http://{address}, its data is in {store}");
    eprintln!("try it:");
    eprintln!(
        r#"  curl http://{address}/v1/jobs -d '{{"topic":"hello","delay":"5s","body":"world"}}'"#
    );
}

/// The settings after they were read again; those before if anything is wrong with them.
fn reloaded(loaded: Loaded, running: &Running, set_level: &SetLevel) -> Loaded {
    match loaded.reload() {
        Ok((new, changes)) => {
            set_level(new.config.log.level.filter());
            for change in &changes.live {
                let (key, from, to) = (change.key, &change.old, &change.new);
                tracing::info!(key, %from, %to, "a setting has changed");
            }
            for change in &changes.restart {
                tracing::warn!(key = change.key, "a setting has changed that needs a restart");
            }
            running.set_config(new.config.clone());
            new
        }
        Err(cause) => {
            tracing::error!("the settings stay as they were: {cause:#}");
            loaded
        }
    }
}

/// A server that runs.
pub struct Running {
    address: SocketAddr,
    app: Arc<App>,
    stopping: CancellationToken,
    opened: JoinHandle<anyhow::Result<()>>,
    listening: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes on other settings.
    pub fn set_config(&self, config: Config) {
        self.app.set_config(config);
    }

    /// Waits until every stored job is there.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        (&mut self.opened).await.context("opening the store broke off")?
    }

    /// Takes nothing new, lets what is under way end, and closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stopping.cancel();
        self.listening.await.context("serving broke off")?;
        // The store waits for its threads.
        tokio::task::spawn_blocking(move || drop(self.app)).await.context("closing broke off")
    }
}

/// Starts a server: it listens at once, and answers that it is not ready until the store is open.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}", config.listen))?;
    let address = listener.local_addr()?;
    let stopping = CancellationToken::new();
    let app = Arc::new(App::new(config.clone(), stopping.clone()));
    let opened = {
        let (app, config) = (app.clone(), config.clone());
        tokio::task::spawn_blocking(move || open(&app, &config))
    };
    let router = http::router(app.clone());
    let listening = tokio::spawn(listen(listener, router, app.clone(), stopping.clone()));
    Ok(Running { address, app, stopping, opened, listening })
}

fn open(app: &App, config: &Config) -> anyhow::Result<()> {
    let options = linger::store::Options {
        defaults: config.defaults.clone(),
        unique_ids: config.unique_ids,
        ..Default::default()
    };
    let settings =
        linger::store::embedded::Settings { durability: config.durability, ..Default::default() };
    let store = Embedded::open(&config.store, options, settings)
        .with_context(|| format!("cannot open the store in `{}`", config.store.display()))?;
    app.set_store(Arc::new(store));
    Ok(())
}

async fn listen(listener: TcpListener, router: Router, app: Arc<App>, stopping: CancellationToken) {
    // Each connection holds a part of it.
    let connected = Arc::new(());
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(cause) => {
                rest_after(&cause).await;
                continue;
            }
        };
        // Looked up for each: they may change while the server runs.
        let (most, header_time) = app.connection_limits();
        if Arc::strong_count(&connected) > most {
            tokio::spawn(turn_away(stream, most));
            continue;
        }
        let connected = connected.clone();
        let (front, routes) = (app.clone(), router.clone());
        let service = service_fn(move |request| {
            let answer = http::answer(front.clone(), routes.clone(), request);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let mut builder = builder.clone();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(header_time);
        let watcher = graceful.watcher();
        let stopping = stopping.clone();
        tokio::spawn(async move {
            if !speaks(&stream, header_time, &stopping).await {
                return;
            }
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is its client's affair.
            let _ = watcher.watch(connection.into_owned()).await;
            drop(connected);
        });
    }
    drop(listener);
    if tokio::time::timeout(app.drain(), graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
}

/// Whether a client says something in time. Hyper's own limit begins with the first byte.
async fn speaks(stream: &TcpStream, within: Duration, stopping: &CancellationToken) -> bool {
    let _ = stream.set_nodelay(true);
    let mut byte = [0];
    tokio::select! {
        spoke = tokio::time::timeout(within, stream.peek(&mut byte)) => {
            matches!(spoke, Ok(Ok(1)))
        }
        () = stopping.cancelled() => false,
    }
}

/// After a failed accept: none of the reasons goes away at once.
async fn rest_after(cause: &io::Error) {
    tracing::warn!(%cause, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Answers a connection too many.
async fn turn_away(mut stream: TcpStream, most: usize) {
    let body = format!(
        r#"{{"error":{{"code":"overloaded","message":"connections are at the limit of {most}; try again soon"}}}}"#
    );
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let write = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
}
