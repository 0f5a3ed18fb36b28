//! Several nodes of one operator, which a host sees as one.

use std::time::Duration;

use anyhow::{Result, ensure};
use grip_testkit::{
    RedisServer, RemoteHost, WorkTree,
    remote::{Behaviour, Gate},
    until_ok, until_true,
};

use crate::sync::scene::Scene;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn three_nodes_with_one_redis_keep_the_limits_of_one() -> Result<()> {
    let mut redis = RedisServer::start().await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    host.host(&tree, "all.git")?;
    let gate = Gate::default();
    host.behave(Behaviour::Hold(gate.clone()));
    let (url, limits) = (redis.url(), "127.0.0.2=4/12");
    let env = [
        ("GRIPFAST_REDIS_URL", url.as_str()),
        ("GRIPFAST_SYNC_HOST_LIMITS", limits),
    ];
    let mut scenes = Vec::new();
    for name in ["a", "b", "c"] {
        let mut scene = Scene::with(&env).await?;
        let names = (0..8).map(|n| format!("{name}-{n}"));
        scene.hold_many(&host, &tip, names).await?;
        scenes.push(scene);
    }
    until_true("four are under way", || host.in_flight() == 4).await?;
    gate.open();
    until_true("the minute is used up", || host.count() == 12).await?;
    until_ok("the others are told to wait", async || {
        let mut waiting = 0;
        for scene in &scenes {
            let status = scene.node.json("/api/v1/sync").await?;
            ensure!(status["throttle"]["backend"] == "redis", "{status}");
            ensure!(status["queue_length"].is_u64(), "{status}");
            waiting += status["queue_length"].as_u64().unwrap_or_default();
        }
        Ok((waiting == 12).then_some(()))
    })
    .await?;
    ensure!(host.count() == 12 && host.max_in_window(MINUTE) == 12);
    ensure!(host.max_in_flight() == 4, "{}", host.max_in_flight());

    redis.kill();
    let ready = until_ok("the node says that Redis cannot be reached", async || {
        let ready = scenes[0].node.get("/readyz").await?;
        Ok(ready.contains("redis").then_some(ready))
    })
    .await?;
    // The share in force is named.
    ready.must_be(200, &["25"]);
    Ok(())
}
