//! `check --repair` over many repositories: damage is found, what can be repaired is, and nothing
//! sound is touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Node, Project, RemoteHost, WorkTree,
    damage::{DAMAGE, Damage, Files, Repair},
    git, until_ok,
};
use serde_json::Value;

use crate::{BINARY, sync::scene::Scene};

/// Repositories of a short run: each kind of damage once, and as many that are sound.
const SHORT: usize = 2 * DAMAGE.len();
/// Checks in a row after which nothing more is expected to come back.
const IDLE_CHECKS: usize = 20;

/// How many repositories there are; the campaign sets it.
fn repositories() -> usize {
    let set = std::env::var("GRIPFAST_REPAIR_REPOSITORIES").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(SHORT)
}

struct Hosted {
    project: Project,
    files: Files,
    /// None for a sound one, with what it had before.
    damage: Option<&'static Damage>,
    contents: Vec<(PathBuf, Vec<u8>)>,
}

impl Hosted {
    /// As the check names it.
    fn name(&self) -> String {
        self.project.path().trim_start_matches('/').to_owned()
    }
}

/// Publishes repositories that all have the same commit; a server elsewhere has it too.
async fn publish(scene: &mut Scene, host: &RemoteHost, tree: &WorkTree) -> Result<Vec<Hosted>> {
    let mut all = Vec::new();
    for n in 0..repositories() {
        let damage = (n % 2 == 0).then(|| &DAMAGE[n / 2 % DAMAGE.len()]);
        let elsewhere = [host.clone_url("all.git")];
        all.push(publish_one(scene, tree, n, &elsewhere, damage).await?);
    }
    Ok(all)
}

/// Publishes one repository, which other servers may have too.
async fn publish_one(
    scene: &mut Scene,
    tree: &WorkTree,
    n: usize,
    elsewhere: &[String],
    damage: Option<&'static Damage>,
) -> Result<Hosted> {
    let tip = tree.tip("HEAD")?;
    let project = Project::new(&format!("r{n:04}"));
    let node = &scene.node;
    let announcement = project.announcement_at(&[node], elsewhere, 60);
    scene.relay.publish_ok(&announcement).await?;
    let state = project.state_at(&[("refs/heads/main", &tip)], 60);
    scene.relay.publish_ok(&state).await?;
    tree.push_ok(&project.url(node), &["main"]).await?;
    let files = Files::of(&project, node);
    Ok(Hosted {
        contents: Vec::new(),
        project,
        files,
        damage,
    })
}

/// What the check finds, by repository; whether it was satisfied.
async fn check(scene: &Scene, arguments: &[&str]) -> Result<(BTreeMap<String, Vec<Value>>, bool)> {
    let arguments = [&["check", "--full", "--json"], arguments].concat();
    let output = scene.node.command(&arguments).output().await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_str(&text)
        .with_context(|| format!("{text}{}", String::from_utf8_lossy(&output.stderr)))?;
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for one in report["disagreements"].as_array().into_iter().flatten() {
        let name = one["repository"].as_str().context("a name")?.to_owned();
        found.entry(name).or_default().push(one.clone());
    }
    Ok((found, output.status.success()))
}

