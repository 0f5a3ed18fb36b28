//! Attempts by the clock: minutes after an event came, ever more rarely while it is held, and every hour once it
//! has expired. Nobody tells the node to make one.

use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Clock, Project, RemoteHost, WorkTree, until_ok};
use serde_json::Value;

use crate::sync::scene::Scene;

const MAIN: &str = "refs/heads/main";
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The clock of a node, and by how many seconds it is ahead.
struct Ahead {
    clock: Clock,
    seconds: i64,
}

impl Ahead {
    /// In unix milliseconds.
    fn now(&self) -> Result<i64> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(i64::try_from(since.as_millis())? + self.seconds * SECOND)
    }

    /// Has the clock show a time that is so much later.
    fn jump(&mut self, by_ms: i64) -> Result<()> {
        self.seconds += (by_ms.max(0) + SECOND - 1) / SECOND;
        self.clock.set_off_by(self.seconds)
    }

    fn jump_to(&mut self, unix_ms: i64) -> Result<()> {
        self.jump(unix_ms - self.now()?)
    }

    /// Waits until no attempt is under way or due within half an hour, having the clock show the time of those
    /// that are; tells when the last is due.
    async fn rest(&mut self, scene: &Scene) -> Result<i64> {
        until_ok("no attempt is due soon", async || {
            let Some(queue) = resting(scene).await? else {
                return Ok(None);
            };
            let due: Vec<i64> = queue
                .iter()
                .filter_map(|it| it["next_attempt"].as_i64())
                .collect();
            let (Some(first), Some(last)) = (due.iter().min(), due.iter().max()) else {
                return Ok(None);
            };
            if *first > self.now()? + HOUR / 2 {
                return Ok(Some(*last));
            }
            if *first > self.now()? {
                self.jump_to(*first)?;
            }
            Ok(None)
        })
        .await
        .with_context(|| format!("log:\n{}", scene.node.log()))
    }
}

/// What is looked for, while no attempt is under way. Timers that are due fire when the node answers.
async fn resting(scene: &Scene) -> Result<Option<Vec<Value>>> {
    let status = scene.node.json("/api/v1/sync").await?;
    let queue = status["queue"].as_array().context("no queue")?;
    let is_resting = queue.iter().all(|it| it["in_progress"] == false);
    Ok(is_resting.then(|| queue.clone()))
}

/// Waits until the only identifier that is looked for was tried so many times; tells when it is due.
async fn attempts(scene: &Scene, count: u64) -> Result<i64> {
    until_ok(&format!("{count} attempts"), async || {
        let queue = resting(scene).await?.unwrap_or_default();
        let entry = queue.first().filter(|it| it["attempts"] == count);
        Ok(entry.and_then(|it| it["next_attempt"].as_i64()))
    })
    .await
    .with_context(|| format!("log:\n{}", scene.node.log()))
}

