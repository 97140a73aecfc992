//! A shop asks a payment provider, along a ladder, whether its orders are paid.
//!
//! Order 1001 is asked for until the answer is final: the worker says "again" until then. For
//! order 1002 the provider's own notice comes first, and the shop cancels the job. The provider
//! and the shop's door for notices are real HTTP servers, on ports of their own.
//!
//! Prints every question, answer and notice, and what became of both jobs.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linger::error::Code;
use linger::retry::Retry;
use linger::time::{HOUR, SECOND};
use linger::worker::json;
use linger::{Delivery, Job, Linger, Outcome};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// An order is paid when the provider is asked about it for the third time.
const PAID_AT_QUESTION: u32 = 3;

#[derive(Deserialize)]
struct Order {
    order: String,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let questions = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
    let provider = serve_provider(questions.clone()).await?;
    let queue = Linger::memory();
    let shop = serve_shop(queue.clone()).await?;

    let (paid, mut is_paid) = mpsc::channel(1);
    let ask = json(move |order: Order, job: Delivery| {
        let paid = paid.clone();
        async move {
            let (_, status) = call(provider, "GET", &order.order, "").await?;
            println!("shop: attempt {}, order {} is {status}", job.job.attempt, order.order);
            if status != "paid" {
                return Ok(Outcome::again());
            }
            paid.send(()).await?;
            Ok(Outcome::done())
        }
    });
    queue.worker("payment.ask", ask).concurrency(8).start()?;

    // As payment providers recommend, only faster: soon at first, then less and less often.
    let ladder = Retry::ladder(&[50, 100, 200, 400, 800].map(Duration::from_millis))?;
    for (order, delay) in [("1001", Duration::from_millis(50)), ("1002", HOUR)] {
        let body = format!(r#"{{"order": "{order}"}}"#);
        let job = Job::new("payment.ask", body).id(order).delay(delay).retry(ladder.clone());
        queue.add(job).await?;
    }

    println!("provider: order 1002 is paid, telling the shop");
    let (told, _) = call(shop, "POST", "notice", "1002").await?;
    let (told_again, _) = call(shop, "POST", "notice", "1002").await?;

    tokio::time::timeout(5 * SECOND, is_paid.recv()).await?;
    queue.drain(5 * SECOND).await;

    let totals = queue.runner().totals();
    println!("{} answered again, {} done, {} failed", totals.again, totals.done, totals.failed);
    let asked = questions.lock().expect("nobody panics holding it").clone();
    let right = (told, told_again) == (200, 404)
        && asked == HashMap::from([("1001".to_owned(), PAID_AT_QUESTION)])
        && (totals.again, totals.done, totals.failed) == (2, 1, 0);
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The provider: answers whether an order is paid, and counts how often it was asked.
async fn serve_provider(questions: Arc<Mutex<HashMap<String, u32>>>) -> io::Result<SocketAddr> {
    serve(move |order, _| {
        let mut questions = questions.lock().expect("nobody panics holding it");
        let asked = questions.entry(order).or_default();
        *asked += 1;
        let status = if *asked < PAID_AT_QUESTION { "pending" } else { "paid" };
        async move { (200, status.to_owned()) }
    })
    .await
}

/// The shop's door for notices: an order that is known to be paid is not asked for any more.
async fn serve_shop(queue: Linger) -> io::Result<SocketAddr> {
    serve(move |_, order| {
        let queue = queue.clone();
        async move {
            match queue.delete("payment.ask", &order).await {
                Ok(_) => {
                    println!("shop: told that order {order} is paid, its job is cancelled");
                    (200, "thanks".to_owned())
                }
                Err(error) if error.code() == Code::NotFound => (404, error.to_string()),
                Err(error) => (500, error.to_string()),
            }
        }
    })
    .await
}

/// Serves HTTP on a port of its own, one request a connection: as much as this example needs.
async fn serve<F, Fut>(answer: F) -> io::Result<SocketAddr>
where
    F: Fn(String, String) -> Fut + Send + 'static,
    Fut: Future<Output = (u16, String)> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let Ok((first, body)) = read_message(&mut stream).await else { continue };
            let path = first.split(' ').nth(1).unwrap_or("/").trim_start_matches('/');
            let (status, text) = answer(path.to_owned(), body).await;
            let head = format!("HTTP/1.1 {status} -\r\nconnection: close\r\n");
            let message = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
            let _ = stream.write_all(message.as_bytes()).await;
        }
    });
    Ok(address)
}

/// Makes one HTTP request; answers the status and the body.
async fn call(to: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = BufReader::new(TcpStream::connect(to).await?);
    let head = format!("{method} /{path} HTTP/1.1\r\nhost: {to}\r\n");
    let message = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(message.as_bytes()).await?;
    let (first, body) = read_message(&mut stream).await?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| io::Error::other(format!("`{first}` has no status")))?, body))
}

/// The first line and the body of an HTTP message.
async fn read_message(stream: &mut BufReader<TcpStream>) -> io::Result<(String, String)> {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().map_err(io::Error::other)?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((first.trim_end().to_owned(), String::from_utf8_lossy(&body).into_owned()))
}
