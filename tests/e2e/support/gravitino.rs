//! A Gravitino server by hand: recorded worlds, read by the callers' own tokens or by the gate's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::worlds::Recorded;

/// What the gate reads snapshots with.
pub(crate) const SERVICE_TOKEN: &str = "the-gates-own";

/// A running server. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Catalog {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    worlds: Vec<Arc<Recorded>>,
    /// The answer to everything but trial calls, as bytes; none is silence.
    trouble: Option<String>,
    /// The answer to the gate's own credential, trial calls left aside.
    service_trouble: Option<String>,
    /// The answer to trial calls, as bytes.
    trial: Option<String>,
    asked: usize,
}

impl Catalog {
    pub(crate) async fn start(worlds: Vec<Arc<Recorded>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = Arc::new(Mutex::new(State { worlds, ..State::default() }));
        let this = Self { address: listener.local_addr().unwrap(), state };
        let served = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(served.clone().serve(stream));
            }
        });
        this
    }

    /// `policy` of a gate that asks this server with callers' credentials.
    pub(crate) fn probed(&self, more: &str) -> String {
        format!("{{ gravitino: {{ url: 'http://{}' }}{more} }}", self.address)
    }

    /// `policy` of a gate that reads snapshots; it wants the file `service.token`.
    pub(crate) fn read_whole(&self, refresh: &str, more: &str) -> String {
        let url = format!("http://{}", self.address);
        let credential = "{ bearer_file: service.token }";
        format!(
            "{{ gravitino: {{ url: '{url}', mode: snapshot, credential: {credential}, refresh: {refresh} }}{more} }}"
        )
    }

    /// Grants are different from now on.
    pub(crate) fn change(&self, worlds: Vec<Arc<Recorded>>) {
        self.state.lock().unwrap().worlds = worlds;
    }

    /// From now on every question has these bytes for an answer; empty is silence.
    pub(crate) fn trouble(&self, bytes: Option<&str>) {
        self.state.lock().unwrap().trouble = bytes.map(str::to_owned);
    }

    /// From now on every read with the gate's own credential has these bytes for an answer.
    pub(crate) fn service_trouble(&self, bytes: Option<&str>) {
        self.state.lock().unwrap().service_trouble = bytes.map(str::to_owned);
    }

    /// From now on trial calls have these bytes for an answer.
    pub(crate) fn trial(&self, bytes: &str) {
        self.state.lock().unwrap().trial = Some(bytes.to_owned());
    }

    /// Trial calls are answered as by a good server again.
    pub(crate) fn well(&self) {
        self.state.lock().unwrap().trial = None;
    }

    /// Questions so far, trial calls left aside.
    pub(crate) fn asked(&self) -> usize {
        self.state.lock().unwrap().asked
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                    break at + 4;
                }
                match stream.read_buf(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            };
            let head = String::from_utf8(buffer.drain(..end).collect()).unwrap();
            let answer = self.answer(&head);
            if answer.is_empty() {
                std::future::pending::<()>().await;
            }
            if stream.write_all(answer.as_bytes()).await.is_err() || answer.contains("Connection: close") {
                return;
            }
        }
    }

    fn answer(&self, head: &str) -> String {
        let path = head.split(' ').nth(1).unwrap();
        let is_trial = path == "/api/version" || path.contains("/lineage-gate-trial/");
        let mut state = self.state.lock().unwrap();
        if is_trial && let Some(trial) = &state.trial {
            return trial.clone();
        }
        if !is_trial {
            state.asked += 1;
            let is_service = header(head, "authorization").is_some_and(|value| value.ends_with(SERVICE_TOKEN));
            let service_trouble = state.service_trouble.as_ref().filter(|_| is_service);
            if let Some(trouble) = state.trouble.as_ref().or(service_trouble) {
                return trouble.clone();
            }
        }
        let (status, body) = about(&state.worlds, head, path);
        drop(state);
        reply(status, "Content-Type: application/json\r\n", &body.to_string())
    }
}

pub(crate) fn reply(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn about(worlds: &[Arc<Recorded>], head: &str, path: &str) -> (u16, Value) {
    let forbidden = || (403, json!({ "code": 1008, "type": "ForbiddenException", "message": "no" }));
    let token = header(head, "authorization").and_then(|value| value.strip_prefix("Bearer "));
    let claims = token.filter(|token| *token != SERVICE_TOKEN).map(claims);
    match (path, &claims) {
        ("/api/metalakes", _) => {
            let names: Vec<Value> = worlds.iter().map(|world| json!({ "name": world.metalake() })).collect();
            return (200, json!({ "code": 0, "metalakes": names }));
        }
        ("/api/authn/me", Some(claims)) => return (200, json!({ "code": 0, "principal": claims["sub"] })),
        _ => {}
    }
    let rest = path.strip_prefix("/api/metalakes/").unwrap_or("x/");
    let metalake = rest.split('/').next().unwrap();
    let named = worlds.iter().find(|world| *world.metalake() == *metalake);
    let Some(world) = named.or_else(|| worlds.first().filter(|_| !path.starts_with("/api/metalakes/"))) else {
        return forbidden();
    };
    let at = match &claims {
        None => None,
        Some(claims) => {
            let callers = world.value["callers"].as_array().unwrap();
            let groups = if claims["groups"].is_array() { claims["groups"].clone() } else { json!([]) };
            let at = callers.iter().position(|caller| caller["user"] == claims["sub"] && caller["groups"] == groups);
            let Some(at) = at else { return forbidden() };
            Some(at)
        }
    };
    world.answer(path, at, header(head, "x-gravitino-active-roles"))
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// A header's value out of a request's head.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
