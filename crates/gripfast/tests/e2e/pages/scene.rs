//! A node with something to look at: code, history, people, issues and pull requests.

use std::fs;

use anyhow::Result;
use grip_testkit::{Author, LocalProject, Node, Project, WorkTree, events::tag, until};

use crate::BINARY;

const README: &str = "# Tide table\n\n\
    High and low water for small harbours, computed from **harmonic constants**.\n\n\
    ![The harbour](docs/harbour.png)\n\n\
    ## Use\n\n```rust\nlet table = tide_table::for_harbour(\"Ouistreham\", 2027)?;\n\
    println!(\"{}\", table.next_high_water());\n```\n\n\
    | harbour | mean range | constants |\n|---|---:|---:|\n\
    | Ouistreham | 5.9 m | 37 |\n| Dielette | 7.4 m | 41 |\n| Barfleur | 4.8 m | 29 |\n\n\
    - [x] semidiurnal constituents\n- [x] shallow water\n- [ ] storm surge\n\n\
    Read [the guide](docs/guide.md) before you sail; the sea does not read tables.\n";

const MAIN: &str = "//! Computes tides of one harbour.\n\nmod harmonics;\n\n\
    use harmonics::Constants;\n\n/// Next high water of a harbour, in minutes from now.\n\
    fn main() -> Result<(), Box<dyn std::error::Error>> {\n    \
    let constants = Constants::load(\"ouistreham.toml\")?;\n    \
    let table = constants.predict(2027);\n    // Minutes, as sailors count.\n    \
    println!(\"next high water in {} min\", table.next_high_water());\n    Ok(())\n}\n";

/// A node, and a repository with a bit of everything.
pub struct Scene {
    pub node: Node,
    pub local: LocalProject,
    pub visitor: Author,
    /// The commit whose differences are worth a look.
    pub commit: String,
    pub issue: String,
    pub request: String,
}

impl Scene {
    pub async fn start() -> Result<Self> {
        let node = Node::start_with(BINARY, &[("NGIT_RELAY_NAME", "Harbour")]).await?;
        let tree = WorkTree::init()?;
        fs::create_dir_all(tree.path().join("docs"))?;
        fs::write(tree.path().join("docs/harbour.png"), picture())?;
        tree.commit("README.md", README)?;
        tree.commit("docs/guide.md", "# Guide\n\nUp: [overview](../README.md)\n")?;
        tree.commit("src/main.rs", MAIN)?;
        tree.commit("src/harmonics.rs", "pub struct Constants;\n")?;
        tree.commit("Cargo.toml", "[package]\nname = \"tide-table\"\n")?;
        tree.commit("LICENSE", "MIT\n")?;
        tree.git(["tag", "-a", "v1.0.0", "-m", "first"])?;
        let commit = tree.commit(
            "src/main.rs",
            &MAIN.replace("next high water in {} min", "high water in {} minutes"),
        )?;
        tree.git(["branch", "storm-surge", "HEAD~2"])?;
        let names = [
            "refs/heads/main",
            "refs/heads/storm-surge",
            "refs/tags/v1.0.0",
        ];
        let local = LocalProject::with_tree("tide-table", tree)?;
        let mut relay = node.connect().await?;
        let tags = vec![
            tag(["name", "tide-table"]),
            tag(["description", "High and low water for small harbours"]),
            tag(["t", "tides"]),
            tag(["t", "sailing"]),
        ];
        let announcement = local
            .owner
            .announcement(&node.authority(), "tide-table", tags);
        relay.publish_ok(&announcement).await?;
        let refs = names.map(|name| Ok::<_, anyhow::Error>((name, local.tree.tip(name)?)));
        let refs = refs.into_iter().collect::<Result<Vec<_>>>()?;
        let refs: Vec<_> = refs
            .iter()
            .map(|(name, oid)| (*name, oid.as_str()))
            .collect();
        relay.publish_ok(&local.project.state(&refs)).await?;
        local.tree.push_ok(&local.url(&node), &names).await?;
        let visitor = Author::new();
        let mut scene = Self {
            node,
            local,
            visitor,
            commit,
            issue: String::new(),
            request: String::new(),
        };
        scene.introduce().await?;
        scene.talk().await?;
        scene.propose().await?;
        scene.add_others().await?;
        Ok(scene)
    }

    /// The address of a page of the repository.
    pub fn page(&self, rest: &str) -> String {
        let url = self.local.url(&self.node);
        format!("{}{rest}", url.trim_end_matches(".git"))
    }

