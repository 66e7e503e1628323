//! A Gravitino server by hand: recorded worlds, answered in the recorded shapes.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::config;
use crate::upstream::fake;

use super::super::{Gravitino, Metrics};

#[path = "../../../../tests/e2e/support/worlds.rs"]
mod worlds;

pub(super) use self::worlds::{Recorded, Version, recorded};

/// A running server, and the paths that it was asked for.
pub(super) struct Double {
    pub(super) port: u16,
    pub(super) asked: Arc<Mutex<Vec<String>>>,
}

impl Double {
    /// Serves a world. Callers say `Authorization: Caller INDEX`; the service user says something else, or nothing.
    pub(super) async fn of(world: Arc<Recorded>) -> Self {
        Self::serve(move |head| {
            let path = head.split(' ').nth(1).expect("a path");
            let at = header(head, "authorization").and_then(|value| value.strip_prefix("Caller ")?.parse().ok());
            let (status, body) = world.answer(path, at, header(head, "x-gravitino-active-roles"));
            let body = body.to_string();
            let length = body.len();
            format!("HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        })
        .await
    }

    /// Answers each request with these bytes. An answer that says `Connection: close` is the last on its connection.
    pub(super) async fn serve(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let (listener, port) = fake::listen().await;
        let (answer, asked) = (Arc::new(answer), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                tokio::spawn(async move {
                    while let Some(head) = fake::read_head(&mut stream).await {
                        log.lock().unwrap().push(head.split(' ').nth(1).expect("a path").to_owned());
                        let bytes = answer(&head);
                        let written = stream.write_all(bytes.as_bytes()).await;
                        if written.is_err() || bytes.contains("Connection: close") {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, asked }
    }

    pub(super) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(super) fn config(&self, more: Value) -> config::Gravitino {
        let mut settings = json!({ "url": format!("http://127.0.0.1:{}", self.port) });
        let map = settings.as_object_mut().expect("a map");
        map.extend(more.as_object().expect("a map").clone());
        serde_json::from_value(settings).expect("a configuration")
    }

    pub(super) fn gravitino(&self, more: Value) -> Gravitino {
        Gravitino::new(&self.config(more), Metrics::default()).expect("a source")
    }
}

/// A header's value out of a request's head.
pub(super) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

pub(super) fn reply(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}
