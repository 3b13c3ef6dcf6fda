//! One request: is it meant for us, whose is it, what does it ask, and the answer. Whatever the path, this is where it comes by.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::any,
};
use bytes::BytesMut;
use futures::StreamExt as _;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use views::{
    Answer, Ask, Viewer, What,
    bodies::Agent,
    statuses::{PostBody, Shape, StatusesAsk, StatusesParams},
};

use super::{
    auth::{self, Secret, Who},
    bodies,
    coding::{Form, Forms},
    commands::Commands,
    events, host,
    line::{Given, Line, Want},
    live,
    metrics::Counters,
    openapi, page,
    query::{Query, Read, percent_decode},
    reply::{self, Marks, Refused},
    routes::{self, Found, Id, ROUTES, Route},
    sending::Sending,
};

/// Longest body of a request.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;
/// Most bytes that bodies which are being received may have together.
pub(crate) const BODIES_BYTES_MAX: usize = 256 << 20;
/// How long a body waits for room among them.
const BODIES_WAIT: Duration = Duration::from_secs(5);
/// How long a request's body may take to come.
const BODY_WAIT: Duration = Duration::from_secs(20);

/// What the connections share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) line: Line,
    pub(crate) secret: Secret,
    pub(crate) names: host::Names,
    /// How we describe ourselves.
    pub(crate) agent: Arc<Agent>,
    pub(crate) commands: Commands,
    /// No token is needed.
    pub(crate) open: bool,
    /// Guests see their own jobs only.
    pub(crate) private: bool,
    /// The name of the session's cookie: with the port, since browsers give a cookie to all ports of a name.
    pub(crate) cookie: String,
    pub(crate) forms: Forms,
    pub(crate) sending: Arc<Sending>,
    /// A permit for each byte of a body that is being received.
    pub(crate) receiving: Semaphore,
    pub(crate) counters: Counters,
    /// True when the end is near.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) jitter: AtomicU64,
}

pub(crate) type Shared = Arc<App>;

/// Marks an answer whose time says nothing of how fast we are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited;

/// A request whose sender is known.
pub(crate) struct Call {
    pub(crate) route: &'static Route,
    /// What the path names, decoded.
    pub(crate) id: String,
    pub(crate) who: Who,
    pub(crate) parts: Parts,
    pub(crate) body: Body,
}

/// The router: every path of the table.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for route in &ROUTES {
        if route.path.ends_with("/{rest}") {
            let path = route.path.replace("{rest}", "");
            router = router.route(&format!("{path}{{*rest}}"), handler(Some(route)));
            router = router.route(&path, handler(Some(route)));
        } else if !route.path.contains('{') {
            router = router.route(route.path, handler(Some(route)));
        }
    }
    for prefix in routes::WITH_ID {
        let serve = move |State(app): State<Shared>, request: Request| async move {
            let rest = request
                .uri()
                .path()
                .strip_prefix(prefix)
                .unwrap_or_default();
            let rest = percent_decode(rest);
            match rest.as_deref().map(|rest| routes::find(prefix, rest)) {
                Some(Found::Route(route, id)) => {
                    let id = id.to_owned();
                    serve(app, Some(route), id, request).await
                }
                Some(Found::NotBuilt) => finish(
                    &app,
                    "other",
                    Instant::now(),
                    Err(Refused::new(
                        StatusCode::NOT_IMPLEMENTED,
                        "not built: over HTTP weir only shows; jobs are changed with the weir command",
                    )),
                ),
                Some(Found::Unknown) => serve(app, None, String::new(), request).await,
                None => {
                    let bad = Refused::bad("the path holds a % without two hex digits");
                    finish(&app, "other", Instant::now(), Err(bad))
                }
            }
        };
        router = router.route(&format!("{prefix}{{*rest}}"), any(serve));
    }
    router
        .fallback_service(handler(None).with_state(app.clone()))
        .with_state(app.clone())
}

fn handler(route: Option<&'static Route>) -> axum::routing::MethodRouter<Shared> {
    any(move |State(app): State<Shared>, request: Request| {
        serve(app, route, String::new(), request)
    })
}

