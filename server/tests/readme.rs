//! What README shows is what happens: its commands are run against the shipped binary, and their
//! answers compared, but for times and leases.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary, killed at the end.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each command of the page with what is printed after it.
fn shown(page: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match line.strip_prefix("$ ") {
                Some(command) => commands.push((command.to_owned(), String::new())),
                None => commands.last_mut().expect("a command comes first").1.push_str(line),
            },
        }
    }
    commands
}

/// The text with every time and lease made the same.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut name = "";
    while let Some(at) = rest.find('"') {
        let (before, quoted) = rest.split_at(at + 1);
        out.push_str(before);
        let end = quoted.find('"').unwrap_or(quoted.len());
        let word = &quoted[..end];
        let is_time = word.len() == 24 && word.ends_with('Z') && word.starts_with("20");
        let is_lease = word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        out.push_str(match (is_time, is_lease) {
            (true, _) => "TIME",
            (_, true) => "LEASE",
            _ if name == "took" => "TIME",
            _ => word,
        });
        name = word;
        out.push_str(&quoted[end..(end + 1).min(quoted.len())]);
        rest = &quoted[(end + 1).min(quoted.len())..];
    }
    out + rest
}

/// Takes what is pushed, and says thanks.
fn start_receiver() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            thank(stream.expect("a connection")).expect("a request");
        }
    });
    address
}

fn thank(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line)?;
        if let Some(given) = line.strip_prefix("content-length: ") {
            length = given.trim().parse().map_err(io::Error::other)?;
        }
    }
    stream.read_exact(&mut vec![0; length])?;
    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 6\r\n\r\nthanks";
    stream.get_mut().write_all(answer.as_bytes())
}

fn run(command: &str) -> String {
    let ran = Command::new("sh").args(["-c", command]).output().expect("a shell");
    assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    masked(&String::from_utf8_lossy(&ran.stdout))
}

#[test]
fn the_commands_of_readme_do_what_it_shows() {
    let page = include_str!("../../README.md");
    let commands = shown(page);
    assert!(commands.len() >= 8, "README shows {} commands", commands.len());
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "curl is not installed");
        return eprintln!("skipped: curl is not installed (./test installs it)");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut served = Served(
        Command::new(env!("CARGO_BIN_EXE_linger"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .current_dir(folder.path())
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts"),
    );
    let mut lines = BufReader::new(served.0.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("a line").expect("text");
    let address = first.split("http://").nth(1).and_then(|rest| rest.split(',').next());
    let address = address.unwrap_or_else(|| panic!("no address in `{first}`"));
    assert!(lines.any(|line| line.expect("text").contains("ready")), "it is never ready");
    let receiver = start_receiver().to_string();
    for (command, printed) in commands {
        let command = command.replace("127.0.0.1:7300", address).replace("curl", "curl -sS");
        let command = command.replace("127.0.0.1:8080", &receiver);
        let run = || run(&command).replace(&receiver, "127.0.0.1:8080");
        let (mut answer, begun) = (run(), Instant::now());
        // What is pushed is on its way for a moment; people read on meanwhile.
        let pushed = command.ends_with("/history");
        while pushed && answer != masked(&printed) && begun.elapsed() < PATIENCE {
            answer = run();
        }
        assert_eq!(answer, masked(&printed), "{command}");
    }
    assert!(folder.path().join("linger-data").is_dir());
}
