//! A queue in a folder: what was acknowledged is there again after a restart.
//!
//! `cargo run -p linger --example embedded`

use linger::time::{DAY, MINUTE, SECOND};
use linger::{Delivery, Job, Linger, Result};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("linger-example-{}", std::process::id()));
    let result = live_through_a_restart(&folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    result
}

async fn live_through_a_restart(folder: &std::path::Path) -> Result<()> {
    let queue = Linger::open(folder)?;
    queue.add(Job::new("order.close", "1001").id("1001").delay(30 * MINUTE)).await?;
    queue.add(Job::new("shop.remind", "42").id("42").delay(7 * DAY)).await?;
    queue.delete("shop.remind", "42").await?;
    println!("two jobs added, one cancelled; the process ends here");
    drop(queue);

    let queue = Linger::open(folder)?;
    let job = queue.get("order.close", "1001").await?;
    println!("opened again: order {} closes at {}", job.spec.id, job.due);
    assert!(queue.get("shop.remind", "42").await.is_err(), "a cancel is a cancel");

    // Nobody waits half an hour for an example.
    queue.run("order.close", "1001").await?;
    let (closed, mut orders) = mpsc::channel(1);
    queue
        .worker("order.close", move |job: Delivery| {
            let closed = closed.clone();
            async move {
                let _ = closed.send(job.id().clone()).await;
                Ok(())
            }
        })
        .start()?;
    let order = orders.recv().await.expect("the worker has the job");
    println!("closed order {order}");
    queue.drain(10 * SECOND).await;
    Ok(())
}
