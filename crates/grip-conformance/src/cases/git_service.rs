//! G01-32 … G01-34, G01-36 … G01-39: repositories over smart HTTP.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, WorkTree, events::tag, git};

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, INFO, fresh_identifier},
    target::header,
};

cases! {
    "G01-32" "repositories are served without authentication under npub and encoded identifier" Url => paths;
    "G01-33" "browsers get a page, and unknown repositories a 404" Url => page;
    "G01-34" "capabilities are advertised, filters and any oid are served" Url => capabilities;
    "G01-34" "protocols 0, 1 and 2, shallow and partial clones work" Url => protocols;
    "G01-36" "a push releases the events, sets HEAD and reaches sibling repositories" Url => siblings;
    "G01-37" "HEAD follows the state with and without a push" Url => head;
    "G01-38" "peeled, symbolic and unknown names of a state are skipped" Url => skipped_names;
    "G01-38" "a state without refs removes all branches and tags" Url => empty_state;
    "G01-39" "alignment creates, moves and deletes and leaves refs/nostr alone" Url => alignment;
}

async fn paths(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    fixture.identifier = format!("naïve repo {}", fixture.identifier);
    let announcement = fixture.announcement(vec![]);
    fixture.publish(&announcement).await?;
    fixture.publish_and_push().await?;
    let lower = fixture.path().replace("%C3%AF", "%c3%af");
    for path in [fixture.path(), lower] {
        let status = target.status(&format!("{path}/{INFO}")).await?;
        ensure!(status == 200, "{path}: {status}");
    }
    let encoded = fixture.path();
    let identifier = encoded.rsplit('/').next().context("path")?.to_owned();
    let npub = fixture.owner.npub();
    let missing = [
        format!("/{}/{identifier}", fixture.owner.hex()),
        format!("/{}/{identifier}", npub.to_uppercase()),
        format!("/{npub}x/{identifier}"),
        format!("/{}/{identifier}", Author::new().npub()),
        format!("/{npub}/{}", identifier.to_uppercase()),
        format!("/{npub}/..%2f{npub}%2f{identifier}"),
        format!("/{npub}/%2e%2e.git"),
        format!("/{npub}/nul%00.git"),
        format!("/{npub}/unknown.git"),
    ];
    for path in missing {
        let status = target.status(&format!("{path}/{INFO}")).await?;
        ensure!(status == 404, "{path}: {status}");
    }
    Ok(())
}

async fn page(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    for path in [fixture.path(), format!("{}/", fixture.path())] {
        let response = target.get(&path, &[("Accept", "text/html")]).await?;
        let status = response.status();
        ensure!(status.is_success(), "{path}: {status}");
        let text = response.text().await?;
        ensure!(text.contains("gitworkshop.dev"), "a link to a web client");
        ensure!(text.contains("nostr://"), "the nostr clone URL");
    }
    let unknown = format!("/{}/{}.git", Author::new().npub(), fresh_identifier());
    let page = target.get(&unknown, &[("Accept", "text/html")]).await?;
    ensure!(page.status() == 404);
    let (known, unknown) = (
        format!("{}/{INFO}", fixture.path()),
        format!("{unknown}/{INFO}"),
    );
    ensure!(target.status(&known).await? == 200);
    ensure!(target.status(&unknown).await? == 404);
    let invalid = format!("{}/invalid/path", target.http);
    ensure!(WorkTree::clone(&invalid, &[]).await.is_err());
    Ok(())
}

