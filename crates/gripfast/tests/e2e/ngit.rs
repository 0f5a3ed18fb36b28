//! A day with the real client: `ngit` and its remote helper for git, both lines of it, against
//! the real binary. After every step the server is asked, too: its refs, its HEAD, its events.

pub(crate) mod client;
mod first_minutes;
mod private_day;
mod served;
pub(crate) mod story;

use anyhow::Result;

use client::Line;
pub(crate) use served::nothing_is_held;
use story::Story;

#[tokio::test]
async fn a_day_with_ngit_3() -> Result<()> {
    a_day(Line::Three, Line::Three).await
}

#[tokio::test]
async fn a_day_with_ngit_2() -> Result<()> {
    a_day(Line::Two, Line::Two).await
}

#[tokio::test]
async fn a_day_of_an_ngit_3_maintainer_with_an_ngit_2_contributor() -> Result<()> {
    a_day(Line::Three, Line::Two).await
}

async fn a_day(maintainer: Line, contributor: Line) -> Result<()> {
    let mut story = Story::begin(maintainer, contributor).await?;
    let told = tell(&mut story).await;
    told.map_err(|error| story.report(&error))
}

async fn tell(story: &mut Story) -> Result<()> {
    work_together(story).await?;
    story.survives_a_crash().await?;
    story.pull_request_below_prs().await
}

/// What both people do on a day without accidents.
pub(crate) async fn work_together(story: &mut Story) -> Result<()> {
    story.init().await?;
    story.second_push().await?;
    story.tags().await?;
    story.branch_comes_and_goes().await?;
    story.force_push().await?;
    story.clone_by_the_contributor().await?;
    let request = story.pull_request().await?;
    story.pull_request_seen_by_the_maintainer(&request).await?;
    story.issue().await?;
    story.merge(&request).await
}
