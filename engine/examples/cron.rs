//! A job by cron, every second, that ends by itself after three occurrences.
//!
//! Prints the next five times in advance, then each occurrence with the time it was due.

use std::num::NonZeroU32;
use std::process::ExitCode;

use linger::error::Code;
use linger::queue::Queue;
use linger::schedule::Repeat;
use linger::time::{SECOND, Time};
use linger::{Delivery, Job, Linger};
use tokio::sync::mpsc;

const OCCURRENCES: u32 = 3;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let queue = Linger::memory();
    let (ran, mut runs) = mpsc::unbounded_channel::<Time>();

    // Six fields: the first is seconds. With five it would be the usual minutes.
    let every_second = Repeat::cron("* * * * * *", Some("Asia/Shanghai"))?;
    let now = queue.store().clock().now().time();
    println!("the next five times:");
    for time in every_second.upcoming(now, now, 5) {
        println!("  {time}");
    }

    queue
        .worker("heartbeat", move |job: Delivery| {
            let ran = ran.clone();
            async move {
                println!("occurrence {} was due at {}", job.job.occurrence + 1, job.job.due);
                ran.send(job.job.due)?;
                Ok(())
            }
        })
        .start()?;

    let count = NonZeroU32::new(OCCURRENCES).ok_or("three is not zero")?;
    queue.add(Job::new("heartbeat", "").id("pulse").repeat(every_second.count(count))).await?;

    let mut due = Vec::new();
    while due.len() < OCCURRENCES as usize {
        due.extend(tokio::time::timeout(5 * SECOND, runs.recv()).await?);
    }
    queue.drain(5 * SECOND).await;

    let on_the_second = due.iter().all(|due| due.as_ms() % 1000 == 0);
    let in_order = due.windows(2).all(|two| two[0] < two[1]);
    let gone = queue.get("heartbeat", "pulse").await.is_err_and(|e| e.code() == Code::NotFound);
    println!("the job is {}", if gone { "gone" } else { "still there" });
    Ok(if on_the_second && in_order && gone { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
