//! A lineage backend written by hand over raw sockets: it can answer anything, late, in pieces, or not at all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What the backend does with each request.
#[derive(Clone)]
pub(crate) enum Script {
    /// Writes these bytes.
    Answer(String),
    /// Waits, then writes these bytes.
    Late(Duration, String),
    /// Waits for [`Upstream::release`], then writes these bytes.
    Held(String),
    /// Writes these bytes one by one, a pause between two.
    Dribble(Duration, String),
    /// Reads the request and closes the connection.
    CloseAfterRequest,
    /// Resets the connection as soon as it is open.
    ResetAtOnce,
    /// Reads the request and never answers.
    Stall,
    /// As the request has it.
    By(fn(&str) -> Script),
}

/// A request as the backend saw it.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Mutex<Script>,
    received: Mutex<Vec<Received>>,
    arrived: Notify,
    released: Notify,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let prefix = format!("{}:", name.to_ascii_lowercase());
        let line = self.head.lines().find(|line| line.to_ascii_lowercase().starts_with(&prefix))?;
        Some(line[prefix.len()..].trim().to_owned())
    }
}

impl Upstream {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            received: Mutex::default(),
            arrived: Notify::new(),
            released: Notify::new(),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                tokio::spawn(async move { shared.serve(stream).await });
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn script(&self, script: Script) {
        *self.shared.script.lock().unwrap() = script;
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Waits until so many requests have arrived in all.
    pub(crate) async fn arrived(&self, count: usize) {
        loop {
            let next = self.shared.arrived.notified();
            if self.received().len() >= count {
                return;
            }
            next.await;
        }
    }

    /// Lets all held answers go.
    pub(crate) fn release(&self) {
        self.shared.released.notify_waiters();
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) {
        if matches!(*self.script.lock().unwrap(), Script::ResetAtOnce) {
            reset(stream);
            return;
        }
        let mut buffer = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut buffer).await {
            let released = self.released.notified();
            let mut script = self.script.lock().unwrap().clone();
            if let Script::By(choose) = script {
                script = choose(&String::from_utf8_lossy(&request.body));
            }
            self.received.lock().unwrap().push(request);
            self.arrived.notify_waiters();
            let written = match script {
                Script::Answer(bytes) => stream.write_all(bytes.as_bytes()).await,
                Script::Late(pause, bytes) => {
                    tokio::time::sleep(pause).await;
                    stream.write_all(bytes.as_bytes()).await
                }
                Script::Held(bytes) => {
                    released.await;
                    stream.write_all(bytes.as_bytes()).await
                }
                Script::Dribble(pause, bytes) => dribble(&mut stream, pause, &bytes).await,
                Script::CloseAfterRequest => return,
                Script::ResetAtOnce => return reset(stream),
                Script::Stall | Script::By(_) => std::future::pending().await,
            };
            if written.is_err() {
                return;
            }
        }
    }
}

async fn dribble(stream: &mut TcpStream, pause: Duration, bytes: &str) -> std::io::Result<()> {
    for byte in bytes.bytes() {
        stream.write_all(&[byte]).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

fn reset(stream: TcpStream) {
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let request = Received { head, body: Vec::new() };
    let length: usize = request.header("content-length").map_or(0, |value| value.parse().unwrap());
    while buffer.len() < end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[end..end + length].to_vec();
    buffer.drain(..end + length);
    Some(Received { body, ..request })
}
