//! Visits of people: at any width, in light and dark, by keyboard, without scripts.

use anyhow::{Result, ensure};
use grip_testkit::{
    Project,
    browser::{Browser, ENTER, Scheme, TAB},
    http::must_contain,
};

use super::scene::Scene;

/// Every kind of page, with a part that must be on it.
fn pages(scene: &Scene) -> Vec<(String, &'static str)> {
    let of = |rest: &str| scene.page(rest);
    let author = scene.at(&format!("/{}", scene.local.owner.npub()));
    vec![
        (scene.at("/"), "Push your first repository"),
        (scene.at("/repositories"), "tide-table"),
        (scene.at("/repositories?q=nothing-of-that-name"), "Nothing"),
        (scene.at("/purgatory"), "moon-phases"),
        (scene.at("/sync"), "Hosts"),
        (scene.at("/modules"), "Go modules"),
        (scene.at("/resolver"), "Peer discovery"),
        (scene.at("/status"), "ready"),
        (author, "Ada Marlow"),
        (of(""), "git clone"),
        (of("/tree/main/src"), "main.rs"),
        (of("/blob/main/src/main.rs"), "id=\"L3\""),
        (of("/blob/main/README.md"), "Ouistreham"),
        (of("/blob/main/docs/harbour.png"), "<img"),
        (of("/log"), "aria-label=\"Commits\""),
        (of("/history/main/src/main.rs"), "change src/main.rs"),
        (of(&format!("/commit/{}", scene.commit)), "class=\"ins\""),
        (of(&format!("/commit/{}?view=split", scene.commit)), "split"),
        (of("/compare/storm-surge...main"), "against"),
        (of("/refs"), "Compare"),
        (of("/blame/main/src/main.rs"), "origin"),
        (of("/grep/main?q=water"), "src/main.rs"),
        (of("/issues?all"), "Barfleur"),
        (of(&format!("/topic/{}", scene.issue)), "Thank you"),
        (of("/proposals"), "please pull"),
        (of(&format!("/topic/{}", scene.request)), "version 1"),
        (scene.at(&format!("/explain/{}", scene.issue)), "served"),
    ]
}

#[tokio::test]
async fn g01_33_every_page_is_shown_without_a_complaint_in_light_dark_and_narrow() -> Result<()> {
    let (scene, browser) = (Scene::start().await?, Browser::start().await?);
    let mut wrong = Vec::new();
    for (url, part) in pages(&scene) {
        browser.resize(1280, 900).await?;
        browser.prefer(Scheme::Light).await?;
        let page = browser.open(&url).await?;
        if !page.dom.contains(part) {
            wrong.push(format!("{url}: {part} is missing"));
        }
        wrong.extend(page.complaints.iter().map(|line| format!("{url}: {line}")));
        let found = browser.axe().await?;
        wrong.extend(found.iter().map(|line| format!("{url}: {line}")));
        browser.prefer(Scheme::Dark).await?;
        let found = browser.axe_of_colours().await?;
        wrong.extend(found.iter().map(|line| format!("{url}, dark: {line}")));
        browser.resize(400, 800).await?;
        let wider = browser
            .run(
                "const root = document.documentElement;
                 return root.scrollWidth - root.clientWidth",
            )
            .await?;
        if wider != 0 {
            wrong.push(format!("{url}: {wider} px wider than the window"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A missing page is itself one complaint of the browser.
    let lost = browser.open(&scene.at("/no/such/page")).await?;
    must_contain(&lost.dom, &["<h1>Not found", "What may help"]);
    let others = lost.complaints.iter().filter(|line| !line.contains("404"));
    ensure!(others.count() == 0, "{:?}", lost.complaints);
    Ok(())
}

#[tokio::test]
async fn a_visitor_gets_from_the_home_page_into_a_file_by_keyboard_alone() -> Result<()> {
    let (scene, browser) = (Scene::start().await?, Browser::start().await?);
    browser.goto(&scene.at("/")).await?;
    // The way past the navigation comes first, and leads to the content.
    browser.press(&[TAB]).await?;
    must_contain(&browser.focused().await?, &["Skip to the content"]);
    browser.press(&[ENTER]).await?;
    browser
        .until(
            "the content has the focus",
            "document.activeElement?.id === 'main'",
        )
        .await?;
    tab_to(&browser, ">tide-table<").await?;
    browser.press(&[ENTER]).await?;
    let is_open = "document.querySelector('table.files') !== null";
    browser.until("the repository is open", is_open).await?;
    tab_to(&browser, ">src/<").await?;
    browser.press(&[ENTER]).await?;
    let is_open =
        "location.pathname.endsWith('/tree/main/src') && document.readyState === 'complete'";
    browser.until("the directory is open", is_open).await?;
    tab_to(&browser, ">main.rs<").await?;
    browser.press(&[ENTER]).await?;
    browser
        .until("the file is open", "document.getElementById('L2') !== null")
        .await?;
    // Lines that are wider than the window can be reached, too.
    tab_to(&browser, "Lines of the file").await
}

/// Presses Tab until something with this text has the focus.
async fn tab_to(browser: &Browser, text: &str) -> Result<()> {
    let mut seen = Vec::new();
    for _ in 0..80 {
        browser.press(&[TAB]).await?;
        let focused = browser.focused().await?;
        if focused.contains(text) {
            return Ok(());
        }
        seen.push(focused);
    }
    anyhow::bail!("{text} never has the focus; what has: {}", seen.join("\n"))
}

#[tokio::test]
async fn what_changes_appears_on_an_open_page_by_itself() -> Result<()> {
    let (scene, browser) = (Scene::start().await?, Browser::start().await?);
    let waits = |name: &str| format!("document.body.innerText.includes({name:?})");
    browser.goto(&scene.at("/purgatory")).await?;
    let late = Project::new("new-moon");
    let announcement = late.announcement(&[&scene.node], &[]);
    scene
        .node
        .connect()
        .await?
        .publish_ok(&announcement)
        .await?;
    browser.until("it is listed", &waits("new-moon")).await?;
    // A countdown counts without a word from the node.
    let left = "document.querySelector('[data-live] time[data-ago]').textContent";
    browser
        .until(
            "the time is told by its distance",
            &format!("{left}.startsWith('in ')"),
        )
        .await?;
    browser.goto(&scene.at("/")).await?;
    let issue = scene
        .visitor
        .issue(&scene.local.owner, "tide-table", "Sunrise, too");
    scene.node.connect().await?.publish_ok(&issue).await?;
    browser
        .until("it is listed", &waits("Sunrise, too"))
        .await?;
    Ok(())
}

#[tokio::test]
async fn pages_work_without_scripts_and_git_works_in_a_page_of_another_origin() -> Result<()> {
    let (scene, browser) = (Scene::start().await?, Browser::start().await?);
    browser.allow_scripts(false).await?;
    for url in [scene.at("/"), scene.page(""), scene.at("/purgatory")] {
        browser.goto(&url).await?;
        let shot = browser.screenshot(1280, 900).await?;
        ensure!(shot.len() > 10_000, "{url} shows something");
    }
    browser.allow_scripts(true).await?;
    // G01-59: any web client reads from here.
    let url = scene.local.url(&scene.node);
    let file = browser.clone_in_page(&url, "src/main.rs").await?;
    must_contain(&file, &["high water in {} minutes"]);
    Ok(())
}
