//! Every store must pass the conformance suite, case by case.

use libtest_mimic::{Arguments, Trial};
use linger::store::Options;
use linger::store::memory::Memory;
use linger::testkit::conformance::{Subject, cases};

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
                runtime.block_on(case.run(subject));
                Ok(())
            })
        })
        .collect()
}
