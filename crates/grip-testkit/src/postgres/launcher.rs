//! One thread that starts all servers and lives as long as this process.
//!
//! A server is told to end when the thread that started it does: a test's own thread, or one of a
//! runtime, may be gone long before the process is.

use std::{
    io,
    process::{Child, Command},
    sync::{
        LazyLock,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

/// Whoever asks while this many wait, waits too.
const WAITING: usize = 16;

type Order = (Command, SyncSender<io::Result<Child>>);

static LAUNCHER: LazyLock<SyncSender<Order>> = LazyLock::new(|| {
    let (orders, taken) = sync_channel::<Order>(WAITING);
    thread::spawn(move || {
        for (mut command, answer) in taken {
            // Nobody waits any more if its thread died meanwhile.
            let _ = answer.send(command.spawn());
        }
    });
    orders
});

pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let gone = |_| io::Error::other("the thread that starts servers is gone");
    let (answer, answered) = sync_channel(1);
    LAUNCHER.send((command, answer)).map_err(|_| gone(()))?;
    answered.recv().map_err(|_| gone(()))?
}
