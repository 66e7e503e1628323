use std::sync::{Arc, Mutex};
use std::task::ready;
use std::time::Duration;

use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::time::Instant;

use super::*;
use crate::listen::testing::{Bench, Turnstile, answer, peer};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// HPACK (RFC 7541 appendix A): `:method: GET`, `:method: POST`, `:scheme: http`, `:path: /`, then an authority.
const GET: &[u8] = b"\x82\x86\x84\x01\x04gate";
const POST_ENDLESS: &[u8] = b"\x83\x86\x04\x05/wait\x01\x04gate";
const GET_WAIT: &[u8] = b"\x82\x86\x04\x05/wait\x01\x04gate";

/// The bytes of one side of an HTTP/2 connection (RFC 9113).
struct Raw(DuplexStream);

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Raw {
    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        // The server may have closed already: then the test sees it in what it reads.
        self.0.write_all(&frame).await.unwrap_or_default();
    }

    async fn hello(&mut self) {
        self.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        self.send(SETTINGS, 0, 0, &[]).await;
    }

    async fn headers(&mut self, stream: u32, flags: u8, block: &[u8]) {
        self.send(HEADERS, END_HEADERS | flags, stream, block).await;
    }

    /// The next frame that is not about settings or windows; nothing at the end.
    async fn next(&mut self) -> Option<Seen> {
        loop {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let [a, b, c, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            if !matches!(kind, SETTINGS | 8) {
                return Some(Seen { kind, flags, stream: u32::from_be_bytes(stream), payload });
            }
        }
    }

    /// The next frame that is no ping; pings are answered.
    async fn next_answering(&mut self) -> Option<Seen> {
        loop {
            let seen = self.next().await?;
            if seen.kind != PING {
                return Some(seen);
            }
            if seen.flags & ACK == 0 {
                self.send(PING, ACK, 0, &seen.payload).await;
            }
        }
    }
}

fn connect(settings: &str) -> (Raw, Arc<Bench>, Turnstile) {
    let bench = Arc::new(Bench::new(settings));
    let turnstile = Turnstile::new();
    let (near, far) = duplex(1 << 20);
    let waits = turnstile.clone();
    let server = bench.server(move |request, _| answer(request, waits.clone()));
    bench.drain.tasks().spawn(serve_http2(Box::new(far), peer(Protocol::Http2), server));
    (Raw(near), bench, turnstile)
}

fn status(seen: &Seen) -> u16 {
    assert_eq!(seen.kind, HEADERS, "{seen:?}");
    match seen.payload[0] {
        0x88 => 200,
        0x8c => 400,
        // A literal, Huffman coded.
        0x08 | 0x48 if seen.payload.get(1..5) == Some(b"\x83\x69\x90\xff") => 431,
        other => panic!("{other:02x}"),
    }
}

#[tokio::test(start_paused = true)]
async fn more_streams_than_allowed_are_refused_at_once() {
    let (mut raw, bench, turnstile) = connect(r#""http2": {"streams": 2}"#);
    raw.hello().await;
    for stream in [1, 3, 5] {
        raw.headers(stream, END_STREAM, GET_WAIT).await;
    }
    let refused = raw.next().await.unwrap();
    // RFC 9113 section 7: REFUSED_STREAM.
    assert_eq!((refused.kind, refused.stream, &refused.payload[..]), (RST_STREAM, 5, &[0, 0, 0, 7][..]));
    turnstile.came(2).await;
    assert_eq!(bench.count("listen_http2_streams", ""), 2);
    turnstile.open();
    let mut answered = 0;
    while answered < 2 {
        let seen = raw.next().await.unwrap();
        if seen.kind == HEADERS {
            assert_eq!(status(&seen), 200);
            answered += 1;
        }
    }
    assert_eq!(turnstile.so_far(), 2);
    bench.until("listen_http2_streams", "", 0).await;
}

#[tokio::test(start_paused = true)]
async fn unread_bodies_have_little_room() {
    let (mut raw, _bench, _) = connect("");
    raw.hello().await;
    let mut windows = Vec::new();
    while windows.len() < 2 {
        let mut head = [0; 9];
        raw.0.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; usize::from(head[2])];
        raw.0.read_exact(&mut payload).await.unwrap();
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        // RFC 9113: SETTINGS_INITIAL_WINDOW_SIZE is 4; a WINDOW_UPDATE of stream 0 adds to the 65,535 of the connection.
        let stream_window = payload.chunks(6).find(|setting| head[3] == SETTINGS && setting[..2] == [0, 4]);
        windows.extend(stream_window.map(|setting| number(&setting[2..])));
        windows.extend((head[3] == 8).then(|| 65_535 + number(&payload)));
    }
    assert_eq!(windows, [128 << 10, 256 << 10]);
}