#[tokio::test]
async fn check_repairs_what_can_be_repaired_and_touches_nothing_else() -> Result<()> {
    // Nothing is fetched before the check says so, and no sweep comes between.
    let settings = [
        ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1h"),
        ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "100000"),
        ("GRIPFAST_SYNC_DOMAIN_RATE_LIMIT", "100000"),
        ("GRIPFAST_SYNC_NETWORK_RATE_LIMIT", "100000"),
    ];
    let mut scene = Scene::with(&settings).await?;
    let tree = WorkTree::with_commit()?;
    tree.commit("more", "of it")?;
    let host = RemoteHost::start("127.0.0.2").await?;
    host.host(&tree, "all.git")?;
    let mut all = publish(&mut scene, &host, &tree).await?;
    let (found, is_sound) = check(&scene, &[]).await?;
    ensure!(is_sound && found.is_empty(), "before any damage: {found:?}");
    for hosted in &mut all {
        match hosted.damage {
            Some(damage) => damage.harm(&hosted.files)?,
            None => hosted.contents = hosted.files.contents()?,
        }
    }

    // All are found, and nothing else.
    let began = Instant::now();
    let (found, is_sound) = check(&scene, &[]).await?;
    let (looked, damaged) = (began.elapsed(), found.len());
    ensure!(!is_sound);
    let is_found = |hosted: &&Hosted| found.contains_key(&hosted.name());
    let is_silent = |it: Repair| matches!(it, Repair::WhenRead | Repair::Needless);
    let is_named = |it: &&Hosted| it.damage.is_some_and(|it| !is_silent(it.repair));
    let missed = all.iter().filter(|it| is_named(it) && !is_found(it));
    let missed: Vec<_> = missed.filter_map(|it| Some(it.damage?.name)).collect();
    ensure!(missed.is_empty(), "not found: {missed:?}");
    let accused = all.iter().filter(|it| it.damage.is_none() && is_found(it));
    let accused: Vec<_> = accused.map(|it| &found[&it.name()]).collect();
    ensure!(accused.is_empty(), "sound: {accused:?}");

    // What events or another server can bring back comes back; the rest stays named.
    let began = Instant::now();
    check(&scene, &["--repair"]).await?;
    let by_hand: BTreeSet<String> = all
        .iter()
        .filter(|hosted| hosted.damage.is_some_and(|it| it.repair == Repair::ByHand))
        .map(Hosted::name)
        .collect();
    let (mut left, mut idle): (BTreeSet<String>, _) = (found.into_keys().collect(), 0);
    while left != by_hand {
        let (found, _) = check(&scene, &["--repair"]).await?;
        let now: BTreeSet<String> = found.into_keys().collect();
        idle = if now.len() < left.len() { 0 } else { idle + 1 };
        left = now;
        let of = |name: &String| all.iter().find(|hosted| hosted.name() == *name);
        let differs = left.symmetric_difference(&by_hand);
        let differs: Vec<_> = differs
            .filter_map(|name| of(name)?.damage.map(|damage| damage.name))
            .collect();
        ensure!(
            idle < IDLE_CHECKS,
            "still damaged, or no longer named: {differs:?}\n{}",
            scene.node.log()
        );
    }

    println!(
        "{} repositories, {damaged} of them damaged in {} ways: all named after {looked:?}, all \
         repaired but {} after {:?}",
        all.len(),
        DAMAGE.len(),
        left.len(),
        began.elapsed()
    );
    let tip = tree.tip("HEAD")?;
    for hosted in &all {
        let what = hosted.damage.map_or("sound", |damage| damage.name);
        if hosted.damage.is_none() {
            ensure!(
                hosted.contents == hosted.files.contents()?,
                "{what} was touched"
            );
        }
        if hosted
            .damage
            .is_none_or(|damage| damage.repair != Repair::ByHand)
        {
            let refs = git::branches_and_tags(&hosted.project.url(&scene.node)).await?;
            let expected = [("refs/heads/main".to_owned(), tip.clone())];
            ensure!(refs == expected, "{what}: {refs:?}");
        }
    }
    // What is left as it is takes pushes all the same.
    let is_needless = |it: &&Hosted| it.damage.is_some_and(|it| it.repair == Repair::Needless);
    let later = tree.commit("later", "than the repair")?;
    for hosted in all.iter().filter(is_needless) {
        let state = hosted.project.state_at(&[("refs/heads/main", &later)], 30);
        scene.relay.publish_ok(&state).await?;
        let url = hosted.project.url(&scene.node);
        tree.push_ok(&url, &["main"]).await?;
    }
    Ok(())
}

/// Nothing is fetched meanwhile, and no sweep comes between.
const ALONE: [(&str, &str); 2] = [
    ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1h"),
    ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "100000"),
];

