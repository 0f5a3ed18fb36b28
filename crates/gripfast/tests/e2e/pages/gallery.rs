//! Pictures of pages, which the documentation shows: `cargo xtask screenshots` keeps them.

use std::{env, fs, path::PathBuf};

use anyhow::{Result, ensure};
use grip_testkit::browser::{Browser, Scheme};
use tempfile::TempDir;

use super::scene::Scene;

/// Width and height of a screen and of a phone.
const SIZES: [(&str, u32, u32); 2] = [("", 1280, 860), ("-narrow", 400, 860)];

#[tokio::test]
async fn pictures_of_the_main_pages_can_be_taken() -> Result<()> {
    let kept = env::var_os("GRIPFAST_PICTURES_DIR").map(PathBuf::from);
    let temporary = TempDir::new()?;
    let dir = kept.clone().unwrap_or_else(|| temporary.path().to_owned());
    fs::create_dir_all(&dir)?;
    let (scene, browser) = (Scene::start().await?, Browser::start().await?);
    let all = [
        ("home", scene.at("/")),
        ("list", scene.at("/repositories")),
        ("repository", scene.page("")),
        ("tree", scene.page("/tree/main/src")),
        ("blob", scene.page("/blob/main/src/main.rs")),
        ("commit", scene.page(&format!("/commit/{}", scene.commit))),
        ("conversation", scene.page(&format!("/topic/{}", scene.issue))),
        ("pull-request", scene.page(&format!("/topic/{}", scene.request))),
        ("purgatory", scene.at("/purgatory")),
        ("sync", scene.at("/sync")),
    ];
    // All of them where they are kept; otherwise enough to see that it works.
    let shown = if kept.is_some() { all.len() } else { 1 };
    for (name, url) in &all[..shown] {
        for scheme in [Scheme::Light, Scheme::Dark] {
            browser.prefer(scheme).await?;
            for (size, width, height) in SIZES {
                browser.resize(width, height).await?;
                browser.goto(url).await?;
                let picture = browser.screenshot(width, 2 * height).await?;
                ensure!(picture.len() > 5_000, "{name} shows something");
                let dark = if scheme == Scheme::Dark { "-dark" } else { "" };
                fs::write(dir.join(format!("{name}{size}{dark}.png")), picture)?;
            }
        }
    }
    Ok(())
}
