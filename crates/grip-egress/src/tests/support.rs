//! Client and names shared by the tests of whole requests.

use std::{
    collections::{HashMap, VecDeque},
    error::Error,
    io,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_limits::{HostStatus, Lane, Permit, Throttle};
use grip_types::{Domain, ErrorChain, Service};
use http::{HeaderMap, Method};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::host::{DEAD, OTHER_PUBLIC, PRIVATE, PUBLIC};
use crate::{Egress, EgressError, Lookup, Options, Reply, Request, RequestPolicy, address::Rules};

/// Too long to pass while a test runs: what a test does not wait for never decides it.
const LONG: Duration = Duration::from_secs(60);

/// Short enough to wait for.
pub(super) const SHORT: Duration = Duration::from_millis(60);

/// What a test wants different from the usual.
pub(super) struct Setup {
    pub options: Options,
    pub throttle: grip_limits::Options,
    pub rules: Rules,
    pub names: Arc<Names>,
    pub roots: Vec<CertificateDer<'static>>,
}

impl Default for Setup {
    fn default() -> Self {
        let names = Arc::new(Names::default());
        names.answer("public.example", &[PUBLIC]);
        names.answer("other.example", &[OTHER_PUBLIC]);
        names.answer("private.example", &[PRIVATE]);
        Self {
            options: Options {
                connect: LONG,
                idle: LONG,
                total: 2 * LONG,
                lookup: Arc::clone(&names) as Arc<dyn Lookup>,
                ..Options::default()
            },
            throttle: grip_limits::Options::default(),
            rules: Rules {
                allow_non_global: false,
                private_hosts: Vec::new(),
                taken_for_public: vec![PUBLIC, OTHER_PUBLIC, DEAD],
            },
            names,
            roots: Vec::new(),
        }
    }
}

impl Setup {
    pub fn own(mut self, own: &str) -> Self {
        self.options.own.push(Service::parse(own).unwrap());
        self
    }

    /// Names a host that need not be public.
    pub fn private(mut self, host: &str) -> Self {
        let host = Domain::parse(host).unwrap();
        self.rules.private_hosts.push(host);
        self
    }

    pub fn build(self) -> Client {
        let throttle = Throttle::memory(self.throttle);
        let egress =
            Egress::build(self.options, throttle, self.rules, &self.roots).expect("it builds");
        Client {
            egress,
            names: self.names,
        }
    }
}

/// An egress under test.
pub(super) struct Client {
    pub egress: Egress,
    pub names: Arc<Names>,
}

pub(super) fn client() -> Client {
    Setup::default().build()
}

pub(super) fn get(url: Url) -> Request {
    Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        max_bytes: 1 << 20,
    }
}

impl Client {
    pub async fn permit(&self, url: &Url) -> Permit {
        let domain = Domain::of(url).unwrap();
        self.egress
            .throttle()
            .acquire(&domain, Lane::Git)
            .await
            .unwrap()
    }

    pub async fn send(&self, request: Request) -> Result<Reply, EgressError> {
        let permit = self.permit(&request.url).await;
        self.egress.send(request, permit).await
    }

    pub async fn send_with(&self, policy: &RequestPolicy, url: Url) -> Result<Reply, EgressError> {
        let permit = self.permit(&url).await;
        self.egress.send_with(policy, get(url), permit).await
    }

    /// Asks and reads to the end.
    pub async fn read(&self, request: Request) -> Result<String, EgressError> {
        let mut reply = self.send(request).await?;
        let mut text = String::new();
        match reply.body.read_to_string(&mut text).await {
            Ok(_) => Ok(text),
            Err(error) => Err(reason(error)),
        }
    }

    pub async fn fetch(&self, url: Url) -> Result<String, EgressError> {
        self.read(get(url)).await
    }

    /// Asks a host that must not be answered well.
    pub async fn fail(&self, url: Url) -> EgressError {
        self.fetch(url).await.expect_err("the request fails")
    }

    /// What the throttle knows of a host.
    pub fn status(&self, host: &str) -> Option<HostStatus> {
        let hosts = self.egress.throttle().hosts();
        hosts
            .into_iter()
            .find(|status| status.domain.as_str() == host)
    }

    /// Requests under way, started within the window, and failed.
    pub fn counts(&self, host: &str) -> (u32, u32, u64) {
        self.status(host).map_or((0, 0, 0), |status| {
            (status.in_flight, status.started, status.failures_total)
        })
    }
}

/// The error inside what reading a body gave.
pub(super) fn reason(error: io::Error) -> EgressError {
    let inner = error.into_inner().expect("a body fails with a reason");
    *inner.downcast().expect("which is ours")
}

/// An error with all that is below it, as a log would print it.
pub(super) fn in_full(error: &dyn Error) -> String {
    format!("{error:?}\n{}", ErrorChain(error))
}

/// Name servers that answer as they are told, each answer once and the last for ever.
#[derive(Default)]
pub(super) struct Names {
    answers: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    /// Adds an answer for `name` after those that it has.
    pub fn answer(&self, name: &str, addresses: &[IpAddr]) {
        let mut answers = self.answers.lock();
        let answers = answers.entry(name.to_owned()).or_default();
        answers.push_back(addresses.to_vec());
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl Lookup for Names {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.asked.lock().push(host.to_owned());
        let mut answers = self.answers.lock();
        let answer = match answers.get_mut(host) {
            Some(answers) if answers.len() > 1 => answers.pop_front(),
            Some(answers) => answers.front().cloned(),
            None => None,
        };
        let answer = answer.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name"));
        Box::pin(async move { answer })
    }
}
