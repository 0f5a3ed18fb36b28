//! Log lines of a search, and their levels.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{http::must_contain, remote::Behaviour, until_ok};
use serde_json::Value;

use crate::sync::scene::Scene;

/// The lines that say `message`, as JSON.
fn lines(scene: &Scene, message: &str) -> Vec<Value> {
    let log = scene.node.log();
    let lines = log.lines().filter(|line| line.contains(message));
    let lines = lines.filter_map(|line| serde_json::from_str(line).ok());
    lines.collect()
}

fn of_level(lines: &[Value], level: &str) -> usize {
    let is_of = |line: &&Value| line["level"] == level;
    lines.iter().filter(is_of).count()
}

#[tokio::test]
async fn a_host_that_fails_is_warned_of_once_and_what_it_brings_in_the_end_is_told() -> Result<()> {
    let loud = [("NGIT_LOG_LEVEL", "debug"), ("GRIPFAST_LOG_FORMAT", "json")];
    let (mut scene, project) = Scene::with_remote(&loud).await?;
    let host = &project.host;
    host.behave(Behaviour::status(404));
    let state = scene.hold_remote(&project).await?;
    scene.has_tried(&state, 1).await?;
    scene.sync_now(&project).await?;
    scene.has_tried(&state, 2).await?;
    host.behave(Behaviour::Serve);
    scene.sync_now(&project).await?;
    scene.released(&state).await?;

    let fetched = until_ok("the end in the log", async || {
        let ended = lines(&scene, "fetched all missing objects");
        let fetched = lines(&scene, "fetched objects");
        Ok((!ended.is_empty()).then_some(fetched))
    })
    .await
    .with_context(|| scene.node.log())?;
    ensure!(of_level(&fetched, "INFO") == 1, "{fetched:?}");
    let told = fetched[0].to_string();
    must_contain(&told, &["\"oids\":1", "127.0.0.2"]);
    let failed = lines(&scene, "failed to fetch");
    let (warned, told) = (of_level(&failed, "WARN"), of_level(&failed, "DEBUG"));
    ensure!((warned, told) == (1, 1), "{failed:?}");
    let asked = lines(&scene, "asking a URL");
    ensure!(
        (asked.len(), of_level(&asked, "DEBUG")) == (3, 3),
        "{asked:?}"
    );
    Ok(())
}
