//! A plain connection, to set servers up with and to look at them: it knows the protocol and
//! nothing else.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) struct Plain {
    stream: BufReader<TcpStream>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Answer>),
    Error(String),
}

impl Plain {
    pub(crate) fn connect(port: u16) -> io::Result<Plain> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Plain { stream: BufReader::new(stream) })
    }

    /// One command and its answer. A connection that breaks is an error too.
    pub(crate) fn try_ask(&mut self, command: &[&str]) -> io::Result<Answer> {
        let mut bytes = format!("*{}\r\n", command.len());
        for part in command {
            bytes += &format!("${}\r\n{part}\r\n", part.len());
        }
        self.stream.get_mut().write_all(bytes.as_bytes())?;
        self.read()
    }

    /// One command that the server must do.
    pub(crate) fn ask(&mut self, command: &[&str]) -> Answer {
        match self.try_ask(command) {
            Ok(Answer::Error(error)) => panic!("{command:?}: {error}"),
            Ok(answer) => answer,
            Err(cause) => panic!("{command:?}: {cause}"),
        }
    }

    fn read(&mut self) -> io::Result<Answer> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        match kind {
            "+" => Ok(Answer::Text(rest.into())),
            "-" => Ok(Answer::Error(rest.into())),
            ":" => Ok(Answer::Int(number()?)),
            "$" | "*" if number()? < 0 => Ok(Answer::Nil),
            "$" => {
                let mut bytes = vec![0; usize::try_from(number()?).map_err(io::Error::other)? + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Answer::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            "*" => (0..number()?).map(|_| self.read()).collect::<io::Result<_>>().map(Answer::List),
            _ => Err(io::Error::other(line)),
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) if !line.is_empty() => Ok(line.to_owned()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        match self {
            Answer::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    pub(crate) fn int(&self) -> i64 {
        match self {
            Answer::Int(int) => *int,
            other => panic!("not a number: {other:?}"),
        }
    }

    pub(crate) fn list(&self) -> &[Answer] {
        match self {
            Answer::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }
}
