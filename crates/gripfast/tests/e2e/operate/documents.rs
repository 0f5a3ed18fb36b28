//! Configuration files and commands that the documentation shows.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, git, http::must_contain};
use tempfile::TempDir;

use crate::BINARY;

const BACKUP: &str = include_str!("../../../../../docs/backup.md");
const ALERTS: &str = include_str!("../../../../../packaging/prometheus/gripfast.rules.yml");
const TROUBLESHOOTING: &str = include_str!("../../../../../docs/troubleshooting.md");
const TASKS: &str = include_str!("../../../../../docs/tasks.md");

/// The blocks of a language in a document.
pub fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    let rest = text.split(begin.as_str()).skip(1);
    rest.filter_map(|rest| rest.split_once("```").map(|(block, _)| block))
        .collect()
}

#[tokio::test]
async fn every_configuration_of_the_guide_by_task_is_read_without_a_warning() -> Result<()> {
    let blocks = blocks(TASKS, "toml");
    ensure!(blocks.len() >= 6, "{}", blocks.len());
    for block in blocks {
        let node = Node::prepare(BINARY, &[])?;
        fs::write(node.work_dir().join("gripfast.toml"), block)?;
        let mut command = node.command(&["config", "--json"]);
        for variable in ["NGIT_DOMAIN", "NGIT_BIND_ADDRESS", "GRIPFAST_DATA_DIR"] {
            command.env_remove(variable);
        }
        let output = command.output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success() && said.is_empty(), "{block}{said}");
        let config: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        ensure!(
            config["warnings"].as_array().is_some_and(Vec::is_empty),
            "{config:#}"
        );
        let first = block.lines().next().context("a line")?;
        let (key, value) = first.split_once(" = ").context("a setting")?;
        let options = config["options"].as_array().context("a list")?;
        let option = options.iter().find(|option| option["key"] == key);
        let option = option.with_context(|| format!("{key} is a setting"))?;
        ensure!(option["value"] == value.trim_matches('"'), "{option}");
    }
    Ok(())
}

/// docs/backup.md, typed line by line: backups of a node at work, the line of the timer, and a restore
/// in the place of what was damaged.
#[tokio::test]
async fn the_commands_about_backups_are_as_documented() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let project = LocalProject::new("tides")?;
    project.publish(&node, 10).await?;
    let (typed, timer) = (blocks(BACKUP, "sh"), blocks(BACKUP, "text"));
    let [make, restore, mend] = typed[..] else {
        anyhow::bail!("{typed:?}");
    };
    let (_, timer) = timer[0].split_once(" root ").context("a user")?;
    let backups = TempDir::new()?;
    let backups = backups.path().join("mnt");
    let mut said = String::new();
    for line in [make, timer, restore, mend]
        .into_iter()
        .flat_map(str::lines)
    {
        match line {
            "systemctl stop gripfast" => drop(node.stop().await?),
            "systemctl start gripfast" => node.launch().await?,
            line => {
                let line = line.replace("/mnt/backup", &backups.to_string_lossy());
                // The account of the test.
                let line = line.replace("chown -R gripfast:", "command chown -R \"$(id -un)\":");
                let line = line.replace("/var/lib/gripfast", &node.data_dir().to_string_lossy());
                let output = node.shell(&line).output().await?;
                let errors = String::from_utf8_lossy(&output.stderr);
                ensure!(output.status.success(), "{line}: {errors}");
                said.push_str(&String::from_utf8_lossy(&output.stdout));
            }
        }
    }
    must_contain(
        &said,
        &[
            "restored and checked: repositories 1",
            "restored 2",
            "repositories 1, events",
        ],
    );
    let served = git::ls_remote(&project.url(&node)).await?;
    ensure!(
        served.iter().any(|(_, oid)| *oid == project.tip),
        "{served:?}"
    );
    let damaged = node.data_dir().with_extension("damaged");
    ensure!(damaged.join("relay").is_dir(), "what was there is aside");
    Ok(())
}

/// Files and headings that the documents link to are there.
#[test]
fn every_link_of_the_documents_leads_somewhere() -> Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    links_must_lead_somewhere(&root.join("README.md"), &root.join("docs"))
}

/// Fails on a link of a page, or of one in the directory, to a file or a heading that is not there.
pub fn links_must_lead_somewhere(page: &Path, directory: &Path) -> Result<()> {
    let mut files = vec![page.to_owned()];
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        files.extend(
            path.extension()
                .is_some_and(|it| it == "md")
                .then_some(path),
        );
    }
    for file in files {
        let text = fs::read_to_string(&file)?;
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let directory = file.parent().context("a directory")?;
            let target = if path.is_empty() {
                file.clone()
            } else {
                directory.join(path)
            };
            ensure!(target.exists(), "{}: {link}", file.display());
            if !heading.is_empty() && target.extension().is_some_and(|it| it == "md") {
                let text = fs::read_to_string(&target)?;
                let mut headings = text
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .map(anchor);
                ensure!(
                    headings.any(|it| it == heading),
                    "{}: {link}",
                    file.display()
                );
            }
        }
    }
    Ok(())
}

/// Each alert leads to its symptom, which names the alert.
#[test]
fn every_alert_links_to_a_symptom_that_names_it() -> Result<()> {
    let sections: Vec<_> = TROUBLESHOOTING.split("\n## ").skip(1).collect();
    let alerts: Vec<_> = ALERTS.split("- alert: ").skip(1).collect();
    ensure!(alerts.len() >= 12, "{}", alerts.len());
    for alert in alerts {
        let name = alert.lines().next().context("a name")?;
        let link = alert.split_once("docs/troubleshooting.md#");
        let (_, link) = link.with_context(|| format!("{name} has no link"))?;
        let heading = link.split('"').next().unwrap_or_default();
        let is_meant = |text: &&&str| anchor(text.lines().next().unwrap_or_default()) == heading;
        let section = sections.iter().find(is_meant);
        let section = section.with_context(|| format!("{name}: {heading}"))?;
        ensure!(section.contains(&format!("`{name}`")), "{name}: {section}");
    }
    Ok(())
}

/// The name of a heading in links, as forges make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().replace(' ', "-")
}
