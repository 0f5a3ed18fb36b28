//! A node that follows one scripted relay, and the clock that the node goes by.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use grip_testkit::{
    Clock, FakeRelay, LocalProject, Node,
    events::tag,
    fake_relay::{Request, Script, honest},
    until, until_ok, until_true,
};
use nostr::prelude::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::scene::{NEAR, publish, push, until_relay};
use crate::BINARY;

/// A connection on which so much time passes at once is not taken for a silent one.
const STEP: i64 = 40;

/// Read by REQ alone, so that every request is one message.
pub const WITHOUT_NIP77: (&str, &str) = ("NGIT_SYNC_DISABLE_NEGENTROPY", "true");

/// Which clock a node goes by.
#[derive(Clone, Copy, Debug)]
pub enum Time {
    /// That of the day can be set.
    Day,
    /// Timers go by it too, so many times as fast.
    Timers(u32),
}

/// A node and a relay that it follows.
pub struct Scene {
    pub node: Node,
    pub relay: FakeRelay,
    clock: Clock,
    time: Time,
    ahead: i64,
}

impl Scene {
    /// The relay is the one that the operator configured.
    pub async fn configured(relay: FakeRelay, time: Time, env: &[(&str, &str)]) -> Result<Self> {
        let url = relay.url();
        let named = [("NGIT_SYNC_BOOTSTRAP_RELAY_URL", url.as_str())];
        Self::start(relay, time, &[env, &named].concat()).await
    }

    /// Nothing names the relay yet.
    pub async fn start(relay: FakeRelay, time: Time, env: &[(&str, &str)]) -> Result<Self> {
        let mut node = Node::prepare(BINARY, &[NEAR, env].concat())?;
        let clock = match time {
            Time::Day => Clock::prompt(node.work_dir())?,
            Time::Timers(speed) => Clock::of_timers(node.work_dir(), speed)?,
        };
        for (name, value) in clock.settings()? {
            node.set_env(&name, &value);
        }
        node.launch().await?;
        Ok(Self {
            node,
            relay,
            clock,
            time,
            ahead: 0,
        })
    }

    /// Announces a project that names the relay, too.
    pub async fn announce(&self, project: &LocalProject) -> Result<Event> {
        let announcement = announcement(project, &self.node, &[self.relay.url()]);
        publish(&self.node, &announcement).await?;
        Ok(announcement)
    }

    /// Serves a project that names the relay, too.
    pub async fn host(&self, project: &LocalProject) -> Result<()> {
        self.announce(project).await?;
        push(project, &self.node, 5).await?;
        Ok(())
    }

    /// Lets time pass on connections that stay; then whatever the node says because of it was heard.
    pub async fn pass(&mut self, seconds: i64) -> Result<()> {
        let end = self.ahead + seconds;
        let step = match self.time {
            Time::Day => seconds,
            Time::Timers(_) => STEP,
        };
        while self.ahead < end {
            self.ahead = end.min(self.ahead + step);
            self.clock.set_off_by(self.ahead)?;
            self.wake().await?;
        }
        Ok(())
    }

    /// Has the clock show a time that is so much later, whatever becomes of connections.
    pub fn jump(&mut self, seconds: i64) -> Result<()> {
        self.ahead += seconds;
        self.clock.set_off_by(self.ahead)
    }

    /// Has the node look at the time; then whatever it says because of it was heard.
    pub async fn wake(&self) -> Result<()> {
        self.relay.say(json!(["NOTICE", "hello"]));
        self.relay.settled().await?;
        // What takes a turn is said one round later.
        self.relay.settled().await
    }

    /// Waits for the first request after the first `after` ones that satisfies `is_it`.
    pub async fn request(
        &self,
        what: &str,
        after: usize,
        is_it: impl Fn(&Request) -> bool,
    ) -> Result<Request> {
        let found = until(what, async || {
            self.relay.requests().into_iter().skip(after).find(&is_it)
        });
        let found = found.await;
        found.with_context(|| self.story())
    }

    /// Waits until the relay is shown as `is_so` says.
    pub async fn shown(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let url = self.relay.url();
        until_relay(&self.node, what, |relay| {
            relay["relay"] == url.as_str() && is_so(relay)
        })
        .await
        .with_context(|| self.story())
    }

    /// Delivers an event by an open subscription that asks for `value`, until it is served.
    pub async fn deliver(&self, field: &str, value: &str, event: &Event) -> Result<()> {
        let mut client = self.node.connect().await?;
        let served = until_ok("what was delivered live is served", async || {
            if let Some(live) = self.live(field, value) {
                self.relay.say(json!(["EVENT", live.name, event]));
            }
            Ok(client.serves(&event.id).await?.then_some(()))
        });
        served.await.with_context(|| self.story())
    }

    /// The open live subscription that asks for `value`.
    pub fn live(&self, field: &str, value: &str) -> Option<Request> {
        let open = self.relay.open();
        let mut live = self.relay.requests().into_iter().rev();
        live.find(|it| it.is_live() && it.asks(field, value) && open.contains(&it.name))
    }

    /// Requests for what is there, by REQ.
    pub fn pages(&self) -> Vec<Request> {
        let requests = self.relay.requests().into_iter();
        requests.filter(Request::is_page).collect()
    }

    /// Waits until history was asked for so many times: two requests are a second apart.
    pub async fn read_times(&self, count: usize) -> Result<()> {
        let is_so = || self.pages().len() == count;
        let read = until_true(&format!("{count} requests for history"), is_so).await;
        read.with_context(|| self.story())
    }

    /// What was said on both sides.
    pub fn story(&self) -> String {
        let heard: Vec<String> = self
            .relay
            .frames()
            .iter()
            .map(|frame| {
                let text = frame.message.to_string();
                let text: String = text.chars().take(400).collect();
                format!("{} {text}", frame.connection)
            })
            .collect();
        format!("heard:\n{}\nlog:\n{}", heard.join("\n"), self.node.log())
    }
}

/// An announcement of a project by `node` that names further relays.
pub fn announcement(project: &LocalProject, node: &Node, urls: &[String]) -> Event {
    let relays = ["relays".to_owned(), node.relay_url()];
    let tags = vec![
        tag(["d", &project.identifier]),
        tag(["clone".to_owned(), project.url(node)]),
        [&relays, urls].concat(),
    ];
    project.owner.sign(30617, "", tags)
}

/// Events that a relay has; more may come.
pub type Events = Arc<Mutex<Vec<Value>>>;

pub fn events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Events {
    Arc::new(Mutex::new(
        events.into_iter().map(|event| json!(event)).collect(),
    ))
}

/// A relay without NIP-77 that has `events`, and says what `special` says where that says anything.
pub fn having(
    events: &Events,
    special: impl Fn(&Value) -> Option<Vec<Value>> + Send + Sync + 'static,
) -> Script {
    let events = Arc::clone(events);
    Arc::new(move |message| special(message).unwrap_or_else(|| honest(message, &events.lock())))
}

/// The same with nothing at all.
pub fn empty(special: impl Fn(&Value) -> Option<Vec<Value>> + Send + Sync + 'static) -> Script {
    having(&Events::default(), special)
}

/// Says whether a message asks for what is there by REQ.
pub fn is_page(message: &Value) -> bool {
    message[0] == "REQ" && message[2]["limit"] != 0
}

/// Says whether a message asks for what comes from now on.
pub fn is_live(message: &Value) -> bool {
    message[0] == "REQ" && message[2]["limit"] == 0
}

/// The end of a request that the relay says for a reason.
pub fn closed(message: &Value, reason: &str) -> Vec<Value> {
    vec![json!(["CLOSED", message[1], reason])]
}
