//! Next steps after a fetch that brought nothing, for who reads why an event still waits.

use std::error::Error;

use grip_egress::{EgressError, FaultKind, Forbidden, Phase};
use grip_git::{ReceiveError, remote::RemoteError};
use grip_limits::response::ResponseKind;

use crate::fetch::FetchError;

/// The host is sound and does not have it.
pub(crate) const PUSH: &str =
    "push the missing commits here, or to that host; it is asked again by itself";
const AGAIN: &str = "nothing to do here: the host is asked again by itself";
const URL: &str = "correct the clone URL in the announcement";

/// What somebody can do about a failed fetch.
pub(crate) fn of(error: &FetchError) -> &'static str {
    match error {
        FetchError::Forbidden(forbidden) => of_forbidden(forbidden),
        FetchError::Throttled(_) | FetchError::GaveWay => AGAIN,
        FetchError::Egress(error) => of_egress(error),
        FetchError::Remote(error) => of_remote(error),
        FetchError::Receive(error) => of_receive(error),
        FetchError::NothingWanted => PUSH,
        FetchError::DiskFull(_) => "make room on the disk of the git directory",
        FetchError::Local(_) => "`gripfast status` and the log of this node say more",
    }
}

/// The same for a URL that must not be asked.
pub(crate) fn of_forbidden(forbidden: &Forbidden) -> &'static str {
    match forbidden {
        Forbidden::Address { .. } | Forbidden::Name { .. } => {
            "announce a clone URL at a public host; for hosts of your own network set \
             sync_allow_non_global_targets"
        }
        Forbidden::Scheme(_) => {
            "announce an https clone URL; sync_schemes names those that are fetched"
        }
        Forbidden::PrivateService(_) => {
            "push the data here, or announce a clone URL at a public host"
        }
        _ => URL,
    }
}

fn of_egress(error: &EgressError) -> &'static str {
    match error {
        EgressError::Forbidden(forbidden) => of_forbidden(forbidden),
        EgressError::Status { status, kind, .. } => match (status.as_u16(), kind) {
            (_, ResponseKind::RateLimited { .. }) => {
                "nothing to do here: the host is left alone for as long as it asks"
            }
            (401 | 403, _) => "make the repository public at that host, or push the data here",
            (404 | 410, _) => {
                "correct the clone URL in the announcement, or push the data here: there is no such \
                 repository"
            }
            (500.., _) => AGAIN,
            _ => URL,
        },
        EgressError::Unreachable { source, .. } | EgressError::BrokenOff { source, .. } => {
            of_fault(source.kind())
        }
        EgressError::TooBig { .. } => "raise sync_max_pack_bytes, or push the data here",
        EgressError::Redirect(_) => URL,
        EgressError::TimedOut(Phase::Lookup) => of_fault(FaultKind::Dns),
        _ => AGAIN,
    }
}

fn of_fault(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Dns => "correct the host name in the announcement, or the DNS of this machine",
        FaultKind::Refused => {
            "correct the port of the clone URL, if it is wrong; the host is asked again by itself"
        }
        FaultKind::Certificate | FaultKind::Tls => {
            "have that host renew its certificate, or push the data here: nothing is fetched without \
             a valid one"
        }
        FaultKind::NoRoute => "check the network of this machine",
        FaultKind::NotHttp => URL,
        _ => AGAIN,
    }
}

fn of_remote(error: &RemoteError) -> &'static str {
    match error {
        RemoteError::NotOurRef(_) | RemoteError::Refused(_) => PUSH,
        RemoteError::NotSmart | RemoteError::UnsupportedVersion => {
            "correct the clone URL in the announcement: it leads to no git server"
        }
        RemoteError::Io(error) => of_egress_inside(error),
        _ => AGAIN,
    }
}

fn of_receive(error: &ReceiveError) -> &'static str {
    if let Some(remote) = error.remote() {
        return of_remote(remote);
    }
    match error {
        ReceiveError::TooBig { .. } => "raise sync_max_pack_bytes, or push the data here",
        ReceiveError::Client(error) => of_egress_inside(error),
        ReceiveError::DiskFull(_) => "make room on the disk of the git directory",
        ReceiveError::Corrupt(_)
        | ReceiveError::MissingObject(_)
        | ReceiveError::MissingBase
        | ReceiveError::Forbidden(_)
        | ReceiveError::Bomb => {
            "have the repository at that host repaired (`git fsck`), or push the data here"
        }
        _ => AGAIN,
    }
}

/// The reason that a broken response carries.
fn of_egress_inside(error: &std::io::Error) -> &'static str {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        let inside = error.downcast_ref().and_then(EgressError::of);
        if let Some(error) = inside.or_else(|| error.downcast_ref()) {
            return of_egress(error);
        }
        next = error.source();
    }
    AGAIN
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_size_that_a_response_exceeds_names_its_setting() {
        let too_big = || io::Error::from(EgressError::TooBig { limit: 1 });
        for error in [
            FetchError::Egress(EgressError::TooBig { limit: 1 }),
            FetchError::Remote(RemoteError::Io(too_big())),
            FetchError::Receive(ReceiveError::Client(too_big())),
        ] {
            assert!(of(&error).contains("sync_max_pack_bytes"), "{error:?}");
        }
    }
}
