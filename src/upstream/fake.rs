//! For tests: a backend on loopback, by hand, that can do everything that a real one should not.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::auth::Caller;

use super::Delivery;
use super::raw::Raw;

/// A port that refuses connections, and what keeps others from taking it.
pub(crate) fn closed_port() -> (socket2::Socket, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let port = socket.local_addr().unwrap().as_socket().unwrap().port();
    (socket, port)
}

/// A caller with nothing but a name and groups.
pub(crate) fn caller(subject: &str, groups: &[&str]) -> Caller {
    Caller {
        issuer: "https://idp.example.com/".into(),
        subject: subject.into(),
        groups: groups.iter().map(|group| Arc::from(*group)).collect(),
        token_id: "t".into(),
        expires: std::time::SystemTime::UNIX_EPOCH,
        identity: [0; 32],
    }
}

/// A delivery of these bytes, by a caller with a token.
pub(crate) fn delivery(body: impl Into<Bytes>) -> Delivery {
    Delivery {
        body: body.into(),
        caller_authorization: Some(HeaderValue::from_static("Bearer callers-own")),
        active_roles: Some(HeaderValue::from_static("reader")),
        request_id: "0199-request".into(),
        traceparent: Some(HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")),
        caller: Arc::new(caller("alice", &["analysts"])),
        draws_edges: true,
    }
}

/// An answer of a backend.
pub(super) fn raw(status: u16, content_type: Option<&str>, body: &str, complete: bool) -> Raw {
    Raw {
        status: StatusCode::from_u16(status).unwrap(),
        content_type: content_type.map(str::to_owned),
        body: Bytes::copy_from_slice(body.as_bytes()),
        complete,
    }
}

/// A listener on a free port of 127.0.0.1, and that port.
pub(crate) async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Reads one request, its body by `Content-Length`; nothing at the end of the connection.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Seen> {
    let head = read_head(stream).await?;
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen { head, body })
}

/// Reads up to the blank line.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Answers with `Content-Length`.
pub(crate) async fn answer(stream: &mut (impl AsyncWrite + Unpin), status: u16, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Closes with a reset in place of an end.
pub(crate) fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(stream);
}