/// Answers one request.
async fn serve(
    app: Shared,
    route: Option<&'static Route>,
    id: String,
    request: Request,
) -> Response {
    let started = Instant::now();
    let name = route.map_or("other", |route| route.path);
    let (parts, body) = request.into_parts();
    let answered = match admit(&app, route, &parts) {
        Ok((route, who)) => {
            let call = Call {
                route,
                id,
                who,
                parts,
                body,
            };
            dispatch(&app, call).await
        }
        Err(refused) if refused == Refused::denied() && page::is_navigation(&parts.headers) => {
            Ok(page::enter(refused.into_response()))
        }
        Err(refused) => Err(refused),
    };
    finish(&app, name, started, answered)
}

fn finish(
    app: &App,
    name: &'static str,
    started: Instant,
    answered: Result<Response, Refused>,
) -> Response {
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    let headers = response.headers_mut();
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let timed = response.extensions().get::<Waited>().is_none();
    let took = timed.then(|| started.elapsed());
    app.counters
        .answered(name, response.status().as_u16(), took);
    response
}

/// Whether a request may come in, and who sends it.
fn admit(
    app: &App,
    route: Option<&'static Route>,
    parts: &Parts,
) -> Result<(&'static Route, Who), Refused> {
    let is_page = route.is_some_and(|route| matches!(route.id, Id::Page | Id::Ui));
    app.names.check(&parts.uri, &parts.headers, is_page)?;
    let shown = app
        .secret
        .of_request(&parts.headers, &app.cookie, auth::now());
    let free = app.open || route.is_some_and(|route| route.free);
    let who = match shown {
        Some(Ok(who)) => who,
        // A page must open with a cookie that is over.
        Some(Err(())) if route.is_none_or(|route| !route.free || route.id == Id::Session) => {
            return Err(Refused::denied());
        }
        _ if free => Who::NOBODY,
        _ => return Err(Refused::denied()),
    };
    route.map(|route| (route, who)).ok_or(Refused::unknown())
}

async fn dispatch(app: &Shared, call: Call) -> Result<Response, Refused> {
    let is_taken = call.route.takes(&call.parts.method);
    // There the parameters are looked at first, as clients see it elsewhere.
    if !is_taken && call.route.id != Id::Statuses {
        return Err(Refused::method());
    }
    match call.route.id {
        Id::Statuses => {
            let (read, ask) =
                statuses_ask(app, call.parts.uri.query(), is_taken, call.body).await?;
            let what = What::Statuses(ask);
            app.view(call.who, &call.parts, &read, what).await
        }
        Id::StatusesStream => live::serve(app, call).await,
        Id::EventStream => events::serve(app, call).await,
        Id::Body(body) => {
            let query = Query::new(call.parts.uri.query().unwrap_or_default());
            let read = Read::parse(&query)?;
            let what = bodies::what(app, body, &call, &query, &read)?;
            app.view(call.who, &call.parts, &read, what).await
        }
        Id::Session => session(app, &call),
        Id::TokenSelf => Ok(token_self(app, call.who)),
        Id::License => Ok(empty(StatusCode::NO_CONTENT)),
        Id::SearchFuzzy => Err(Refused::new(
            StatusCode::NOT_IMPLEMENTED,
            "not built: ask /v1/jobs/statuses with a filter",
        )),
        Id::Metrics if app.private && !call.who.owner => Err(Refused::denied()),
        Id::Metrics => {
            let facts = match app.line.ask(Want::Facts, None).await? {
                Given::Facts(facts) => facts,
                _ => return Err(Refused::internal("no facts")),
            };
            let text = app.counters.text(&facts, app);
            let body = Body::from(text);
            Ok(typed(body, "text/plain; version=0.0.4; charset=utf-8"))
        }
        Id::Health => Ok(health(app)),
        Id::OpenApi => {
            let pretty = Query::new(call.parts.uri.query().unwrap_or_default()).pretty();
            let text = openapi::text();
            let text = if pretty {
                Bytes::from(super::pretty::pretty(&[text]))
            } else {
                Bytes::from_static(text.as_bytes())
            };
            Ok(reply::json(Body::from(text)))
        }
        Id::Page => Ok(page::page()),
        Id::PageScript => Ok(page::script()),
        Id::PageStyle => Ok(page::style()),
        Id::EnterScript => Ok(page::enter_script()),
        Id::Ui => {
            let mut response = empty(StatusCode::TEMPORARY_REDIRECT);
            let to = HeaderValue::from_static("/");
            response.headers_mut().insert(header::LOCATION, to);
            Ok(response)
        }
    }
}