#[tokio::test]
async fn a_backup_brings_back_what_no_other_server_has() -> Result<()> {
    let mut scene = Scene::with(&ALONE).await?;
    let tree = WorkTree::with_commit()?;
    let by_nobody = |it: &&Damage| matches!(it.repair, Repair::ByFetch | Repair::ByHand);
    let kinds = DAMAGE.iter().filter(by_nobody).map(Some);
    let mut all = Vec::new();
    // The last two are sound: one stays so, one is pushed to after the backup.
    for (n, damage) in kinds.chain([None, None]).enumerate() {
        all.push(publish_one(&mut scene, &tree, n, &[], damage).await?);
    }
    let backups = tempfile::tempdir()?;
    let place = backups.path().to_str().context("a path")?;
    let backup = scene.node.command(&["backup", place]).output().await?;
    ensure!(backup.status.success(), "{backup:?}");
    let tip = tree.tip("HEAD")?;
    let pushed_to = all.pop().context("the last")?;
    let before = pushed_to.files.contents()?;
    tree.commit("later", "than the backup")?;
    let later = tree.tip("HEAD")?;
    let state = pushed_to
        .project
        .state_at(&[("refs/heads/main", &later)], 30);
    scene.relay.publish_ok(&state).await?;
    let url = pushed_to.project.url(&scene.node);
    tree.push_ok(&url, &["main"]).await?;
    for hosted in &mut all {
        match hosted.damage {
            Some(damage) => damage.harm(&hosted.files)?,
            None => hosted.contents = hosted.files.contents()?,
        }
    }
    // What came before the backup is lost, and what came after it is sound and rests on it.
    for (path, _) in before {
        let is_pack = path
            .extension()
            .is_some_and(|it| it == "pack" || it == "idx");
        if is_pack && path.starts_with(&pushed_to.files.objects) {
            std::fs::remove_file(path)?;
        }
    }

    // Without a backup nothing of it comes back, and a plan changes nothing.
    let (found, is_whole) = check(&scene, &["--repair"]).await?;
    ensure!(
        !is_whole && found.contains_key(&pushed_to.name()),
        "{found:?}"
    );
    let (planned, is_whole) = check(&scene, &["--from-backup", place]).await?;
    ensure!(!is_whole && planned.contains_key(&pushed_to.name()));
    let elsewhere = tempfile::tempdir()?;
    let elsewhere = elsewhere.path().to_str().context("a path")?;
    let arguments = ["check", "--repair", "--from-backup", elsewhere];
    let refused = scene.node.command(&arguments).output().await?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(said.contains("there are no backups in"), "{said}");

    let (found, is_whole) = check(&scene, &["--repair", "--from-backup", place]).await?;
    ensure!(is_whole, "{found:?}\n{}", scene.node.log());
    let (found, is_whole) = check(&scene, &[]).await?;
    ensure!(is_whole && found.is_empty(), "afterwards: {found:?}");
    for hosted in &all {
        let what = hosted.damage.map_or("sound", |damage| damage.name);
        let refs = git::branches_and_tags(&hosted.project.url(&scene.node)).await?;
        ensure!(
            refs == [("refs/heads/main".to_owned(), tip.clone())],
            "{what}"
        );
        let is_sound = hosted.damage.is_none();
        ensure!(
            !is_sound || hosted.contents == hosted.files.contents()?,
            "{what}"
        );
    }
    let refs = git::branches_and_tags(&url).await?;
    ensure!(refs == [("refs/heads/main".to_owned(), later)], "{refs:?}");
    ensure!(
        scene.node.log().contains("from a backup"),
        "no audit record"
    );
    Ok(())
}

