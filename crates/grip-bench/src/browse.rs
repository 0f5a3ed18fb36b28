//! Pages of code beside cgit on the same repository, a long list of repositories, and a crawl beside
//! people who push and clone.

mod cgit;
mod crawl;
mod list;

use std::{fmt::Write as _, net::Ipv4Addr, path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use grip_testkit::{LocalProject, Node, WorkTree, git};
use tokio::{io::AsyncWriteExt as _, time::Instant};

use self::cgit::Cgit;
use crate::{
    http::Connection,
    report::{Table, median, mib, percentile},
};

/// The repository: every commit changes one file.
const COMMITS: usize = 10_000;
const DIRECTORIES: usize = 50;
const FILES: usize = 5_000;
const LINES: usize = 60;
/// Nobody is held back: what is measured is the work.
const SETTINGS: &[(&str, &str)] = &[
    ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "0"),
    ("NGIT_LOG_LEVEL", "warn"),
];
const CONNECTIONS: usize = 8;
/// Requests of one kind of page, all for different pages where there are as many.
const REQUESTS: usize = 800;
/// Both are measured in turns, so that what else the machine does meets both.
const ROUNDS: usize = 3;

pub async fn measure(binary: &Path, repositories: usize, table: &mut Table) -> Result<()> {
    let large = Large::start(binary).await?;
    large.beside_cgit(table).await?;
    crawl::measure(&large, table).await?;
    list::measure(binary, repositories, table).await
}

/// A node with a repository of many commits and files.
struct Large {
    node: Node,
    local: LocalProject,
    commits: Vec<String>,
}

/// A kind of page: our path and that of cgit for the page of a number.
type Kind<'a> = (&'a str, Box<dyn Fn(usize) -> (String, String) + 'a>);

impl Large {
    async fn start(binary: &Path) -> Result<Self> {
        // Networks are what they are: none of them is a proxy that stands for many.
        let env = [
            SETTINGS,
            &[("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24")],
        ]
        .concat();
        let node = Node::start_with(binary, &env).await?;
        let tree = WorkTree::init()?;
        import(&tree, COMMITS).await?;
        let local = LocalProject::with_tree("large", tree)?;
        local.publish(&node, 3_000).await?;
        let commits = local.tree.git(["rev-list", "main"])?;
        let commits: Vec<_> = commits.lines().map(str::to_owned).collect();
        ensure!(commits.len() == COMMITS, "{} commits", commits.len());
        Ok(Self {
            node,
            local,
            commits,
        })
    }

    fn kinds(&self) -> Vec<Kind<'_>> {
        let ours = self.local.path();
        let ours = ours.trim_end_matches(".git").to_owned();
        let page = move |rest: String| format!("{ours}{rest}");
        let (tree, blob, log, commit) = (page.clone(), page.clone(), page.clone(), page);
        vec![
            (
                "tree",
                Box::new(move |n| {
                    let dir = format!("d{:02}", n % DIRECTORIES);
                    (tree(format!("/tree/main/{dir}")), format!("/tree/{dir}"))
                }),
            ),
            (
                "blob",
                Box::new(move |n| {
                    let file = file_name(n * 7 % FILES);
                    (blob(format!("/blob/main/{file}")), format!("/tree/{file}"))
                }),
            ),
            (
                "log",
                Box::new(move |n| {
                    let at = n % (COMMITS / 50);
                    let ours = log(format!("/log/main?page={}", at + 1));
                    (ours, format!("/log/?ofs={}", at * 50))
                }),
            ),
            (
                "commit",
                Box::new(move |n| {
                    let oid = &self.commits[n * 11 % self.commits.len()];
                    (
                        commit(format!("/commit/{oid}")),
                        format!("/commit/?id={oid}"),
                    )
                }),
            ),
        ]
    }

    async fn beside_cgit(&self, table: &mut Table) -> Result<()> {
        let cgit = Cgit::start(self.local.tree.path()).await?;
        let port = self.node.port();
        let before = self.node.anonymous_rss_bytes()?;
        for (name, path) in self.kinds() {
            let (mut ours, mut theirs) = (Figures::default(), Figures::default());
            for round in 0..ROUNDS {
                let start = round * REQUESTS;
                ours.add(ask(port, start, |n| path(n).0).await?);
                if let Some(cgit) = &cgit {
                    theirs.add(
                        ask(cgit.port.number(), start, |n| {
                            format!("/large{}", path(n).1)
                        })
                        .await?,
                    );
                }
            }
            let ours = ours.end();
            let (floor, ratio) = match cgit.as_ref().map(|_| theirs.end()) {
                Some(theirs) => (format!("cgit {theirs}"), Some(ours.rate / theirs.rate)),
                None => ("cgit is not installed".to_owned(), None),
            };
            table.row(
                &format!("{name} page, {COMMITS} commits, {FILES} files"),
                ours.to_string(),
                &floor,
                ratio,
                "–",
            );
        }
        let after = self.node.anonymous_rss_bytes()?;
        table.row(
            "memory after all of these pages",
            mib(after),
            &format!("before {}", mib(before)),
            Some(after as f64 / before as f64),
            "–",
        );
        Ok(())
    }
}

