//! The gripfast binary: command line, configuration, wiring, signals.

mod admin_token;
mod cli;
mod commands;
mod config;
mod failure;
mod logging;
mod node;
mod private_file;

use std::process::ExitCode;

use cli::Command;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("nothing was installed before the first statement");
    let outcome = match cli::parse(std::env::args_os()) {
        Ok(Command::Serve(flags)) => commands::serve::run(flags),
        Ok(Command::Config(request)) => commands::config::run(request),
        Ok(Command::Explain(request)) => commands::explain::run(request),
        Ok(Command::Sync(request, action)) => commands::sync::run(request, action),
        Ok(Command::Purgatory(request, action)) => commands::purgatory::run(request, action),
        Ok(Command::Queue(request, action)) => commands::queue::run(request, action),
        Ok(Command::Index(request, action)) => commands::index::run(request, action),
        Ok(Command::Ingest(request, action)) => commands::ingest::run(request, action),
        Ok(Command::Resolve(request)) => commands::resolve::run(request),
        Ok(Command::Healthcheck(request)) => commands::healthcheck::run(request),
        Ok(Command::Completions(shell)) => commands::completions::run(shell),
        Ok(Command::Version { json }) => commands::version::run(json),
        Err(shown) => return cli::show(&shown),
    };
    outcome.map_or_else(failure::report, |()| ExitCode::SUCCESS)
}
