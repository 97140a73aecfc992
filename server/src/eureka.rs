//! Eureka as a registry besides our own. Who is there is asked again and again, and kept while no
//! server of it answers. If the settings say so, this server registers there too.

mod apps;
mod client;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, EurekaApp};
use crate::registry::Registry;
use client::Client;

/// The longest between two renewals: what Eureka reckons with.
const RENEW_MAX: Duration = Duration::from_secs(30);
/// The shortest that Eureka is told to wait for one.
const LEASE_SECS_MIN: u64 = 10;
/// How long a stop waits for Eureka to take us out.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// Asks Eureka until it is stopped.
pub(crate) struct Eureka {
    client: Client,
    poll: Duration,
    own: Option<Own>,
    /// Since when no server answers.
    away: Mutex<Option<Instant>>,
}

/// What Eureka is told of this server.
struct Own {
    app: EurekaApp,
    id: String,
    address: SocketAddr,
    is_tls: bool,
}

impl Eureka {
    /// By the settings, if they name a Eureka. The server is called so, and listens there.
    pub(crate) fn new(
        config: &Config,
        name: &str,
        address: SocketAddr,
    ) -> anyhow::Result<Option<Eureka>> {
        let workers = &config.workers;
        if workers.eureka.urls().is_empty() {
            return Ok(None);
        }
        let app = workers.eureka_register.clone().filter(|_| config.role.api);
        if app.is_none() && workers.eureka_register.is_some() {
            tracing::warn!("a server without the role api does not register in Eureka");
        }
        let own = app.map(|app| {
            let id = format!("{name}:{}:{}", app.as_str().to_lowercase(), address.port());
            Own { app, id, address, is_tls: config.tls.cert.is_some() }
        });
        let client = Client::new(&workers.eureka, &config.webhooks)?;
        Ok(Some(Eureka { client, poll: workers.eureka_poll, own, away: Mutex::default() }))
    }

    /// For how long no server answers, if none does.
    pub(crate) fn away_for(&self) -> Option<Duration> {
        self.away().map(|since| since.elapsed())
    }

    /// Keeps the registry up to date, and this server registered. There may be so many workers.
    pub(crate) async fn run(
        &self,
        registry: Arc<Registry>,
        workers_max: impl Fn() -> usize,
        stopping: CancellationToken,
    ) {
        let watching = stopping.run_until_cancelled(self.watch(&registry, workers_max));
        let staying = async {
            if let Some(own) = &self.own {
                self.stay(own, &stopping).await;
            }
        };
        tokio::join!(watching, staying);
    }

    async fn watch(&self, registry: &Registry, workers_max: impl Fn() -> usize) {
        let mut told = HashSet::new();
        loop {
            // Before it is asked, which may take longer than they would otherwise be kept.
            registry.keep_found();
            match self.client.workers().await {
                Ok(found) => {
                    self.is_there();
                    let left_out = registry.set_found(found.workers, workers_max());
                    let left_out = left_out.iter().map(|why| why.message().to_owned());
                    let wrong = found.wrong.into_iter().chain(left_out).collect();
                    // Once each, and not each time it is asked.
                    for why in HashSet::difference(&wrong, &told) {
                        tracing::warn!("not everyone in Eureka can be called: {why}");
                    }
                    told = wrong;
                }
                Err(why) => self.is_away(&why),
            }
            sleep(self.poll).await;
        }
    }

    fn is_there(&self) {
        if self.away().take().is_some() {
            tracing::info!("Eureka answers again");
        }
    }

    fn is_away(&self, why: &str) {
        let mut away = self.away();
        if away.is_none() {
            *away = Some(Instant::now());
            tracing::warn!("Eureka does not answer, and who was last there stays: {why}");
        }
    }

    fn away(&self) -> MutexGuard<'_, Option<Instant>> {
        self.away.lock().expect("nobody panics holding it")
    }

    /// Is registered until it is to stop, and then no more.
    async fn stay(&self, own: &Own, stopping: &CancellationToken) {
        let every = self.poll.min(RENEW_MAX);
        let renewing = async {
            let mut is_well = true;
            loop {
                let renewed = self.renew(own, every).await;
                if let Err(why) = &renewed
                    && is_well
                {
                    tracing::warn!("this server cannot register in Eureka: {why}");
                }
                is_well = renewed.is_ok();
                sleep(every).await;
            }
        };
        stopping.run_until_cancelled(renewing).await;
        let left = timeout(LEAVE_TIME, self.client.deregister(own.app.as_str(), &own.id)).await;
        match left {
            Ok(Ok(())) => tracing::info!("no longer registered in Eureka"),
            Ok(Err(why)) => tracing::warn!("Eureka does not know that we are gone: {why}"),
            Err(_) => tracing::warn!("Eureka does not know that we are gone: it does not answer"),
        }
    }

    /// Says that it is there, and who it is if that is not known.
    async fn renew(&self, own: &Own, every: Duration) -> Result<(), String> {
        let app = own.app.as_str();
        if self.client.renew(app, &own.id).await? {
            return Ok(());
        }
        let ip = match own.address.ip() {
            ip if ip.is_unspecified() => self.client.own_address().await?,
            ip => ip,
        };
        self.client.register(app, &own.instance(ip, every)).await?;
        tracing::info!(app, id = own.id, "registered in Eureka");
        Ok(())
    }
}

impl Own {
    /// It as Eureka wants to have it.
    fn instance(&self, ip: IpAddr, every: Duration) -> Value {
        let (app, port) = (self.app.as_str(), self.address.port());
        let scheme = if self.is_tls { "https" } else { "http" };
        let url = |path: &str| format!("{scheme}://{}{path}", SocketAddr::new(ip, port));
        let enabled = |is: bool| if is { "true" } else { "false" };
        let health = if self.is_tls { "secureHealthCheckUrl" } else { "healthCheckUrl" };
        let lease_secs = (3 * every).as_secs().max(LEASE_SECS_MIN);
        json!({"instance": {
            "instanceId": self.id,
            "app": app.to_uppercase(),
            "hostName": ip.to_string(),
            "ipAddr": ip.to_string(),
            "status": "UP",
            "port": {"$": port, "@enabled": enabled(!self.is_tls)},
            "securePort": {
                "$": if self.is_tls { port } else { 443 },
                "@enabled": enabled(self.is_tls),
            },
            "vipAddress": app,
            "secureVipAddress": app,
            "homePageUrl": url("/"),
            "statusPageUrl": url("/healthz"),
            (health): url("/readyz"),
            "dataCenterInfo": {
                "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
                "name": "MyOwn",
            },
            "leaseInfo": {
                "renewalIntervalInSecs": every.as_secs().max(1),
                "durationInSecs": lease_secs,
            },
            "metadata": {"linger.version": env!("CARGO_PKG_VERSION")},
        }})
    }
}
