//! Workers that are found in Eureka: the real server of Spring Cloud, and whoever registers there.

use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use hyper::Method;
use linger_server::config::Config;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::broker::process::{Process, program};
use crate::client::{Answer, Caller, Server};
use crate::job;
use crate::peer::register;
use crate::receiver::{PATIENCE, Receiver, Refusing};

const TOPIC: &str = "order.close";
const POLL: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);

/// A server of Eureka that runs until this is dropped.
struct Own {
    process: Process,
    _folder: TempDir,
}

impl Own {
    fn start() -> Option<Own> {
        let script = format!("{} --server.port=$PORT &", program("eureka-server")?.display());
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(&script, folder.path().to_owned(), |_| vec![]);
        Some(Own { process, _folder: folder })
    }
}

/// Someone who calls Eureka as its clients do.
struct Eureka(Caller);

impl Eureka {
    /// The one that tests share, since it takes seconds to start. None if it is not installed.
    async fn shared() -> Option<Eureka> {
        static SHARED: LazyLock<Mutex<Option<Own>>> = LazyLock::new(|| Mutex::new(Own::start()));
        let port = tokio::task::spawn_blocking(|| {
            SHARED.lock().unwrap().as_ref().map(|own| own.process.port)
        });
        Some(Eureka::at(port.await.unwrap()?))
    }

    fn at(port: u16) -> Eureka {
        Eureka(Caller::new(SocketAddr::from(([127, 0, 0, 1], port))))
    }

    fn url(&self) -> String {
        format!("http://{}/eureka", self.0.address())
    }

    async fn call(&self, method: Method, path: &str, body: &str) -> Answer {
        let headers = [("accept", "application/json"), ("content-type", "application/json")];
        self.0.send(method, &format!("/eureka{path}"), &headers, body.into()).await
    }

    /// Registers an instance that serves the topic at `/jobs` of this port.
    async fn register(&self, app: &str, id: &str, port: u16) {
        let instance = json!({"instance": {
            "instanceId": id, "app": app, "hostName": "127.0.0.1", "ipAddr": "127.0.0.1",
            "vipAddress": app, "status": "UP", "port": {"$": port, "@enabled": "true"},
            "dataCenterInfo": {
                "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo",
                "name": "MyOwn",
            },
            "metadata": {"linger.topics": format!("mail, {TOPIC}"), "linger.path": "/jobs"},
        }});
        let path = format!("/apps/{app}");
        until("it is registered", async || {
            self.call(Method::POST, &path, &instance.to_string()).await.status == 204
        })
        .await;
    }

    async fn take_out(&self, app: &str, id: &str) {
        let gone = self.call(Method::DELETE, &format!("/apps/{app}/{id}"), "").await;
        assert_eq!(gone.status, 200, "{}", gone.text);
    }

    /// The only instance of an application, if there is one.
    async fn only(&self, app: &str) -> Option<Value> {
        let answer = self.call(Method::GET, &format!("/apps/{app}"), "").await;
        if answer.status != 200 {
            return None;
        }
        let mut answer = answer.json();
        let instances = answer["application"]["instance"].as_array_mut().expect("a list");
        assert_eq!(instances.len(), 1, "{instances:?}");
        instances.pop()
    }
}

/// Waits until it is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let so = async { while !is_so().await {} };
    assert!(tokio::time::timeout(PATIENCE, so).await.is_ok(), "not in time: {what}");
}

/// Waits until so many instances of an application are known.
async fn until_known(server: &Caller, app: &str, count: usize) {
    until(&format!("{count} of {app}"), async || {
        let page = server.get(&format!("/v1/workers?app={app}")).await.ok(200);
        page["workers"].as_array().expect("a list").len() == count
    })
    .await;
}

/// A server that asks there, and looks for nobody in vain twice unless somebody comes.
async fn server(eureka: &str, change: impl FnOnce(&mut Config)) -> Server {
    Server::with(|config| {
        config.workers.eureka = eureka.parse().unwrap();
        config.workers.eureka_poll = POLL;
        (config.push.pause, config.push.pause_max) = (HOUR, HOUR);
        change(config);
    })
    .await
}

async fn add(server: &Caller, target: &str, id: &str) {
    let job = json!({"topic": TOPIC, "id": id, "retain": "1h", "target": target});
    server.add(&job.to_string()).await;
}

/// The next job comes here, and is done by that.
async fn takes(receiver: &mut Receiver, server: &Caller, id: &str) {
    let got = receiver.next().await;
    assert_eq!((got.path.as_str(), got.header("linger-job")), ("/jobs", id));
    got.answer(204);
    assert_eq!(job::until(server, TOPIC, id, "finished").await["attempt"], 1);
}

