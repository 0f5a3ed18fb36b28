//! Responses to fetches: `git upload-pack`, streamed.
//!
//! The request is read to its end before git starts. Fetch requests are small, and a git that
//! answers `have` lines while the client still writes them would otherwise fill every buffer on
//! the way back until neither side moves. Up to [`IN_MEMORY`] bytes are kept in memory, the rest
//! in a file without a name.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    pin::Pin,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, Stream, future::BoxFuture, stream};
use grip_tasks::{MakesRoom, Permit};
use grip_types::{Identifier, RepoAddr};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    time,
};

use crate::{
    disk,
    memory::{MemoryPermit, Payer},
    pktline,
    process::{Running, read_bounded},
    receive::{BYTES_PER_LOOK, CHUNK, enlarge_pipe},
    report,
    repositories::{
        DiskUser, ReadSeek, RepoError, Repositories, names_unshown, unreachable_objects,
    },
    upload_request::Protocol,
};

/// Bytes of a request that are not written to a file.
const IN_MEMORY: usize = 64 << 10;

/// The answer to a fetch, as it is made.
pub type PackStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Whether a fetch was answered with a refusal or a failure. To its client that is an answer like any
/// other, and so to who sends it: both are a stream that ends well.
#[derive(Clone, Debug, Default)]
pub struct FetchOutcome(Arc<AtomicBool>);