async fn capabilities(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let path = format!("{}/{INFO}", fixture.path());
    let advertisement = target.get(&path, &[]).await?;
    let kind = header(&advertisement, "content-type");
    ensure!(kind == "application/x-git-upload-pack-advertisement");
    let text = advertisement.text().await?;
    ensure!(text.starts_with("001e# service=git-upload-pack\n0000"));
    let last = format!("{} refs/heads/main\n0000", fixture.tree.tip("HEAD")?);
    ensure!(text.ends_with(&last), "{text}");
    for capability in [
        "allow-tip-sha1-in-want",
        "allow-reachable-sha1-in-want",
        "filter",
        "multi_ack_detailed",
        "side-band-64k",
        "shallow",
        "object-format=sha1",
        "symref=HEAD:refs/heads/main",
    ] {
        ensure!(text.contains(capability), "{capability} is not advertised");
    }
    // Any object by its id: the first commit, no longer a tip, and a blob.
    let first = fixture.tree.tip("HEAD")?;
    let blob = fixture.tree.tip("HEAD:README.md")?;
    fixture.tree.commit("second", "x")?;
    fixture.publish_and_push().await?;
    for (version, oid) in [("0", &first), ("2", &first), ("2", &blob)] {
        let fresh = WorkTree::init()?;
        let protocol = format!("protocol.version={version}");
        let args = ["-c", &protocol, "fetch", "-q", &fixture.clone_url(), oid];
        let fetched = fresh.run(args).await?.text();
        fetched.with_context(|| format!("v{version} {oid}"))?;
    }
    Ok(())
}

async fn protocols(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    for n in 0..5 {
        fixture.tree.commit("file", &n.to_string())?;
    }
    fixture.tree.git(["tag", "-a", "v1", "-m", "one"])?;
    let (tip, tag) = (fixture.tree.tip("HEAD")?, fixture.tree.tip("v1")?);
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/tags/v1", tag.as_str()),
    ];
    let state = fixture.state(&refs, Some("refs/heads/main"));
    fixture.publish(&state).await?;
    fixture.push_ok(&["main", "v1"]).await?;
    for version in ["0", "1", "2"] {
        let protocol = format!("protocol.version={version}");
        for more in [
            &[][..],
            &["--depth=1"],
            &["--filter=blob:none", "--no-checkout"],
            &["--filter=tree:0", "--no-checkout"],
            &["--single-branch"],
        ] {
            let mut args = vec!["-c", protocol.as_str()];
            args.extend(more);
            let clone = WorkTree::clone(&fixture.clone_url(), &args).await;
            let clone = clone.with_context(|| format!("v{version} {more:?}"))?;
            ensure!(clone.tip("origin/HEAD")? == tip, "v{version} {more:?}");
            let objects = clone.git(["rev-list", "--objects", "--missing=print", "origin/HEAD"])?;
            let is_partial = objects.lines().any(|line| line.starts_with('?'));
            let is_filtered = more.iter().any(|option| option.starts_with("--filter"));
            ensure!(is_partial == is_filtered, "v{version} {more:?}: {objects}");
            let commits = clone.git(["rev-list", "--count", "origin/HEAD"])?;
            let wanted = if *more == ["--depth=1"] { "1" } else { "6" };
            ensure!(commits == wanted, "v{version} {more:?}: {commits}");
        }
        let clone = WorkTree::clone(&fixture.clone_url(), &["-c", &protocol, "--depth=2"]).await?;
        clone.run(["fetch", "-q", "--unshallow"]).await?.text()?;
        clone.git(["fsck", "--strict"])?;
        ensure!(clone.tip("v1")? == tag);
    }
    Ok(())
}

async fn siblings(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let own = fixture.answers_back(&helper);
    fixture.publish(&own).await?;
    let tip = fixture.tree.commit("shared", "x")?;
    let state = fixture.publish_and_push().await?;
    fixture.head_is("refs/heads/main").await?;
    let url = fixture.clone_url_of(&helper);
    git::until_ref(&url, "refs/heads/main", &tip).await?;
    WorkTree::clone(&url, &[]).await?.git(["fsck"])?;
    fixture.must_serve(&state.id).await?;
    fixture.must_serve(&own.id).await
}

