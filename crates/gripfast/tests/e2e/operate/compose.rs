//! The compose files, as a YAML parser reads them: every name in them leads somewhere, and the node
//! takes the settings.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, yaml};
use serde_json::Value;

use crate::BINARY;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// What an operator sets beside the file.
const ASKED_FOR: [(&str, &str); 2] = [
    ("GRIPFAST_DOMAIN", "grasp.example.com"),
    ("POSTGRES_PASSWORD", "secret"),
];

/// Names of the Compose specification that stand in a service.
const SERVICE_KEYS: &[&str] = &[
    "build",
    "cap_drop",
    "command",
    "depends_on",
    "environment",
    "healthcheck",
    "image",
    "networks",
    "ports",
    "read_only",
    "restart",
    "security_opt",
    "stop_grace_period",
    "tmpfs",
    "volumes",
];

struct Compose {
    name: &'static str,
    file: Value,
    /// What `Dockerfile` sets.
    image: BTreeMap<String, String>,
}

impl Compose {
    fn read(name: &'static str) -> Result<Self> {
        let text = fs::read_to_string(Path::new(PACKAGING).join(name))?;
        let file = yaml::parse(&interpolated(&text)?).context(name)?;
        let dockerfile = fs::read_to_string(Path::new(PACKAGING).join("Dockerfile"))?;
        let (_, set) = dockerfile.split_once("\nENV ").context("it sets some")?;
        let lines = set.lines().scan(true, |goes_on, line| {
            let is_one = *goes_on;
            *goes_on = line.ends_with('\\');
            is_one.then_some(line)
        });
        let pairs = lines.filter_map(|line| line.trim_end_matches('\\').trim().split_once('='));
        let image = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Self {
            name,
            file,
            image: image.collect(),
        })
    }

    fn services(&self) -> Result<&serde_json::Map<String, Value>> {
        self.file["services"].as_object().context("services")
    }

    fn gripfast(&self) -> &Value {
        &self.file["services"]["gripfast"]
    }

    /// The variables that the node of it is started with.
    fn environment(&self) -> Result<BTreeMap<String, String>> {
        let mut all = self.image.clone();
        let own = self.gripfast()["environment"].as_object();
        for (name, value) in own.context("it sets some")? {
            let value = value.as_str().with_context(|| format!("{name} is text"))?;
            all.insert(name.clone(), value.to_owned());
        }
        Ok(all)
    }

    /// Fails unless everything that is named is declared.
    fn must_be_whole(&self) -> Result<()> {
        let name = self.name;
        for section in self.file.as_object().context("sections")?.keys() {
            ensure!(
                ["services", "networks", "volumes"].contains(&section.as_str()),
                "{name}: {section}"
            );
        }
        for (service, about) in self.services()? {
            for key in about.as_object().context("a service")?.keys() {
                ensure!(
                    SERVICE_KEYS.contains(&key.as_str()),
                    "{name}: {service}.{key}"
                );
            }
            for volume in texts(&about["volumes"]) {
                let (volume, _) = volume.split_once(':').context("a volume has a place")?;
                ensure!(self.declares("volumes", volume), "{name}: {volume}");
            }
            for network in texts(&about["networks"]) {
                ensure!(self.declares("networks", network), "{name}: {network}");
            }
            let needed = about["depends_on"].as_object().into_iter().flatten();
            for (other, how) in needed {
                let other = &self.services()?[other];
                // That of the node is in its image.
                let is_told = other.get("healthcheck").is_some() || other.get("build").is_some();
                ensure!(
                    how["condition"] == "service_healthy" && is_told,
                    "{name}: {service} waits for ever"
                );
            }
        }
        let build = &self.gripfast()["build"];
        let context = build["context"].as_str().context("a directory")?;
        let dockerfile = build["dockerfile"].as_str().context("a file")?;
        let dockerfile = Path::new(PACKAGING).join(context).join(dockerfile);
        ensure!(dockerfile.is_file(), "{}", dockerfile.display());
        Ok(())
    }

    fn declares(&self, section: &str, name: &str) -> bool {
        self.file[section].get(name).is_some()
    }
}

