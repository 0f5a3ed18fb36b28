//! The connection to Redis, lent to other books that instances share.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;

use super::Shared;

/// The Redis that the instances share. Cheap to clone.
///
/// Whoever uses it keeps the throttle's rules: asking and taking is one script, a key begins with
/// the prefix and leaves by itself, and a Redis that is away stops nobody.
#[derive(Clone)]
pub struct SharedRedis {
    pub(super) shared: Arc<Shared>,
}

/// A script that only touches the keys it is given, and answers with whole numbers.
pub struct Script(redis::Script);

/// The connection in use at one moment.
pub struct Connected {
    shared: Arc<Shared>,
    connection: MultiplexedConnection,
    generation: u64,
}

/// Redis did not answer: it is away, or took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("redis is away")]
pub struct RedisAway;

impl SharedRedis {
    /// The connection; none while Redis is away.
    pub fn connected(&self) -> Option<Connected> {
        let (connection, generation) = self.shared.link.connection()?;
        Some(Connected {
            shared: Arc::clone(&self.shared),
            connection,
            generation,
        })
    }

    /// Which absence this is; none while Redis is there.
    pub fn absence(&self) -> Option<u64> {
        self.shared.link.away().map(|away| away.generation)
    }

    /// Begins every key.
    pub fn prefix(&self) -> &str {
        self.shared.scripts.prefix()
    }

    /// This process among all that share the Redis.
    pub fn instance(&self) -> &str {
        self.shared.scripts.instance()
    }

    /// The part of every limit that each instance uses while Redis is away.
    pub fn fallback_percent(&self) -> u32 {
        self.shared.percent
    }
}

impl Script {
    pub fn new(text: &str) -> Self {
        Self(redis::Script::new(text))
    }
}

impl Connected {
    /// Counts the connections: behind a new one Redis may have lost everything.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Runs a script. A failure takes the link down for everybody, until Redis is found again.
    ///
    /// Dropped before its end, it may have run.
    pub async fn run(
        self,
        script: &Script,
        keys: &[String],
        arguments: &[String],
    ) -> Result<Vec<i64>, RedisAway> {
        let mut call = script.0.prepare_invoke();
        for key in keys {
            call.key(key);
        }
        for argument in arguments {
            call.arg(argument);
        }
        let link = &self.shared.link;
        let called = link.call((self.connection, self.generation), &call).await;
        called.map_err(|_| RedisAway)
    }
}