/// What a request for statuses asks for.
pub(crate) async fn statuses_ask(
    app: &App,
    query: Option<&str>,
    is_taken: bool,
    body: Body,
) -> Result<(Read, StatusesAsk), Refused> {
    let query = Query::new(query.unwrap_or_default());
    let read = Read::parse(&query)?;
    let include_children = query.bool("include_children")?;
    let shape = match query.filled("allocs") {
        None | Some("full") => Shape::Full,
        Some("counts") => Shape::Counts,
        Some(_) => {
            return Err(Refused::bad(
                "Expect `full` or `counts` for `allocs` query string parameter",
            ));
        }
    };
    if !is_taken {
        return Err(Refused::method());
    }
    let params = StatusesParams {
        namespace: read.namespace.clone(),
        per_page: read.per_page,
        next_token: Some(read.next_token.clone()),
        filter: Some(read.filter.clone()),
        reverse: read.reverse,
        include_children,
        shape,
    };
    let body = read_body(app, body).await?;
    let body = PostBody::parse(&body)?;
    let ask = StatusesAsk::new(&params, body)?;
    Ok((read, ask))
}

/// The body of a request, whole.
async fn read_body(app: &App, body: Body) -> Result<Bytes, Refused> {
    if hyper::body::Body::is_end_stream(&body) {
        return Ok(Bytes::new());
    }
    let mut stop = app.stop.clone();
    tokio::select! {
        read = tokio::time::timeout(BODY_WAIT, receive(app, body)) => read.unwrap_or_else(|_| {
            let text = format!("the request's body did not come within {} s", BODY_WAIT.as_secs());
            Err(Refused::new(StatusCode::REQUEST_TIMEOUT, text))
        }),
        () = stopped(&mut stop) => Err(Refused::unavailable("job-info is shutting down, try again")),
    }
}

async fn receive(app: &App, body: Body) -> Result<Bytes, Refused> {
    let mut pieces = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut room: Option<SemaphorePermit<'_>> = None;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Refused::bad("the request's body ended before its time"))?;
        if whole.len() + piece.len() > BODY_BYTES_MAX {
            let text = format!("request body too large: expected at most {BODY_BYTES_MAX} bytes");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, text));
        }
        // What has come counts, not what was announced: who sends nothing keeps nobody out.
        let more = app
            .receiving
            .acquire_many(u32::try_from(piece.len()).unwrap_or(u32::MAX));
        let Ok(Ok(more)) = tokio::time::timeout(BODIES_WAIT, more).await else {
            return Err(Refused::unavailable(
                "too many requests with large bodies are on their way, try again later",
            ));
        };
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// Ready when the end is near.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that it has come already.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// When a stream must end: at the end of job-info, or of what its reader had shown.
#[derive(Debug)]
pub(crate) struct End {
    stop: watch::Receiver<bool>,
    until: Option<tokio::time::Instant>,
}

impl End {
    pub(crate) fn new(app: &App, who: Who) -> Self {
        let left = who.left(auth::now());
        Self {
            stop: app.stop.clone(),
            until: left.map(|left| tokio::time::Instant::now() + left),
        }
    }

    /// Ready when it has come.
    pub(crate) async fn come(&mut self) {
        let until = self.until;
        tokio::select! {
            () = stopped(&mut self.stop) => {}
            () = async { if let Some(until) = until { tokio::time::sleep_until(until).await } }, if until.is_some() => {}
        }
    }
}

impl App {
    /// As which a request sees the list.
    pub(crate) fn viewer(&self, who: Who) -> Viewer {
        Viewer {
            owner: who.owner,
            userid: who.userid,
            private: self.private,
        }
    }

    /// The ask that a request makes.
    pub(crate) fn ask_of(&self, who: Who, query: Option<&str>, index: u64, what: What) -> Ask {
        let query = Query::new(query.unwrap_or_default());
        Ask {
            viewer: self.viewer(who),
            index,
            epoch: query.filled("epoch").map(Into::into),
            what,
        }
    }

