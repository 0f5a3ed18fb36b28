#![doc = include_str!("../README.md")]

mod admin_token;
mod backup;
mod cli;
mod commands;
mod config;
mod failure;
mod logging;
mod node;
mod private_file;
mod running;

use std::process::ExitCode;

use clap_complete::Shell;
use cli::{Command, Invocation};
use commands::credential::KeySource;
use config::{Flags, ProcessEnvironment};
use node::import::Directories;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    use_small_pages();
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("nothing was installed before the first statement");
    let Invocation { command, node } = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(shown) => return cli::show(&shown),
    };
    let outcome = match command {
        Command::Serve => serve(node.flags),
        Command::Config { service: true, .. } => commands::config::run_service(&node),
        Command::Config { docs, .. } => commands::config::run(&node, docs.as_deref()),
        Command::Status => commands::status::run(&node),
        Command::Selftest => commands::selftest::run(&node),
        Command::Backup(backup) => commands::backup::run(&node, &backup),
        Command::Restore(restore) => commands::restore::run(&node, &restore),
        Command::Explain { subject } => commands::explain::run(&node, &subject),
        Command::Sync(action) => commands::sync::run(node, action),
        Command::Compact => commands::compact::run(&node),
        Command::Holding(action) => commands::holding::run(&node, action),
        Command::Purgatory(action) => commands::purgatory::run(node, action),
        Command::Archive(action) => commands::archive::run(&node, &action),
        Command::Repos(action) => commands::repos::run(&node, action),
        Command::Events(action) => commands::repos::run_events(&node, action),
        Command::Queue(action) => commands::queue::run(node, action),
        Command::Index(action) => commands::index::run(node, action),
        Command::Cluster(action) => commands::cluster::run(&node, action),
        Command::Ingest(action) => commands::ingest::run(node, action),
        Command::RemoteHelper { remote: _, url } => commands::remote_helper::run(&url),
        Command::Pin { key } => commands::pins::pin(&node, &key),
        Command::Unpin { key } => commands::pins::unpin(&node, &key),
        Command::Pins => commands::pins::list(&node),
        Command::Resolve(query) => commands::resolve::run(&node, &query),
        Command::Check {
            full,
            repair,
            from_backup,
        } => commands::check::run(&node, full, repair, from_backup.as_deref()),
        Command::Credential {
            key_file,
            bunker_file,
            operation,
        } => KeySource::named(key_file, bunker_file)
            .and_then(|source| commands::credential::run(&source, &operation)),
        Command::ImportNgitGrasp {
            dry_run,
            key,
            git,
            relay,
        } => {
            let from = Directories { git, relay, key };
            commands::import::run(&node, &from, dry_run)
        }
        Command::Healthcheck => commands::healthcheck::run(&node),
        Command::Completions { shell } => print_completions(shell),
        Command::Man { dir } => commands::man::run(dir.as_deref()),
        Command::Version => commands::version::run(node.json),
    };
    outcome.map_or_else(failure::report, |()| ExitCode::SUCCESS)
}

/// Has memory come in small pages. The allocator asks for huge ones, and a thread that needs a few
/// kilobytes takes two megabytes: of an idle node, they are most of its memory.
fn use_small_pages() {
    // Where it cannot be said, a node needs more memory and is none the worse otherwise.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Runs the node until it is told to stop.
fn serve(flags: Flags) -> anyhow::Result<()> {
    let loaded = config::load(&flags, &ProcessEnvironment)?;
    node::run(flags, loaded)
}

fn print_completions(shell: Shell) -> anyhow::Result<()> {
    let out = &mut std::io::stdout();
    clap_complete::generate(shell, &mut cli::command(), "gripfast", out);
    Ok(())
}