async fn head(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let owner = fixture.owner.clone();
    let tip = fixture.tree.tip("HEAD")?;
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/heads/develop", tip.as_str()),
    ];
    let state = fixture.state(&refs, Some("refs/heads/develop"));
    fixture.accepted(&state).await?;
    fixture.head_is("refs/heads/develop").await?;
    // With new commits it changes on the push, before the push returns.
    let next = fixture.tree.commit("more", "x")?;
    let refs = [
        ("refs/heads/main", next.as_str()),
        ("refs/heads/develop", tip.as_str()),
    ];
    let state = fixture.state(&refs, Some("refs/heads/main"));
    fixture.held(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.head_is("refs/heads/main").await?;
    // A bare ref name is understood; a branch that the state does not name is ignored.
    let at = fixture.tick();
    let mut tags = vec![tag(["d", &fixture.identifier])];
    tags.extend(refs.iter().map(|(name, oid)| tag([*name, *oid])));
    let mut bare = tags.clone();
    bare.push(tag(["HEAD", "refs/heads/develop"]));
    let bare = owner.sign_at(30618, "", bare, at);
    fixture.accepted(&bare).await?;
    fixture.head_is("refs/heads/develop").await?;
    let at = fixture.tick();
    tags.push(tag(["HEAD", "ref: refs/heads/nowhere"]));
    let unnamed = owner.sign_at(30618, "", tags, at);
    fixture.accepted(&unnamed).await?;
    fixture.head_is("refs/heads/develop").await?;
    Ok(())
}

async fn skipped_names(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let tip = fixture.tree.tip("HEAD")?;
    let at = fixture.tick();
    let tags = vec![
        tag(["d", &fixture.identifier]),
        tag(["refs/heads/main", &tip]),
        tag(["refs/heads/main", &"ab".repeat(20)]),
        tag(["refs/heads/alias", "ref: refs/heads/main"]),
        tag(["refs/tags/v1^{}", &"cd".repeat(20)]),
        tag(["refs/notes/commits", &"ef".repeat(20)]),
        tag(["something", "else"]),
    ];
    let state = fixture.owner.sign_at(30618, "", tags, at);
    fixture.accepted(&state).await?;
    let refs = git::ls_remote(&fixture.clone_url()).await?;
    let names: Vec<&str> = refs.iter().map(|(name, _)| name.as_str()).collect();
    ensure!(names == ["HEAD", "refs/heads/main"], "{names:?}");
    Ok(())
}

async fn empty_state(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let state = fixture.state(&[], None);
    fixture.accepted(&state).await?;
    ensure!(git::ls_remote(&fixture.clone_url()).await?.is_empty());
    // The branch comes back by a state alone: the objects were kept.
    let tip = fixture.tree.tip("HEAD")?;
    let back = fixture.state(&[("refs/heads/main", &tip)], None);
    fixture.accepted(&back).await?;
    fixture.ref_is("refs/heads/main", &tip).await?;
    Ok(())
}

async fn alignment(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let first = fixture.tree.tip("HEAD")?;
    let pr = fixture.pull_request(&Author::new(), &first);
    fixture.accepted(&pr).await?;
    let refs = [
        ("refs/heads/main", first.as_str()),
        ("refs/heads/old", first.as_str()),
        ("refs/tags/v1", first.as_str()),
    ];
    let state = fixture.state(&refs, None);
    fixture.accepted(&state).await?;
    let second = fixture.tree.commit("second", "x")?;
    let refs = [
        ("refs/heads/main", second.as_str()),
        ("refs/heads/new", first.as_str()),
    ];
    let state = fixture.state(&refs, None);
    fixture.held(&state).await?;
    ensure!(
        fixture.remote_ref("refs/heads/old").await?.is_some(),
        "nothing moves before the data"
    );
    fixture.push_ok(&["main"]).await?;
    let mut refs = git::ls_remote(&fixture.clone_url()).await?;
    refs.retain(|(name, _)| name != "HEAD");
    let nostr = format!("refs/nostr/{}", pr.id.to_hex());
    let wanted = [
        ("refs/heads/main", &second),
        ("refs/heads/new", &first),
        (nostr.as_str(), &first),
    ]
    .map(|(name, oid)| (name.to_owned(), oid.clone()));
    ensure!(refs == wanted, "{refs:?}");
    Ok(())
}