#[tokio::test(start_paused = true)]
async fn a_header_list_over_its_bytes_is_431() {
    // `:method: GET`, `:scheme: http`, `:path: /` and `:authority: gate` are 169 bytes, each other field 35 + size. What is
    // over twice the bound h2 refuses by itself.
    for (fields, size, expected, counted) in [(2, 80, 200, 0), (2, 81, 431, 1), (9, 126, 431, 0)] {
        let (mut raw, bench, _) = connect(r#""http2": {"header_list_bytes": 400}"#);
        raw.hello().await;
        let mut block = GET.to_vec();
        // `x-a: aaa…`, a literal with a new name.
        for _ in 0..fields {
            block.extend(b"\x00\x03x-a");
            block.push(size);
            block.extend(vec![b'a'; usize::from(size)]);
        }
        raw.headers(1, END_STREAM, &block).await;
        assert_eq!(status(&raw.next().await.unwrap()), expected, "{fields} of {size}");
        assert_eq!(bench.count("listen_violations_total", "head_too_large"), counted, "{fields} of {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_resets_ends_the_connection() {
    let (mut raw, bench, turnstile) = connect(r#""http2": {"pending_resets": 20}"#);
    raw.hello().await;
    for stream in (1..).step_by(2).take(200) {
        raw.headers(stream, 0, POST_ENDLESS).await;
        raw.send(RST_STREAM, 0, stream, &[0, 0, 0, 8]).await;
    }
    let goaway = raw.next_answering().await.unwrap();
    assert_eq!((goaway.kind, &goaway.payload[4..8]), (GOAWAY, &[0, 0, 0, 11][..]));
    assert_eq!(raw.next_answering().await, None);
    bench.until("listen_http2_floods_total", "", 1).await;
    assert!(turnstile.so_far() <= 100, "{}", turnstile.so_far());
}

#[tokio::test(start_paused = true)]
async fn a_ping_without_an_answer_ends_the_connection() {
    let (mut raw, bench, _) = connect(r#""http2": {"ping_interval": "30s", "ping_timeout": "10s"}"#);
    raw.hello().await;
    let start = Instant::now();
    assert_eq!(raw.next().await.unwrap().kind, PING);
    assert_eq!(start.elapsed().as_secs(), 30);
    while raw.next().await.is_some() {}
    assert_eq!(start.elapsed().as_secs(), 40);
    bench.until("listen_timeouts_total", "ping", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_told_to_go() {
    let (mut raw, bench, _) = connect(r#""http2": {"idle_timeout": "100s"}"#);
    raw.hello().await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    raw.headers(1, END_STREAM, GET).await;
    assert_eq!(status(&raw.next_answering().await.unwrap()), 200);
    assert_eq!(raw.next_answering().await.unwrap().kind, DATA);
    let start = Instant::now();
    assert_eq!(raw.next_answering().await.unwrap().kind, GOAWAY);
    assert_eq!(start.elapsed().as_secs(), 100);
    while raw.next_answering().await.is_some() {}
    assert_eq!(start.elapsed().as_secs(), 100);
    assert_eq!(bench.count("listen_timeouts_total", "idle"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_is_given_up() {
    let (mut raw, bench, _) = connect(r#""http2": {"idle_timeout": "100s", "ping_timeout": "10s"}"#);
    raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    // SETTINGS_INITIAL_WINDOW_SIZE 0: the body of the answer may never be sent.
    raw.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).await;
    let start = Instant::now();
    raw.headers(1, END_STREAM, GET).await;
    let mut seen = Vec::new();
    while let Some(frame) = raw.next_answering().await {
        seen.push(frame.kind);
    }
    seen.dedup();
    assert_eq!(seen, [HEADERS, GOAWAY]);
    assert_eq!(start.elapsed().as_secs(), 110);
    assert_eq!(bench.count("listen_timeouts_total", "idle"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_streams_is_not_idle_while_it_waits_for_its_next_part() {
    let bench = Arc::new(Bench::new(r#""http2": {"idle_timeout": "100s", "ping_timeout": "10s"}"#));
    let (near, far) = duplex(1 << 20);
    let server = bench.server(|_, _| async {
        let parts = stream::unfold(0, |sent| async move {
            tokio::time::sleep(Duration::from_secs(250)).await;
            (sent < 3).then(|| (Ok(Frame::data(Bytes::from_static(b"x"))), sent + 1))
        });
        Response::new(Reply::Stream(StreamBody::new(parts).boxed_unsync()))
    });
    tokio::spawn(serve_http2(Box::new(far), peer(Protocol::Http2), server));
    let mut raw = Raw(near);
    raw.hello().await;
    raw.headers(1, END_STREAM, GET).await;
    let (mut bytes, mut is_ended) = (0, false);
    while !is_ended {
        let seen = raw.next_answering().await.expect("the whole answer");
        bytes += if seen.kind == DATA { seen.payload.len() } else { 0 };
        is_ended = seen.stream == 1 && seen.flags & END_STREAM != 0;
    }
    assert_eq!(bytes, 3);
    assert_eq!(bench.count("listen_timeouts_total", "idle"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_begins_is_dropped() {
    let (mut raw, bench, _) = connect(r#""http2": {"idle_timeout": "100s", "ping_timeout": "10s"}"#);
    let start = Instant::now();
    assert!(raw.0.read_to_end(&mut Vec::new()).await.is_ok());
    assert_eq!(start.elapsed().as_secs(), 110);
    assert_eq!(bench.count("listen_timeouts_total", "idle"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_at_work_is_not_idle() {
    let (mut raw, _bench, turnstile) = connect(r#""http2": {"idle_timeout": "1s"}"#);
    raw.hello().await;
    raw.headers(1, END_STREAM, GET_WAIT).await;
    turnstile.came(1).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    turnstile.open();
    assert_eq!(status(&raw.next_answering().await.unwrap()), 200);
}

#[tokio::test(start_paused = true)]
async fn hosts_that_do_not_agree_odd_targets_and_tunnels_are_refused() {
    let rows: [(&[u8], &str); 14] = [
        (b"\x82\x86\x84", "missing_host"),
        (b"\x82\x86\x84\x01\x04gate\x00\x04host\x05other", "host_mismatch"),
        (b"\x82\x86\x84\x00\x04host\x04gate\x00\x04host\x04gate", "repeated_host"),
        (b"\x82\x86\x84\x00\x04host\x00", "host"),
        (b"\x82\x86\x84\x00\x04host\x06a@gate", "host"),
        (b"\x82\x86\x84\x01\x06a@gate", "host"),
        (b"\x82\x86\x84\x01\x06a@gate\x00\x04host\x06a@gate", "host"),
        (b"\x02\x07CONNECT\x01\x04gate", "connect"),
        (b"\x02\x07connect\x86\x84\x01\x04gate", "connect"),
        (b"\x82\x86\x04\x04/\xc3\xa4x\x01\x04gate", "target"),
        (b"\x82\x86\x04\x06/a?\xc3\xa4x\x01\x04gate", "target"),
        (b"\x82\x86\x04\x04/{a}\x01\x04gate", "target"),
        (b"\x82\x86\x04\x01*\x01\x04gate", "target"),
        (b"\x82\x06\x03ftp\x84\x01\x04gate", "target"),
    ];
    for (block, rule) in rows {
        let (mut raw, bench, _) = connect("");
        raw.hello().await;
        raw.headers(1, END_STREAM, block).await;
        assert_eq!(status(&raw.next().await.unwrap()), 400, "{block:02x?}");
        assert_eq!(bench.count("listen_violations_total", rule), 1, "{rule}: {block:02x?}");
    }
    for block in [GET, b"\x82\x86\x84\x00\x04host\x04gate", b"\x82\x86\x84\x01\x04gate\x00\x04host\x04Gate"] {
        let (mut raw, _bench, _) = connect("");
        raw.hello().await;
        raw.headers(1, END_STREAM, block).await;
        assert_eq!(status(&raw.next().await.unwrap()), 200, "{block:02x?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_one_request() {
    let (mut raw, bench, _) = connect("");
    raw.hello().await;
    raw.headers(1, END_STREAM, b"\x82\x86\x04\x06/panic\x01\x04gate").await;
    let answer = raw.next().await.unwrap();
    // `:status: 500` in the static table.
    assert_eq!((answer.kind, answer.payload[0]), (HEADERS, 0x8e));
    assert_eq!(raw.next().await.unwrap().kind, DATA);
    raw.headers(3, END_STREAM, GET).await;
    assert_eq!(status(&raw.next().await.unwrap()), 200);
    assert_eq!(bench.count("listen_panics_total", ""), 1);
}

#[tokio::test(start_paused = true)]
async fn while_the_end_is_announced_a_new_connection_is_told_only_after_its_first_request() {
    let (mut raw, bench, _) = connect("");
    let way_out = bench.drain.clone();
    let bounds = config::Drain { grace: config::Span::secs(10), deadline: config::Span::secs(20) };
    let way_out = tokio::spawn(async move { way_out.run(&bounds).await });
    bench.drain.announced().await;
    raw.hello().await;
    let nothing = tokio::time::timeout(Duration::from_secs(1), raw.next_answering()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    raw.headers(1, END_STREAM, GET).await;
    let mut seen = Vec::new();
    while let Some(frame) = raw.next_answering().await {
        seen.push(frame.kind);
    }
    assert!(seen.contains(&HEADERS) && seen.contains(&GOAWAY), "{seen:?}");
    assert_eq!(way_out.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_any_request_is_told_when_no_new_work_may_begin() {
    let (mut raw, bench, _) = connect("");
    raw.hello().await;
    let bounds = config::Drain { grace: config::Span::secs(10), deadline: config::Span::secs(20) };
    let way_out = bench.drain.clone();
    let start = Instant::now();
    let way_out = tokio::spawn(async move { way_out.run(&bounds).await });
    assert_eq!(raw.next_answering().await.unwrap().kind, GOAWAY);
    assert_eq!(start.elapsed().as_secs(), 10);
    while raw.next_answering().await.is_some() {}
    assert_eq!(way_out.await.unwrap(), 0);
}

/// Keeps what is written, call by call.
struct Recorded {
    io: DuplexStream,
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl AsyncRead for Recorded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.writes.lock().unwrap().push(buf[..written].to_vec());
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn head_and_body_of_an_answer_leave_together() {
    let bench = Bench::new("");
    let writes = Arc::new(Mutex::new(Vec::new()));
    let (near, io) = duplex(1 << 20);
    let turnstile = Turnstile::new();
    let server = bench.server(move |request, _| answer(request, turnstile.clone()));
    let far = Recorded { io, writes: Arc::clone(&writes) };
    tokio::spawn(serve_http2(Box::new(far), peer(Protocol::Http2), server));
    let mut raw = Raw(near);
    raw.hello().await;
    for stream in (1..2_000).step_by(2) {
        raw.headers(stream, END_STREAM, GET).await;
        assert_eq!(raw.next().await.map(|seen| seen.kind), Some(HEADERS));
        assert_eq!(raw.next().await.map(|seen| seen.kind), Some(DATA));
    }
    // A HEADERS frame that fills its write.
    let alone = |write: &&Vec<u8>| matches!(write[..], [a, b, c, HEADERS, ..] if u32::from_be_bytes([0, a, b, c]) as usize == write.len() - 9);
    assert_eq!(writes.lock().unwrap().iter().filter(alone).count(), 0);
}
