//! Nodes that serve the same repositories: real binaries on one Postgres server and one store of packs.

/// Makes tests of stories: each with packs in a directory, and in a bucket of an S3 server.
macro_rules! on_both_stores {
    ($($story:ident)*) => {
        mod directory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() -> anyhow::Result<()> {
                super::$story($crate::cluster::scene::Packs::directory()?).await
            })*
        }

        mod s3 {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $story() -> anyhow::Result<()> {
                super::$story($crate::cluster::scene::Packs::s3().await?).await
            })*
        }
    };
}

mod adoption;
mod balanced;
mod cache;
mod checker;
mod collection;
mod failover;
mod faults;
mod history;
mod join;
mod scene;
mod snapshots;
mod starts;
mod stories;
