//! The cases of GRASP-01, GRASP-02, GRASP-03, GRASP-05 and GRASP-06 against the real binary, a fresh node for each.

use std::{pin::Pin, sync::Arc};

use anyhow::{Result, bail};
use grip_conformance::{Case, Control, Outcome, Target};
use grip_testkit::Node;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::sync::Mutex;

/// The node behind the URL, which a case may restart with other settings.
struct Owned(Mutex<Node>);

impl Control for Owned {
    fn crash_and_restart<'a>(
        &'a self,
        env: &'a [(&'a str, &'a str)],
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let mut node = self.0.lock().await;
            for (key, value) in env {
                node.set_env(key, value);
            }
            node.crash_and_restart().await
        })
    }
}

async fn run(case: Case) -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_gripfast")).await?;
    let url = node.http_url();
    let owned = Arc::new(Owned(Mutex::new(node)));
    let target = Target::new(&url, reqwest::Client::new())?.with_control(owned.clone());
    match case.run(&target).await {
        Outcome::Passed => Ok(()),
        Outcome::LeftOut => bail!("no case may be left out here"),
        Outcome::Failed(error) => {
            Err(error.context(format!("log of the node:\n{}", owned.0.lock().await.log())))
        }
    }
}

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("installed once");
    let arguments = Arguments::from_args();
    let trial = |case: Case| {
        Trial::test(case.name(), move || {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime
                .block_on(run(case))
                .map_err(|error| Failed::from(format!("{error:?}")))
        })
    };
    let trials = grip_conformance::all().into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit();
}
