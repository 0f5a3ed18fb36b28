//! The parts of a node that its features stand on.

use std::net::SocketAddr;

use grip_db::Db;
use grip_egress::Egress;
use grip_git::Repositories;
use grip_grasp::Grasp;
use grip_limits::Throttle;
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use grip_types::{Domain, Service};

use super::{egress::egress_options, identity::Identity};
use crate::config::Settings;

pub(super) struct Base<'a> {
    pub(super) settings: &'a Settings,
    pub(super) service: &'a Service,
    /// Where we listen.
    pub(super) address: SocketAddr,
    pub(super) identity: &'a Identity,
    pub(super) db: &'a Db,
    pub(super) queue: &'a Queue,
    pub(super) repositories: &'a Repositories,
    pub(super) grasp: &'a Grasp,
    pub(super) throttle: &'a Throttle,
    /// Owns work that stops when no new work is taken on.
    pub(super) front: &'a TaskGroup,
    /// Owns what finishes the promises of the front.
    pub(super) back: &'a TaskGroup,
}

impl Base<'_> {
    /// Requests to other hosts, which may be at private addresses where `private_hosts` names
    /// them: those are the operator's own choice, and nobody else names a URL there.
    pub(super) fn egress(&self, private_hosts: Vec<Domain>) -> anyhow::Result<Egress> {
        let mut options = egress_options(self.settings, self.service, self.address);
        options.private_hosts = private_hosts;
        Ok(Egress::new(options, self.throttle.clone())?)
    }

    /// Requests to URLs that strangers name.
    pub(super) fn egress_for_strangers(&self) -> anyhow::Result<Egress> {
        let mut options = egress_options(self.settings, self.service, self.address);
        options.counts_networks = true;
        Ok(Egress::new(options, self.throttle.clone())?)
    }
}
