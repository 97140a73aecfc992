//! Adds a job whose worker fails twice and then succeeds, along a ladder of the job's own.
//!
//! Prints each attempt as it is made, then what the job's history says about them.

use std::process::ExitCode;
use std::time::Duration;

use linger::history::What;
use linger::machine::Stage;
use linger::retry::Retry;
use linger::time::{MINUTE, SECOND};
use linger::{Delivery, Job, Linger};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let queue = Linger::memory();
    let (done, mut is_done) = mpsc::channel(1);

    queue
        .worker("mail.send", move |job: Delivery| {
            let done = done.clone();
            async move {
                let attempt = job.job.attempt;
                println!("attempt {attempt} of mail {}", job.id());
                if attempt < 3 {
                    // Any error will do: its text is kept in the job's history.
                    return Err("the mail server is busy".into());
                }
                done.send(()).await?;
                Ok(())
            }
        })
        .concurrency(4)
        .start()?;

    let steps = [Duration::from_millis(100), Duration::from_millis(300)];
    let job = Job::new("mail.send", "Your order is on its way")
        .id("welcome-7")
        .delay(Duration::from_millis(200))
        .retry(Retry::ladder(&steps)?)
        // Kept when it is finished, so that we can look at it.
        .retain(MINUTE);
    queue.add(job).await?;

    tokio::time::timeout(5 * SECOND, is_done.recv()).await?;
    // The workers end what they have begun, so the job is settled when this is over.
    queue.drain(5 * SECOND).await;

    let job = queue.get("mail.send", "welcome-7").await?;
    for entry in &job.history {
        println!("{} {:?} {}", entry.at, entry.what, entry.error.as_deref().unwrap_or(""));
    }
    let what: Vec<What> = job.history.iter().map(|entry| entry.what).collect();
    let right = job.stage == Stage::Finished
        && job.attempt == 3
        && what == [What::Added, What::Failed, What::Failed, What::Finished];
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