    /// The address of a page of the node.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.node.http_url())
    }

    /// Profiles of both, which are taken since they name the repository.
    async fn introduce(&self) -> Result<()> {
        let mut relay = self.node.connect().await?;
        for (author, name) in [
            (&self.local.owner, "Ada Marlow"),
            (&self.visitor, "Bo Lindqvist"),
        ] {
            let content = format!(r#"{{"name":"{name}","about":"Sails, and writes about it."}}"#);
            let tags = vec![tag(["a", &self.local.coordinate()])];
            relay.publish_ok(&author.sign(0, &content, tags)).await?;
        }
        Ok(())
    }

    async fn talk(&mut self) -> Result<()> {
        let mut relay = self.node.connect().await?;
        let tags = vec![
            tag(["a", &self.local.coordinate()]),
            tag([
                "subject",
                "Barfleur is an hour late after the clocks change",
            ]),
            tag(["t", "bug"]),
        ];
        let text = "Since the last Sunday of October the table for **Barfleur** is off by an \
                    hour.\n\n```\nexpected 05:12 UTC\nprinted  06:12 UTC\n```\n\nOther harbours \
                    are right.";
        let issue = self.visitor.sign(1621, text, tags);
        relay.publish_ok(&issue).await?;
        let answer = "Thank you, the zone of that file is wrong. I will look at the others, too.";
        relay
            .publish_ok(&self.local.owner.comment(&issue, answer))
            .await?;
        self.issue = issue.id.to_hex();
        let other = self
            .visitor
            .issue(&self.local.owner, "tide-table", "Print neap tides");
        relay.publish_ok(&other).await?;
        let settled = vec![tag(["e", &other.id.to_hex(), "", "root"])];
        relay
            .publish_ok(&self.local.owner.sign(1631, "", settled))
            .await?;
        Ok(())
    }

    async fn propose(&mut self) -> Result<()> {
        let (tree, url) = (&self.local.tree, self.local.url(&self.node));
        tree.git(["checkout", "-q", "-b", "zones"])?;
        let tip = tree.commit(
            "src/harmonics.rs",
            "/// Constants of one harbour, in UTC.\npub struct Constants {\n    pub zone: Zone,\n}\n",
        )?;
        tree.git(["checkout", "-q", "main"])?;
        let request = self
            .visitor
            .pull_request(&self.local.owner, "tide-table", &tip, &url);
        self.request = request.id.to_hex();
        self.node.connect().await?.publish_ok(&request).await?;
        tree.push_ok(&url, &[&format!("zones:refs/nostr/{}", self.request)])
            .await
    }

    /// Repositories of others, one of which waits for its data.
    async fn add_others(&self) -> Result<()> {
        for name in ["harbour-lights", "chart-plotter"] {
            LocalProject::new(name)?.publish(&self.node, 90_000).await?;
        }
        let late = Project::new("moon-phases");
        let mut relay = self.node.connect().await?;
        relay
            .publish_ok(&late.announcement(&[&self.node], &[]))
            .await?;
        let missing = "5e0d1f2a3b4c5d6e7f8091a2b3c4d5e6f7081920";
        relay
            .publish_ok(&late.state(&[("refs/heads/main", missing)]))
            .await?;
        // Lists are a moment old.
        until("all are listed", || async {
            let home = self.node.ask("GET", "/", &[("accept", "text/html")], b"");
            let home = home.await.ok()?.text();
            let is_there = home.contains("chart-plotter") && home.contains("Ada Marlow");
            is_there.then_some(())
        })
        .await
    }
}

/// A picture that shows something: waves, without any compression.
fn picture() -> Vec<u8> {
    let (width, height) = (320_u32, 96_u32);
    let mut pixels = Vec::new();
    for y in 0..height {
        pixels.push(0);
        for x in 0..width {
            let wave = 48.0 + 20.0 * (f64::from(x) / 26.0).sin();
            let is_sea = f64::from(y) > wave;
            pixels.extend(if is_sea {
                [11, 95, 81]
            } else {
                [220, 233, 240]
            });
        }
    }
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([8, 2, 0, 0, 0]);
    chunk(&mut png, b"IHDR", &header);
    // Stored blocks of zlib, which hold 65,535 bytes at most.
    let mut data = vec![0x78, 0x01];
    let blocks = pixels.chunks(65_535);
    let last = blocks.len() - 1;
    for (n, block) in blocks.enumerate() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        data.push(u8::from(n == last));
        data.extend(length.to_le_bytes());
        data.extend((!length).to_le_bytes());
        data.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in &pixels {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    data.extend(((b << 16) | a).to_be_bytes());
    chunk(&mut png, b"IDAT", &data);
    chunk(&mut png, b"IEND", &[]);
    png
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    png.extend(length.to_be_bytes());
    let body = [&kind[..], data].concat();
    let mut crc = u32::MAX;
    for byte in &body {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (0_u32.wrapping_sub(crc & 1)));
        }
    }
    png.extend(body);
    png.extend((!crc).to_be_bytes());
}
