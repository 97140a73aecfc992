//! PostgreSQL with a table of jobs, indexed and asked as River does.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio_postgres::{Client, Config, NoTls, Statement};

use super::peer::Class;
use super::works::{self, Due};
use crate::beanstalk::client::body;
use crate::server::Server;
use crate::{Result, tools};

/// The programs.
#[derive(Clone)]
pub(super) struct Programs {
    postgres: PathBuf,
    initdb: PathBuf,
}

pub(super) struct Connection {
    client: Client,
    add: Statement,
    add_all: Statement,
    take: Statement,
    finish: Statement,
}

/// One who got nothing asks again after this time: nothing tells that a job has become due.
const POLL: Duration = Duration::from_millis(5);
/// Whom it runs as if we are root, which it refuses.
const NOBODY: u32 = 65534;

const TABLE: &str = "
    CREATE TYPE job_state AS ENUM ('available', 'running');
    CREATE TABLE job (
        id bigserial PRIMARY KEY,
        state job_state NOT NULL DEFAULT 'available',
        attempt smallint NOT NULL DEFAULT 0,
        attempted_at timestamptz,
        scheduled_at timestamptz NOT NULL,
        args jsonb NOT NULL
    );
    CREATE INDEX job_fetch ON job (state, scheduled_at, id) WHERE state = 'available';";
const ADD: &str = "INSERT INTO job (scheduled_at, args)
    VALUES (to_timestamp($1::float8), $2::text::jsonb) RETURNING id";
const ADD_ALL: &str = "INSERT INTO job (scheduled_at, args)
    SELECT to_timestamp(due), args::jsonb FROM unnest($1::float8[], $2::text[]) AS new (due, args)
    RETURNING id";
const TAKE: &str = "
    WITH due AS (
        SELECT id FROM job WHERE state = 'available' AND scheduled_at <= now()
        ORDER BY scheduled_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE job SET state = 'running', attempt = attempt + 1, attempted_at = now()
    FROM due WHERE job.id = due.id
    RETURNING job.id, (extract(epoch FROM scheduled_at) * 1000)::int8, args::text";
const FINISH: &str = "DELETE FROM job WHERE id = $1";

/// What the server is told, beside whether a commit waits for the disk.
const SETTINGS: [&str; 8] = [
    "shared_buffers=1GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=15min",
    "max_connections=600",
    "random_page_cost=1.1",
    "autovacuum_naptime=5s",
    "unix_socket_directories=",
    "listen_addresses=127.0.0.1",
];

impl Programs {
    /// In PATH, or where Debian has them.
    pub(super) fn find() -> Option<Programs> {
        let find = |name: &str| tools::find(name).or_else(|| in_debian(name));
        Some(Programs { postgres: find("postgres")?, initdb: find("initdb")? })
    }

    pub(super) fn version(&self) -> String {
        let said = Command::new(&self.postgres).arg("--version").output();
        said.map_or(String::new(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }

    /// Starts one on a folder, which is made if it is not there.
    pub(super) fn start(&self, folder: &Path, class: Class, port: u16) -> Result<Server> {
        let data = folder.join("data");
        // One is made once for all, beside their folders.
        let fresh = folder.with_file_name("postgres");
        if !fresh.exists() {
            self.init(&fresh)?;
        }
        if !data.exists()
            && !Command::new("cp").arg("-a").arg(&fresh).arg(&data).status()?.success()
        {
            return Err("a fresh database could not be copied".into());
        }
        let mut command = as_nobody(&self.postgres);
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in SETTINGS.iter().chain([&class.commit()]) {
            command.args(["-c", setting]);
        }
        command.current_dir(&data).stderr(Stdio::null());
        Server::start_on(port, command)
    }

    fn init(&self, data: &Path) -> Result<()> {
        std::fs::create_dir(data)?;
        if is_root() {
            chown(data, Some(NOBODY), Some(NOBODY))?;
        }
        let mut command = as_nobody(&self.initdb);
        command.arg("-D").arg(data).args(["-U", "bench", "-A", "trust", "-N", "--locale=C"]);
        command.args(["-E", "UTF8"]).current_dir(data);
        let output = command.output().map_err(|cause| format!("{command:?}: {cause}"))?;
        if !output.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(())
    }
}

impl Class {
    fn commit(self) -> &'static str {
        match self {
            Class::Synced => "synchronous_commit=on",
            Class::Relaxed => "synchronous_commit=off",
        }
    }
}

/// What it is told, for the report.
pub(super) fn settings(class: Class) -> String {
    format!("{}, {}", class.commit(), SETTINGS[..6].join(", "))
}

/// Makes the table, if it is not there.
pub(super) async fn ready(address: SocketAddr) -> Result<()> {
    let client = connect(address).await?;
    let there = client.query_one("SELECT to_regclass('job') IS NOT NULL", &[]).await?;
    if !there.get::<_, bool>(0) {
        client.batch_execute(TABLE).await?;
    }
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<Client> {
    let mut config = Config::new();
    config.host("127.0.0.1").port(address.port()).user("bench").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await?;
    // It ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

impl works::Client for Connection {
    type Server = SocketAddr;
    type Taken = i64;

    async fn open(server: &SocketAddr) -> Result<Connection> {
        let client = connect(*server).await?;
        Ok(Connection {
            add: client.prepare(ADD).await?,
            add_all: client.prepare(ADD_ALL).await?,
            take: client.prepare(TAKE).await?,
            finish: client.prepare(FINISH).await?,
            client,
        })
    }

    async fn add(&mut self, numbers: Range<u64>, due: Due) -> Vec<u64> {
        let due: Vec<u64> = numbers.map(|n| due.at_ms(n)).collect();
        let seconds: Vec<f64> = due.iter().map(|due_ms| *due_ms as f64 / 1e3).collect();
        let bodies: Vec<String> = due.iter().map(|due_ms| body(due_ms * 1_000_000)).collect();
        let rows = match due.len() {
            1 => self.client.query(&self.add, &[&seconds[0], &bodies[0]]).await,
            _ => self.client.query(&self.add_all, &[&seconds, &bodies]).await,
        };
        let rows = rows.expect("it takes jobs");
        rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect()
    }

    async fn take(&mut self) -> Option<(u64, i64)> {
        let row = self.client.query_opt(&self.take, &[]).await.expect("it hands out jobs");
        let Some(row) = row else {
            tokio::time::sleep(POLL).await;
            return None;
        };
        Some((row.get::<_, i64>(1) as u64 * 1_000_000, row.get(0)))
    }

    async fn finish(&mut self, taken: i64) {
        let gone = self.client.execute(&self.finish, &[&taken]).await.expect("it deletes");
        assert_eq!(gone, 1, "job {taken} is not there");
    }

    async fn cancel(&mut self, name: u64) {
        self.finish(name as i64).await;
    }
}

fn in_debian(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
        .filter(|program| program.is_file())
        .collect();
    found.sort();
    found.pop()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A program that does not run as root. It may pass folders that are root's alone, as temporary ones
/// are.
fn as_nobody(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let nobody = NOBODY.to_string();
    command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
    command.args(["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]);
    command.arg(program);
    command
}
