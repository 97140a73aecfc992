//! The server: listens, opens the store, serves, and stops in good order.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use linger::store::Options;
use linger::store::embedded::{self, Embedded};
use linger::store::redis::{self, Redis};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::alarms::Alarms;
use crate::archive::Archiving;
use crate::config::{ApiKey, Changes, Config, Loaded, LogFormat, Place, Roles};
use crate::eureka::Eureka;
use crate::events::{Events, Recorder, Writing};
use crate::front;
use crate::front::app::App;
use crate::front::beanstalk;
use crate::front::port::Port;
use crate::listen::listen;
use crate::push::Pushing;
use crate::registry::Registry;
use crate::sink::Sinks;
use crate::store::Store;
use crate::tls::Tls;
use crate::traces::Traces;

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
    let mut drains =
        loaded.config.beanstalkd.map(|_| signal(SignalKind::user_defined1())).transpose()?;
    let mut running = start(loaded.config.clone()).await?;
    greet(&loaded.config, &running);
    running.app.commons().set_loaded(loaded.clone());
    let mut commons = running.app.commons().stored();
    let mut is_ready = false;
    loop {
        tokio::select! {
            opened = running.ready(), if !is_ready => {
                opened?;
                is_ready = true;
                tracing::info!("ready");
            }
            () = ends.next() => break,
            _ = hangup.recv() => {
                let new = loaded.reload();
                loaded = reloaded(loaded, new, &running, set_level).0;
                running.reload_certificates();
            }
            Ok(()) = commons.changed() => {
                let common = commons.borrow_and_update().clone();
                let (version, new) = (common.version, loaded.with_common(common));
                let refused;
                (loaded, refused) = reloaded(loaded, new, &running, set_level);
                running.app.commons().ran(version, refused);
            }
            () = next_drain(&mut drains) => running.begin_draining(),
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

/// The signal by which beanstalkd is told to take no new jobs.
async fn next_drain(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Says where it is, and what to try first.
fn greet(config: &Config, running: &Running) {
    let (address, store) = (running.address(), &config.store);
    let scheme = if running.tls.is_some() { "https" } else { "http" };
    let mut text = format!("linger listens on {scheme}://{address}, its data is in {store}\n");
    if let Some(address) = running.beanstalkd_address() {
        let by = if running.tls.is_some() && config.tls.beanstalkd { "by TLS " } else { "" };
        text += &format!("the beanstalkd protocol is served {by}on {address}\n");
    }
    if config.role.api {
        text += &format!(
            "try it:\n  curl {scheme}://{address}/v1/jobs \
             -d '{{\"topic\":\"hello\",\"delay\":\"5s\",\"body\":\"world\"}}'\n"
        );
    }
    // At once: who reads the address from here is not to see half of it.
    eprint!("{text}");
}

/// The settings after they were read again; those before if anything is wrong with them, and what.
fn reloaded(
    loaded: Loaded,
    read: anyhow::Result<(Loaded, Changes)>,
    running: &Running,
    set_level: &SetLevel,
) -> (Loaded, Option<String>) {
    match read {
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
            running.app.commons().set_loaded(new.clone());
            (new, None)
        }
        Err(cause) => {
            tracing::error!("the settings stay as they were: {cause:#}");
            (loaded, Some(format!("{cause:#}")))
        }
    }
}

/// A server that runs.
pub struct Running {
    address: SocketAddr,
    app: Arc<App>,
    tls: Option<Arc<Tls>>,
    stopping: CancellationToken,
    opened: JoinHandle<anyhow::Result<()>>,
    listening: JoinHandle<()>,
    beanstalkd: Option<Beanstalkd>,
    sinks: Arc<Sinks>,
    /// What pushes, once there is a store.
    pushing: Arc<OnceLock<Pushing>>,
    archiving: Arc<OnceLock<Archiving>>,
    /// What looks whether all is well, once there is a store.
    alarms: Arc<OnceLock<(Arc<Alarms>, JoinHandle<()>)>>,
    /// What asks Eureka for workers, once there is a store.
    asking: Arc<OnceLock<JoinHandle<()>>>,
    /// What writes the event log, once there is a store.
    writing: Arc<OnceLock<Writing>>,
    traces: Option<Arc<Traces>>,
}

/// The port of the beanstalkd protocol.
struct Beanstalkd {
    address: SocketAddr,
    controls: Arc<beanstalk::Controls>,
    listening: JoinHandle<()>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves the beanstalkd protocol, if it does.
    pub fn beanstalkd_address(&self) -> Option<SocketAddr> {
        self.beanstalkd.as_ref().map(|beanstalkd| beanstalkd.address)
    }

    /// Takes on other settings.
    pub fn set_config(&self, config: Config) {
        if let Some(beanstalkd) = &self.beanstalkd {
            beanstalkd.controls.set_config(config.clone());
        }
        self.sinks.set_config(&config.webhooks);
        if let Some(pushing) = self.pushing.get() {
            pushing.set_config(&config.push);
        }
        if let Some((alarms, _)) = self.alarms.get() {
            alarms.set_config(config.alarms.clone());
        }
        self.app.set_config(config);
    }

    /// Reads the certificates again, if it serves by TLS.
    pub fn reload_certificates(&self) {
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }

    /// Takes no new jobs by the beanstalkd protocol from here on.
    pub fn begin_draining(&self) {
        if let Some(beanstalkd) = &self.beanstalkd {
            beanstalkd.controls.begin_draining();
            tracing::info!("the beanstalkd port takes no new jobs any more");
        }
    }

    /// Waits until every stored job is there.
    pub async fn ready(&mut self) -> anyhow::Result<()> {
        (&mut self.opened).await.context("opening the store broke off")?
    }

    /// Takes nothing new, lets what is under way end, and closes the store.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stopping.cancel();
        if let Some(asking) = Arc::into_inner(self.asking).and_then(OnceLock::into_inner) {
            // First, so that nobody is sent here any more. A panic there has been printed.
            let _ = asking.await;
        }
        self.listening.await.context("serving broke off")?;
        if let Some(beanstalkd) = self.beanstalkd {
            beanstalkd.listening.await.context("serving beanstalkd's protocol broke off")?;
        }
        if let Some((_, looking)) = Arc::into_inner(self.alarms).and_then(OnceLock::into_inner) {
            // A panic there has been printed.
            let _ = looking.await;
        }
        if let Some(pushing) = self.pushing.get() {
            pushing.stop(self.app.drain()).await;
        }
        self.app.all_seen_to().await;
        // The store waits for its threads.
        if let Some(archiving) = Arc::into_inner(self.archiving).and_then(OnceLock::into_inner) {
            archiving.stop().await;
        }
        // What the others did last is in it.
        if let Some(writing) = Arc::into_inner(self.writing).and_then(OnceLock::into_inner) {
            writing.stop().await;
        }
        // Last, so that what becomes due meanwhile is seen to.
        self.app.leave().await;
        let (rest, traces) = ((self.pushing, self.app), self.traces);
        let closed = tokio::task::spawn_blocking(move || {
            drop(rest);
            if let Some(traces) = traces {
                traces.stop();
            }
        });
        closed.await.context("closing broke off")
    }
}

/// Starts a server: it listens at once, and answers that it is not ready until the store is open.
/// Clients of beanstalkd have no word for that and are made to wait.
pub async fn start(mut config: Config) -> anyhow::Result<Running> {
    let tls = Tls::open(&config.tls)?;
    if let Some(file) = &config.bootstrap_key_file {
        config.bootstrap_key = Some(bootstrap_key(file)?);
    }
    if let Place::Folder(folder) = &config.store
        && config.is_exposed()
        && config.bootstrap_key.is_none()
        && !folder.exists()
    {
        // Before anything is made: there can be no key in it.
        return Err(exposed(&config));
    }
    let (listener, address) = bind(config.listen).await?;
    let stopping = CancellationToken::new();
    if let Some(tls) = tls.clone() {
        tokio::spawn(stopping.clone().run_until_cancelled_owned(tls.watch()));
    }
    let app = Arc::new(App::new(config.clone(), address, stopping.clone()));
    let sinks = Arc::new(Sinks::new(&config, app.secrets().clone())?);
    let (pushing, archiving) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let (alarms, asking) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
    let writing = Arc::new(OnceLock::new());
    let eureka = Eureka::new(&config, &app.node().name, address)?.map(Arc::new);
    let traces = Traces::start(&config, &app.node().name)?.map(Arc::new);
    let (is_open, store) = oneshot::channel();
    if !config.role.api && config.beanstalkd.is_some() {
        tracing::warn!("the beanstalkd port is not served without the role api");
    }
    let beanstalkd = match config.beanstalkd.filter(|_| config.role.api) {
        Some(address) => {
            let tls = tls.clone().filter(|_| config.tls.beanstalkd);
            let controls = beanstalk::Controls::new(config.clone(), app.gates().clone());
            Some(Beanstalkd::start(address, controls, store, tls, &stopping).await?)
        }
        None => None,
    };
    let opened = {
        let (app, config, runtime) = (app.clone(), config.clone(), Handle::current());
        let (pushing, archiving, sinks) = (pushing.clone(), archiving.clone(), sinks.clone());
        let (stopping, alarms, asking) = (stopping.clone(), alarms.clone(), asking.clone());
        let (writing, traces) = (writing.clone(), traces.clone());
        tokio::task::spawn_blocking(move || {
            let recorder = config.events.enabled.then(|| Arc::new(Recorder::default()));
            let store = open(&app, &config, &runtime)?.logged(recorder.clone()).traced(traces);
            let store = Arc::new(store);
            // Before there is a store for anyone, so that nobody is let in while they are not known.
            let keys = app.auth().load(&*store);
            runtime.block_on(keys).context("cannot read the API keys in the store")?;
            check_exposure(&app, &config)?;
            if let Some(recorder) = recorder {
                let (place, node) = (&config.store, &app.node().name);
                match Events::start(&store, recorder.clone(), &config.events, place, node) {
                    Ok((events, begun)) => {
                        app.set_events(events);
                        let _ = writing.set(begun);
                    }
                    // Jobs are served without it: the disk may be full.
                    Err(why) => {
                        recorder.switch_off();
                        tracing::error!(
                            "the event log cannot be opened, and nothing is logged: {why:#}"
                        );
                    }
                }
            }
            let secrets = app.secrets().load(&*store);
            runtime.block_on(secrets).context("cannot read the secrets in the store")?;
            let registry = runtime.block_on(Registry::open(store.clone()));
            let registry = Arc::new(registry.context("cannot read who is registered")?);
            app.set_registry(registry.clone());
            app.set_store(store.clone());
            if let Place::Redis(_) = &config.store {
                let heard = hear_of_others(
                    store.clone(),
                    registry.clone(),
                    app.clone(),
                    config.shared.poll,
                );
                runtime.spawn(stopping.clone().run_until_cancelled_owned(heard));
            }
            let every = matches!(config.store, Place::Redis(_)).then_some(config.shared.poll);
            let (followed, following) = (app.clone(), store.clone());
            let follow = async move { followed.commons().follow(&following, every).await };
            runtime.spawn(stopping.clone().run_until_cancelled_owned(follow));
            if let Some(eureka) = eureka {
                app.set_eureka(eureka.clone());
                let (registry, app, stopping) = (registry.clone(), app.clone(), stopping.clone());
                let run = async move {
                    eureka.run(registry, || app.workers_max(), stopping).await;
                };
                let _ = asking.set(runtime.spawn(run));
            }
            // Whatever its role: what ends here is known to nobody else.
            let begun = Archiving::start(store.clone(), &config.archive, front::http::ended);
            let _ = archiving.set(begun);
            if config.role.worker {
                let begun = Pushing::start(store.clone(), registry.clone(), sinks, &config.push)?;
                app.set_runner(begun.runner().clone());
                let _ = pushing.set(begun);
            }
            let watched = Arc::new(Alarms::new(
                store.clone(),
                registry,
                pushing.get().map(|pushing| pushing.runner().clone()),
                config.alarms,
                app.node().name.clone(),
            ));
            app.set_alarms(watched.clone());
            let looking = watched.start(stopping);
            let _ = alarms.set((watched, looking));
            // After it, so that no port serves before `/readyz` says so. Nobody may want to know.
            let _ = is_open.send(store);
            Ok(())
        })
    };
    let port = Arc::new(Port::new(app.clone()));
    let listening = tokio::spawn(listen(listener, port, tls.clone(), stopping.clone()));
    Ok(Running {
        address,
        app,
        tls,
        stopping,
        opened,
        listening,
        beanstalkd,
        sinks,
        pushing,
        archiving,
        alarms,
        asking,
        writing,
        traces,
    })
}

/// Without keys whoever reaches the port may do anything, so that must have been agreed to.
fn check_exposure(app: &App, config: &Config) -> anyhow::Result<()> {
    match config.is_exposed() && !app.auth().has_keys() {
        true => Err(exposed(config)),
        false => Ok(()),
    }
}

fn exposed(config: &Config) -> anyhow::Error {
    let address = config.listen;
    anyhow::anyhow!(
        "setting `listen` is `{address}`, which others can reach, and there are no API keys: give \
         LINGER_BOOTSTRAP_KEY for the first start and make keys by it, make them while listening on \
         127.0.0.1, or give --insecure (`insecure = true`) if the network itself keeps strangers out"
    )
}

/// Takes over, again and again, what other servers have stored: their workers, keys and secrets.
async fn hear_of_others(
    store: Arc<Store>,
    registry: Arc<Registry>,
    app: Arc<App>,
    every: Duration,
) {
    loop {
        tokio::time::sleep(every).await;
        let heard = async {
            registry.refresh().await?;
            app.auth().load(&*store).await?;
            app.secrets().load(&*store).await
        };
        // While it is away calls say so.
        if let Err(why) = heard.await {
            tracing::debug!("what others have stored cannot be read: {why}");
        }
    }
}

/// The key in a file.
fn bootstrap_key(file: &Path) -> anyhow::Result<ApiKey> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read `bootstrap_key_file`, which is {name}"))?;
    text.trim().parse().map_err(|why| anyhow::anyhow!("`bootstrap_key_file` is {name}: {why}"))
}

