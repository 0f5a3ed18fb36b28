//! `gripfast import-ngit-grasp`: moving in from ngit-grasp while both servers are stopped.

use anyhow::bail;

use crate::{
    cli::NodeRequest,
    config::{self, ProcessEnvironment},
    node::{
        self,
        import::{self, Directories, Report},
    },
};

/// Takes over repositories and events, or says what there is.
pub(crate) fn run(request: &NodeRequest, from: &Directories, dry_run: bool) -> anyhow::Result<()> {
    node::narrow_umask();
    let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
    if settings.storage.amnesia {
        bail!("amnesia keeps nothing, so nothing can be moved in");
    }
    let report = if dry_run {
        import::look(from, &settings)?
    } else {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(import::run(from, &settings))?
    };
    if request.json {
        anstream::println!("{:#}", serde_json::json!(report));
    } else {
        anstream::print!("{}", render(&report, dry_run));
    }
    Ok(())
}

fn render(report: &Report, dry_run: bool) -> String {
    let (repositories, events) = (&report.repositories, &report.events);
    let mut out = format!("a directory of ngit-grasp {}\n", report.layout);
    if dry_run {
        out += &format!(
            "repositories  {} found, {} here already\nevents        {} found\n",
            repositories.found, repositories.already_here, events.found
        );
    } else {
        out += &format!(
            "repositories  {} found, {} taken, {} here already\n\
             events        {} found, {} taken, {} waiting for git data, {} here already\n",
            repositories.found,
            repositories.taken,
            repositories.already_here,
            events.found,
            events.taken,
            events.held,
            events.already_here
        );
        let differing = report.differing_refs.len();
        out += &format!("refs          {differing} differ from what was there\n");
    }
    if report.key_taken {
        out += "key           taken over\n";
    }
    for line in &report.differing_refs {
        out += &format!("  {line}\n");
    }
    if !report.skipped.is_empty() {
        out += "left out\n";
    }
    for (why, count) in &report.skipped {
        out += &format!("  {count:>6}  {why}\n");
    }
    if dry_run {
        out += "nothing was changed; leave out --dry-run to take everything over\n";
    }
    out
}
