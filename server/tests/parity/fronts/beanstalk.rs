//! The beanstalkd protocol.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use linger::time::MINUTE;

use super::{Front, House, lack};
use crate::speaker::{Add, Job, No, Popped, Seen, Speaker, Told, refused};
use crate::world::PATIENCE;

pub(crate) const FRONT: Front = Front {
    name: "beanstalkd protocol",
    house: House::Server {
        set: |_| {},
        speak: |at| {
            let boss = Connection::new(at.beanstalkd);
            Box::new(Beanstalk { address: at.beanstalkd, boss, workers: HashMap::new() })
        },
    },
    lacks: &[
        lack(
            "id",
            "ids are numbers that the server makes",
            &["an_id_of_a_wrong_name_is_refused", "an_empty_id_is_refused"],
        ),
        lack("reject", "ids are numbers that the server makes", &["the_same_id_again_is_refused"]),
        lack(
            "replace",
            "ids are numbers that the server makes",
            &["the_same_id_again_is_replaced"],
        ),
        lack(
            "attempts",
            "a put has none, and its jobs are tried without a limit",
            &["a_failed_job_is_tried_again_and_dies"],
        ),
        lack("held", "a put has none", &["a_job_is_set_aside_and_let_go"]),
        lack(
            "target",
            "a put has none",
            &["the_same_id_again_is_kept", "a_task_waits_and_is_removed"],
        ),
        lack(
            "bounds of ttr",
            "what is too short or too long is taken for the shortest or longest there is",
            &["a_time_to_run_out_of_bounds_is_refused"],
        ),
        lack(
            "delete from its holder",
            "what another holds is NOT_FOUND",
            &["a_cancelled_job_is_lost_to_its_holder"],
        ),
        lack("again", "there is no such command", &["not_yet_is_no_failure"]),
        lack("update", "there is no such command", &["a_job_that_waits_is_changed"]),
    ],
    simple: Add::new,
};

/// One who puts and looks, and workers, each of which holds one job.
struct Beanstalk {
    address: SocketAddr,
    boss: Connection,
    workers: HashMap<String, Connection>,
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    fn new(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(2 * PATIENCE)).expect("a limit");
        Connection(BufReader::new(stream))
    }

    /// Says something, which must be answered by this word; what came after the word.
    fn say(&mut self, command: &str, word: &str) -> Told<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).expect("it is taken");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        let line = line.trim_end();
        match line.strip_prefix(word) {
            Some("") => Ok(String::new()),
            Some(rest) if rest.starts_with(' ') => Ok(rest[1..].to_owned()),
            _ => refused(line),
        }
    }

    /// The text that follows, whose length ends what came before it.
    fn text(&mut self, told: &str) -> String {
        let length = told.rsplit(' ').next().and_then(|length| length.parse::<usize>().ok());
        let mut text = vec![0; length.expect("a length") + 2];
        self.0.read_exact(&mut text).expect("it comes");
        assert_eq!(text.split_off(text.len() - 2), b"\r\n");
        String::from_utf8(text).expect("UTF-8")
    }
}

impl Beanstalk {
    /// Says something of a job that a worker holds, who is free after it.
    fn settle(&mut self, popped: &Popped, command: String, word: &str) -> Told<()> {
        let worker = self.workers.get_mut(&popped.lease).expect("it was popped here");
        worker.say(&command, word)?;
        Ok(())
    }
}

/// A job's number, which is its id here.
fn number(job: &Job) -> u64 {
    job.number.expect("every job here has one")
}

impl Speaker for Beanstalk {
    fn add(&mut self, add: &Add) -> Told<Job> {
        let Add { topic, name, body, delay, priority, .. } = add.clone();
        let ttr = add.ttr.unwrap_or(MINUTE);
        let said = Add { body, delay, ttr: Some(ttr), priority, ..Add::new(&topic, &name) };
        add.is_said_by(&said)?;
        self.boss.say(&format!("use {topic}"), "USING")?;
        let (body, delay, ttr) = (said.body, delay.as_secs(), ttr.as_secs());
        let put = format!("put {priority} {delay} {ttr} {}\r\n{body}", body.len());
        let id = self.boss.say(&put, "INSERTED")?;
        let number = Some(id.parse().expect("a number"));
        Ok(Job { topic, id, number })
    }

    fn look(&mut self, job: &Job) -> Told<Seen> {
        let found = self.boss.say(&format!("peek {}", number(job)), "FOUND")?;
        let body = self.boss.text(&found);
        let stats = self.boss.say(&format!("stats-job {}", number(job)), "OK")?;
        let stats = self.boss.text(&stats);
        let state = stats.lines().find_map(|line| line.strip_prefix("state: "));
        let state = state.expect("a state").trim_matches('"').to_owned();
        Ok(Seen { state: Some(state), body: Some(body) })
    }

    fn pop(&mut self, topic: &str, wait: Duration) -> Told<Option<Popped>> {
        let mut worker = Connection::new(self.address);
        worker.say(&format!("watch {topic}"), "WATCHING")?;
        if topic != "default" {
            worker.say("ignore default", "WATCHING")?;
        }
        let wait_s = wait.as_millis().div_ceil(1000);
        let told = match worker.say(&format!("reserve-with-timeout {wait_s}"), "RESERVED") {
            Ok(told) => told,
            Err(No::Refused(word)) if word == "TIMED_OUT" => return Ok(None),
            Err(no) => return Err(no),
        };
        let body = worker.text(&told);
        let id = told.split(' ').next().expect("a number").to_owned();
        // The same job may be popped again before the first is known to be lost.
        let lease = format!("{id} {}", self.workers.len());
        self.workers.insert(lease.clone(), worker);
        Ok(Some(Popped { topic: topic.to_owned(), id, body, lease }))
    }

    fn finish(&mut self, popped: &Popped) -> Told<()> {
        self.settle(popped, format!("delete {}", popped.id), "DELETED")
    }

    fn release(&mut self, popped: &Popped, delay: Duration, priority: u32) -> Told<()> {
        let delay_s = delay.as_secs();
        self.settle(popped, format!("release {} {priority} {delay_s}", popped.id), "RELEASED")
    }

    fn touch(&mut self, popped: &Popped) -> Told<()> {
        self.settle(popped, format!("touch {}", popped.id), "TOUCHED")
    }

    fn bury(&mut self, popped: &Popped, priority: u32) -> Told<()> {
        self.settle(popped, format!("bury {} {priority}", popped.id), "BURIED")
    }

    fn delete(&mut self, job: &Job) -> Told<()> {
        self.boss.say(&format!("delete {}", number(job)), "DELETED")?;
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Told<()> {
        self.boss.say(&format!("kick-job {}", number(job)), "KICKED")?;
        Ok(())
    }

    fn redrive(&mut self, topic: &str) -> Told<u64> {
        self.boss.say(&format!("use {topic}"), "USING")?;
        Ok(self.boss.say("kick 1000", "KICKED")?.parse().expect("a count"))
    }

    fn pause(&mut self, topic: &str, length: Duration) -> Told<()> {
        self.boss.say(&format!("pause-tube {topic} {}", length.as_secs()), "PAUSED")?;
        Ok(())
    }

    fn resume(&mut self, topic: &str) -> Told<()> {
        self.boss.say(&format!("pause-tube {topic} 0"), "PAUSED")?;
        Ok(())
    }
}
