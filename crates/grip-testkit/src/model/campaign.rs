//! Many stories, played by several threads, each with nodes of its own.

use std::{
    cell::{Cell, RefCell},
    fmt, io,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::{
    Fixture, Subject,
    step::{COMMITS, story},
    story::{Story, Tally},
};

/// Stories on one node, which is then replaced: what the ones before left makes each start longer.
const STORIES_PER_NODE: u32 = 50;
/// A step is one large future in a build without optimisation.
const STACK_BYTES: usize = 16 << 20;
/// How long a shorter story is looked for: on the binary each that fails takes as long as a wait may.
const MAX_SHRINK_MILLIS: u32 = 60_000;
/// How often a campaign says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(60);

/// Which stories are played, and how many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Campaign {
    pub stories: u32,
    pub seed: u64,
    pub threads: u32,
}

/// What a campaign came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Played {
    /// Those that were played to shrink a failure among them.
    pub stories: u32,
    pub tally: Tally,
    pub took: Duration,
}

impl Played {
    /// Fails if hardly anything happened in the stories: they would agree with any model.
    pub fn must_have_happened(&self) -> Result<()> {
        let stories = u64::from(self.stories);
        let Tally { pushes, served, .. } = self.tally;
        ensure!(pushes >= stories / 2 && served >= stories / 2, "{self}");
        Ok(())
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stories,
            tally,
            took,
        } = self;
        let per_second = f64::from(*stories) / took.as_secs_f64();
        write!(
            f,
            "{stories} stories of {} steps, {} pushes and {} more of pull requests in {took:.1?}, {per_second:.1} a second; \
             events held {} times, served {} times",
            tally.steps, tally.pushes, tally.tips, tally.held, tally.served
        )
    }
}

impl Campaign {
    /// As `GRIPFAST_MODEL_CASES`, `_SEED` and `_THREADS` say; so many stories of another seed each
    /// time otherwise.
    pub fn from_env(stories: u32, threads: u32) -> Result<Self> {
        let seconds = nostr::prelude::Timestamp::now().as_secs();
        Ok(Self {
            stories: number("GRIPFAST_MODEL_CASES")?.unwrap_or(stories),
            seed: number("GRIPFAST_MODEL_SEED")?.unwrap_or(seconds),
            threads: number("GRIPFAST_MODEL_THREADS")?.unwrap_or(threads).max(1),
        })
    }

    /// Plays every story; fails with the shortest form of the first that goes wrong in each thread.
    ///
    /// `open` starts a node, given the number of its thread.
    pub fn play<S, O>(self, open: O) -> Result<Played>
    where
        S: Subject,
        O: AsyncFn(u32) -> Result<S> + Sync,
    {
        let began = Instant::now();
        let fixture = runtime()?.block_on(Fixture::new(COMMITS))?;
        let shared = Shared::default();
        let parts = thread::scope(|scope| {
            let part = |number| {
                let (open, fixture, shared) = (&open, &fixture, &shared);
                thread::Builder::new()
                    .stack_size(STACK_BYTES)
                    .spawn_scoped(scope, move || self.play_part(number, open, fixture, shared))
            };
            let threads: io::Result<Vec<_>> = (0..self.threads).map(part).collect();
            let threads = threads?;
            // Dropped when every part has ended, which ends the reporter.
            let (_playing, ended) = mpsc::sync_channel(0);
            scope.spawn(|| self.report(began, &shared, ended));
            let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
            io::Result::Ok(ended.collect::<Vec<_>>())
        })?;
        let mut played = Played {
            stories: 0,
            tally: Tally::default(),
            took: began.elapsed(),
        };
        for part in parts {
            let (stories, tally) =
                part.map_err(|_| anyhow!("a thread of the model panicked"))??;
            played.stories += stories;
            played.tally += tally;
        }
        Ok(played)
    }

    /// Says how far all parts are, until they have ended.
    fn report(self, began: Instant, shared: &Shared, ended: mpsc::Receiver<()>) {
        while ended.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
            let stories = shared.stories.load(Relaxed);
            let per_second = f64::from(stories) / began.elapsed().as_secs_f64();
            println!(
                "{stories} of {} stories, {per_second:.1} a second",
                self.stories
            );
        }
    }

    fn play_part<S, O>(
        self,
        number: u32,
        open: &O,
        fixture: &Fixture,
        shared: &Shared,
    ) -> Result<(u32, Tally)>
    where
        S: Subject,
        O: AsyncFn(u32) -> Result<S>,
    {
        let runtime = runtime()?;
        let cases = self.stories / self.threads + u32::from(number < self.stories % self.threads);
        if cases == 0 {
            return Ok((0, Tally::default()));
        }
        let config = Config {
            cases,
            failure_persistence: None,
            max_shrink_time: MAX_SHRINK_MILLIS,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.seed.to_be_bytes());
        bytes[8..12].copy_from_slice(&number.to_be_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let node = RefCell::new(None);
        let (stories, tally) = (Cell::new(0_u32), Cell::new(Tally::default()));
        let has_failed = Cell::new(false);
        let played = runner.run(&story(), |story| {
            if shared.has_failed.load(Relaxed) && !has_failed.get() {
                // Another thread has found something: this one has no need to go on.
                return Ok(());
            }
            stories.set(stories.get() + 1);
            let nth = stories.get();
            let mut node = node.borrow_mut();
            let told = runtime.block_on(async {
                // What a story that failed leaves is nobody's next beginning.
                if nth % STORIES_PER_NODE == 0 || has_failed.get() {
                    close(&mut node).await?;
                }
                if node.is_none() {
                    *node = Some(open(number).await.context("no node could be started")?);
                }
                let node = node.as_mut().expect("it was just started");
                let mut played = Story::new(node, fixture, format!("story-{nth}"));
                for step in &story {
                    played
                        .play(step)
                        .await
                        .with_context(|| format!("{step:?}"))?;
                    played.check(step).await?;
                }
                played.end().await
            });
            shared.stories.fetch_add(1, Relaxed);
            if let Ok(more) = &told {
                let mut all = tally.get();
                all += *more;
                tally.set(all);
            }
            told.map(drop).map_err(|error| {
                if !has_failed.get() {
                    // At once: to find a shorter one may take longer than the run has.
                    let seed = self.seed;
                    println!("seed {seed}, thread {number}, to be shrunk: {error:#}\n{story:?}");
                }
                shared.has_failed.store(true, Relaxed);
                has_failed.set(true);
                TestCaseError::fail(format!("{error:#}"))
            })
        });
        runtime.block_on(close(&mut node.borrow_mut()))?;
        match played {
            Ok(()) => Ok((stories.get(), tally.get())),
            Err(TestError::Fail(reason, story)) => Err(anyhow!(
                "seed {}, thread {number}: {reason}\n{story:#?}",
                self.seed
            )),
            Err(error) => Err(anyhow!("{error}")),
        }
    }
}

/// What the parts of a campaign tell each other.
#[derive(Default)]
struct Shared {
    has_failed: AtomicBool,
    stories: AtomicU32,
}

async fn close<S: Subject>(node: &mut Option<S>) -> Result<()> {
    match node.take() {
        Some(node) => node.close().await,
        None => Ok(()),
    }
}

fn number<T: std::str::FromStr>(variable: &str) -> Result<Option<T>> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(None);
    };
    let number = text.parse().ok();
    number
        .map(Some)
        .with_context(|| format!("{variable} has to be a number"))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    Ok(runtime?)
}
