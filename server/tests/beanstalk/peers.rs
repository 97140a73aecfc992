//! Who is talked to: Linger, and the real beanstalkd.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linger_server::config::Config;
use linger_server::serve::{self, Running};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadHalf,
    WriteHalf,
};
use tokio::net::{TcpStream, UnixStream};

/// So long is waited for what must come: only to fail rather than hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One who speaks the protocol.
pub(crate) enum Peer {
    Linger(Linger),
    Beanstalkd(Beanstalkd),
}

impl Peer {
    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Client {
        match self {
            Peer::Linger(linger) => linger.connect().await,
            Peer::Beanstalkd(beanstalkd) => beanstalkd.connect().await,
        }
    }

    /// Has it take no new jobs.
    pub(crate) fn drain(&self) {
        match self {
            Peer::Linger(linger) => linger.running.begin_draining(),
            Peer::Beanstalkd(beanstalkd) => {
                kill_process(Pid::from_child(&beanstalkd.process), Signal::USR1).expect("it runs");
            }
        }
    }
}

/// A server of our own.
pub(crate) struct Linger {
    pub(crate) running: Running,
    pub(crate) address: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
}

impl Linger {
    pub(crate) async fn start() -> Linger {
        Linger::with(|_| {}).await
    }

    /// One with some settings of its own.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Linger {
        let folder = tempfile::tempdir().expect("a folder");
        Linger::on(folder, change).await
    }

    /// One on a store that may have been there before.
    pub(crate) async fn on(folder: tempfile::TempDir, change: impl FnOnce(&mut Config)) -> Linger {
        let mut config = Config::defaults();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        (config.listen, config.beanstalkd) = (any, Some(any));
        config.store = folder.path().join("data").into();
        change(&mut config);
        let mut running = serve::start(config).await.expect("it starts");
        running.ready().await.expect("it is ready");
        let address = running.beanstalkd_address().expect("it was asked for");
        Linger { running, address, folder }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).await.expect("it listens"))
    }
}

/// The real one, killed at the end.
pub(crate) struct Beanstalkd {
    process: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Beanstalkd {
    /// None, with a word why, if it is not installed; in CI that fails.
    pub(crate) fn start() -> Option<Beanstalkd> {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let started = Command::new("beanstalkd")
            .arg("-l")
            .arg(format!("unix:{}", socket.display()))
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(process) => Some(Beanstalkd { process, socket, _folder: folder }),
            Err(cause) => {
                assert!(std::env::var_os("CI").is_none(), "beanstalkd is not installed: {cause}");
                eprintln!("skipped: beanstalkd is not installed (./test installs it)");
                None
            }
        }
    }

    async fn connect(&self) -> Client {
        let connect = async {
            loop {
                match UnixStream::connect(&self.socket).await {
                    Ok(stream) => return stream,
                    // It has not begun to listen yet.
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        Client::new(tokio::time::timeout(PATIENCE, connect).await.expect("it listens"))
    }
}

impl Drop for Beanstalkd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection.
pub(crate) struct Client {
    reader: BufReader<ReadHalf<Box<dyn Stream>>>,
    writer: WriteHalf<Box<dyn Stream>>,
}

impl Client {
    fn new(stream: impl Stream + 'static) -> Client {
        let (reader, writer) = tokio::io::split(Box::new(stream) as Box<dyn Stream>);
        Client { reader: BufReader::new(reader), writer }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let write = self.writer.write_all(bytes.as_ref());
        tokio::time::timeout(PATIENCE, write).await.expect("it is taken").expect("it is taken");
    }

    /// Says that nothing more will come.
    pub(crate) async fn half_close(&mut self) {
        self.writer.shutdown().await.expect("it can be closed");
    }

    /// A line without its end; none when there are no more.
    pub(crate) async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let read = self.reader.read_until(b'\n', &mut line);
            match tokio::time::timeout(PATIENCE, read).await {
                Ok(Ok(1..)) => {}
                // A reset is a way of hanging up, too.
                Ok(_) if line.is_empty() => return None,
                Ok(_) => panic!("it ends after {:?}", text(&line)),
                Err(_) => panic!("nothing comes after {:?}", text(&line)),
            }
        }
        line.truncate(line.len() - 2);
        Some(line)
    }

    /// So many bytes.
    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let read = self.reader.read_exact(&mut bytes);
        tokio::time::timeout(PATIENCE, read).await.expect("it comes").expect("it comes");
        bytes
    }

    /// The text of an `OK`, or what was answered instead.
    pub(crate) async fn ok_text(&mut self) -> Result<String, String> {
        let line = text(&self.line().await.expect("an answer"));
        let Some(length) = line.strip_prefix("OK ") else { return Err(line) };
        let bytes = self.bytes(length.parse().expect("a length")).await;
        assert_eq!(self.bytes(2).await, b"\r\n", "the length is right");
        Ok(text(&bytes))
    }

    /// Sends a command, and answers the first line of the answer.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n")).await;
        text(&self.line().await.expect("an answer"))
    }

    /// Puts a job, and answers its number.
    pub(crate) async fn put(&mut self, numbers: &str, body: &str) -> u64 {
        let answer = self.ask(&format!("put {numbers} {}\r\n{body}", body.len())).await;
        let number = answer.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{answer}"));
        number.parse().expect("a number")
    }

    /// Reserves by this command, and answers the number and the body.
    pub(crate) async fn reserve(&mut self, command: &str) -> (u64, String) {
        let answer = self.ask(command).await;
        let words: Vec<&str> = answer.split(' ').collect();
        assert_eq!((words[0], words.len()), ("RESERVED", 3), "{answer}");
        let body = self.line().await.expect("a body");
        assert_eq!(body.len(), words[2].parse::<usize>().expect("a length"));
        (words[1].parse().expect("a number"), text(&body))
    }

    /// A line of what a `stats…` says.
    pub(crate) async fn stat(&mut self, command: &str, name: &str) -> String {
        self.send(format!("{command}\r\n")).await;
        let stats = self.ok_text().await.unwrap_or_else(|word| panic!("{command}: {word}"));
        let value = stats.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        value.unwrap_or_else(|| panic!("no {name} in {stats}")).to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
