//! A connection to a broker that is made when it is needed, shared, and made anew when it broke.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use linger::time::format_duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Dialect, Fault, Message, Said, Tell};

/// How long it may take until a connection stands, TLS and login included.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long to wait before a broker is dialled again: at first, and at most. The breaker of its
/// destination waits longer.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The way to one broker.
pub(super) struct Link<D: Dialect> {
    dialect: D,
    up: ArcSwapOption<Line<D::Line>>,
    /// Held by whoever dials.
    dialled: Mutex<Dialled>,
}

struct Line<L> {
    line: L,
    /// Counts what the broker has said.
    answers: AtomicU64,
}

/// How dialling went the last time.
#[derive(Default)]
struct Dialled {
    failed: Option<(Instant, String)>,
    pause: Duration,
}

impl<D: Dialect> Link<D> {
    pub(super) fn new(dialect: D) -> Link<D> {
        Link { dialect, up: ArcSwapOption::empty(), dialled: Mutex::default() }
    }

    pub(super) async fn publish(&self, messages: Vec<Message>, tell: &mut Tell<'_>) {
        let line = match self.up.load_full() {
            Some(line) => Ok(line),
            // Apart, so that those who find a connection need not carry what making one takes.
            None => Box::pin(self.line()).await,
        };
        let line = match line {
            Ok(line) => line,
            Err(why) => {
                return (0..messages.len()).for_each(|at| tell(at, Err(Fault::Down(why.clone()))));
            }
        };
        let mut waiting = Waiting { link: self, begun_at: line.count(), line: &line, over: false };
        let mut heard = |at: usize, said: Said| {
            match &said {
                Err(Fault::Broken(_)) => self.lose(&line),
                _ => {
                    line.answers.fetch_add(1, Ordering::Relaxed);
                }
            }
            tell(at, said);
        };
        self.dialect.publish(&line.line, messages, &mut heard).await;
        waiting.over = true;
    }

    /// The connection, made if nobody else has made one meanwhile.
    async fn line(&self) -> Result<Arc<Line<D::Line>>, String> {
        let asked = Instant::now();
        let mut dialled = self.dialled.lock().await;
        if let Some(line) = self.up.load_full() {
            return Ok(line);
        }
        if let Some((at, why)) = &dialled.failed {
            // Those who waited for the one who dialled hear how it went.
            if *at >= asked {
                return Err(why.clone());
            }
            sleep_until(*at + dialled.pause).await;
        }
        match self.dial().await {
            Ok(line) => {
                *dialled = Dialled::default();
                let line = Arc::new(Line { line, answers: AtomicU64::new(0) });
                self.up.store(Some(line.clone()));
                Ok(line)
            }
            Err(why) => {
                dialled.failed = Some((Instant::now(), why.clone()));
                dialled.pause = (dialled.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                Err(why)
            }
        }
    }

    async fn dial(&self) -> Result<D::Line, String> {
        timeout(CONNECT_TIME, self.dialect.dial()).await.unwrap_or_else(|_| {
            Err(format!("could not connect within {}", format_duration(CONNECT_TIME)))
        })
    }

    /// Has a connection made anew, if it is still the one in use.
    fn lose(&self, line: &Arc<Line<D::Line>>) {
        self.up.compare_and_swap(line, None);
    }
}

impl<L> Line<L> {
    fn count(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

/// Somebody who waits for the broker's word, and may be made to give up.
struct Waiting<'a, D: Dialect> {
    link: &'a Link<D>,
    line: &'a Arc<Line<D::Line>>,
    begun_at: u64,
    over: bool,
}

impl<D: Dialect> Drop for Waiting<'_, D> {
    fn drop(&mut self) {
        // A broker that is slow answers others meanwhile. One that says nothing at all may be gone
        // without a word, and then no connection would ever break.
        if !self.over && self.line.count() == self.begun_at {
            self.link.lose(self.line);
        }
    }
}
