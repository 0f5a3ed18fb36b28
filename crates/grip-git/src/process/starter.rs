//! The thread that starts git, so that git dies with the node.
//!
//! On Linux every process asks to be ended with its parent (`PR_SET_PDEATHSIG`). The system means the
//! *thread* that started it, and threads of the runtime come and go: so one thread does it that lives
//! as long as any process. It also keeps the cost of `fork` off the runtime.
//!
//! The signal is the one for an orderly end: git passes it on to the processes it has started itself,
//! and removes its temporary files. Elsewhere git ends when it next reads from or writes to us.

use std::{io, process, thread};

use tokio::{
    process::Command,
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use super::Running;

/// Commands on their way to the thread; each takes it a millisecond.
const MAX_QUEUED: usize = 64;

/// Starts processes. Cheap to clone; the thread ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Starter {
    requests: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Request {
    command: process::Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

/// A child that nobody has taken over yet.
type Child = tokio::process::Child;

impl Starter {
    pub(super) fn new() -> io::Result<Self> {
        let (requests, mut incoming) = mpsc::channel(MAX_QUEUED);
        thread::Builder::new()
            .name("git-starter".to_owned())
            .spawn(move || {
                while let Some(request) = incoming.blocking_recv() {
                    Request::carry_out(request);
                }
            })?;
        Ok(Self { requests })
    }

    /// Cancel safe: a process that nobody waits for is killed.
    pub(super) async fn start(&self, command: process::Command) -> io::Result<Running> {
        let (started, outcome) = oneshot::channel();
        let request = Request {
            command,
            runtime: Handle::current(),
            started,
        };
        let ended = || io::Error::other("the thread that starts git has ended");
        self.requests.send(request).await.map_err(|_| ended())?;
        let child = outcome.await.map_err(|_| ended())??;
        Ok(Running {
            child,
            _starter: self.clone(),
        })
    }
}

impl Request {
    fn carry_out(mut self) {
        if self.started.is_closed() {
            return;
        }
        die_with_parent(&mut self.command);
        let _runtime = self.runtime.enter();
        let started = Command::from(self.command).kill_on_drop(true).spawn();
        // Dropped, and so killed, if nobody waits for it any more.
        let _ = self.started.send(started);
    }
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "there is no safe way to make a system call in the child; this one allocates nothing and takes no lock"
)]
fn die_with_parent(command: &mut process::Command) {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    let node = getpid();
    let ask = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The node may have died before the question: then nobody would tell.
        if getppid() == Some(node) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    };
    // SAFETY: between fork and exec only functions that are safe in a signal handler may be called:
    // `ask` makes two system calls and does nothing else.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut process::Command) {}
