//! YAML as a parser of another project reads it: PyYAML, which nostr-relay brings along.

use std::{io::Write as _, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{installed::installed, python_relay};

const SCRIPT: &str = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)";

/// Reads a document as JSON.
#[expect(clippy::disallowed_methods, reason = "tests run the real parser")]
pub fn parse(text: &str) -> Result<Value> {
    let programs = installed("nostr-relay", python_relay::VERSION, &["python3"])?;
    let mut child = std::process::Command::new(programs.join("python3"))
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("its input is piped")?;
    stdin.write_all(text.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "no YAML: {said}");
    Ok(serde_json::from_slice(&output.stdout)?)
}
