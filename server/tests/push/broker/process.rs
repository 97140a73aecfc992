//! A broker as a process of its own, which ends with the test whatever becomes of that.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::receiver::PATIENCE;
use crate::redis_servers::free_port;

/// The path of a program that `./test` gets. Without it a test says so and is skipped, but fails in
/// CI.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    // Beside the folder of the profile that this test was built in, wherever cargo puts that.
    let test = std::env::current_exe().expect("this test has a file");
    let tools = test.ancestors().nth(3).expect("it lies in target/debug/deps").join("tools/bin");
    let found = Some(tools.join(name)).filter(|program| program.exists());
    if found.is_none() {
        let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!in_ci, "{name} is not installed");
        eprintln!("skipped: {name} is not installed; `./test` gets it");
    }
    found
}

/// Runs until it is dropped, which kills it.
pub(crate) struct Process {
    pub(crate) port: u16,
    script: String,
    folder: PathBuf,
    env: Vec<(String, String)>,
    running: Option<(Child, ChildStdin)>,
}

impl Process {
    /// Starts what the script starts with `&`, on a port that is free, in a folder.
    pub(crate) fn start(
        script: &str,
        folder: PathBuf,
        env: impl FnOnce(u16) -> Vec<(String, String)>,
    ) -> Process {
        let port = free_port();
        let env = env(port);
        let mut process = Process { port, script: script.into(), folder, env, running: None };
        process.start_again();
        process
    }

    /// Starts it once more, on the same port and folder, and waits until it takes connections.
    pub(crate) fn start_again(&mut self) {
        // When we are gone the pipe is closed, and then it ends too. Statics are never dropped.
        let script = format!(
            "{}\nread -r signal; kill -${{signal:-KILL}} $(jobs -p); wait; kill -KILL $after",
            self.script
        );
        let log = self.folder.join("log");
        let log = std::fs::File::options().create(true).append(true).open(log);
        let log = log.expect("the folder can be written to");
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .current_dir(&self.folder)
            .envs(self.env.iter().cloned())
            .env("PORT", self.port.to_string())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("the same file"))
            .stderr(log)
            .spawn()
            .expect("bash can be run");
        let stdin = child.stdin.take().expect("piped");
        self.running = Some((child, stdin));
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "it does not start: {}", self.folder.display());
            // Between two questions, so that the one who is asked gets to run.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it by a signal, such as `TERM`.
    pub(crate) fn end(&mut self, signal: &str) {
        let (mut child, mut stdin) = self.running.take().expect("it runs");
        writeln!(stdin, "{signal}").expect("it listens");
        child.wait().expect("it ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.end("KILL");
        }
    }
}
