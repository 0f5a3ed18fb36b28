//! Day of a maintainer and a contributor, step by step.

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use grip_testkit::{Node, WorkTree, events, git, until};
use nostr::prelude::{Event, PublicKey, Timestamp};

use crate::{
    BINARY,
    ngit::{
        client::{Line, Person},
        served::{self, IDENTIFIER, Refs, Served},
    },
};

const MAIN: &str = "refs/heads/main";
const FEATURE: &str = "refs/heads/feature";

/// A node, its people, and what the repository should look like by now.
pub struct Story {
    pub(super) node: Node,
    /// The maintainer.
    ada: Person,
    /// The contributor.
    bob: Person,
    bob_key: PublicKey,
    pub(super) served: Served,
    refs: Refs,
    /// Arguments of `ngit init` beside the usual ones.
    init_with: &'static [&'static str],
}

impl Story {
    /// Starts a node and gives both people an account.
    pub async fn begin(maintainer: Line, contributor: Line) -> Result<Self> {
        let node = Node::start_with(BINARY, &[("NGIT_GRASP06_ENABLE", "true")]).await?;
        Self::at(node, maintainer, contributor).await
    }

    /// Gives both people an account at a node, or what passes for one.
    pub async fn at(node: Node, maintainer: Line, contributor: Line) -> Result<Self> {
        let ada = Person::new("ada", maintainer, &node)?;
        let bob = Person::new("bob", contributor, &node)?;
        let served = Served::new(&node, &account(&ada).await?)?;
        let bob_key = PublicKey::parse(&account(&bob).await?)?;
        Ok(Self {
            node,
            ada,
            bob,
            bob_key,
            served,
            refs: Refs::new(),
            init_with: &[],
        })
    }

    /// The same day on a private node, of which both are members.
    pub fn private(
        node: Node,
        served: Served,
        [ada, bob]: [Person; 2],
        bob_key: PublicKey,
    ) -> Self {
        Self {
            node,
            ada,
            bob,
            bob_key,
            served,
            refs: Refs::new(),
            init_with: &["--private"],
        }
    }

    /// A failure with what the node printed.
    pub fn report(&self, error: &Error) -> Error {
        anyhow!("{error:#}\n--- node\n{}", self.node.log())
    }

    pub async fn init(&mut self) -> Result<()> {
        self.ada.ok(&["git", "init", "--quiet"]).await?;
        self.ada.commit("README.md", "hello").await?;
        let server = self.node.http_url();
        let init = [
            "ngit",
            "init",
            "-d",
            "--name",
            IDENTIFIER,
            "--grasp-server",
            &server,
        ];
        self.ada.ok(&[&init[..], self.init_with].concat()).await?;
        let announcement = self.served.announcement(&self.node).await?;
        let clone = served::value(&announcement, "clone");
        ensure!(clone == Some(self.served.url()), "it announces {clone:?}");
        self.now_at(MAIN, "main").await?;
        self.as_expected("init").await
    }

    pub async fn second_push(&mut self) -> Result<()> {
        self.ada.commit("README.md", "hello again").await?;
        self.pushes(&["git", "push"]).await?;
        self.now_at(MAIN, "main").await?;
        self.as_expected("second push").await
    }

    /// An annotated tag and a light one.
    pub async fn tags(&mut self) -> Result<()> {
        self.ada
            .ok(&["git", "tag", "-a", "v1", "-m", "one"])
            .await?;
        self.ada.ok(&["git", "tag", "light"]).await?;
        self.pushes(&["git", "push", "origin", "v1", "light"])
            .await?;
        self.now_at("refs/tags/v1", "v1").await?;
        self.now_at("refs/tags/light", "light").await?;
        self.as_expected("tags").await
    }

    pub async fn branch_comes_and_goes(&mut self) -> Result<()> {
        self.ada.ok(&["git", "checkout", "-b", "feature"]).await?;
        self.ada.commit("feature.txt", "new").await?;
        self.pushes(&["git", "push", "-u", "origin", "feature"])
            .await?;
        self.now_at(FEATURE, "feature").await?;
        self.as_expected("branch").await?;
        self.ada.ok(&["git", "checkout", "main"]).await?;
        self.pushes(&["git", "push", "origin", "--delete", "feature"])
            .await?;
        self.refs.remove(FEATURE);
        self.as_expected("branch deletion").await
    }