impl FetchOutcome {
    fn fail(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Of a fetch whose stream is at its end.
    pub fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Repositories {
    /// Answers a fetch of protocol version 0 or 1, or the `fetch` command of version 2.
    ///
    /// `body` is the whole request, inflated. A failure before the first byte is an `ERR` packet,
    /// which clients show; a later one is an error of the stream. Dropping the stream kills git.
    /// A stream that is not polled makes no progress: ending clients that do not read is for the
    /// caller, though git itself gives up when nothing moves for [`Options::upload_idle`].
    /// Git is started once `payer` has a part of the memory for it.
    ///
    /// [`Options::upload_idle`]: crate::Options::upload_idle
    pub fn upload_pack<B>(
        &self,
        repo: &RepoAddr,
        protocol: Protocol,
        payer: Payer,
        body: B,
    ) -> Result<PackStream, RepoError>
    where
        B: AsyncRead + Send + Unpin + 'static,
    {
        self.upload_pack_or_make_room(repo, protocol, payer, body, None, FetchOutcome::default())
    }

    /// As [`Self::upload_pack`], of a fetch that may be ended where others wait for its memory, and whose
    /// failure is noted.
    pub fn upload_pack_or_make_room<B>(
        &self,
        repo: &RepoAddr,
        protocol: Protocol,
        payer: Payer,
        body: B,
        room: Option<Arc<dyn MakesRoom>>,
        outcome: FetchOutcome,
    ) -> Result<PackStream, RepoError>
    where
        B: AsyncRead + Send + Unpin + 'static,
    {
        let in_use = self.inner.packs.borrow(&repo.identifier);
        let refs = self.refs(repo)?;
        if repo.is_contributor() && refs.is_empty() {
            let nothing = io::Error::other("there is nothing in this repository yet");
            let packet = error_packet(&nothing);
            outcome.fail();
            return Ok(Box::pin(stream::once(async move { Ok(packet) })));
        }
        if !repo.is_contributor() {
            self.inner.packs.count_request(&repo.identifier);
            self.warm(&repo.identifier)?;
        }
        let size = self.inner.size(repo);
        let size = size.map_err(|source| unreachable_objects(&repo.identifier, source))?;
        let start = Start {
            in_use,
            payer,
            memory_bytes: size.memory_to_read(),
            repositories: self.clone(),
            repo: repo.clone(),
            protocol,
            room,
            outcome,
        };
        let state = State::Start(Box::new(start), Box::new(body));
        Ok(Box::pin(stream::try_unfold(state, |state| state.next())))
    }
}

/// The whole request of a fetch, inflated.
pub struct FetchRequest(Request);

impl FetchRequest {
    /// Its bytes, from the first on.
    pub fn into_reader(self) -> Box<dyn AsyncRead + Send + Unpin> {
        match self.0 {
            Request::Small(bytes) => Box::new(io::Cursor::new(bytes)),
            Request::Large(file) => Box::new(tokio::fs::File::from_std(file)),
        }
    }
}

impl Repositories {
    /// Reads the request of a fetch to its end, for who has to look at it before git does. Bounded as
    /// [`Self::upload_pack`] bounds it.
    pub async fn read_fetch<B>(&self, body: B) -> io::Result<FetchRequest>
    where
        B: AsyncRead + Unpin,
    {
        Ok(FetchRequest(self.collect(body).await?))
    }

    /// Says whether a fetch wants objects by ids that no shown ref is at. Blocking.
    pub fn names_unshown(&self, repo: &RepoAddr, request: &mut FetchRequest) -> io::Result<bool> {
        let refs = self.refs(repo).map_err(io::Error::other)?;
        request.0.look(|request| names_unshown(&refs, request))
    }
}

enum State {
    Start(Box<Start>, Box<dyn AsyncRead + Send + Unpin>),
    Running(Box<Session>),
    Over,
}

impl State {
    async fn next(self) -> io::Result<Option<(Bytes, Self)>> {
        let mut session = match self {
            Self::Start(start, body) => {
                let outcome = start.outcome.clone();
                match start.run(body).await {
                    Ok(session) => session,
                    Err(reason) => {
                        outcome.fail();
                        return Ok(Some((error_packet(&reason), Self::Over)));
                    }
                }
            }
            Self::Running(session) => session,
            Self::Over => return Ok(None),
        };
        match session.chunk().await? {
            Some(chunk) => Ok(Some((chunk, Self::Running(session)))),
            None => {
                let last = session.end().await?;
                Ok(last.map(|packet| (packet, Self::Over)))
            }
        }
    }
}

fn error_packet(reason: &io::Error) -> Bytes {
    pktline::error(&report::one_line(&reason.to_string()))
}

struct Start {
    in_use: Permit<Identifier>,
    repositories: Repositories,
    repo: RepoAddr,
    protocol: Protocol,
    payer: Payer,
    memory_bytes: u64,
    room: Option<Arc<dyn MakesRoom>>,
    outcome: FetchOutcome,
}

impl Start {
    async fn run<B: AsyncRead + Unpin>(self, body: B) -> io::Result<Box<Session>> {
        let inner = &self.repositories.inner;
        let options = &inner.options;
        let mut request = self.repositories.collect(body).await?;
        let mut unshown = None;
        if self.repositories.may_withhold(&self.repo) {
            let (repositories, repo) = (self.repositories.clone(), self.repo.clone());
            let look = move || {
                let unshown = request.look(|request| repositories.unshown_wants(&repo, request))?;
                Ok::<_, io::Error>((request, unshown))
            };
            (request, unshown) = grip_tasks::spawn_blocking(look).await??;
        }
        let mut command = self.command();
        let bytes = match request {
            Request::Small(bytes) => {
                command.stdin(Stdio::piped());
                Some(bytes)
            }
            Request::Large(file) => {
                command.stdin(file);
                None
            }
        };
        if let Some(unshown) = unshown {
            let owner = self.payer.owner();
            let check = self
                .repositories
                .check_unshown(&self.repo, unshown, owner, || self.memory());
            let checked = time::timeout(options.upload_idle, check).await;
            checked.map_err(|_| io::ErrorKind::TimedOut)??;
        }
        let memory = self.memory().await?;
        let mut running = inner.git.start(command, &memory).await?;
        let stdin = running.stdin();
        let stderr = running.stderr();
        let stdout = running.stdout();
        let stdout = stdout.ok_or_else(|| io::Error::other("git has no standard output"))?;
        enlarge_pipe(&stdout);
        let aside = async move {
            let feed = feed(bytes, stdin);
            let (_, complaint) = tokio::join!(feed, read_bounded(stderr));
            complaint.unwrap_or_default()
        };
        Ok(Box::new(Session {
            running,
            stdout,
            aside: Some(aside.boxed()),
            complaint: String::new(),
            idle: options.upload_idle,
            sent: false,
            repositories: self.repositories.clone(),
            repo: self.repo.clone(),
            outcome: self.outcome,
            _in_use: self.in_use,
            _memory: memory,
        }))
    }

    /// A part of the memory for one process. Cancel safe.
    async fn memory(&self) -> io::Result<MemoryPermit> {
        let budget = &self.repositories.inner.memory;
        let memory = budget.acquire(self.payer, &self.repo.identifier, self.memory_bytes);
        let mut memory = memory.await.map_err(io::Error::other)?;
        if let Some(room) = &self.room {
            memory.may_make_room(Arc::clone(room));
        }
        Ok(memory)
    }

    fn command(&self) -> std::process::Command {
        let inner = &self.repositories.inner;
        let timeout = format!("--timeout={}", inner.options.upload_idle.as_secs().max(1));
        let mut command = inner.git.command([
            "-c",
            inner.git.pack_reuse(),
            "upload-pack",
            "--stateless-rpc",
            "--strict",
            &timeout,
        ]);
        command
            .arg(inner.layout.repository(&self.repo))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(protocol) = self.protocol.environment() {
            command.env("GIT_PROTOCOL", protocol);
        }
        command
    }
}

async fn feed(bytes: Option<Bytes>, stdin: Option<ChildStdin>) {
    if let (Some(bytes), Some(mut stdin)) = (bytes, stdin) {
        // If git ends early it has said why.
        let _ = stdin.write_all(&bytes).await;
    }
}

enum Request {
    Small(Bytes),
    Large(File),
}

impl Request {
    /// Has its bytes read; `look` leaves them at their beginning.
    fn look<T>(&mut self, look: impl FnOnce(&mut dyn ReadSeek) -> T) -> T {
        match self {
            Self::Small(bytes) => look(&mut io::Cursor::new(bytes)),
            Self::Large(file) => look(file),
        }
    }
}

impl Repositories {
    /// Reads a request to its end.
    async fn collect<B>(&self, mut body: B) -> io::Result<Request>
    where
        B: AsyncRead + Unpin,
    {
        let options = &self.inner.options;
        let limit = options.max_request_bytes;
        let mut buffer = BytesMut::with_capacity(4 << 10);
        let mut file: Option<tokio::fs::File> = None;
        let (mut total, mut next_look) = (0, 0);
        loop {
            let read = time::timeout(options.stall, body.read_buf(&mut buffer)).await;
            let read = read.map_err(|_| io::Error::other("the request stopped arriving"))??;
            total += read as u64;
            if total > limit {
                return Err(io::Error::other(format!(
                    "the request exceeds {limit} bytes"
                )));
            }
            if read > 0 && buffer.len() <= IN_MEMORY {
                continue;
            }
            if read == 0 && file.is_none() {
                return Ok(Request::Small(buffer.freeze()));
            }
            if total >= next_look {
                // Clones go on where strangers may write no more: what is kept here goes with the request.
                let room = self.has_room(DiskUser::Maintainer, BYTES_PER_LOOK).await;
                room.map_err(io::Error::other)?;
                next_look = total + BYTES_PER_LOOK;
            }
            if file.is_none() {
                let spool = nameless_file(&self.inner.layout.quarantines())?;
                file = Some(tokio::fs::File::from_std(spool));
            }
            if let Some(file) = &mut file {
                file.write_all(&buffer).await?;
                buffer.clear();
            }
            if let Some(mut file) = file.take_if(|_| read == 0) {
                file.flush().await?;
                let mut file = file.into_std().await;
                io::Seek::rewind(&mut file)?;
                return Ok(Request::Large(file));
            }
        }
    }
}

/// A file that vanishes with its last user.
fn nameless_file(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!("{}.request", disk::unique()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

struct Session {
    running: Running,
    stdout: ChildStdout,
    /// Writes the request and reads what git complains about, while the pack flows.
    aside: Option<BoxFuture<'static, String>>,
    complaint: String,
    idle: Duration,
    sent: bool,
    repositories: Repositories,
    repo: RepoAddr,
    outcome: FetchOutcome,
    /// Git may read the objects to the last moment.
    _in_use: Permit<Identifier>,
    _memory: MemoryPermit,
}

impl Session {
    async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let deadline = time::sleep(self.idle);
        tokio::pin!(deadline);
        loop {
            let aside = async {
                match &mut self.aside {
                    Some(aside) => aside.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                read = self.stdout.read_buf(&mut buffer) => {
                    self.sent |= read? > 0;
                    return Ok((!buffer.is_empty()).then(|| buffer.freeze()));
                }
                complaint = aside => {
                    self.complaint = complaint;
                    self.aside = None;
                }
                () = &mut deadline => {
                    self.running.kill();
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }

    /// After git's last byte: the packet that explains a failure, if nothing else was said.
    async fn end(&mut self) -> io::Result<Option<Bytes>> {
        let finish = async {
            let complaint = match self.aside.take() {
                Some(aside) => aside.await,
                None => std::mem::take(&mut self.complaint),
            };
            Ok::<_, io::Error>((complaint, self.running.wait().await?))
        };
        let finished = time::timeout(self.idle, finish).await;
        let (complaint, status) = finished.map_err(|_| io::ErrorKind::TimedOut)??;
        if status.success() {
            return Ok(None);
        }
        self.outcome.fail();
        let inner = &self.repositories.inner;
        inner.suspects.hear(&self.repo, &complaint);
        let fatal = complaint
            .lines()
            .find_map(|line| line.strip_prefix("fatal: "));
        let fatal = fatal.unwrap_or("git could not answer the request");
        tracing::debug!(%status, reason = fatal, "upload-pack failed");
        if !self.sent {
            return Ok(Some(error_packet(&io::Error::other(fatal.to_owned()))));
        }
        // Git has told the client in its own words, unless it was killed in mid-sentence.
        match status.code() {
            Some(_) => Ok(None),
            None => Err(io::Error::other("git was killed while it sent a pack")),
        }
    }
}
