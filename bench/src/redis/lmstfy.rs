//! lmstfy: a server on Redis that is called by HTTP, as Linger is.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::body;
use super::served::Redis;
use crate::client::{Connection, field};
use crate::server::Server;
use crate::{Result, tools};

/// Its server, which somebody has built.
pub(super) struct Lmstfy(PathBuf);

const PROGRAM: &str = "lmstfy-1/lmstfy-server";
/// Where jobs are that wait, and those that are due.
const WAITING: &str = "/api/default/orders";
const DUE: &str = "/api/default/due";
const DAY_S: u64 = 86_400;

impl Lmstfy {
    pub(super) fn find() -> Option<Lmstfy> {
        let program = tools::folder()?.join(PROGRAM);
        program.is_file().then_some(Lmstfy(program))
    }

    pub(super) fn version(&self) -> String {
        tools::version(&self.0)
    }

    pub(super) fn serve(&self, redis: &Redis, folder: &Path) -> Result<Server> {
        let settings = |name: &str| folder.join(format!("lmstfy-{}.{name}", redis.port()));
        Server::start_at(|port| {
            let admin = crate::server::free_port().expect("there are free ports");
            std::fs::write(settings("toml"), config(port, admin, redis.port()))
                .expect("its settings are written");
            let mut command = Command::new(&self.0);
            // Without tokens, which would be one more look-up a call.
            command.arg("-sv").arg("-c").arg(settings("toml")).arg("-p").arg(settings("pid"));
            command
        })
    }
}

fn config(port: u16, admin: u16, redis: u16) -> String {
    format!(
        r#"Host = "127.0.0.1"
Port = {port}
AdminHost = "127.0.0.1"
AdminPort = {admin}
LogLevel = "error"
EnableAccessLog = false
[AdminRedis]
Addr = "127.0.0.1:{redis}"
[Pool.default]
Addr = "127.0.0.1:{redis}"
PoolSize = 200
"#
    )
}

/// Adds a job that is due in a day.
pub(super) async fn add(to: &mut Connection, n: u64) {
    put(to, WAITING, n, DAY_S).await;
}

/// Adds a job that is due.
pub(super) async fn add_due(to: &mut Connection, n: u64) {
    put(to, DUE, n, 0).await;
}

async fn put(to: &mut Connection, queue: &str, n: u64, delay_s: u64) {
    let path = format!("{queue}?delay={delay_s}&ttl=0&tries=1");
    let answer = to.call("PUT", &path, &body(n)).await.expect("lmstfy answers");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// Takes a job that is due, and ends it; false if there is none.
pub(super) async fn take(to: &mut Connection) -> bool {
    let path = format!("{DUE}?ttr=120&timeout=0");
    let answer = to.call("GET", &path, "").await.expect("lmstfy answers");
    let Some(id) = field(answer.body, "job_id") else {
        assert_eq!(answer.status, 404, "{}", answer.body);
        return false;
    };
    let path = format!("{DUE}/job/{id}");
    let answer = to.call("DELETE", &path, "").await.expect("lmstfy answers");
    assert_eq!(answer.status, 204, "{}", answer.body);
    true
}