    pub async fn force_push(&mut self) -> Result<()> {
        self.ada
            .ok(&["git", "commit", "--amend", "-m", "other words"])
            .await?;
        let plain = self.ada.run(&["git", "push"]).await?;
        ensure!(!plain.worked(), "only force may rewrite: {plain}");
        self.as_expected("refused rewrite").await?;
        self.pushes(&["git", "push", "--force"]).await?;
        self.now_at(MAIN, "main").await?;
        self.as_expected("force-push").await
    }

    pub async fn clone_by_the_contributor(&self) -> Result<()> {
        let url = self.origin().await?;
        ensure!(url.starts_with("nostr://"), "origin is {url}");
        self.bob.ok(&["git", "clone", &url, "."]).await?;
        for name in [MAIN, "refs/tags/v1", "refs/tags/light"] {
            let cloned = self.bob.ok(&["git", "rev-parse", name]).await?;
            ensure!(cloned == self.refs[name], "{name} was cloned at {cloned}");
        }
        Ok(())
    }

    /// The URL by which the maintainer's work tree knows the repository.
    pub async fn origin(&self) -> Result<String> {
        self.ada.ok(&["git", "remote", "get-url", "origin"]).await
    }

    /// Opens a pull request by pushing a branch, and pushes to it once more.
    pub async fn pull_request(&self) -> Result<Event> {
        self.bob.ok(&["git", "checkout", "-b", "pr/fix"]).await?;
        let tip = self.bob.commit("fix.txt", "better").await?;
        let push = [
            "git",
            "push",
            "-o",
            "title=A fix",
            "-o",
            "description=It is better",
        ];
        let push = [&push[..], &["-u", "origin", "pr/fix"]].concat();
        self.bob.ok(&push).await?;
        let request = self.served.related(&self.node, 1618).await?;
        ensure!(request.pubkey == self.bob_key, "the request is Bob's");
        self.proposes(&request, &tip).await?;

        let tip = self.bob.commit("fix.txt", "best").await?;
        in_order(&self.bob, &request).await?;
        self.bob.ok(&["git", "push"]).await?;
        let update = self.served.naming(&self.node, 1619, "#E", &request).await?;
        self.proposes(&update, &tip).await?;
        self.as_expected("pull request").await?;
        Ok(request)
    }

    /// Opens a pull request at a grasp server of the contributor's own choice: below `/prs/`, from
    /// where it comes into the repository too (G06-9).
    pub async fn pull_request_below_prs(&self) -> Result<()> {
        self.bob.ok(&["git", "checkout", "main"]).await?;
        self.bob
            .ok(&["git", "checkout", "-b", "pr/elsewhere"])
            .await?;
        let tip = self.bob.commit("elsewhere.txt", "x").await?;
        let server = format!("git-server={}", self.node.http_url());
        let push = ["git", "push", "-o", "title=Elsewhere"];
        let more = ["-o", "description=Below prs", "-o", &server];
        let push = [&push[..], &more, &["-u", "origin", "pr/elsewhere"]].concat();
        self.bob.ok(&push).await?;
        let npub = events::npub(&self.bob_key);
        let url = format!("{}/prs/{npub}/{IDENTIFIER}.git", self.node.http_url());
        let pushed = git::ls_remote(&url).await?;
        let [(name, oid)] = &pushed[..] else {
            bail!("one tip is below /prs/: {pushed:?}");
        };
        ensure!(*oid == tip, "{pushed:?}");
        git::until_ref(self.served.url(), name, &tip).await?;
        served::nothing_is_held(&self.node).await
    }

    pub async fn pull_request_seen_by_the_maintainer(&self, request: &Event) -> Result<()> {
        let listed = self.ada.ok(&["ngit", "pr", "list"]).await?;
        let row = row(&listed, request)?;
        ensure!(row.contains("open") && row.contains("A fix"), "{row}");
        let id = request.id.to_hex();
        self.ada.ok(&["ngit", "pr", "checkout", &id, "-d"]).await?;
        let fetched = self.ada.ok(&["git", "show", "HEAD:fix.txt"]).await?;
        ensure!(fetched == "best", "the update was fetched, too: {fetched}");
        self.ada.ok(&["git", "checkout", "main"]).await?;
        Ok(())
    }

    pub async fn issue(&self) -> Result<()> {
        let create = ["ngit", "issue", "create", "-d", "--subject", "It is broken"];
        self.bob
            .ok(&[&create[..], &["--body", "Very."]].concat())
            .await?;
        let issue = self.served.related(&self.node, 1621).await?;
        ensure!(issue.pubkey == self.bob_key, "the issue is Bob's");
        ensure!(served::value(&issue, "subject") == Some("It is broken"));
        ensure!(issue.content.contains("Very."), "{}", issue.content);
        for person in [&self.ada, &self.bob] {
            let listed = person.ok(&["ngit", "issue", "list"]).await?;
            let row = row(&listed, &issue)?;
            ensure!(
                row.contains("open") && row.contains("It is broken"),
                "{row}"
            );
        }
        Ok(())
    }

