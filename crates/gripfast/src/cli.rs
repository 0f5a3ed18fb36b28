//! The command line: what was asked for, and of which node.

mod actions;
mod arguments;
mod commands;
mod help;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgMatches, FromArgMatches as _};

pub(crate) use self::{
    actions::{
        ArchiveAction, ClusterAction, EventsAction, HeldRepository, HoldingAction, IndexAction,
        IngestAction, JobName, PurgatoryAction, QueueAction, ReposAction, SyncAction, WaitingEvent,
    },
    arguments::command,
    commands::{BackupRequest, Command, ResolveQuery, RestoreRequest},
};
use crate::{
    config::{Flags, options},
    failure,
};

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) command: Command,
    pub(crate) node: NodeRequest,
}

/// Which node to ask, and in which form to show its answer.
#[derive(Debug)]
pub(crate) struct NodeRequest {
    pub(crate) flags: Flags,
    pub(crate) url: Option<String>,
    pub(crate) json: bool,
    /// How many entries of a list are wanted.
    pub(crate) limit: Option<usize>,
}

impl NodeRequest {
    /// The parameter of the API for the length of a list; `usual` where nobody says.
    pub(crate) fn limit(&self, usual: usize) -> String {
        self.limit.unwrap_or(usual).to_string()
    }
}

/// Reads the command line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Invocation, clap::Error> {
    let matches = command().try_get_matches_from(with_helper_name(arguments))?;
    // `sync status` and its like have their arguments one level further down.
    let sub = matches.subcommand().map_or(&matches, |(_, sub)| sub);
    let last = sub.subcommand().map_or(sub, |(_, last)| last);
    let url = last.try_get_one::<String>("url").ok().flatten();
    let json = last.try_get_one::<bool>("json").ok().flatten();
    let limit = last.try_get_one::<usize>("limit").ok().flatten();
    let node = NodeRequest {
        flags: flags(&[&matches, sub, last]),
        url: url.cloned(),
        json: json.copied().unwrap_or_default(),
        limit: limit.copied(),
    };
    let command = match matches.subcommand() {
        Some(_) => Command::from_arg_matches(&matches)?,
        None => Command::Serve,
    };
    Ok(Invocation { command, node })
}

/// The arguments, where git has started the remote helper by its name: `git-remote-grip NAME URL`.
fn with_helper_name(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "git-remote-grip") {
        arguments.insert(1, "remote-helper".into());
    }
    arguments
}

/// Prints help and version as asked, and mistakes with the exit code of a usage error.
pub(crate) fn show(error: &clap::Error) -> ExitCode {
    // Without an output there is nothing to report to.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(failure::USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

/// Collects the options given before and after the command; the later place wins.
fn flags(places: &[&ArgMatches]) -> Flags {
    let mut flags = Flags::default();
    for matches in places {
        for option in options::all() {
            if let Ok(Some(text)) = matches.try_get_one::<String>(option.key) {
                flags.values.insert(option.key, text.clone());
            }
        }
        if let Ok(Some(path)) = matches.try_get_one::<PathBuf>("config") {
            flags.config_file = Some(path.clone());
        }
    }
    flags
}
