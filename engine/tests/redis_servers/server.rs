//! One process of `redis-server`.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::plain::{Answer, Plain};
use super::{program, wait_for, wait_until};

pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) folder: TempDir,
    args: Vec<String>,
    child: Option<Child>,
}

/// How often another port is tried when someone else was faster.
const TRIES: usize = 10;

impl Server {
    /// Starts a server with these arguments, and waits until it answers.
    pub(crate) fn start(args: &[&str]) -> Server {
        Server::start_with(|_, _| args.iter().map(|arg| (*arg).to_owned()).collect())
    }

    /// The same, with arguments that depend on its port and folder.
    pub(crate) fn start_with(args: impl Fn(u16, &TempDir) -> Vec<String>) -> Server {
        for _ in 0..TRIES {
            let (port, folder) = (free_port(), tempfile::tempdir().expect("a temporary folder"));
            let args = args(port, &folder);
            let mut server = Server { port, folder, args, child: None };
            if server.spawn() {
                return server;
            }
        }
        panic!("redis-server did not start in {TRIES} tries");
    }

    pub(crate) fn plain(&self) -> Plain {
        Plain::connect(self.port).expect("the server takes connections")
    }

    /// One command on a connection of its own.
    pub(crate) fn ask(&self, command: &[&str]) -> Answer {
        self.plain().ask(command)
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Ends it in good order.
    pub(crate) fn stop(&mut self) {
        self.end(Signal::TERM);
    }

    pub(crate) fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    pub(crate) fn start_again(&mut self) {
        assert!(!self.runs(), "it was not stopped");
        // Sockets of the one before may hold the port for a moment.
        wait_until("the server starts again on its port", || self.spawn());
    }

    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether it answers by now; not so if it ended at once, as on a port that is taken.
    fn spawn(&mut self) -> bool {
        let file = self.folder.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(file);
        let child = Command::new(program().expect("asked for by `there`"))
            .args(&self.args)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", ""])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.expect("the folder can be written to"))
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server can be run");
        let child = self.child.insert(child);
        let port = self.port;
        let answers = wait_for("the server answers or ends", || {
            if child.try_wait().expect("it is our child").is_some() {
                return Some(false);
            }
            match Plain::connect(port).and_then(|mut plain| plain.try_ask(&["PING"])) {
                Ok(Answer::Error(error)) if error.starts_with("LOADING") => None,
                // A server that wants a password first answers, too.
                Ok(_) => Some(true),
                Err(_) => None,
            }
        });
        if !answers {
            self.child = None;
        }
        answers
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("it is our child");
    }

    fn end(&mut self, signal: Signal) {
        self.signal(signal);
        let mut child = self.child.take().expect("it runs");
        child.wait().expect("it is our child");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.runs() {
            self.kill();
        }
    }
}

/// A port that nobody has at present. Below those that the system gives to outgoing connections,
/// or one of them could take the port of a server that is stopped for a while.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    // Several test binaries run at once: each begins somewhere else.
    let own = u16::try_from(std::process::id() % u32::from(COUNT)).expect("it is below");
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (own.wrapping_mul(97).wrapping_add(step)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