#[tokio::test]
async fn an_application_in_eureka_gets_its_jobs_until_it_is_taken_out() {
    let Some(eureka) = Eureka::shared().await else { return };
    let server = server(&eureka.url(), |_| {}).await;
    let (mut first, mut second) = (Receiver::start().await, Receiver::start().await);
    // Before it is there, the job waits; by its name as it is written, or as Eureka writes it.
    add(&server, "worker:story", "early").await;
    let nobody = r#"linger_pushes_total{outcome="nobody_there"}"#;
    job::until_counted(&server, nobody, 1).await;
    eureka.register("story", "a:story:1", first.address().port()).await;
    takes(&mut first, &server, "early").await;
    for (id, target) in [("1", "worker:story"), ("2", "worker:STORY")] {
        add(&server, target, id).await;
        takes(&mut first, &server, id).await;
    }
    let page = server.get("/v1/workers?app=story").await.ok(200);
    let known = &page["workers"][0];
    assert_eq!((&known["id"], &known["app"]), (&"eureka:STORY:a:story:1".into(), &"STORY".into()));
    assert_eq!(known["topics"], json!(["mail", TOPIC]));
    assert_eq!(known["deliveries"], 3, "{known}");
    // What Eureka says is changed there.
    for (method, end) in
        [(Method::PUT, "/heartbeat"), (Method::POST, "/drain"), (Method::DELETE, "")]
    {
        let path = format!("/v1/workers/eureka:STORY:a:story:1{end}");
        let refused = server.call(method, &path, "").await.refused(409, "wrong_state", None);
        assert!(refused.contains("is registered in Eureka; change it there"), "{refused}");
    }

    // Out of service is as good as gone, and so is gone.
    let status = "/apps/STORY/a:story:1/status?value=";
    eureka.call(Method::PUT, &format!("{status}OUT_OF_SERVICE"), "").await;
    until_known(&server, "story", 0).await;
    eureka.call(Method::DELETE, &format!("{status}UP"), "").await;
    until_known(&server, "story", 1).await;
    eureka.take_out("STORY", "a:story:1").await;
    until_known(&server, "story", 0).await;
    add(&server, "worker:story", "3").await;
    job::until_counted(&server, nobody, 2).await;
    assert_eq!(job::until(&server, TOPIC, "3", "ready").await["attempt"], 0);
    eureka.register("story", "b:story:1", second.address().port()).await;
    takes(&mut second, &server, "3").await;
    assert!(first.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn of_two_instances_the_one_that_answers_gets_the_job_and_of_two_servers_too() {
    let Some(eureka) = Eureka::shared().await else { return };
    let nobody = Refusing::new();
    let list =
        format!("{},http://app:geheim@{}/eureka/", nobody.url("/eureka"), eureka.0.address());
    let server = server(&list, |_| {}).await;
    let (refusing, mut well) = (Refusing::new(), Receiver::start().await);
    eureka.register("pair", "a", refusing.port()).await;
    eureka.register("pair", "b", well.address().port()).await;
    until_known(&server, "pair", 2).await;
    for id in ["1", "2"] {
        add(&server, "worker:pair", id).await;
        takes(&mut well, &server, id).await;
    }
    let down = server.get("/v1/workers/eureka:PAIR:a").await.ok(200);
    assert_eq!((&down["deliveries"], &down["failures"]), (&1.into(), &1.into()));
    server.stop().await;
}

#[tokio::test]
async fn an_instance_that_registered_here_too_is_known_by_that() {
    let Some(eureka) = Eureka::shared().await else { return };
    let server = server(&eureka.url(), |_| {}).await;
    let mut receiver = Receiver::start().await;
    eureka.register("twice", "a", receiver.address().port()).await;
    until_known(&server, "TWICE", 1).await;
    let own = json!({
        "id": "own", "app": "TWICE", "topics": [TOPIC], "url": receiver.url("/jobs"), "lease": "10m",
    });
    server.post("/v1/workers", &own.to_string()).await.ok(200);
    // Eureka has been asked since.
    eureka.register("later", "b", receiver.address().port()).await;
    until_known(&server, "later", 1).await;
    let page = server.get("/v1/workers?app=TWICE").await.ok(200);
    assert_eq!(page["workers"][0]["id"], "own", "{page}");
    until_known(&server, "TWICE", 1).await;
    add(&server, "worker:TWICE", "1").await;
    takes(&mut receiver, &server, "1").await;
    server.call(Method::DELETE, "/v1/workers/own", "").await.ok(200);
    until("Eureka's counts again", async || {
        server.get("/v1/workers/eureka:TWICE:a").await.status == 200
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_registers_itself_stays_and_is_gone_after_a_stop() {
    let Some(eureka) = Eureka::shared().await else { return };
    let server = server(&eureka.url(), |config| {
        config.workers.eureka_register = Some("linger-1".parse().unwrap());
    })
    .await;
    let is_there = async || eureka.only("LINGER-1").await.is_some();
    until("it is registered", is_there).await;
    let own = eureka.only("LINGER-1").await.unwrap();
    assert_eq!(own["status"], "UP");
    assert_eq!(own["hostName"], "127.0.0.1");
    assert_eq!(own["port"]["$"], server.address().port());
    let health: hyper::Uri = own["healthCheckUrl"].as_str().unwrap().parse().unwrap();
    assert_eq!(server.get(health.path()).await.status, 200);
    // What Eureka tells of an application it remembers for minutes; of an instance it looks.
    let path = format!("/apps/LINGER-1/{}", own["instanceId"].as_str().unwrap());
    until("it is renewed", async || {
        let own = eureka.call(Method::GET, &path, "").await.ok(200);
        let at = |name: &str| own["instance"]["leaseInfo"][name].as_u64().unwrap();
        at("lastRenewalTimestamp") > at("registrationTimestamp")
    })
    .await;
    // Forgotten, it registers again.
    eureka.take_out("LINGER-1", own["instanceId"].as_str().unwrap()).await;
    until("it is registered again", is_there).await;
    server.stop().await;
    assert_eq!(eureka.only("LINGER-1").await, None);
}

#[tokio::test]
async fn while_eureka_is_away_who_was_there_stays() {
    let Some(mut own) = tokio::task::spawn_blocking(Own::start).await.unwrap() else { return };
    let eureka = Eureka::at(own.process.port);
    let server = server(&eureka.url(), |config| {
        config.workers.eureka_register = Some("linger".parse().unwrap());
    })
    .await;
    let mut receiver = Receiver::start().await;
    let away = async || {
        let metrics = server.get("/metrics").await.text;
        let line = metrics.lines().find_map(|it| it.strip_prefix("linger_eureka_away_seconds "));
        line.expect("there is one").parse::<f64>().unwrap() > 0.0
    };
    eureka.register("stays", "a", receiver.address().port()).await;
    until_known(&server, "stays", 1).await;
    assert!(!away().await);
    own.process.end("KILL");
    until("it is away", away).await;
    for id in ["1", "2"] {
        add(&server, "worker:stays", id).await;
        takes(&mut receiver, &server, id).await;
    }
    // A new one knows nobody until they come.
    let own = tokio::task::spawn_blocking(move || {
        own.process.start_again();
        own
    });
    let _own = own.await.unwrap();
    until_known(&server, "stays", 0).await;
    assert!(!away().await);
    eureka.register("stays", "a", receiver.address().port()).await;
    until_known(&server, "stays", 1).await;
    add(&server, "worker:stays", "3").await;
    takes(&mut receiver, &server, "3").await;
    until("it is registered again", async || eureka.only("LINGER").await.is_some()).await;
    server.stop().await;
}

/// No Eureka, but someone who sees how it is asked.
#[tokio::test]
async fn eureka_is_asked_with_the_login_of_the_url_and_the_next_server_after_an_error() {
    let (mut broken, mut well) = (Receiver::start().await, Receiver::start().await);
    let login = format!("http://app:ge%3Aheim@{}/eureka/", well.address());
    let server = server(&format!("{},{login}", broken.url("/eureka")), |_| {}).await;
    let own = Receiver::start().await;
    register(&server, "own", &own.url("/")).await;
    let asked = broken.next().await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/eureka/apps"));
    assert_eq!(asked.header("authorization"), "");
    asked.answer(500);
    let asked = well.next().await;
    assert_eq!(asked.path, "/eureka/apps");
    assert_eq!(asked.header("accept"), "application/json");
    // app:ge:heim
    assert_eq!(asked.header("authorization"), "Basic YXBwOmdlOmhlaW0=");
    let apps = r#"{"applications":{"application":{"name":"ONE","instance":{"instanceId":"a",
        "hostName":"localhost","status":"UP","port":{"$":1,"@enabled":true},
        "metadata":{"linger.topics":"t"}}}}}"#;
    asked.answer_with(200, &[], apps);
    until_known(&server, "one", 1).await;
    // The one that answered is asked first, and what is no answer changes nothing.
    well.next().await.answer_with(200, &[], "<html>");
    broken.next().await.answer(404);
    until_known(&server, "one", 1).await;
    well.next().await.answer_with(200, &[], r#"{"applications":{"application":[]}}"#);
    until_known(&server, "one", 0).await;
    // Whoever registered here stays.
    until_known(&server, "shop", 1).await;
    assert!(broken.is_empty());
    drop((well, broken));
    server.stop().await;
}
