//! Pictures of pages, which the documentation shows: `cargo xtask screenshots` keeps them.

use std::{env, fs, path::PathBuf};

use anyhow::{Result, ensure};
use grip_testkit::browser::{Browser, Scheme};
use tempfile::TempDir;

use super::scene::Scene;

/// The forms of a picture: what its name ends with, its width, and its colours.
const FORMS: [(&str, u32, Scheme); 3] = [
    ("", 1280, Scheme::Light),
    ("-narrow", 400, Scheme::Light),
    ("-dark", 1280, Scheme::Dark),
];
const HEIGHT: u32 = 860;

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
        (
            "conversation",
            scene.page(&format!("/topic/{}", scene.issue)),
        ),
        (
            "pull-request",
            scene.page(&format!("/topic/{}", scene.request)),
        ),
        ("purgatory", scene.at("/purgatory")),
    ];
    // All of them where they are kept; otherwise enough to see that it works.
    let shown = if kept.is_some() { all.len() } else { 1 };
    for (name, url) in &all[..shown] {
        for (form, width, scheme) in FORMS {
            browser.prefer(scheme).await?;
            browser.resize(width, HEIGHT).await?;
            browser.goto(url).await?;
            let picture = browser.screenshot(width, HEIGHT).await?;
            ensure!(picture.len() > 5_000, "{name} shows something");
            fs::write(dir.join(format!("{name}{form}.png")), picture)?;
        }
    }
    Ok(())
}
