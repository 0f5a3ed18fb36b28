//! The steps of a story, and how often each is taken.

use proptest::prelude::*;

/// People of a story.
pub(super) const PEOPLE: usize = 3;
/// Commits that states name.
pub(super) const COMMITS: usize = 3;
pub(super) const BRANCHES: [&str; 2] = ["refs/heads/main", "refs/heads/next"];
/// Most steps of a story.
const MAX_STEPS: usize = 13;

/// Each branch at a commit, or not at all, and the one that HEAD is said to be at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tips {
    pub(super) at: [Option<usize>; 2],
    pub(super) head: Option<usize>,
}

/// One thing that happens. People and commits are named by their number.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An announcement that lists this server, with maintainers.
    Announce(usize, Vec<usize>),
    /// One that lists another.
    Leave(usize, Vec<usize>),
    /// An announcement of before is sent again.
    Replay(usize),
    State(usize, Tips),
    /// The same with the time of the event before.
    Tie(usize, Tips),
    /// A push to somebody's repository of the branches that are chosen, as the newest state of the
    /// second person says.
    Push(usize, usize, [bool; 2]),
    /// Objects come by another way.
    Fetch(usize),
    /// Everything at an address up to now is taken back.
    DeleteState(usize),
    DeleteAnnouncement(usize),
    /// One event of before is taken back by its author.
    DeleteEvent(usize),
    /// A key takes back all it made.
    Vanish(usize),
    /// Any event of before comes from another relay.
    Arrive(usize),
    /// An event is made and kept back: it may arrive later.
    Withhold(usize, Tips),
    /// A state, or an announcement, that is over a moment later (NIP-40).
    Expire(usize, Option<Tips>),
    /// The database is away while a state comes, and until the node is started again.
    DatabaseAway(usize, Tips),
    /// The disk is full while a state and a push come.
    DiskFull(usize, Tips),
    /// The node is started under another name, and again under its own.
    Rename,
    /// A pull request to somebody, at a commit.
    Request(usize, usize, usize),
    /// The same, whose tip is pushed while its event is kept back: it may arrive later.
    Propose(usize, usize, usize),
    /// A push to somebody's repository of the tip of a pull request of before, or of another commit in
    /// its place.
    PushTip(usize, usize, Option<usize>),
    Ban(usize),
    Unban(usize),
    /// Half an hour passes.
    Wait,
    Restart,
    Kill,
}

impl Step {
    /// Says whether an event that is served or held may be neither after it, though no newer version
    /// takes its place.
    pub(super) fn takes_away(&self) -> bool {
        match self {
            Self::State(..)
            | Self::Tie(..)
            | Self::Push(..)
            | Self::Fetch(_)
            | Self::Withhold(..)
            | Self::DatabaseAway(..)
            | Self::DiskFull(..)
            | Self::Rename
            | Self::Request(..)
            | Self::Propose(..)
            | Self::PushTip(..)
            | Self::Unban(_)
            | Self::Restart
            | Self::Kill => false,
            // An announcement may strike somebody from the maintainers.
            Self::Announce(..)
            | Self::Replay(_)
            | Self::Arrive(_)
            | Self::Leave(..)
            | Self::DeleteState(_)
            | Self::DeleteAnnouncement(_)
            | Self::DeleteEvent(_)
            | Self::Vanish(_)
            | Self::Expire(..)
            | Self::Ban(_)
            | Self::Wait => true,
        }
    }
}

/// A whole story. Steps by chance alone seldom come to a repository that is served, so most stories
/// begin with one.
pub(super) fn story() -> impl Strategy<Value = Vec<Step>> {
    let steps = prop::collection::vec(step(), 1..=MAX_STEPS);
    (opening(), steps).prop_map(|(opening, steps)| [opening, steps].concat())
}