/// G02-2 and G02-7 for a state, G02-3 for a pull request.
#[tokio::test]
async fn g02_2_3_7_a_state_and_a_pull_request_that_expired_are_looked_for_every_hour() -> Result<()>
{
    let (mut scene, clock) = Scene::by_clock(&[]).await?;
    let mut ahead = Ahead { clock, seconds: 0 };
    let host = RemoteHost::start("127.0.2.71").await?;
    let forks = RemoteHost::start("127.0.2.72").await?;
    let tree = WorkTree::with_commit()?;
    let first = tree.tip("HEAD")?;
    let urls = [host.host(&tree, "x.git")?, host.host(&tree, "y.git")?];
    let fork = forks.host(&tree, "fork.git")?;
    let (project, other) = (Project::new("x"), Project::new("y"));
    for (project, url) in [&project, &other].into_iter().zip(&urls) {
        scene.announce(project, std::slice::from_ref(url)).await?;
        let state = project.state_at(&[(MAIN, &first)], 20);
        scene.hold(&state).await?;
        scene.released(&state).await?;
    }
    let more = tree.commit("more", "1")?;
    let state = scene.hold_state(&project, &more).await?;
    let tip = tree.commit("fix", "better")?;
    let request = Author::new().pull_request(&other.owner, "y", &tip, &fork);
    scene.hold(&request).await?;
    // With those that brought what is served.
    scene.has_tried(&state, 2).await?;
    scene.has_tried(&request, 2).await?;

    ahead.jump(31 * MINUTE)?;
    for event in [&state, &request] {
        scene.is_wanted(event).await?;
    }
    // Looks at the refs of a server that is listed are no attempts.
    let asked = || {
        let requests = host.requests_for("x.git").into_iter();
        let fetches = requests.filter(|it| it.command.as_deref() == Some("fetch"));
        (fetches.count(), forks.count())
    };
    for _ in 0..2 {
        let due = ahead.rest(&scene).await?;
        let within = due - ahead.now()?;
        ensure!(within <= HOUR, "the next attempt is in {within} ms");
        let before = asked();
        ahead.jump(61 * MINUTE)?;
        until_ok("both are looked for once more", async || {
            let now = asked();
            let is_resting = resting(&scene).await?.is_some();
            Ok((is_resting && now.0 > before.0 && now.1 > before.1).then_some(()))
        })
        .await
        .with_context(|| format!("log:\n{}", scene.node.log()))?;
        let now = asked();
        ensure!(now == (before.0 + 1, before.1 + 1), "{before:?}, {now:?}");
    }
    // No connection outlives such jumps.
    scene.relay = scene.node.connect().await?;
    ensure!(!scene.serves(&state).await? && !scene.serves(&request).await?);
    host.take(&tree, "x.git", &[&format!("{more}:{MAIN}")])?;
    forks.take(&tree, "fork.git", &["main"])?;
    ahead.rest(&scene).await?;
    ahead.jump(61 * MINUTE)?;
    scene.released(&state).await?;
    scene.released(&request).await?;
    scene.has_refs(&project, &[(MAIN, &more)]).await?;
    let fresh = WorkTree::init()?;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let url = other.url(&scene.node);
    fresh.run(["fetch", "-q", &url, &name]).await?.text()?;
    ensure!(fresh.tip("FETCH_HEAD")? == tip);
    scene.is_clean(&project).await
}

/// G02-56: three minutes after the event was submitted, then after pauses that double from 20 s to two minutes, a
/// tenth more or less; after a new event from 20 s again.
#[tokio::test]
async fn g02_56_a_submitted_event_is_looked_for_after_three_minutes_and_then_ever_more_rarely()
-> Result<()> {
    let three_minutes = [("NGIT_SYNC_DEFAULT_DELAY_SECS", "180")];
    let (mut scene, clock) = Scene::by_clock(&three_minutes).await?;
    let mut ahead = Ahead { clock, seconds: 0 };
    let host = RemoteHost::start("127.0.2.73").await?;
    let tree = WorkTree::with_commit()?;
    let url = host.host(&tree, "x.git")?;
    let project = Project::new("x");
    scene.announce(&project, &[url]).await?;
    let tips = [tree.commit("more", "1")?, tree.commit("more", "2")?];

    let began = ahead.now()?;
    let state = project.state_at(&[(MAIN, &tips[0])], 20);
    scene.hold(&state).await?;
    let mut due = attempts(&scene, 0).await?;
    let (least, most) = (due - began, due - ahead.now()?);
    ensure!(least >= 3 * MINUTE - SECOND && most <= 3 * MINUTE);
    ensure!(host.count() == 0, "{:?}", host.requests());
    for (before, pause) in (0..).zip([20, 40, 80, 120, 120]) {
        due = next(&scene, &mut ahead, due, before, pause).await?;
        ensure!(host.count() as u64 > before, "{:?}", host.requests());
    }
    scene.relay = scene.node.connect().await?;
    scene.hold_state(&project, &tips[1]).await?;
    due = attempts(&scene, 0).await?;
    for (before, pause) in (0..).zip([20, 40]) {
        due = next(&scene, &mut ahead, due, before, pause).await?;
    }
    Ok(())
}

/// Has the clock show when the next attempt is due, which is one more than `before`, and says when the one
/// after it is: about `pause` seconds after its end.
async fn next(scene: &Scene, ahead: &mut Ahead, due: i64, before: u64, pause: i64) -> Result<i64> {
    ahead.jump_to(due)?;
    let next = attempts(scene, before + 1).await?;
    let (least, most) = (next - due, next - ahead.now()?);
    let tenth = pause * SECOND / 10;
    ensure!(
        least >= 9 * tenth - SECOND && most <= 11 * tenth,
        "{least} to {most} ms are not {pause} s; log:\n{}",
        scene.node.log()
    );
    Ok(next)
}