async fn bind(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

impl Beanstalkd {
    /// Listens, and serves as soon as there is a store.
    async fn start(
        address: SocketAddr,
        controls: beanstalk::Controls,
        store: oneshot::Receiver<Arc<Store>>,
        tls: Option<Arc<Tls>>,
        stopping: &CancellationToken,
    ) -> anyhow::Result<Beanstalkd> {
        let (listener, address) = bind(address).await?;
        let controls = Arc::new(controls);
        let (stopping, given) = (stopping.clone(), controls.clone());
        let listening = tokio::spawn(async move {
            let store = tokio::select! {
                store = store => store,
                () = stopping.cancelled() => return,
            };
            if let Ok(store) = store {
                let server = Arc::new(beanstalk::Server::new(store, given));
                listen(listener, server, tls, stopping).await;
            }
        });
        Ok(Beanstalkd { address, controls, listening })
    }
}

/// Nobody else does what a server leaves out that shares its store with no one.
fn warn_of_roles(config: &Config) {
    let Roles { api, timer, worker } = config.role;
    if !(api && timer && worker) {
        let role = config.role.words().join(",");
        tracing::warn!(
            role,
            "the store is in a folder, which no other server can share: nobody does what the roles \
             leave out, but for timer, which is always there"
        );
    }
}

fn open(app: &App, config: &Config, runtime: &Handle) -> anyhow::Result<Store> {
    let options = Options {
        defaults: config.defaults.clone(),
        unique_ids: config.unique_ids,
        tells_moves: config.events.enabled,
        ..Default::default()
    };
    let store = match &config.store {
        Place::Folder(folder) => {
            warn_of_roles(config);
            let settings =
                embedded::Settings { durability: config.durability, ..Default::default() };
            Embedded::open_watched(folder, options, settings, app.loading()).map(Store::from)
        }
        Place::Redis(url) => {
            let shared = &config.shared;
            let settings = redis::Settings {
                prefix: shared.prefix.as_str().to_owned(),
                poll: shared.poll,
                wait: shared.wait as u32,
                timer: config.role.timer,
                lease: shared.lease,
                node: app.node().clone(),
                ..Default::default()
            };
            runtime.block_on(Redis::open(&url.address, options, settings)).map(Store::from)
        }
    };
    store.with_context(|| format!("cannot open the store in `{}`", config.store))
}
