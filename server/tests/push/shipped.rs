//! The shipped binary as a process of its own, which can be killed.

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::client::Caller;

/// Runs until it is dropped, which kills it.
pub(crate) struct Shipped {
    process: Child,
    caller: Caller,
}

impl Shipped {
    /// Starts on what is in a folder, and is ready.
    pub(crate) fn start(folder: &Path) -> Shipped {
        let mut process = Command::new(env!("CARGO_BIN_EXE_linger"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let mut line = || lines.next().expect("it goes on").expect("text");
        let first = line();
        let address = first.split("http://").nth(1).and_then(|rest| rest.split(',').next());
        let address = address.and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address in `{first}`"));
        while !line().contains("ready") {}
        // Read on, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(drop));
        Shipped { process, caller: Caller::new(address) }
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Deref for Shipped {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Shipped {
    fn drop(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}
