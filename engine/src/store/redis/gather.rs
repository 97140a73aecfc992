//! Puts into one call what many callers ask for at the same time: Redis is given less to do by it than
//! by a call each.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::core::Core;
use super::pop::stopping;
use crate::error::Result;

/// How many jobs a call is about at most, so that nobody waits long behind it.
const JOBS_MAX: usize = 128;

/// Something that can be asked for along with others.
pub(super) trait Shared: Sized + Send + 'static {
    /// What those that go into one call have in common.
    type Of: Clone + Eq + Hash + Send + Sync + 'static;
    type Answer: Send + 'static;
    /// How many calls are under way for the same: while Redis does one, the next is made ready here. The
    /// fewer, the more share one.
    const UNDER_WAY_MAX: usize;

    /// Where those that wait for the next call stand.
    fn gather(core: &Core) -> &Gather<Self>;

    /// How many jobs it is about.
    fn jobs(&self) -> usize;

    /// Does them in one call; answers each.
    fn call(
        core: &Arc<Core>,
        of: &Self::Of,
        asks: Vec<Self>,
    ) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;

    /// Sees to an answer whose caller is gone.
    fn unwanted(_core: &Arc<Core>, _answer: Self::Answer) -> impl Future<Output = ()> + Send {
        async {}
    }
}

/// What waits for the next call.
pub(super) struct Gather<T: Shared> {
    lines: Mutex<HashMap<T::Of, Line<T>>>,
}

struct Line<T: Shared> {
    asks: VecDeque<Ask<T>>,
    under_way: usize,
}

type Ask<T> = (T, oneshot::Sender<Result<<T as Shared>::Answer>>);

/// A caller. Dropped, it leaves no answer behind that nobody sees to.
struct Caller<'a, T: Shared> {
    core: &'a Arc<Core>,
    /// Callers may be dropped where there is none.
    runtime: Handle,
    answer: oneshot::Receiver<Result<T::Answer>>,
}

impl<T: Shared> Drop for Caller<'_, T> {
    fn drop(&mut self) {
        // From here on whoever answers is told that nobody is there; it may have come just before.
        self.answer.close();
        if let Ok(Ok(answer)) = self.answer.try_recv() {
            let core = self.core.clone();
            self.runtime.spawn(async move { T::unwanted(&core, answer).await });
        }
    }
}

impl<T: Shared> Default for Gather<T> {
    fn default() -> Gather<T> {
        Gather { lines: Mutex::default() }
    }
}

impl<T: Shared> Gather<T> {
    /// Puts it in line; whether a call more is to be made, or those under way see to it.
    fn join(&self, of: &T::Of, ask: Ask<T>) -> bool {
        let lines = &mut *self.lines.lock().expect("nobody panics holding them");
        let new = || Line { asks: VecDeque::new(), under_way: 0 };
        let line = lines.entry(of.clone()).or_insert_with(new);
        line.asks.push_back(ask);
        let is_free = line.under_way < T::UNDER_WAY_MAX;
        line.under_way += usize::from(is_free);
        is_free
    }

    /// What the next call is about, if somebody waits for it.
    fn next(&self, of: &T::Of) -> Option<Vec<Ask<T>>> {
        let lines = &mut *self.lines.lock().expect("nobody panics holding them");
        let line = lines.get_mut(of).expect("it is there while a call is under way");
        if !line.asks.is_empty() {
            return Some(line.take());
        }
        line.under_way -= 1;
        if line.under_way == 0 {
            lines.remove(of);
        }
        None
    }
}

impl<T: Shared> Line<T> {
    fn take(&mut self) -> Vec<Ask<T>> {
        let (mut count, mut jobs) = (0, 0);
        for (ask, _) in &self.asks {
            jobs += ask.jobs();
            if count > 0 && jobs > JOBS_MAX {
                break;
            }
            count += 1;
        }
        self.asks.drain(..count).collect()
    }
}

impl Core {
    /// Asks, with those who ask for the same at this time.
    ///
    /// Cancel safe: what is answered to a caller that is dropped is `unwanted`.
    pub(super) async fn with_others<T: Shared>(
        self: &Arc<Self>,
        of: T::Of,
        ask: T,
    ) -> Result<T::Answer> {
        let (sender, answer) = oneshot::channel();
        if T::gather(self).join(&of, (ask, sender)) {
            // By itself: whoever came first may hang up, and the others want their answers.
            tokio::spawn(self.clone().call_on::<T>(of));
        }
        let mut caller = Caller::<T> { core: self, runtime: Handle::current(), answer };
        (&mut caller.answer).await.unwrap_or_else(|_| Err(stopping()))
    }

    async fn call_on<T: Shared>(self: Arc<Self>, of: T::Of) {
        loop {
            // Those who were answered at the same moment ask again at the same moment: let them.
            tokio::task::yield_now().await;
            let Some(asks) = T::gather(&self).next(&of) else { return };
            let (asks, callers): (Vec<_>, Vec<_>) = asks.into_iter().unzip();
            match T::call(&self, &of, asks).await {
                Ok(answers) => {
                    for (caller, answer) in callers.into_iter().zip(answers) {
                        if let Err(Ok(answer)) = caller.send(Ok(answer)) {
                            T::unwanted(&self, answer).await;
                        }
                    }
                }
                Err(error) => {
                    for caller in callers {
                        let _ = caller.send(Err(error.clone()));
                    }
                }
            }
        }
    }
}
