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
        let master = Server::start(&["--repl-diskless-sync-delay", "0"]);
        let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
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
