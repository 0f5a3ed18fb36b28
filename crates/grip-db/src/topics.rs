//! Who is told when something has changed.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The channel of the server on which instances tell each other.
pub(crate) const CHANNEL: &str = "gripfast";

/// Topics and their listeners. Topics are named by code, so there are as many as it names.
#[derive(Default)]
pub(crate) struct Topics {
    senders: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl Topics {
    /// Listens to a topic; what was told before does not count.
    pub(crate) fn listen(&self, topic: &str) -> watch::Receiver<u64> {
        let mut senders = self.senders.lock();
        let sender = senders.entry(topic.to_owned());
        sender.or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    pub(crate) fn tell(&self, topic: &str) {
        if let Some(sender) = self.senders.lock().get(topic) {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// Tells everybody, as after a time in which nothing could be heard.
    pub(crate) fn tell_all(&self) {
        for sender in self.senders.lock().values() {
            sender.send_modify(|count| *count += 1);
        }
    }
}
