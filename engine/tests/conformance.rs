//! Every store must pass the conformance suite, case by case.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use linger::store::Options;
use linger::store::memory::Memory;
use linger::testkit::conformance::{Subject, cases};

/// Far more than any case takes: one that hangs is to fail by its name.
const CASE_MAX: Duration = Duration::from_secs(60);

fn main() {
    let tests = suite("memory", InMemory);
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

#[derive(Clone)]
struct InMemory;

impl Subject for InMemory {
    type Store = Memory;

    async fn open(&self, options: Options) -> Memory {
        Memory::new(options)
    }
}

/// One test for each case, under the store's name.
fn suite<S: Subject>(store: &str, subject: S) -> Vec<Trial> {
    cases::<S>()
        .into_iter()
        .map(|case| {
            let subject = subject.clone();
            Trial::test(format!("{store}::{}", case.name), move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    tokio::time::timeout(CASE_MAX, case.run(subject))
                        .await
                        .map_err(|_| "it waits for what never comes".into())
                })
            })
        })
        .collect()
}