    pub async fn merge(&mut self, request: &Event) -> Result<()> {
        let id = request.id.to_hex();
        self.ada.ok(&["ngit", "pr", "merge", &id, "-d"]).await?;
        self.pushes(&["git", "push", "origin", "main"]).await?;
        self.now_at(MAIN, "main").await?;
        self.as_expected("merge").await?;
        let status = self.served.naming(&self.node, 1631, "#e", request).await?;
        ensure!(status.pubkey == self.served.owner, "the status is Ada's");
        let listed = self
            .bob
            .ok(&["ngit", "pr", "list", "--status", "applied"])
            .await?;
        row(&listed, request)?;
        Ok(())
    }

    /// Nothing waits, and a clone by plain git after a power cut has everything.
    pub async fn survives_a_crash(&mut self) -> Result<()> {
        served::nothing_is_held(&self.node).await?;
        let before = self.served.refs().await?;
        self.node.crash_and_restart().await?;
        self.still_has(&before).await
    }

    /// The same over a crash of what is behind the node that people know.
    pub async fn survives(&self, crash: impl Future<Output = Result<()>>) -> Result<()> {
        let before = self.served.refs().await?;
        crash.await?;
        self.still_has(&before).await
    }

    async fn still_has(&self, before: &Refs) -> Result<()> {
        ensure!(self.served.refs().await? == *before, "refs were lost");
        self.as_expected("restart").await?;
        let clone = WorkTree::clone(&self.served.git_url()?, &["--mirror"]).await?;
        clone.git(["fsck", "--strict"])?;
        ensure!(clone.tip("main")? == self.refs[MAIN]);
        Ok(())
    }

    /// A command of Ada's that publishes a state.
    async fn pushes(&self, args: &[&str]) -> Result<()> {
        let last = self.served.state(&self.node).await?;
        in_order(&self.ada, &last).await?;
        self.ada.ok(args).await?;
        Ok(())
    }

    /// From now on `name` is expected where Ada has `revision`.
    async fn now_at(&mut self, name: &str, revision: &str) -> Result<()> {
        let oid = self.ada.ok(&["git", "rev-parse", revision]).await?;
        self.refs.insert(name.to_owned(), oid);
        Ok(())
    }

    async fn as_expected(&self, after: &str) -> Result<()> {
        let looking = self.served.has_exactly(&self.node, &self.refs).await;
        looking.with_context(|| format!("after {after}"))
    }

    /// The event names `tip`, and its ref is there.
    async fn proposes(&self, event: &Event, tip: &str) -> Result<()> {
        let named = served::value(event, "c");
        ensure!(named == Some(tip), "the event names {named:?}");
        let name = format!("refs/nostr/{}", event.id.to_hex());
        let at = self.served.refs().await?.remove(&name);
        ensure!(at.as_deref() == Some(tip), "{name} is at {at:?}");
        Ok(())
    }
}

/// Sees to it that what `person` publishes next is later than `last`, where the client does not.
async fn in_order(person: &Person, last: &Event) -> Result<()> {
    if person.line.keeps_events_in_order() {
        return Ok(());
    }
    until("the second of the last event is over", || {
        std::future::ready((Timestamp::now() > last.created_at).then_some(()))
    })
    .await
}

/// Makes an account and returns its npub.
async fn account(person: &Person) -> Result<String> {
    // The node is the only relay there is, and takes the profile of somebody new (G03-5).
    let mut create = vec!["ngit", "account", "create", "-d", "--name", person.name];
    if person.line == Line::Three {
        // The other places would be the machine's own, shared by everybody on it.
        create.extend(["--secret-storage", "file"]);
    }
    person.ok(&create).await?;
    let who = person.ok(&["ngit", "account", "whoami"]).await?;
    let npub = who
        .split_whitespace()
        .find(|word| word.starts_with("npub1"));
    Ok(npub.with_context(|| format!("no npub: {who}"))?.to_owned())
}

/// The line of a list that is about `event`.
fn row<'a>(list: &'a str, event: &Event) -> Result<&'a str> {
    let id = event.id.to_hex();
    let mut rows = list.lines().filter(|row| row.contains(&id));
    rows.next()
        .with_context(|| format!("{id} is not listed:\n{list}"))
}
