//! Measures Linger, beside what the machine could do and beside others. See `README.md`.

mod args;
mod bare;
mod beanstalk;
mod child;
mod client;
mod compare;
mod consumer;
mod disk;
mod engine;
mod grpc;
mod http;
mod load;
mod machine;
mod plot;
mod process;
mod push;
mod redis;
mod report;
mod run;
mod server;
mod spread;
mod tools;
mod work;

use std::process::ExitCode;

use args::Command;

/// Whatever went wrong, as text for the one who runs this.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let done = match args::parse() {
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            Ok(())
        }
        Ok(Command::Engine(args)) => engine::run(&args),
        Ok(Command::Http(args)) => http::run(&args),
        Ok(Command::Grpc(args)) => grpc::run(&args),
        Ok(Command::Beanstalk(args)) => beanstalk::run(&args),
        Ok(Command::Push(args)) => push::run(&args),
        Ok(Command::Redis(args)) => redis::run(&args),
        Ok(Command::Compare(args)) => compare::run(&args),
        Ok(Command::Plot { files, out, into }) => {
            plot::run(&files, out.as_deref(), into.as_deref())
        }
        Ok(Command::Child { folder, segment_bytes }) => child::run(&folder, segment_bytes),
        Err(wrong) => {
            eprintln!("linger-bench: {wrong}; see linger-bench --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("linger-bench: {wrong}");
            ExitCode::FAILURE
        }
    }
}
