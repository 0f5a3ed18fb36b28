//! The requirements, in the order of the specification.

mod announcements;
mod archive;
mod contributors;
mod cors;
mod deletion;
mod follow;
mod git_service;
mod maintainers;
mod nip11;
mod participants;
mod pull_requests;
mod purgatory;
mod push;
mod related;
mod states;

use crate::Case;

/// Every case of the suite.
pub fn all() -> Vec<Case> {
    [
        announcements::CASES,
        related::CASES,
        purgatory::CASES,
        states::CASES,
        nip11::CASES,
        maintainers::CASES,
        git_service::CASES,
        push::CASES,
        pull_requests::CASES,
        deletion::CASES,
        cors::CASES,
        follow::CASES,
        participants::CASES,
        archive::CASES,
        contributors::CASES,
    ]
    .concat()
}

/// Lists the cases of a file: requirement, sentence, what it needs, function.
macro_rules! cases {
    ($($id:literal $title:literal $needs:ident => $run:ident;)*) => {
        pub(super) const CASES: &[crate::Case] = &[$(crate::Case {
            id: $id,
            title: $title,
            needs: crate::Needs::$needs,
            run: |target| Box::pin($run(target)),
        }),*];
    };
}
use cases;
