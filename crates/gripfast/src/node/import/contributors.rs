//! Contributor repositories (GRASP-06): their tips are pushed here as their contributors would, so that
//! each counts for the event that names it, whichever comes first.

use std::io;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use futures_util::StreamExt as _;
use grip_git::pktline::{self, Packet};
use grip_types::{Oid, RefName};
use tokio::{fs::File, io::AsyncReadExt as _};

use super::{Report, layout::View, target::Target};
use crate::commands::progress::Progress;

const DISABLED: &str = "prs: pull requests of contributors are not hosted here (grasp06_enable)";
/// What a ref is at that is not there.
const NO_OBJECT: &str = "0000000000000000000000000000000000000000";

/// A tip that waits to be taken.
type Tip = (RefName, Oid);

impl Target {
    /// Takes the tips of all contributor repositories.
    pub(super) async fn take_contributions(&self, views: &[View], report: &mut Report) {
        let mut progress = Progress::items("contributor repositories", views.len() as u64);
        for view in views {
            if let Err(error) = self.take_tips(view, report).await {
                report.skip(format!("{}: {error:#}", view.addr));
            }
            progress.add(1);
        }
        progress.finish();
    }

    async fn take_tips(&self, view: &View, report: &mut Report) -> anyhow::Result<()> {
        let mut tips = tips(view)?;
        report.contributions.found += tips.len() as u64;
        if !self.grasp.serves_contributors() {
            for _ in tips {
                report.skip(DISABLED);
            }
            return Ok(());
        }
        let here = self.refs(&view.addr);
        let found = tips.len();
        tips.retain(|(name, tip)| here.get(name.as_str()) != Some(&tip.to_string()));
        report.contributions.already_here += (found - tips.len()) as u64;
        // Together, since they share objects; one that cannot be taken would keep the others out.
        if tips.is_empty() || self.push(view, &tips).await.is_ok() {
            report.contributions.taken += tips.len() as u64;
            return Ok(());
        }
        for tip in tips {
            match self.push(view, std::slice::from_ref(&tip)).await {
                Ok(()) => report.contributions.taken += 1,
                Err(error) => report.skip(format!("{} {}: {error:#}", view.addr, tip.0)),
            }
        }
        Ok(())
    }

    async fn push(&self, view: &View, tips: &[Tip]) -> anyhow::Result<()> {
        let oids: Vec<Oid> = tips.iter().map(|(_, tip)| *tip).collect();
        let (identifier, from) = (&view.addr.identifier, view.objects()?);
        let pack = self.repositories.pack_foreign(identifier, &from, &oids);
        let pack = pack.await.context("its objects cannot be read")?;
        let body = io::Cursor::new(commands(tips)).chain(File::from_std(pack.open()?));
        let reply = self.grasp.push(view.addr.clone(), None, body).await;
        let pieces: Vec<Bytes> = reply.body.collect().await;
        check(&pieces.concat())
    }
}

/// The tips of pull requests; a contributor repository has no other refs.
fn tips(view: &View) -> anyhow::Result<Vec<Tip>> {
    let refs = view.refs()?.into_iter();
    let parsed = refs.filter_map(|(name, oid)| {
        let name = RefName::parse(&name).ok()?;
        name.nostr_event_id()?;
        Some((name, oid.parse().ok()?))
    });
    Ok(parsed.collect())
}

/// The head of a push that makes these refs.
fn commands(tips: &[Tip]) -> Vec<u8> {
    let mut body = Vec::new();
    for (n, (name, tip)) in tips.iter().enumerate() {
        let capabilities = if n == 0 { "\0report-status" } else { "" };
        let command = format!("{NO_OBJECT} {tip} {name}{capabilities}");
        pktline::put(&mut body, command.as_bytes());
    }
    body.extend_from_slice(pktline::FLUSH);
    body
}

/// Fails with the reason if a push was refused.
fn check(report: &[u8]) -> anyhow::Result<()> {
    let (mut rest, mut is_unpacked) = (report, false);
    while let Some((packet, length)) = pktline::decode(rest)? {
        rest = &rest[length..];
        let Packet::Data(line) = packet else {
            break;
        };
        let line = String::from_utf8_lossy(pktline::strip_lf(line)).into_owned();
        let mut words = line.splitn(3, ' ');
        match [words.next(), words.next(), words.next()] {
            [Some("unpack"), Some("ok"), None] => is_unpacked = true,
            [Some("ok"), ..] => {}
            [Some("ng"), _, Some(reason)] => bail!("{reason}"),
            _ => bail!("{line}"),
        }
    }
    if is_unpacked {
        Ok(())
    } else {
        Err(anyhow!("the push ended without a report"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            pktline::put(&mut out, line.as_bytes());
        }
        out.extend_from_slice(pktline::FLUSH);
        out
    }

    #[test]
    fn the_first_refusal_of_a_report_is_its_reason() {
        check(&report(&["unpack ok\n", "ok refs/nostr/a\n"])).unwrap();
        let refused = report(&["unpack ok\n", "ok a\n", "ng b too large: 3 MiB\n"]);
        assert_eq!(check(&refused).unwrap_err().to_string(), "too large: 3 MiB");
        let broken = report(&["unpack index-pack failed\n"]);
        assert!(
            check(&broken)
                .unwrap_err()
                .to_string()
                .contains("index-pack")
        );
        assert!(check(b"").is_err());
    }
}
