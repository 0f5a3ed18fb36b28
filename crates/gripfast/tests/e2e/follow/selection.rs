//! Selections of an archive, and settings that contradict each other (GRASP-05).

use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, events::tag};

use super::scene::node_with;
use crate::BINARY;

/// The sysexits code for a wrong configuration.
const WRONG_CONFIGURATION: i32 = 64;

#[tokio::test]
async fn g05_10_settings_that_contradict_an_archive_refuse_to_start() -> Result<()> {
    let services = ("NGIT_ARCHIVE_GRASP_SERVICES", "grasp.example.com");
    let all = ("NGIT_ARCHIVE_ALL", "true");
    let some = ("NGIT_ARCHIVE_WHITELIST", "tides");
    let read_only = ("NGIT_ARCHIVE_READ_ONLY", "true");
    let hosted = ("NGIT_REPOSITORY_WHITELIST", "tides");
    for (env, named) in [
        (vec![services, all], "archive_grasp_services"),
        (vec![services, some], "archive_grasp_services"),
        (vec![read_only], "archive_read_only"),
        (vec![all, hosted], "repository_whitelist"),
        (vec![some, read_only, hosted], "repository_whitelist"),
    ] {
        let mut node = Node::prepare(BINARY, &env)?;
        node.spawn()?;
        let status = node.wait().await?;
        let log = node.log();
        ensure!(status.code() == Some(WRONG_CONFIGURATION), "{env:?}: {log}");
        ensure!(log.contains(named), "{env:?}: {log}");
    }
    Ok(())
}

/// An entry that is wrong is left out with a warning, and selects nothing.
#[tokio::test]
async fn g05_6_a_whitelist_selects_by_key_by_repository_and_by_name_and_warns_of_wrong_entries()
-> Result<()> {
    let [everything, one, stranger] = [0; 3].map(|_| Author::new());
    let list = format!("{},{}/tides,ebb,npub1wrong", everything.npub(), one.npub());
    let node = node_with(&[("NGIT_ARCHIVE_WHITELIST", &list)]).await?;
    ensure!(node.log().contains("npub1wrong"), "{}", node.log());
    let mut relay = node.connect().await?;
    for (author, identifier, is_selected) in [
        (&everything, "tides", true),
        (&everything, "flood", true),
        (&one, "tides", true),
        (&one, "flood", false),
        (&stranger, "ebb", true),
        (&stranger, "tides", false),
        (&stranger, "npub1wrong", false),
    ] {
        let tags = vec![
            tag(["d", identifier]),
            tag(["clone", "https://git.example/x.git"]),
        ];
        let answer = relay.publish(&author.sign(30617, "", tags)).await?;
        ensure!(answer.is_held() == is_selected, "{identifier}: {answer:?}");
        ensure!(answer.accepted == is_selected, "{identifier}: {answer:?}");
    }
    Ok(())
}
