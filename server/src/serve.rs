//! The server: listens, opens the store, serves, and stops in good order.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use linger::store::embedded::Embedded;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, Loaded, LogFormat};
use crate::front::http::{self, App};
use crate::listen::listen;

/// Serves until it is told to stop.
pub fn run(loaded: Loaded) -> anyhow::Result<()> {
    let set_level = start_logging(&loaded.config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let stopped = runtime.block_on(serve(loaded, &*set_level));
    // A stop in good order has waited for everything; any other waits for nothing. Ending in the
    // midst of an opening is as safe as being killed.
    runtime.shutdown_background();
    stopped
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
    let mut ends = Ends::new()?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut running = start(loaded.config.clone()).await?;
    greet(&loaded.config, running.address());
    let mut is_ready = false;
    loop {
        tokio::select! {
            opened = running.ready(), if !is_ready => {
                opened?;
                is_ready = true;
                tracing::info!("ready");
            }
            () = ends.next() => break,
            _ = hangup.recv() => loaded = reloaded(loaded, &running, set_level),
        }
    }
    if !is_ready {
        tracing::info!("stopped before the stored jobs were loaded");
        return Ok(());
    }
    tracing::info!("stopping; once more to stop at once");
    tokio::select! {
        stopped = running.stop() => stopped?,
        () = ends.next() => anyhow::bail!("stopped at once"),
    }
    tracing::info!("stopped");
    Ok(())
}

/// The signals that ask for the end.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn new() -> io::Result<Ends> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Ends { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
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
    let store = Embedded::open_watched(&config.store, options, settings, app.loading())
        .with_context(|| format!("cannot open the store in `{}`", config.store.display()))?;
    app.set_store(Arc::new(store));
    Ok(())
}
