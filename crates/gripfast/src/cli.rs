//! The command line: what was asked for.

mod grammar;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::ArgMatches;
use clap_complete::Shell;

pub(crate) use self::grammar::command;
use crate::{
    config::{Flags, options},
    failure,
};

/// What the person asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Serve(Flags),
    Config(ConfigRequest),
    Explain(ExplainRequest),
    Sync(NodeRequest, SyncAction),
    Purgatory(NodeRequest, PurgatoryAction),
    Queue(NodeRequest, QueueAction),
    Index(NodeRequest, IndexAction),
    Ingest(NodeRequest, IngestAction),
    Resolve(ResolveRequest),
    Healthcheck(HealthcheckRequest),
    Completions(Shell),
    Version { json: bool },
}

#[derive(Debug)]
pub(crate) struct ConfigRequest {
    pub(crate) flags: Flags,
    pub(crate) json: bool,
    pub(crate) docs: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ExplainRequest {
    pub(crate) node: NodeRequest,
    pub(crate) subject: String,
}

#[derive(Debug)]
pub(crate) struct ResolveRequest {
    pub(crate) node: NodeRequest,
    pub(crate) key: String,
    pub(crate) fresh: bool,
    /// Also who has it.
    pub(crate) providers: bool,
}

/// Which node to ask, and in which form to show its answer.
#[derive(Debug)]
pub(crate) struct NodeRequest {
    pub(crate) flags: Flags,
    pub(crate) url: Option<String>,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) enum SyncAction {
    Status,
    /// An identifier, or `npub/identifier`.
    Now(String),
}

#[derive(Debug)]
pub(crate) enum PurgatoryAction {
    Ls,
    Retry(String),
    /// Only with `yes` something is dropped.
    Drop {
        id: String,
        yes: bool,
    },
}

#[derive(Debug)]
pub(crate) enum QueueAction {
    Ls {
        kind: Option<String>,
        state: Option<String>,
    },
    Retry(JobName),
    /// Only with `yes` something is dropped.
    Drop {
        job: JobName,
        yes: bool,
    },
}

#[derive(Debug)]
pub(crate) enum IndexAction {
    Status,
    /// A source or a repository.
    Now(String),
    Repo(String),
}

#[derive(Debug)]
pub(crate) enum IngestAction {
    Status,
    /// Only open ones, unless `all`.
    Gaps {
        all: bool,
    },
    Backfill(Vec<PathBuf>),
    Reextract,
    /// Only with `yes` something goes.
    Retention {
        yes: bool,
    },
}

/// What a job is called.
#[derive(Debug)]
pub(crate) struct JobName {
    pub(crate) kind: String,
    pub(crate) key: String,
}

#[derive(Debug)]
pub(crate) struct HealthcheckRequest {
    pub(crate) flags: Flags,
    pub(crate) url: Option<String>,
}

/// Reads the command line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Command, clap::Error> {
    let matches = command().try_get_matches_from(arguments)?;
    let Some((name, sub)) = matches.subcommand() else {
        return Ok(Command::Serve(flags(&[&matches])));
    };
    // `sync status` and its like have their arguments one level further down.
    let (verb, last) = sub.subcommand().unwrap_or(("", sub));
    let flags = || flags(&[&matches, sub, last]);
    let text = |id: &str| last.get_one::<String>(id).cloned();
    let node = || NodeRequest {
        flags: flags(),
        url: text("url"),
        json: last.get_flag("json"),
    };
    let subject = || text("subject").expect("clap demands it");
    Ok(match name {
        "config" => Command::Config(ConfigRequest {
            flags: flags(),
            json: sub.get_flag("json"),
            docs: text("docs"),
        }),
        "explain" => Command::Explain(ExplainRequest {
            node: node(),
            subject: subject(),
        }),
        "sync" => {
            let action = match verb {
                "now" => SyncAction::Now(subject()),
                _ => SyncAction::Status,
            };
            Command::Sync(node(), action)
        }
        "purgatory" => {
            let action = match verb {
                "retry" => PurgatoryAction::Retry(subject()),
                "drop" => PurgatoryAction::Drop {
                    id: subject(),
                    yes: last.get_flag("yes"),
                },
                _ => PurgatoryAction::Ls,
            };
            Command::Purgatory(node(), action)
        }
        "queue" => {
            let job = || JobName {
                kind: text("kind").expect("clap demands it"),
                key: text("key").expect("clap demands it"),
            };
            let action = match verb {
                "retry" => QueueAction::Retry(job()),
                "drop" => QueueAction::Drop {
                    job: job(),
                    yes: last.get_flag("yes"),
                },
                _ => QueueAction::Ls {
                    kind: text("kind"),
                    state: text("state"),
                },
            };
            Command::Queue(node(), action)
        }
        "index" => {
            let action = match verb {
                "now" => IndexAction::Now(subject()),
                "repo" => IndexAction::Repo(subject()),
                _ => IndexAction::Status,
            };
            Command::Index(node(), action)
        }
        "ingest" => {
            let files = || last.get_many::<PathBuf>("file").into_iter().flatten();
            let action = match verb {
                "gaps" => IngestAction::Gaps {
                    all: last.get_flag("all"),
                },
                "backfill" => IngestAction::Backfill(files().cloned().collect()),
                "reextract" => IngestAction::Reextract,
                "retention" => IngestAction::Retention {
                    yes: last.get_flag("yes"),
                },
                _ => IngestAction::Status,
            };
            Command::Ingest(node(), action)
        }
        "resolve" => Command::Resolve(ResolveRequest {
            node: node(),
            key: subject(),
            fresh: last.get_flag("fresh"),
            providers: last.get_flag("providers"),
        }),
        "healthcheck" => Command::Healthcheck(HealthcheckRequest {
            flags: flags(),
            url: text("url"),
        }),
        "completions" => {
            Command::Completions(*sub.get_one::<Shell>("shell").expect("clap demands it"))
        }
        "version" => Command::Version {
            json: sub.get_flag("json"),
        },
        _ => Command::Serve(flags()),
    })
}

/// Prints help and version as asked, and mistakes with the exit code of a usage error.
pub(crate) fn show(error: &clap::Error) -> ExitCode {
    // Nowhere to print to leaves nothing to say.
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