/// How a story begins: with nothing, an announcement that waits, one person's repository, two people's, or
/// that of a chain of three.
fn opening() -> impl Strategy<Value = Vec<Step>> {
    let served = |by: usize, at: Tips| [Step::State(by, at), Step::Push(by, by, [true, true])];
    let alone = move |at: Tips| [vec![Step::Announce(0, vec![])], served(0, at).into()].concat();
    let together = move |(by, at): (usize, Tips)| {
        let both = vec![Step::Announce(0, vec![1]), Step::Announce(1, vec![0])];
        [both, served(by, at).into()].concat()
    };
    // Each lists the next, who lists them back: the last may speak for the first.
    let chain = |(by, at): (usize, Tips)| {
        vec![
            Step::Announce(0, vec![1]),
            Step::Announce(1, vec![0, 2]),
            Step::Announce(2, vec![1]),
            Step::State(by, at),
            Step::Push(0, by, [true, true]),
        ]
    };
    prop_oneof![
        1 => Just(Vec::new()),
        1 => tips().prop_map(|at| vec![Step::Announce(0, vec![]), Step::State(0, at)]),
        3 => tips().prop_map(alone),
        3 => (0..2_usize, tips()).prop_map(together),
        2 => (0..3_usize, tips()).prop_map(chain),
    ]
}

fn tips() -> impl Strategy<Value = Tips> {
    let tip = || prop::option::weighted(0.75, 0..COMMITS);
    let head = prop::option::of(0..BRANCHES.len());
    ([tip(), tip()], head).prop_map(|(at, head)| Tips { at, head })
}

fn step() -> impl Strategy<Value = Step> {
    let person = 0..PEOPLE;
    let others = || prop::collection::vec(0..PEOPLE, 0..3);
    let push = (0..PEOPLE, 0..PEOPLE, any::<[bool; 2]>());
    prop_oneof![
        20 => (person.clone(), others()).prop_map(|(who, m)| Step::Announce(who, m)),
        4 => (person.clone(), others()).prop_map(|(who, m)| Step::Leave(who, m)),
        8 => (0..8_usize).prop_map(Step::Replay),
        24 => (person.clone(), tips()).prop_map(|(who, at)| Step::State(who, at)),
        4 => (person.clone(), tips()).prop_map(|(who, at)| Step::Tie(who, at)),
        // Of what a state says most is pushed by its author.
        20 => person.clone().prop_map(|who| Step::Push(who, who, [true, true])),
        12 => push.prop_map(|(to, by, which)| Step::Push(to, by, which)),
        8 => (0..COMMITS).prop_map(Step::Fetch),
        4 => person.clone().prop_map(Step::DeleteState),
        4 => person.clone().prop_map(Step::DeleteAnnouncement),
        12 => (0..12_usize).prop_map(Step::DeleteEvent),
        4 => person.clone().prop_map(Step::Vanish),
        8 => (0..12_usize).prop_map(Step::Arrive),
        8 => (person.clone(), tips()).prop_map(|(who, at)| Step::Withhold(who, at)),
        4 => (person.clone(), person.clone(), 0..COMMITS)
            .prop_map(|(who, to, at)| Step::Request(who, to, at)),
        4 => (person.clone(), person.clone(), 0..COMMITS)
            .prop_map(|(who, to, at)| Step::Propose(who, to, at)),
        8 => (person.clone(), 0..3_usize, prop::option::weighted(0.2, 0..COMMITS))
            .prop_map(|(to, nth, at)| Step::PushTip(to, nth, at)),
        4 => person.clone().prop_map(Step::Ban),
        4 => person.clone().prop_map(Step::Unban),
        4 => Just(Step::Wait),
        // It takes a second of real time.
        1 => (person, prop::option::of(tips())).prop_map(|(who, at)| Step::Expire(who, at)),
        // A start takes longer than all else.
        4 => prop_oneof![
            2 => Just(Step::Restart),
            3 => Just(Step::Kill),
            1 => (0..PEOPLE, tips()).prop_map(|(who, at)| Step::DatabaseAway(who, at)),
            1 => (0..PEOPLE, tips()).prop_map(|(who, at)| Step::DiskFull(who, at)),
            1 => Just(Step::Rename),
        ],
    ]
}
