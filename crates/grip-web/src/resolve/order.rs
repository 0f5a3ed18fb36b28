//! What the operator may order: pin, unpin, read everything anew.
//!
//! Invariant: nothing of an order is read, not even its body, before it is known who gives it.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use grip_resolve::{AdminError, Command, Done, Order};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::timeout;

use super::parameters;
use crate::{
    admin::{Admin, Signed},
    admission::Class,
    app::{App, Asked},
    body::Body,
    error::{ResolvingError, WebError},
    method::only_post,
    respond, webhook,
};

/// Longest body.
const MAX_BODY: usize = 1 << 20;
/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(15);
/// What makes two sendings of one order one order.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What may be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Reindex,
    Pin,
    Unpin,
}

impl Action {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Reindex, Self::Pin, Self::Unpin]
            .into_iter()
            .find(|action| action.name() == text)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reindex => "reindex",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
        }
    }

    /// As the log calls it.
    fn record(self) -> &'static str {
        match self {
            Self::Reindex => "resolve reindex",
            Self::Pin => "resolve pin",
            Self::Unpin => "resolve unpin",
        }
    }
}

/// Who gives an order, as far as that is known before its body.
pub(crate) enum Gate {
    Token(Admin),
    Signed(Signed),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    key: Option<String>,
}

/// `POST /admin/<action>`. Boxed, so that no other request has to find room for it.
pub(crate) fn order<'a>(
    app: &'a Arc<App>,
    action: Action,
    request: Request<Incoming>,
    asked: &'a Asked,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(answer(app, action, request, asked))
}

async fn answer(
    app: &Arc<App>,
    action: Action,
    request: Request<Incoming>,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    only_post(request.method())?;
    let gate = app.gate(action, request.headers(), asked)?;
    parameters::only(request.uri().query(), &[])?;
    let resolve = app.resolve()?;
    let _slot = app.enter(Class::Api, asked)?;
    let (head, mut body) = request.into_parts();
    let patience = asked.settings.timeouts.body_stall.min(PATIENCE);
    let read = match timeout(patience, read(&mut body)).await {
        Ok(read) => read,
        Err(_) => Err(ResolvingError::BodyTooSlow.into()),
    };
    if read.is_err() {
        // Who is still sending gets to read the answer.
        let rest = webhook::forget(&mut body, asked.settings.limits.drain_bytes);
        let _ = timeout(patience, rest).await;
    }
    let body = read?;
    let admin = match gate {
        Gate::Token(admin) => admin,
        Gate::Signed(signed) => app.open(signed, &body)?,
    };
    let order = Order {
        actor: admin.actor().to_owned(),
        idempotency_key: idempotency_key(&head.headers)?,
        correlation: Some(asked.id.clone()),
    };
    let command = command(action, &body)?;
    let audit = admin.begins(action.record(), command.subject());
    // Goes with the order, which is carried out even if whoever gave it has left.
    let ended = |done: &Result<Done, AdminError>| audit.ends(outcome(done));
    let done = resolve.admin.carry_out(command, order, ended).await;
    let status = match action {
        Action::Reindex => StatusCode::ACCEPTED,
        Action::Pin | Action::Unpin => StatusCode::OK,
    };
    respond::json(status, &done.map_err(told)?)
}

/// What came of an order, for the log.
fn outcome(done: &Result<Done, AdminError>) -> String {
    match done {
        Ok(done) if done.repeated => format!("{}, as before", done.outcome),
        Ok(done) => done.outcome.clone(),
        Err(error) => format!("failed: {error}"),
    }
}

fn told(error: AdminError) -> WebError {
    match error {
        AdminError::Order(why) => WebError::Malformed(why.to_string()),
        AdminError::Resolve(error) => ResolvingError::Failed(error).into(),
        AdminError::Db(error) => WebError::database("an order cannot be carried out", error),
        refused => ResolvingError::Refused(refused.to_string()).into(),
    }
}

/// What a body orders; an order that is about everything has no key.
fn command(action: Action, body: &[u8]) -> Result<Command, WebError> {
    let malformed = |why: &str| WebError::Malformed(why.to_owned());
    let wire = match body {
        [] => Wire::default(),
        body => serde_json::from_slice(body)
            .map_err(|_| malformed("the body is a JSON object with `key` and nothing else"))?,
    };
    let key = |key: Option<String>| match key {
        Some(key) => parameters::read_key(&key),
        None => Err(malformed("the body has no `key`")),
    };
    match (action, wire.key) {
        (Action::Reindex, None) => Ok(Command::Reindex),
        (Action::Reindex, Some(_)) => Err(malformed("everything is read anew: leave out `key`")),
        (Action::Pin, text) => key(text).map(Command::Pin),
        (Action::Unpin, text) => key(text).map(Command::Unpin),
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, WebError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let (first, second) = (values.next(), values.next());
    let text = first.map(|value| value.to_str().map(str::to_owned));
    match (text.transpose(), second) {
        (Ok(text), None) => Ok(text),
        _ => Err(WebError::Malformed(
            "Idempotency-Key is one text of printable ASCII characters".into(),
        )),
    }
}

async fn read(body: &mut Incoming) -> Result<Bytes, WebError> {
    let mut whole = BytesMut::new();
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(ResolvingError::BodyTooLong.into());
    }
    while let Some(data) = webhook::piece(body).await {
        let data = data?;
        if whole.len() + data.len() > MAX_BODY {
            return Err(ResolvingError::BodyTooLong.into());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
