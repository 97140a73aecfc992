//! The conformance suite: what every store must do, as named cases on a simulated clock.
//!
//! A store is proven by running [`cases`] over its [`Subject`]. What a store promises beyond that,
//! surviving a restart, say, is a test of its own: [`Trial`] has the words for it.

mod add;
mod archive;
mod browse;
mod change;
mod clock;
mod forecast;
mod kv;
mod lease;
mod limit;
mod moved;
mod pop;
mod push;
mod quota;
mod repeat;
mod restore;
mod retry;
mod settle;
mod stats;
mod story;
mod topic;
pub mod trial;
mod wait;

pub use trial::Trial;

use std::pin::Pin;

use crate::queue::Queue;
use crate::store::Options;

/// A kind of store, and how to open an empty one.
///
/// ```
/// use linger::store::Options;
/// use linger::store::memory::Memory;
/// use linger::testkit::conformance::{Subject, cases};
///
/// #[derive(Clone)]
/// struct InMemory;
///
/// impl Subject for InMemory {
///     type Store = Memory;
///
///     async fn open(&self, options: Options) -> Memory {
///         Memory::new(options)
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() {
/// for case in cases::<InMemory>() {
///     # if !case.name.starts_with("add::") { continue }
///     case.run(InMemory).await;
/// }
/// # }
/// ```
pub trait Subject: Clone + Send + Sync + 'static {
    /// The store.
    type Store: Queue;

    /// An empty store that goes by these options.
    fn open(&self, options: Options) -> impl Future<Output = Self::Store> + Send;
}

/// One thing that every store must do.
pub struct Case<S: Subject> {
    /// What it must do: the file's subject and the fact.
    pub name: String,
    run: Run<S>,
}

type Run<S> = fn(Trial<S>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

impl<S: Subject> Case<S> {
    /// Runs the case on an empty store; panics if the store does otherwise.
    pub async fn run(&self, subject: S) {
        (self.run)(Trial::open(subject, |_| {}).await).await;
    }
}

/// Every case there is.
pub fn cases<S: Subject>() -> Vec<Case<S>> {
    [
        add::cases(),
        archive::cases(),
        pop::cases(),
        push::cases(),
        quota::cases(),
        wait::cases(),
        lease::cases(),
        settle::cases(),
        change::cases(),
        retry::cases(),
        repeat::cases(),
        restore::cases(),
        clock::cases(),
        browse::cases(),
        forecast::cases(),
        kv::cases(),
        limit::cases(),
        moved::cases(),
        stats::cases(),
        story::cases(),
        topic::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Declares the cases of one file: each is a function, and `cases` lists them all, so that none
/// can be forgotten.
macro_rules! suite {
    ($($(#[doc = $doc:literal])* async fn $name:ident($trial:ident) $body:block)+) => {
        $($(#[doc = $doc])*
        async fn $name<S: $crate::testkit::conformance::Subject>(
            $trial: $crate::testkit::conformance::Trial<S>,
        ) $body)+

        pub(super) fn cases<S: $crate::testkit::conformance::Subject>()
        -> Vec<$crate::testkit::conformance::Case<S>> {
            vec![$($crate::testkit::conformance::Case {
                name: $crate::testkit::conformance::case_name(module_path!(), stringify!($name)),
                run: |trial| Box::pin($name(trial)),
            }),+]
        }
    };
}
pub(crate) use suite;

/// `linger::testkit::conformance::add` and `a_fact` make `add::a_fact`.
pub(crate) fn case_name(module: &str, fact: &str) -> String {
    let file = module.rsplit("::").next().unwrap_or(module);
    format!("{file}::{fact}")
}
