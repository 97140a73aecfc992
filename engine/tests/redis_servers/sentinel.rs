//! A master, a replica, and three sentinels that watch them.

use super::server::Server;
use super::{Answer, wait_until};

pub(crate) struct SentinelTrio {
    pub(crate) sentinels: Vec<Server>,
    /// The master and the replica; who is which changes.
    pub(crate) servers: Vec<Server>,
}

/// What the sentinels call the master.
const NAME: &str = "linger";

impl SentinelTrio {
    /// Starts all five, and waits until the sentinels know each other and the replica.
    pub(crate) fn start() -> SentinelTrio {
        SentinelTrio::start_with(&[])
    }

    /// The same, with these arguments for master and replica.
    pub(crate) fn start_with(args: &[&str]) -> SentinelTrio {
        let args = [&["--repl-diskless-sync-delay", "0"], args].concat();
        let master = Server::start(&args);
        let port = master.port.to_string();
        let replica = Server::start(&[&args[..], &["--replicaof", "127.0.0.1", &port]].concat());
        wait_until("the replica follows", || {
            replica.ask(&["INFO", "replication"]).text().contains("master_link_status:up")
        });
        let sentinels = (0..3).map(|_| sentinel(master.port)).collect();
        let trio = SentinelTrio { sentinels, servers: vec![master, replica] };
        trio.wait_until_ready();
        trio
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port)).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// The port of the master, as the sentinels see it.
    pub(crate) fn master(&self) -> u16 {
        named(&self.sentinels[0])
    }

    pub(crate) fn master_server(&mut self) -> &mut Server {
        let port = self.master();
        self.servers.iter_mut().find(|server| server.port == port).expect("one of ours")
    }

    /// Has master and replica change places in good order, and waits until they have.
    pub(crate) fn failover(&self) {
        let before = self.master();
        // Refused until the replica's state is known well enough.
        wait_until("the sentinels begin", || {
            let answer = self.sentinels[0].plain().try_ask(&["SENTINEL", "FAILOVER", NAME]);
            matches!(answer, Ok(Answer::Text(_)))
        });
        wait_until("there is another master", || {
            self.sentinels.iter().all(|one| named(one) != before)
        });
    }

    /// The same, but nothing is written from before the replica has it all until they have changed.
    pub(crate) fn failover_without_loss(&mut self) {
        let master = self.master();
        self.master_server().ask(&["CLIENT", "PAUSE", "30000", "WRITE"]);
        wait_until("the replica has it all", || {
            let offsets = self.servers.iter().map(|server| {
                let info = server.ask(&["INFO", "replication"]);
                let field = if server.port == master {
                    "master_repl_offset:"
                } else {
                    "slave_repl_offset:"
                };
                let line = info.text().lines().find_map(|line| line.strip_prefix(field));
                line.expect("it says so").to_owned()
            });
            let offsets: Vec<_> = offsets.collect();
            offsets[0] == offsets[1]
        });
        self.failover();
        let before = self.servers.iter().find(|server| server.port == master).expect("one of ours");
        before.ask(&["CLIENT", "UNPAUSE"]);
        self.wait_until_followed();
    }

    /// Kills the master, waits until there is another, and starts the old one again as its replica.
    pub(crate) fn replace_master(&mut self) {
        let before = self.master();
        self.kill_master();
        wait_until("there is another master", || {
            self.sentinels.iter().all(|one| named(one) != before)
        });
        let dead = self.servers.iter_mut().find(|server| !server.runs());
        dead.expect("it was killed").start_again();
        self.wait_until_followed();
    }

    /// Waits until the master has a replica that follows.
    fn wait_until_followed(&mut self) {
        wait_until("the master has a replica", || {
            let info = self.master_server().ask(&["INFO", "replication"]);
            info.text().contains("role:master") && info.text().contains(",state=online,")
        });
    }

    /// Kills the master, and waits for nothing.
    pub(crate) fn kill_master(&mut self) {
        self.master_server().kill();
    }

    fn wait_until_ready(&self) {
        for sentinel in &self.sentinels {
            wait_until("the sentinel knows the others and the replica", || {
                let answer = sentinel.ask(&["SENTINEL", "MASTER", NAME]);
                let parts: Vec<_> = answer.list().iter().map(Answer::text).collect();
                let part = |name| parts.chunks(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
                part("num-slaves") == Some("1") && part("num-other-sentinels") == Some("2")
            });
        }
    }
}

fn sentinel(master: u16) -> Server {
    Server::start_with(|_, folder| {
        let config = folder.path().join("sentinel.conf");
        let text = format!(
            "sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 3000\n"
        );
        std::fs::write(&config, text).expect("the folder can be written to");
        vec![config.display().to_string(), "--sentinel".into()]
    })
}

fn named(sentinel: &Server) -> u16 {
    let answer = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]);
    answer.list()[1].text().parse().expect("a port")
}
