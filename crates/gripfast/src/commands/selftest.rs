//! `gripfast selftest`: the whole way of a repository, on a temporary node or on a running one.

mod remote;
mod report;
mod temporary;

use anyhow::bail;

use self::report::Report;
use crate::{
    cli::NodeRequest,
    config::{self, ProcessEnvironment},
};

/// Tries everything and prints a report; fails if anything did.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(request: &NodeRequest) -> anyhow::Result<()> {
    let mut report = Report::new(request.json);
    if let Some(url) = &request.url {
        remote::run(url, &mut report).await?;
    } else {
        let settings = config::load(&request.flags, &ProcessEnvironment)?.settings;
        temporary::run(&settings.storage.git_program, &mut report).await?;
    }
    report.print_end();
    match report.failed() {
        0 => Ok(()),
        1 => bail!("1 check failed"),
        n => bail!("{n} checks failed"),
    }
}
