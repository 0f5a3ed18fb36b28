//! Errors of requests: the status, the sentence for the caller, the line for the log. No other file
//! chooses a status for a failure.

/// The answers to failures, a row each: the status, and the sentence for the caller.
macro_rules! answers {
    ($error:expr, $(@ $other:pat => $answer:expr;)* $($pattern:pat => $status:ident, $text:expr;)*) => {
        match $error {
            $($other => $answer,)*
            $($pattern => (StatusCode::$status, String::from($text)),)*
        }
    };
}

mod resolving;
mod watch;

use std::time::Duration;

use grip_db::DbError;
use grip_types::ErrorChain;
use http::{HeaderValue, Response, StatusCode, header};

pub(crate) use self::{resolving::ResolvingError, watch::WatchError};
use crate::{
    api::types::{ErrorAnswer, ErrorFacts},
    body::Body,
    limits::Class,
    respond,
};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a request gets no ordinary answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WebError {
    #[error("there is nothing at this path")]
    NoSuchPage,
    #[error("no such repository is hosted here")]
    NoSuchRepository,
    #[error("the repository is damaged: {reason}")]
    Damaged { reason: String },
    #[error("the path is no repository")]
    BadRepositoryPath,
    #[error("the repository has nothing of this name: {0}")]
    NotInRepository(&'static str),
    #[error("what was asked for cannot be shown: {0}")]
    NotShown(&'static str),
    #[error("git took too long")]
    TooSlow,
    #[error("dumb HTTP was asked for")]
    DumbHttp,
    #[error("an unknown service was asked for")]
    UnknownService,
    #[error("the method is not allowed here")]
    Method { allow: &'static str },
    #[error("the content type is not {expected}")]
    ContentType { expected: &'static str },
    #[error("the content encoding is not known")]
    ContentEncoding,
    #[error("the request is malformed: {0}")]
    Malformed(String),
    #[error("something of the operator's was asked for without the admin token")]
    NoToken,
    #[error("a wrong admin token was shown")]
    WrongToken,
    #[error("something of the operator's was asked for from another machine")]
    NotLocal,
    #[error("no proof of a member was shown to a private service")]
    NotAMember,
    #[error("nothing waits under this name")]
    NothingWaits { what: &'static str },
    #[error("there is nothing of this name to remove or to unblock")]
    NothingNamed { what: &'static str },
    #[error("there is no such job")]
    NoSuchJob,
    #[error("the index is switched off")]
    IndexOff,
    #[error("modules are not served to the go command")]
    ProxyOff,
    #[error("the index knows nothing of this name")]
    NotIndexed,
    #[error("changes before {up_to_ns} are asked for, which are forgotten")]
    Forgotten { up_to_ns: i64 },
    #[error("the go command asked for what is not here: {0}")]
    NoSuchModule(String),
    #[error("the go command asked for a version that is not what was logged: {0}")]
    RefusedModule(String),
    #[error("a module cannot be fetched from its host: {why}")]
    ModuleElsewhere { why: String, retry_after: Duration },
    #[error("one address has too much fetched from other hosts")]
    FetchesSpent { why: String, retry_after: Duration },
    #[error("one address has too many commits logged")]
    TooManyRecords,
    #[error("too many modules are asked for at once")]
    ModulesBusy { retry_after: Duration },
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Resolving(#[from] ResolvingError),
    #[error("sync is switched off")]
    SyncOff,
    #[error("all {} permits are taken", .0.label())]
    Busy(Class),
    #[error("one address sends too many requests")]
    TooManyRequests,
    #[error("one address has too many connections")]
    TooManyConnections,
    #[error("the node is shutting down")]
    Draining,
    #[error("no node leads the cluster at the moment")]
    NoLeader,
    #[error("this node has not caught up with its cluster")]
    Behind,
    #[error("packs cannot be had from the object store of the cluster")]
    PacksAway(#[source] Box<grip_git::RepoError>),
    #[error("the request timed out")]
    Deadline,
    #[error("no backup can be made: {why}")]
    NoBackup { why: String },
    #[error("{what}")]
    Away { what: &'static str, source: DbError },
    #[error("{what}")]
    Internal { what: &'static str, source: Source },
    #[error("a bug: the handler panicked")]
    Panic,
}

/// The failure of the database that an error comes from.
fn database_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a DbError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        next = error.source();
    }
    None
}

impl WebError {
    /// A failure that the caller cannot help. One of the database may be worth another try, wherever in the
    /// chain of causes it is.
    pub(crate) fn internal(what: &'static str, source: impl Into<Source>) -> Self {
        let source = source.into();
        match database_error(&*source) {
            Some(error) if error.is_transient() => Self::Away {
                what,
                source: error.clone(),
            },
            _ => Self::Internal { what, source },
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.answer().0
    }

    /// One sentence for the person at the other end; git prints it after `remote:`.
    pub(crate) fn caller(&self) -> String {
        self.answer().1
    }

    /// Status and sentence of each failure.
    fn answer(&self) -> (StatusCode, String) {
        answers! { self,
            @ Self::Watch(error) => error.answer();
            @ Self::Resolving(error) => (error.status(), error.caller());
            Self::NoSuchPage => NOT_FOUND,
                "There is nothing here. Repositories are at /<npub>/<identifier>.git, the relay is \
                 at /.";
            Self::NoSuchRepository => NOT_FOUND,
                "No such repository is hosted here. Publish an announcement (kind 30617) that \
                 lists this server in clone and relays, then push.";
            Self::Damaged { .. } => SERVICE_UNAVAILABLE,
                "What this server has of the repository is damaged, so it is not served. Its \
                 operator has been told, and the data is being looked for elsewhere. Try again \
                 later, or use another server that the announcement lists.";
            Self::BadRepositoryPath => NOT_FOUND,
                "This is no repository path: it must be /<npub>/<identifier>.git with a valid npub \
                 and a percent-encoded identifier.";
            Self::NotInRepository(what) => NOT_FOUND, format!("This repository has no {what}.");
            Self::NotShown(why) => UNPROCESSABLE_ENTITY,
                format!("This cannot be shown here: {why}. Clone the repository to see it.");
            Self::TooSlow => SERVICE_UNAVAILABLE,
                "This takes longer than a page may take. Try again later, or clone the repository \
                 and ask git.";
            Self::DumbHttp => FORBIDDEN,
                "Only the smart HTTP protocol is served: use git 1.6.6 or later.";
            Self::UnknownService => FORBIDDEN,
                "Only git-upload-pack and git-receive-pack are served here.";
            Self::Method { allow } => METHOD_NOT_ALLOWED,
                format!("This path answers only to {allow}.");
            Self::ContentType { expected } => UNSUPPORTED_MEDIA_TYPE,
                format!("The content type must be {expected}.");
            Self::ContentEncoding => UNSUPPORTED_MEDIA_TYPE,
                "The body may be plain or gzip, nothing else.";
            Self::Malformed(why) => BAD_REQUEST, format!("The request is malformed: {why}.");
            Self::NoToken => UNAUTHORIZED,
                "This is for the operator: send `Authorization: Bearer <token>` with the token \
                 that the node keeps in admin.token in its data directory, or use the gripfast \
                 command on its machine.";
            Self::WrongToken => UNAUTHORIZED,
                "The admin token is wrong: the right one is in admin.token in the data directory \
                 of this node.";
            Self::NotLocal => FORBIDDEN,
                "This is for the operator on the machine itself: connect to the node's own address \
                 from there, not through a proxy.";
            Self::NotAMember => UNAUTHORIZED, "";
            Self::NothingWaits { what } => NOT_FOUND,
                format!("No {what} of this name waits for git data.");
            Self::NothingNamed { what } => NOT_FOUND, format!("There is no such {what} here.");
            Self::NoSuchJob => NOT_FOUND, "There is no such job; `gripfast queue ls` lists them.";
            Self::IndexOff => NOT_FOUND,
                "This node keeps no index of modules: its operator has set index_enabled to false.";
            Self::ProxyOff => NOT_FOUND,
                "not found: this node serves no modules to the go command: its operator has set \
                 go_proxy or index_enabled to false.";
            Self::NotIndexed => NOT_FOUND,
                "The index knows no source and no repository of this name; `gripfast index status` \
                 names them.";
            Self::Forgotten { up_to_ns } => GONE,
                format!("The changes after this cursor are no longer kept. Read /index from its \
                         beginning, and then go on with cursor={up_to_ns}.");
            Self::NoSuchModule(why) => NOT_FOUND, why.clone();
            // Not 404: no other proxy of the client's list is asked for it.
            Self::RefusedModule(why) => CONFLICT, why.clone();
            // Nor here: what its host has is not for the next proxy to guess.
            Self::ModuleElsewhere { why, .. } => SERVICE_UNAVAILABLE, why.clone();
            Self::FetchesSpent { why, .. } => TOO_MANY_REQUESTS, why.clone();
            Self::TooManyRecords => TOO_MANY_REQUESTS,
                "You asked for too many commits that nobody asked for before. Try again in an hour, or \
                 ask for tagged versions.";
            Self::ModulesBusy { .. } => TOO_MANY_REQUESTS,
                "Too many modules are asked for at once. Try again in a few seconds.";
            Self::SyncOff => CONFLICT,
                "Sync is switched off on this node: set sync_enabled to true and start it again.";
            Self::Busy(class) => TOO_MANY_REQUESTS,
                format!("The server is busy: all {} slots are taken. Try again in a few seconds.", class.label());
            Self::TooManyRequests => TOO_MANY_REQUESTS,
                "Too many requests from your address. Try again in a few seconds.";
            Self::TooManyConnections => TOO_MANY_REQUESTS,
                "Too many open connections from your address. Close some and try again.";
            Self::Draining => SERVICE_UNAVAILABLE,
                "The server is shutting down. Try again in a minute.";
            Self::NoLeader => SERVICE_UNAVAILABLE,
                "The servers of this service are choosing who leads them. Try again in a few seconds.";
            Self::Behind => SERVICE_UNAVAILABLE,
                "This server has not caught up with the others of its service. Try again in a few \
                 seconds.";
            Self::PacksAway(_) => SERVICE_UNAVAILABLE,
                "This server cannot get the objects of the repository from its object store at the \
                 moment. Try again in a few seconds.";
            Self::NoBackup { why } => SERVICE_UNAVAILABLE, format!("No backup can be made now: {why}.");
            Self::Away { .. } => SERVICE_UNAVAILABLE,
                "The database of this node does not answer. Try again in a moment.";
            Self::Deadline => GATEWAY_TIMEOUT, "The request timed out. Try again.";
            Self::Internal { .. } | Self::Panic => INTERNAL_SERVER_ERROR,
                "Something went wrong on the server. Try again; the operator finds the cause by \
                 the request id.";
        }
    }

    /// How long a client should stay away, where trying again makes sense.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy(_) | Self::TooManyRequests | Self::TooManyConnections => {
                Some(Duration::from_secs(5))
            }
            Self::Away { .. } | Self::NoLeader | Self::Behind | Self::PacksAway(_) => {
                Some(Duration::from_secs(5))
            }
            Self::TooSlow => Some(Duration::from_secs(60)),
            Self::TooManyRecords => Some(Duration::from_secs(3600)),
            Self::ModulesBusy { retry_after }
            | Self::ModuleElsewhere { retry_after, .. }
            | Self::FetchesSpent { retry_after, .. } => Some(*retry_after),
            Self::Resolving(error) => error.retry_after(),
            Self::Draining | Self::Damaged { .. } => Some(Duration::from_secs(60)),
            _ => None,
        }
    }

    /// Whether the resolver refused to begin, by a bound of this node.
    pub(crate) fn is_busy_resolver(&self) -> bool {
        let Self::Resolving(ResolvingError::Failed(error)) = self else {
            return false;
        };
        matches!(error, grip_resolve::ResolveError::Busy { .. })
    }

    /// Says whether the same request may succeed later, without anybody changing anything.
    pub(crate) fn is_worth_another_try(&self) -> bool {
        let is_ours = matches!(self, Self::Deadline | Self::Internal { .. } | Self::Panic);
        is_ours || self.retry_after().is_some()
    }

    /// Writes the one log line of a failed request. What a client did wrong is no warning, nor is
    /// a refusal: those who flood us would flood the log, and the metrics count each.
    pub(crate) fn log(&self) {
        match self {
            Self::Internal { source, .. } => {
                tracing::error!(error = %ErrorChain(source.as_ref()), "{self}");
            }
            Self::Away { source, .. } => tracing::warn!(error = %ErrorChain(source), "{self}"),
            Self::PacksAway(source) => tracing::warn!(error = %ErrorChain(source), "{self}"),
            Self::Panic => tracing::error!("{self}"),
            Self::Deadline | Self::NoBackup { .. } => tracing::warn!("{self}"),
            _ => tracing::debug!("{self}"),
        }
    }

    /// The plain text form, which git and curl show as it is.
    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = respond::text(self.status(), self.caller() + "\n");
        self.add_headers(&mut response);
        response
    }

    /// The form that programs read: they ask for it by `Accept: application/json`.
    pub(crate) fn json(&self, request_id: &str) -> Response<Body> {
        let shape = serde_json::json!(ErrorAnswer {
            error: ErrorFacts {
                code: self.code().to_owned(),
                message: self.caller(),
                retry_after_seconds: self.retry_after().map(|after| after.as_secs()),
                request_id: request_id.to_owned(),
            }
        });
        let kind = "application/json; charset=utf-8";
        let mut response = respond::typed(self.status(), kind, shape.to_string());
        self.add_headers(&mut response);
        response
    }

    /// The class of the failure, in a word that does not change: what went wrong by its status,
    /// and where one status has several causes, by its cause.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::TooManyRequests => "rate_limited",
            Self::TooManyConnections => "too_many_connections",
            Self::Draining => "canceled",
            Self::Resolving(ResolvingError::Failed(error)) => error.code(),
            _ => match self.status() {
                StatusCode::TOO_MANY_REQUESTS => "busy",
                StatusCode::GATEWAY_TIMEOUT => "timeout",
                StatusCode::SERVICE_UNAVAILABLE => "unavailable",
                StatusCode::NOT_FOUND => "not_found",
                StatusCode::BAD_REQUEST => "malformed",
                StatusCode::UNAUTHORIZED => "unauthorized",
                StatusCode::FORBIDDEN => "forbidden",
                StatusCode::METHOD_NOT_ALLOWED => "method_not_allowed",
                StatusCode::PAYLOAD_TOO_LARGE => "too_large",
                StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported_media_type",
                StatusCode::UNPROCESSABLE_ENTITY => "not_shown",
                StatusCode::CONFLICT => "conflict",
                StatusCode::GONE => "gone",
                StatusCode::INTERNAL_SERVER_ERROR => "internal",
                _ => "failed",
            },
        }
    }

    /// Adds `Retry-After`, `Allow` and `WWW-Authenticate` to an answer about this failure in any form.
    pub(crate) fn add_headers(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        if let Self::Method { allow } = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if let Self::NoToken | Self::WrongToken = self {
            let bearer = HeaderValue::from_static("Bearer realm=\"gripfast\"");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if let Self::Resolving(ResolvingError::NotSigned(_)) = self {
            let signed = HeaderValue::from_static("Nostr");
            headers.insert(header::WWW_AUTHENTICATE, signed);
        }
        if let Self::Watch(WatchError::NotSigned(_)) = self {
            let signed = HeaderValue::from_static("X-Hub-Signature-256");
            headers.insert(header::WWW_AUTHENTICATE, signed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the list cannot be read")]
    struct Unreadable(#[source] DbError);

    #[test]
    fn a_database_that_is_away_is_told_from_a_fault_whatever_it_is_wrapped_in() {
        let away = WebError::internal("no list", Unreadable(DbError::TimedOut));
        assert_eq!(away.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(away.caller().contains("database"), "{}", away.caller());
        let fault = WebError::internal("no list", Unreadable(DbError::Panicked));
        assert_eq!(fault.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