/// Two backups of one directory: the newest has a damaged block, and both have a ref that was deleted since.
#[tokio::test]
async fn a_damaged_backup_is_named_the_next_older_one_is_taken_and_no_ref_comes_back() -> Result<()>
{
    let mut scene = Scene::with(&ALONE).await?;
    let tree = WorkTree::with_commit()?;
    let first = tree.tip("HEAD")?;
    let hosted = publish_one(&mut scene, &tree, 0, &[], None).await?;
    let (url, name) = (hosted.project.url(&scene.node), hosted.name());
    let backups = tempfile::tempdir()?;
    let place = backups.path().to_str().context("a path")?;
    // A state of which the author repents.
    let repented = tree.commit("repented", "of")?;
    let with_repented = [
        ("refs/heads/main", &*first),
        ("refs/heads/repented", &repented),
    ];
    let repented_state = hosted.project.state_at(&with_repented, 55);
    scene.relay.publish_ok(&repented_state).await?;
    tree.push_ok(&url, &[&format!("{repented}:refs/heads/repented")])
        .await?;
    tree.git(["reset", "--hard", &first])?;
    // The topic is deleted after the first backup, by a state without it.
    let topic = tree.commit("topic", "of no use")?;
    let with_topic = [("refs/heads/main", &*first), ("refs/heads/topic", &topic)];
    let state = hosted.project.state_at(&with_topic, 50);
    scene.relay.publish_ok(&state).await?;
    let refspec = format!("{topic}:refs/heads/topic");
    tree.push_ok(&url, &[&refspec]).await?;
    scene.node.run(&["backup", place]).await?;
    let blocks = backups.path().join("blocks");
    let of_first: BTreeSet<PathBuf> = files_below(&blocks)?.into_iter().collect();
    let before = hosted.files.contents()?;
    tree.git(["reset", "--hard", &first])?;
    tree.commit("later", "than the first backup")?;
    let later = tree.tip("HEAD")?;
    let state = hosted.project.state_at(&[("refs/heads/main", &later)], 30);
    scene.relay.publish_ok(&state).await?;
    tree.push_ok(&url, &["main"]).await?;
    let wanted = [("refs/heads/main".to_owned(), later.clone())];
    until_ok("the topic is deleted", async || {
        Ok((git::branches_and_tags(&url).await? == wanted).then_some(()))
    })
    .await?;
    scene.node.run(&["backup", place]).await?;
    for block in files_below(&blocks)? {
        if !of_first.contains(&block) {
            let mut bytes = std::fs::read(&block)?;
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&block, bytes)?;
        }
    }
    let deletion = hosted.project.owner.delete_events(&[repented_state.id]);
    scene.relay.publish_ok(&deletion).await?;
    // What the first backup has is lost here.
    for (path, _) in &before {
        if path.starts_with(hosted.files.objects.join("pack")) && path.exists() {
            std::fs::remove_file(path)?;
        }
    }

    let other = Node::start(BINARY).await?;
    let foreign = tempfile::tempdir()?;
    let foreign = foreign.path().to_str().context("a path")?;
    other.run(&["backup", foreign]).await?;
    let arguments = ["check", "--full", "--repair", "--from-backup", foreign];
    let refused = scene.node.command(&arguments).output().await?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(
        !refused.status.success() && said.contains("are of another node"),
        "{said}"
    );

    let arguments = [
        "check",
        "--full",
        "--json",
        "--repair",
        "--from-backup",
        place,
    ];
    let output = scene.node.command(&arguments).output().await?;
    ensure!(output.status.success(), "{output:?}\n{}", scene.node.log());
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let taken = report["from_backup"].as_array().context("what was taken")?;
    let [newest, older] = &taken[..] else {
        anyhow::bail!("not from one after the other: {report}");
    };
    let reason = newest["reason"].as_str().unwrap_or_default();
    ensure!(
        newest["repaired"] == false && reason.contains("is damaged"),
        "{newest}"
    );
    ensure!(older["repaired"] == true, "{older}");
    ensure!(
        older["backup"].as_str() < newest["backup"].as_str(),
        "{report}"
    );
    let (found, is_whole) = check(&scene, &[]).await?;
    ensure!(is_whole && !found.contains_key(&name), "{found:?}");
    let refs = git::branches_and_tags(&url).await?;
    ensure!(refs == wanted, "a ref came from a backup: {refs:?}");
    // Their author may return to the state with the topic, and never to the one that was deleted.
    ensure!(hosted.files.has(&topic).await?, "a kept state names it");
    ensure!(
        !hosted.files.has(&repented).await?,
        "only a deleted state names it"
    );
    Ok(())
}

fn files_below(root: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files_below(&path)?);
        } else {
            all.push(path);
        }
    }
    Ok(all)
}
