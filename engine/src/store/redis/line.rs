//! Calls on a clock that is given: one after the other, each as one step in time.
//!
//! First comes what the clock has brought, then the call, then whatever that made possible for those who
//! wait.

use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::core::Core;
use super::pop::{HungUp, Waiting, stopping};
use crate::error::Result;
use crate::queue::{Ask, Delivery};
use crate::time::{Bell, Now, Wake};

/// Where calls stand in line.
pub(super) struct Line {
    core: Arc<Core>,
    tasks: mpsc::UnboundedSender<Task>,
    timer: Option<JoinHandle<()>>,
    bell: Arc<Bell>,
}

type Doing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something to be done, at the moment it was asked for.
struct Task {
    at: Now,
    what: What,
}

enum What {
    Do(Box<dyn FnOnce(Arc<Core>) -> Doing + Send>),
    /// The clock has brought something.
    Look,
    Stop,
}

impl Line {
    pub(super) fn start(core: Arc<Core>) -> Line {
        let (tasks, inbox) = mpsc::unbounded_channel();
        let bell = Arc::new(Bell::default());
        let (armed, arms) = std::sync::mpsc::channel();
        let timer = std::thread::Builder::new().name("linger-timer".into()).spawn({
            let (core, bell, tasks) = (core.clone(), bell.clone(), tasks.clone());
            move || keep_time(&core, &bell, &tasks, &arms)
        });
        tokio::spawn(work(core.clone(), inbox, bell.clone(), armed));
        Line { core, tasks, timer: Some(timer.expect("a thread can be started")), bell }
    }

    /// Has something done, in turn.
    pub(super) async fn call<T: Send + 'static, F, Fut>(&self, act: F) -> Result<T>
    where
        F: FnOnce(Arc<Core>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        self.put(move |core| {
            let doing = act(core);
            Box::pin(async move {
                let _ = sender.send(doing.await);
            })
        });
        answer.await.unwrap_or_else(|_| Err(stopping()))
    }

    pub(super) async fn pop(&self, ask: Ask) -> Result<Vec<Delivery>> {
        let (sender, answer) = oneshot::channel();
        let (told, place) = oneshot::channel();
        self.put(move |core| {
            Box::pin(async move {
                let _ = told.send(core.pop_or_wait(ask, sender).await);
            })
        });
        let hung_up = |call: HungUp| {
            self.put(move |core| Box::pin(async move { call.see_to(&core).await }));
        };
        let answer = Waiting::new(answer, place, hung_up).answer().await;
        answer.unwrap_or_else(|| Err(stopping()))
    }

    fn put(&self, task: impl FnOnce(Arc<Core>) -> Doing + Send + 'static) {
        let at = self.core.clock.now();
        let _ = self.tasks.send(Task { at, what: What::Do(Box::new(task)) });
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let _ = self.tasks.send(Task { at: self.core.clock.now(), what: What::Stop });
        self.bell.ring();
        // It ends by itself when it sees that nobody listens any more.
        drop(self.timer.take());
    }
}

/// Does one task after the other.
async fn work(
    core: Arc<Core>,
    mut inbox: mpsc::UnboundedReceiver<Task>,
    bell: Arc<Bell>,
    armed: std::sync::mpsc::Sender<Wake>,
) {
    while let Some(task) = inbox.recv().await {
        core.set_moment(task.at);
        match task.what {
            What::Stop => return,
            What::Look => look(&core).await,
            What::Do(task) => {
                look(&core).await;
                task(core.clone()).await;
                serve(&core).await;
            }
        }
        let _ = armed.send(core.next_wake());
        bell.ring();
    }
}

/// Does what the clock has brought.
async fn look(core: &Arc<Core>) {
    if let Err(error) = core.tick().await {
        tracing::warn!(%error, "what the clock has brought could not be done");
    }
    serve(core).await;
    core.end_waits().await;
    serve(core).await;
}

async fn serve(core: &Arc<Core>) {
    if let Err(error) = core.serve().await {
        tracing::warn!(%error, "those who wait could not be served");
    }
}

/// Sleeps until the clock brings the next thing, for as long as the line is there.
fn keep_time(
    core: &Core,
    bell: &Arc<Bell>,
    tasks: &mpsc::UnboundedSender<Task>,
    arms: &std::sync::mpsc::Receiver<Wake>,
) {
    let mut wake = Wake::default();
    while !tasks.is_closed() {
        core.clock.park(bell, wake);
        match arms.try_iter().last() {
            Some(next) => wake = next,
            // Nobody has said when to look again: it is time.
            None => {
                wake = Wake::default();
                let _ = tasks.send(Task { at: core.clock.now(), what: What::Look });
            }
        }
    }
}
