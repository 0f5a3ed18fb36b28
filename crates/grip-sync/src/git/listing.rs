//! The refs that another server has, without their data.

use std::collections::{BTreeMap, BTreeSet};

use grip_git::remote::{self, RemoteError, RemoteRef, Version};
use grip_limits::Lane;
use grip_types::{Oid, RefName};
use url::Url;

use super::{GitFetch, exchange::Response, request};
use crate::{
    fetch::FetchError,
    meter::{Meter, Metered},
};

/// Refs that a server may list, however much its payer has left: only a few are asked for.
const MAX_REFS: usize = 4_096;

impl GitFetch {
    /// What the named refs point at in the repository at `url`; those it lacks are left out. One
    /// request, and a second one to servers that speak the oldest version alone. What comes is
    /// counted by `meter`.
    pub async fn list_refs(
        &self,
        url: &Url,
        names: &BTreeSet<RefName>,
        meter: &Meter,
    ) -> Result<BTreeMap<RefName, Oid>, FetchError> {
        let is_wanted =
            |found: &RemoteRef| RefName::parse(&found.name).is_ok_and(|name| names.contains(&name));
        let max_refs = self.options.max_refs.min(MAX_REFS);
        let most = request::max_refs_bytes(max_refs);
        let body = remote::ls_refs_v2_below(names.iter().map(RefName::as_str));
        let request = request::post(url, Version::V2, body, most);
        let listed = match self.ask(url, request, meter).await {
            Ok(mut body) => {
                let refs = remote::read_ls_refs(&mut body, max_refs, is_wanted).await;
                remote::hang_up(&mut body).await;
                refs.map_err(FetchError::from)
            }
            Err(error) => Err(error),
        };
        let refs = match listed {
            Ok(refs) => refs,
            Err(error) if is_too_new(&error) => {
                let request = request::info_refs(url, most);
                let mut body = self.ask(url, request, meter).await?;
                let read = remote::read_advertisement(&mut body, max_refs, is_wanted).await;
                remote::hang_up(&mut body).await;
                read?.refs
            }
            Err(error) => return Err(error),
        };
        let named = refs.into_iter();
        let named = named.filter_map(|found| Some((RefName::parse(&found.name).ok()?, found.oid)));
        Ok(named.collect())
    }

    async fn ask<'a>(
        &self,
        url: &Url,
        request: grip_egress::Request,
        meter: &'a Meter,
    ) -> Result<Metered<'a, grip_egress::Body>, FetchError> {
        let domain = self.egress.check(url).map_err(FetchError::Forbidden)?;
        let permit = self.egress.throttle().acquire(&domain, Lane::Git).await;
        let permit = permit.map_err(FetchError::Throttled)?;
        self.send_metered(url, request, permit, meter).await
    }
}

/// Says whether a failure may mean that the server does not know version 2.
fn is_too_new(error: &FetchError) -> bool {
    let is_unknown = matches!(error, FetchError::Remote(RemoteError::UnsupportedVersion));
    let in_error = Response::in_error(error);
    is_unknown || matches!(in_error, Some(Response::Doubtful | Response::NotUnderstood))
}
