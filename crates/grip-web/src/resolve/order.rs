//! Orders of the operator: pin, unpin, reindex.
//!
//! Invariant: nothing of an order is read, not even its body, before it is known who gives it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use grip_resolve::{Action, AdminError, Command, CommandContext, CommandResult, InvalidCommand};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::parameters;
use crate::{
    admin::{self, Admin, SignedRequest, VerifiedSignature},
    error::{ResolvingError, WebError},
    limits::Class,
    request_context::{HttpResult, RequestContext},
    respond, webhook,
};

/// Longest body.
const MAX_BODY: usize = 1 << 20;
/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(15);
/// Makes two sendings of one order one order.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Who gives an order, as far as that is known before its body.
enum Sender {
    Token(Admin),
    Signed(VerifiedSignature),
}

/// `POST /admin/<action>`.
pub(crate) async fn order(
    cx: &RequestContext<'_>,
    mut body: Incoming,
    action: Action,
) -> HttpResult {
    let sender = sender(cx, action)?;
    parameters::only(cx.query(), &[])?;
    let resolve = cx.app.resolve()?;
    let _permit = cx.permit(Class::Api)?;
    let patience = cx.settings.timeouts.body_stall.min(PATIENCE);
    let read = match timeout(patience, read(&mut body)).await {
        Ok(read) => read,
        Err(_) => Err(ResolvingError::BodyTooSlow.into()),
    };
    if read.is_err() {
        // Who is still sending gets to read the response.
        let rest = webhook::discard(&mut body, cx.settings.limits.drain_bytes);
        let _ = timeout(patience, rest).await;
    }
    let body = read?;
    let admin = match sender {
        Sender::Token(admin) => admin,
        Sender::Signed(signature) => signature
            .open(&body, &cx.app.used_signatures, admin::now)
            .map_err(ResolvingError::NotSigned)?,
    };
    let context = CommandContext {
        actor: admin.actor().to_owned(),
        idempotency_key: idempotency_key(cx.headers())?,
        correlation: Some(cx.id.to_owned()),
    };
    let command = Command::read(action, &body).map_err(malformed)?;
    let audit = admin.begin(record(action), command.subject());
    // Goes with the order, which is carried out even if its sender has left.
    let ended = |done: &Result<CommandResult, AdminError>| audit.end(outcome(done));
    let done = resolve.admin.execute(command, context, ended).await;
    let status = match action {
        Action::Reindex => StatusCode::ACCEPTED,
        Action::Pin | Action::Unpin => StatusCode::OK,
    };
    respond::json(status, &done.map_err(refused)?)
}

/// The sender of an order: the bearer of the token, or the signer of this very request.
fn sender(cx: &RequestContext<'_>, action: Action) -> Result<Sender, WebError> {
    let Some(event) = admin::authorization(cx.headers()) else {
        return cx.operator().map(Sender::Token);
    };
    let url = format!("{}/admin/{}", cx.settings.service.http_url(), action.name());
    let request = SignedRequest {
        url: &url,
        method: "POST",
        owner: cx.settings.node.owner,
        now: admin::now(),
    };
    let verified = admin::verify(event, &request).map_err(ResolvingError::NotSigned)?;
    Ok(Sender::Signed(verified))
}

/// The outcome of an order, for the log.
fn outcome(done: &Result<CommandResult, AdminError>) -> String {
    match done {
        Ok(done) if done.repeated => format!("{}, as before", done.outcome),
        Ok(done) => done.outcome.clone(),
        Err(error) => format!("failed: {error}"),
    }
}

fn refused(error: AdminError) -> WebError {
    match error {
        AdminError::IdempotencyKey(why) => WebError::Malformed(why.to_string()),
        AdminError::Resolve(error) => ResolvingError::Failed(error).into(),
        AdminError::Db(error) => WebError::internal("an order cannot be carried out", error),
        other => ResolvingError::Refused(other.to_string()).into(),
    }
}

/// The name of an order in the log.
fn record(action: Action) -> &'static str {
    match action {
        Action::Reindex => "resolve reindex",
        Action::Pin => "resolve pin",
        Action::Unpin => "resolve unpin",
    }
}

fn malformed(error: InvalidCommand) -> WebError {
    match error {
        InvalidCommand::Key(error) => ResolvingError::Failed(error.into()).into(),
        error => WebError::Malformed(error.to_string()),
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
