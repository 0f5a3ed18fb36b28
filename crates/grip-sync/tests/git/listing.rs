//! Refs of other servers, without their data.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Result, ensure};
use grip_sync::{DownloadBudget, DownloadLimits, Meter, Spent};
use grip_testkit::{Author, WorkTree, remote::RemoteHost};
use grip_types::{Owner, RefName};
use url::Url;

use crate::support::*;

fn payer() -> Owner {
    Owner {
        key: Author::new().pubkey().to_bytes(),
        is_served: true,
    }
}

/// The author who announced a clone URL pays for what its server sends, and for no other server.
#[tokio::test]
async fn who_named_a_server_pays_for_the_refs_that_it_lists() -> Result<()> {
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let main = tree.tip("HEAD")?;
    let url = Url::parse(&host.host(&tree, "x.git")?)?;
    let names = BTreeSet::from([RefName::parse("refs/heads/main")?]);
    let desk = Desk::new();
    let budget = Arc::new(DownloadBudget::new(DownloadLimits {
        per_author: 10,
        ..DownloadLimits::default()
    }));
    let (one, other) = (payer(), payer());
    for payer in [one, other] {
        let meter = Meter::of_look(payer, &budget)?;
        let refs = desk.fetch.list_refs(&url, &names, &meter).await?;
        ensure!(refs.values().eq([&parse(&main)]), "{refs:?}");
        ensure!(meter.received() > 10, "{} bytes came", meter.received());
        ensure!(Meter::of_look(payer, &budget).err() == Some(Spent::Author));
    }
    ensure!(Meter::of_look(payer(), &budget).is_ok());
    Ok(())
}
