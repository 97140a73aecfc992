//! Runs the scripts of `transcripts/` on Linger and on the real beanstalkd: each must answer every
//! line as it stands there.
//!
//! Each line begins with the name of a connection, which is opened when it is first named.
//!
//! ```text
//! a> put 0 0 10 5      sends a line; \r, \n, \0 and \\ are what they are in C, {x*5} is xxxxx,
//! a>> hel              and this one is sent without an end
//! a< INSERTED {job}    a line must come; {job} is whatever comes the first time, and the same after
//! a: stats-job {job}   the text of an OK, in the lines that follow: a value of * may be anything,
//!   id: {job}          quotes are passed over (1.12 has fewer of them), and a list may have any order
//! a~ waiting: 1 stats  asks until there is such a line in the text of an OK
//! a/                   half closes     a!  closes     a.  must be closed by the other side
//! !drain               has the server take no new jobs
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::peers::{Beanstalkd, Client, Linger, PATIENCE, Peer};

/// A script being run.
struct Play<'a> {
    peer: &'a Peer,
    clients: HashMap<char, Client>,
    names: HashMap<String, String>,
    exchanges: usize,
}

impl Play<'_> {
    async fn client(&mut self, name: char) -> &mut Client {
        if !self.clients.contains_key(&name) {
            let client = self.peer.connect().await;
            self.clients.insert(name, client);
        }
        self.clients.get_mut(&name).expect("it was made")
    }

    /// What is to be sent: names and repetitions put in, escapes read.
    fn bytes(&self, text: &str) -> Vec<u8> {
        let (mut bytes, mut rest) = (Vec::new(), text);
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match (c, rest.split_once('}')) {
                ('\\', _) => {
                    let escaped = rest.chars().next().expect("something is escaped");
                    bytes.push(match escaped {
                        'r' => b'\r',
                        'n' => b'\n',
                        't' => b'\t',
                        '0' => 0,
                        other => other as u8,
                    });
                    rest = &rest[1..];
                }
                ('{', Some((name, after))) => {
                    match name.split_once('*') {
                        Some((unit, times)) => {
                            bytes.extend(unit.repeat(times.parse().expect("a number")).bytes());
                        }
                        None => bytes.extend(self.names[name].bytes()),
                    }
                    rest = after;
                }
                _ => bytes.extend(c.to_string().bytes()),
            }
        }
        bytes
    }

    /// Whether what came is what stands in the script; names get their meaning.
    fn fits(&mut self, expected: &str, came: &str) -> bool {
        let (mut expected_words, mut came_words) = (expected.split(' '), came.split(' '));
        loop {
            match (expected_words.next(), came_words.next()) {
                (None, None) => return true,
                (Some("*"), Some(_)) => {}
                (Some(word), Some(came)) => {
                    let name = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'));
                    let wanted = match name {
                        Some(name) if !name.contains('*') => {
                            self.names.entry(name.to_owned()).or_insert(came.to_owned()).clone()
                        }
                        _ => String::from_utf8(self.bytes(word)).expect("UTF-8"),
                    };
                    if wanted != came {
                        return false;
                    }
                }
                _ => return false,
            }
        }
    }

    async fn ask_text(&mut self, name: char, command: &str) -> Vec<String> {
        let command = self.bytes(&format!("{command}\\r\\n"));
        let client = self.client(name).await;
        client.send(command).await;
        let text = client.ok_text().await.unwrap_or_else(|word| panic!("not OK but {word}"));
        assert!(text.starts_with("---\n") && text.ends_with('\n'), "{text}");
        text.lines().skip(1).map(|line| line.replace('"', "")).collect()
    }

    async fn run(&mut self, script: &str) {
        let lines: Vec<&str> = script.lines().collect();
        let mut at = 0;
        while at < lines.len() {
            let (number, line) = (at + 1, lines[at]);
            at += 1;
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == "!drain" {
                self.peer.drain();
                continue;
            }
            let mut chars = line.chars();
            let (name, sign) = (chars.next().expect("a name"), chars.next().expect("a sign"));
            let text = chars.as_str();
            let rest = text.strip_prefix(' ').unwrap_or(text);
            match sign {
                '>' if text.starts_with('>') => {
                    let bytes = self.bytes(text[1..].strip_prefix(' ').unwrap_or(&text[1..]));
                    self.client(name).await.send(bytes).await;
                }
                '>' => {
                    let bytes = self.bytes(&format!("{rest}\\r\\n"));
                    self.client(name).await.send(bytes).await;
                }
                '<' => {
                    let came = self.client(name).await.line().await;
                    let came = came.unwrap_or_else(|| panic!("line {number}: it ended"));
                    let came = String::from_utf8(came).expect("UTF-8");
                    let short: String = came.chars().take(100).collect();
                    assert!(self.fits(rest, &came), "line {number}: {rest}\nbut it said: {short}");
                    self.exchanges += 1;
                }
                ':' => {
                    let mut came = self.ask_text(name, rest).await;
                    let indented = lines[at..].iter().take_while(|line| line.starts_with("  "));
                    let mut expected: Vec<&str> = indented.map(|line| &line[2..]).collect();
                    at += expected.len();
                    if expected.iter().all(|line| line.starts_with("- ")) && rest == "list-tubes" {
                        expected.sort_unstable();
                        came.sort_unstable();
                    }
                    let same = expected.len() == came.len()
                        && expected.iter().zip(&came).all(|(expected, came)| {
                            let masked = expected.strip_suffix(": *");
                            match masked {
                                Some(key) => came.starts_with(&format!("{key}: ")),
                                None => self.fits(expected, came),
                            }
                        });
                    assert!(same, "line {number}: {rest}\nsaid {came:#?}\nnot {expected:#?}");
                    self.exchanges += 1;
                }
                '~' => {
                    let mut words = rest.splitn(3, ' ');
                    let (key, value) = (words.next().expect("key"), words.next().expect("value"));
                    let (wanted, command) = (format!("{key} {value}"), words.next().expect("what"));
                    let until =
                        async { while !self.ask_text(name, command).await.contains(&wanted) {} };
                    let done = tokio::time::timeout(PATIENCE, until).await;
                    done.unwrap_or_else(|_| panic!("line {number}: never {wanted}"));
                }
                '/' => self.client(name).await.half_close().await,
                '!' => drop(self.clients.remove(&name)),
                '.' => {
                    let came = self.client(name).await.line().await;
                    assert!(came.is_none(), "line {number}: it goes on with {came:?}");
                    self.exchanges += 1;
                }
                other => panic!("line {number}: what is `{other}`?"),
            }
        }
    }
}

async fn play(script: &str, peer: Peer) -> usize {
    let mut play =
        Play { peer: &peer, clients: HashMap::new(), names: HashMap::new(), exchanges: 0 };
    play.run(script).await;
    play.exchanges
}

/// Every script, with its name.
fn scripts() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beanstalk/transcripts");
    let mut scripts: Vec<(String, String)> = fs::read_dir(folder)
        .expect("the scripts are there")
        .map(|entry| entry.expect("it is listed").path())
        .map(|path| {
            let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("it can be read"))
        })
        .collect();
    scripts.sort();
    scripts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn linger_answers_every_script() {
    let mut exchanges = 0;
    for (name, script) in scripts() {
        eprintln!("linger: {name}");
        exchanges += play(&script, Peer::Linger(Linger::start().await)).await;
    }
    assert!(exchanges >= 80, "only {exchanges} exchanges");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_beanstalkd_answers_every_script_alike() {
    for (name, script) in scripts() {
        let Some(beanstalkd) = Beanstalkd::start() else { return };
        eprintln!("beanstalkd: {name}");
        play(&script, Peer::Beanstalkd(beanstalkd)).await;
    }
}