/// Requests in a second, and the times of all.
#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    millis: Vec<f64>,
}

struct Summary {
    rate: f64,
    p99: f64,
}

impl Figures {
    fn add(&mut self, (rate, millis): (f64, Vec<f64>)) {
        self.rates.push(rate);
        self.millis.extend(millis);
    }

    fn end(mut self) -> Summary {
        Summary {
            rate: median(&mut self.rates),
            p99: percentile(&mut self.millis, 0.99),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0}/s, p99 {:.1} ms", self.rate, self.p99)
    }
}

/// Asks for the pages of the numbers from `start` on.
async fn ask(port: u16, start: usize, path: impl Fn(usize) -> String) -> Result<(f64, Vec<f64>)> {
    let client = |first: usize| {
        let path = &path;
        async move {
            // One address has a quarter of what may be compared at once.
            let address = Ipv4Addr::new(127, 4, 0, 1 + first as u8);
            let mut connection = Connection::open_from(address, port).await?;
            let mut millis = Vec::new();
            for n in (first..REQUESTS).step_by(CONNECTIONS) {
                let path = path(start + n);
                let began = Instant::now();
                let page = connection.get(&path, "Accept: text/html\r\n").await;
                let page = page.with_context(|| path.clone())?;
                ensure!(page.body.len() > 500, "{path} is empty");
                millis.push(began.elapsed().as_secs_f64() * 1e3);
            }
            anyhow::Ok(millis)
        }
    };
    let began = Instant::now();
    let all = try_join_all((0..CONNECTIONS).map(client)).await?;
    let rate = REQUESTS as f64 / began.elapsed().as_secs_f64();
    Ok((rate, all.concat()))
}

fn file_name(n: usize) -> String {
    format!("d{:02}/f{n:04}.rs", n % DIRECTORIES)
}

/// Makes the history: the first commit has all files, each further one changes one of them.
async fn import(tree: &WorkTree, commits: usize) -> Result<()> {
    let mut child =
        tokio::process::Command::from(git::command(tree.path(), ["fast-import", "--quiet"]))
            .stdin(Stdio::piped())
            .spawn()?;
    let mut stdin = child.stdin.take().context("a pipe was asked for")?;
    for n in 0..commits {
        let mut text = String::new();
        let at = 1_700_000_000 + n * 60;
        writeln!(
            text,
            "commit refs/heads/main\ncommitter Ada <ada@example.com> {at} +0000"
        )?;
        let message = format!("change the prediction of harbour {n}\n\nIt was wrong.\n");
        writeln!(text, "data {}\n{message}", message.len())?;
        let changed = if n == 0 {
            0..FILES
        } else {
            n % FILES..n % FILES + 1
        };
        for file in changed {
            let content = content(file, n);
            let name = file_name(file);
            writeln!(
                text,
                "M 100644 inline {name}\ndata {}\n{content}",
                content.len()
            )?;
        }
        stdin.write_all(text.as_bytes()).await?;
    }
    drop(stdin);
    ensure!(child.wait().await?.success(), "git imports the history");
    Ok(())
}

fn content(file: usize, version: usize) -> String {
    let line = |n: usize| {
        let value = if n == version % LINES { version } else { file };
        format!("    let height_{n} = predict(\"harbour {file}\", {value}); // metres\n")
    };
    (0..LINES).map(line).collect()
}
