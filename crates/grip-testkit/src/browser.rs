//! A real browser, for what people look at.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::wait::within;

/// A page as a browser made it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The document after loading, with whatever scripts and errors did to it.
    pub dom: String,
    /// What the browser complained of: refused styles, failed loads, script errors.
    pub complaints: Vec<String>,
}

/// Loads `url` in headless Chromium.
pub async fn open(url: &str) -> Result<Page> {
    let profile = tempfile::tempdir()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "tests look at pages with a real browser"
    )]
    let mut command = tokio::process::Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = within("the browser", command.arg(url).output())
        .await?
        .context(
            "chromium is needed to look at pages: run `cargo xtask test`, which installs it",
        )?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the browser failed: {said}");
    let complaints = said
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .map(str::to_owned);
    Ok(Page {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        complaints: complaints.collect(),
    })
}