    /// Asks for a body, waits if the request says so, and answers.
    async fn view(
        &self,
        who: Who,
        parts: &Parts,
        read: &Read,
        what: What,
    ) -> Result<Response, Refused> {
        self.line.ready(read.after).await?;
        let job = Commands::of(&what);
        let ask = self.ask_of(who, parts.uri.query(), read.index, what);
        // Nor longer than what was shown is good.
        let left = who.left(auth::now()).unwrap_or(Duration::MAX);
        let wait = (read.index > 0).then(|| (read.wait + self.extra(read.wait)).min(left));
        let started = Instant::now();
        let waiting = wait.map(|_| self.counters.wait());
        let given = self.line.ask(Want::View(Box::new(ask)), wait).await?;
        if let (Some(waiting), Some(wait)) = (waiting, wait) {
            waiting.over(started.elapsed() >= wait);
        }
        let Given::View(reply) = given else {
            return Err(Refused::internal("no body"));
        };
        let mut answer = reply?;
        if let Some(job) = job {
            answer = self.commands.add(who, job, answer).await;
        }
        let pretty = Query::new(parts.uri.query().unwrap_or_default()).pretty();
        let mut response = self.respond(&answer, pretty, &parts.headers).await?;
        if wait.is_some() {
            response.extensions_mut().insert(Waited);
        }
        Ok(response)
    }

    /// A little more than the time that was asked for, so that many who asked together do not come back together.
    fn extra(&self, wait: Duration) -> Duration {
        // xorshift: spread is all that matters here.
        let mut random = self.jitter.load(Ordering::Relaxed) | 1;
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.jitter.store(random, Ordering::Relaxed);
        (wait / 16).mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// A body in the form that was asked for, with its headers.
    async fn respond(
        &self,
        answer: &Answer,
        pretty: bool,
        headers: &HeaderMap,
    ) -> Result<Response, Refused> {
        let form = Form::of(pretty, headers, answer.body.len());
        let body = if form.is_plain() {
            self.sending.pieces(answer.body.shared(), answer.body.len())
        } else {
            self.sending.piece(self.forms.get(&answer.body, form).await)
        };
        let body = body.ok_or(Refused::unavailable(
            "too many large answers are on their way to clients that read slowly, try again later",
        ))?;
        let mut response = reply::json(body);
        let status = self.line.status();
        let marks = Marks {
            index: answer.index,
            next_token: answer.next_token.as_deref(),
            stale: status.stale(Instant::now()),
            epoch: status.epoch.as_deref(),
        };
        reply::mark(&mut response, marks);
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        if form.gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        Ok(response)
    }
}

/// Gives a cookie for a token, or takes it back.
fn session(app: &App, call: &Call) -> Result<Response, Refused> {
    let name = &app.cookie;
    let cookie = if call.parts.method == "DELETE" {
        format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
    } else {
        if call.who == Who::NOBODY {
            return Err(Refused::denied());
        }
        let now = auth::now();
        let (session, expires) = app.secret.session(call.who, now);
        let left = expires.saturating_sub(now);
        format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={left}")
    };
    let cookie = HeaderValue::from_str(&cookie).map_err(|_| Refused::internal("no cookie"))?;
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// As clients know it: whose the token is.
fn token_self(app: &App, who: Who) -> Response {
    let name = match who {
        Who::NOBODY => "Anonymous Token".to_owned(),
        who => format!("user {}", who.userid),
    };
    let kind = if who.owner { "management" } else { "client" };
    let body = serde_json::json!({
        "AccessorID": name, "Name": name, "Type": kind, "Policies": null, "Roles": null, "Global": false,
        "ExpirationTime": null, "CreateIndex": 0, "ModifyIndex": 0,
    });
    let mut response = reply::json(Body::from(body.to_string()));
    let status = app.line.status();
    let marks = Marks {
        index: status.applied.max(1),
        next_token: None,
        stale: status.stale(Instant::now()),
        epoch: status.epoch.as_deref(),
    };
    reply::mark(&mut response, marks);
    response
}

/// `{"seq":N,"stale"?:SECONDS,"set_aside"?:N,"ok":bool}`.
fn health(app: &App) -> Response {
    let status = app.line.status();
    let stale = status.stale(Instant::now());
    let ok = status.served && stale.is_none();
    let mut body = serde_json::json!({ "ok": ok, "seq": status.applied });
    if let Some(map) = body.as_object_mut() {
        if let Some(stale) = stale {
            map.insert("stale".into(), stale.into());
        }
        if status.set_aside > 0 {
            map.insert("set_aside".into(), status.set_aside.into());
        }
    }
    let mut response = reply::json(Body::from(body.to_string()));
    if !ok {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(crate) fn typed(body: Body, content: &'static str) -> Response {
    let mut response = Response::new(body);
    let content = HeaderValue::from_static(content);
    response.headers_mut().insert(header::CONTENT_TYPE, content);
    response
}
