//! `gripfast import-ngit-grasp`: moving in from ngit-grasp while both servers are stopped.

use anyhow::bail;

use crate::{
    cli::NodeRequest,
    commands::table,
    config::{self, ProcessEnvironment},
    node::{
        self,
        import::{self, Counts, Directories, Report},
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
        table::print(&render(&report, dry_run));
    }
    Ok(())
}

/// What the report counts, in the order in which it is taken.
fn rows(report: &Report) -> [(&'static str, &Counts); 6] {
    [
        ("repositories", &report.repositories),
        ("pull requests below /prs", &report.contributions),
        ("events", &report.events),
        ("replaced versions", &report.history),
        ("removed events", &report.holding),
        ("removed repositories", &report.archives),
    ]
}

fn render(report: &Report, dry_run: bool) -> String {
    let mut out = format!("a directory of ngit-grasp {}\n", report.layout);
    for (name, counts) in rows(report) {
        let Counts {
            found,
            taken,
            already_here,
            held,
        } = counts;
        let mut parts = vec![format!("{found} found")];
        if !dry_run {
            parts.push(format!("{taken} taken"));
        }
        if *held > 0 {
            parts.push(format!("{held} waiting for git data"));
        }
        if !dry_run || *already_here > 0 {
            parts.push(format!("{already_here} here already"));
        }
        out += &format!("{name:<26}{}\n", parts.join(", "));
    }
    if !dry_run {
        let differing = report.differing_refs.len();
        out += &format!("{:<26}{differing} differ from what was there\n", "refs");
    }
    if report.key_taken {
        out += &format!("{:<26}taken over\n", "key");
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