/// The texts of a list; none where there is no list.
fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// The text as compose reads it: with variables in their places. One that is not set must stop it,
/// with a reason.
fn interpolated(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut parts = text.split("${");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (inner, rest) = part.split_once('}').context("it is closed")?;
        let name = inner.split(':').next().unwrap_or_default();
        let found = ASKED_FOR.iter().find(|(asked, _)| *asked == name);
        let (_, value) = found.with_context(|| format!("{name} is not documented"))?;
        ensure!(
            text.contains(&format!("${{{name}:?")),
            "{name} may be missing"
        );
        out.push_str(value);
        out.push_str(rest);
    }
    Ok(out)
}

#[tokio::test]
async fn the_compose_files_name_what_is_there_and_settings_that_the_node_takes() -> Result<()> {
    for name in ["compose.yaml", "compose-postgres.yaml"] {
        let compose = Compose::read(name)?;
        compose.must_be_whole()?;
        let environment = compose.environment()?;
        let node = Node::prepare(BINARY, &[])?;
        let mut command = node.command(&["config", "--json"]);
        command.env_clear().envs(&environment);
        let output = command.output().await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success() && said.is_empty(), "{name}: {said}");
        let config: Value = serde_json::from_slice(&output.stdout)?;
        let warnings = config["warnings"].as_array().context("a list")?;
        ensure!(warnings.is_empty(), "{name}: {warnings:?}");
        let options = config["options"].as_array().context("a list")?;
        for variable in environment.keys() {
            let mut given = options.iter().map(|option| &option["source"]["name"]);
            ensure!(given.any(|it| it == variable), "{name}: {variable}");
        }
        // What it may write to is a volume, and the port is the one that others are sent to.
        let data = &environment["GRIPFAST_DATA_DIR"];
        let mut places = texts(&compose.gripfast()["volumes"]).into_iter();
        ensure!(places.any(|it| it.ends_with(&format!(":{data}"))), "{name}");
        let (_, port) = environment["GRIPFAST_BIND_ADDRESS"]
            .rsplit_once(':')
            .context("a port")?;
        let mut sent = texts(&compose.gripfast()["ports"]).into_iter();
        let proxy = compose.file["services"]["caddy"]["command"].as_str();
        ensure!(
            sent.any(|it| it.ends_with(&format!(":{port}")))
                || proxy.is_some_and(|it| it.ends_with(&format!("--to gripfast:{port}"))),
            "{name}: nobody reaches port {port}"
        );
    }
    Ok(())
}

/// Clients are known by their own addresses only if the proxy's network is the trusted one.
#[test]
fn the_proxy_of_the_compose_file_is_trusted_and_nobody_else_is() -> Result<()> {
    let compose = Compose::read("compose-postgres.yaml")?;
    let subnet = &compose.file["networks"]["front"]["ipam"]["config"][0]["subnet"];
    let trusted = &compose.gripfast()["environment"]["GRIPFAST_TRUSTED_PROXY_CIDRS"];
    ensure!(
        subnet.is_string() && subnet == trusted,
        "{subnet} {trusted}"
    );
    // Neither the node nor its databases can be reached but through the proxy.
    for (service, about) in compose.services()? {
        ensure!(
            (service == "caddy") == about.get("ports").is_some(),
            "{service}"
        );
    }
    Ok(())
}

/// What the node and its commands rest on is in the image, whose base has neither.
#[test]
fn the_image_has_git_and_certificates() -> Result<()> {
    let dockerfile = fs::read_to_string(Path::new(PACKAGING).join("Dockerfile"))?;
    let installed = dockerfile
        .lines()
        .find(|line| line.contains("apt-get install"));
    let installed: Vec<&str> = installed.context("it installs some")?.split(' ').collect();
    for package in ["ca-certificates", "git"] {
        ensure!(installed.contains(&package), "{package}: {installed:?}");
    }
    Ok(())
}
