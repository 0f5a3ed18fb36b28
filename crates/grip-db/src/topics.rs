//! Topics and their listeners, notified after a commit.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The server's channel for notices between instances.
pub(crate) const CHANNEL: &str = "gripfast";

/// Topics and their listeners. Topics are named by code, so there are as many as it names.
#[derive(Default)]
pub(crate) struct Topics {
    senders: Mutex<HashMap<String, watch::Sender<u64>>>,
}

impl Topics {
    /// Listens to a topic; earlier notices do not count.
    pub(crate) fn listen(&self, topic: &str) -> watch::Receiver<u64> {
        let mut senders = self.senders.lock();
        let sender = senders.entry(topic.to_owned());
        sender.or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    pub(crate) fn notify(&self, topic: &str) {
        if let Some(sender) = self.senders.lock().get(topic) {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// Notifies all listeners, as after a time in which notices may have been missed.
    pub(crate) fn notify_all(&self) {
        for sender in self.senders.lock().values() {
            sender.send_modify(|count| *count += 1);
        }
    }
}
