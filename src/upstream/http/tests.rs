use std::future::poll_fn;
use std::path::Path;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::answer::Durability;
use crate::upstream::Upstream;
use crate::upstream::fake::{answer, closed_port, delivery, listen, read_head, read_request, reset};

use super::*;

mod batches;
mod request;
mod secure;

const STORED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Stored };
const QUEUED: Outcome = Outcome::Accepted { edges: None, durability: Durability::Queued };
const NOT_CONNECTED: Outcome = Outcome::Unreachable(Unreachable::Connect);

/// More than the kernel's buffers for a connection hold.
const LARGE: usize = 32 << 20;

/// An upstream with further configuration.
fn upstream(kind: &str, url: &str, more: serde_json::Value) -> Upstream {
    let mut json = serde_json::json!({ "name": "u", "kind": kind, "url": url });
    if kind == "openmetadata" {
        json["services"] = serde_json::json!({ "postgres://db": "pg" });
    }
    json.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    Upstream::new(&serde_json::from_value(json).unwrap()).unwrap()
}

fn plain(port: u16) -> Upstream {
    upstream("openlineage", &format!("http://127.0.0.1:{port}"), serde_json::json!({}))
}

/// Lets the gate read what was written so far, then lets time jump to whatever is waited for. The runtime has one thread
/// and looks at its sockets at least every 61 turns.
async fn let_time_jump() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
}

async fn send(upstream: &Upstream) -> Outcome {
    upstream.send(&delivery("{}")).await
}

fn large() -> Delivery {
    delivery(vec![b' '; LARGE])
}

async fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().await.unwrap().0
}

/// Whether no further connection was opened.
async fn is_alone(listener: &TcpListener) -> bool {
    poll_fn(|cx| Poll::Ready(listener.poll_accept(cx).is_pending())).await
}

/// Sends one small event to a backend that reads it and then answers these bytes and closes.
async fn outcome_of(bytes: &[u8]) -> Outcome {
    let (listener, port) = listen().await;
    let backend = async {
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await.unwrap();
        stream.write_all(bytes).await.unwrap();
    };
    let upstream = plain(port);
    tokio::join!(backend, send(&upstream)).1
}

#[tokio::test]
async fn answers_are_read_by_the_table_of_the_kind() {
    let rows: [(&str, Outcome); 9] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", STORED),
        ("HTTP/1.1 204 No Content\r\n\r\n", QUEUED),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 \r\nContent-Length: 0\r\n\r\n",
            STORED,
        ),
        ("HTTP/1.0 201 Created\r\n\r\n", STORED),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n{\"code\":400,\"message\":\"bad name\"}",
            Outcome::Rejected { message: Some("bad name".to_owned()), unprocessable: false },
        ),
        ("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", Outcome::TooLarge),
        ("HTTP/1.1 422 \r\nContent-Length: 0\r\n\r\n", Outcome::Rejected { message: None, unprocessable: true }),
        ("HTTP/1.1 429 \r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n", Outcome::Throttled),
        ("HTTP/1.1 503 \r\nRetry-After: 21600\r\nContent-Length: 0\r\n\r\n", Outcome::Fault { status: 503 }),
    ];
    for (bytes, expected) in rows {
        assert_eq!(outcome_of(bytes.as_bytes()).await, expected, "{bytes}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_a_bad_gateway() {
    let long_head = format!("HTTP/1.1 201 Created\r\nX-Long: {}\r\n\r\n", "x".repeat(2 * HEAD_CAP));
    let many_headers = format!("HTTP/1.1 201 Created\r\n{}\r\n", "X-Many: x\r\n".repeat(200));
    for bytes in
        ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/2 201\r\n\r\n", "HTTP/1.1 99999 x\r\n\r\n", &long_head, &many_headers]
    {
        let outcome = outcome_of(bytes.as_bytes()).await;
        assert!(matches!(outcome, Outcome::BadGateway(_)), "{outcome:?}");
    }
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    assert!(matches!(outcome_of(upgrade).await, Outcome::BadGateway(_)));
}

#[tokio::test]
async fn an_answer_whose_body_breaks_off_counts_by_its_status() {
    let json = "Content-Type: application/json\r\n";
    let long = "x".repeat(BODY_CAP + 1);
    let rows = [
        (format!("HTTP/1.1 201 x\r\n{json}Content-Length: 10\r\n\r\n{{\"a\""), STORED),
        (format!("HTTP/1.1 201 x\r\n{json}Transfer-Encoding: chunked\r\n\r\nnonsense\r\n"), STORED),
        (format!("HTTP/1.1 201 x\r\n{json}Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"a\""), STORED),
        (format!("HTTP/1.1 201 x\r\n{json}Content-Length: {}\r\n\r\n{long}", long.len()), STORED),
        (
            format!("HTTP/1.1 400 x\r\n{json}Content-Length: 99\r\n\r\n{{\"message\":\"x\"}}"),
            Outcome::Rejected { message: None, unprocessable: false },
        ),
        (format!("HTTP/1.1 500 x\r\n{json}Content-Length: 10\r\n\r\n{{"), Outcome::Fault { status: 500 }),
    ];
    for (bytes, expected) in rows {
        assert_eq!(outcome_of(bytes.as_bytes()).await, expected, "{}", bytes.get(..60).unwrap());
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            read_request(&mut stream).await.unwrap();
            answer(&mut stream, status, &format!("Location: http://127.0.0.1:{port}/other\r\n"), "").await;
            stream
        };
        let upstream = plain(port);
        let (mut stream, outcome) = tokio::join!(backend, send(&upstream));
        assert!(matches!(&outcome, Outcome::BadGateway(text) if !text.contains("127")), "{outcome:?}");
        drop(upstream);
        assert!(read_request(&mut stream).await.is_none() && is_alone(&listener).await);
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_and_a_closed_port_are_not_delivered() {
    let unknown = format!("http://{}.example:80", "a".repeat(64));
    let upstream = upstream("openlineage", &unknown, serde_json::json!({}));
    assert_eq!(send(&upstream).await, Outcome::Unreachable(Unreachable::Dns));
    let (_held, port) = closed_port();
    assert_eq!(send(&plain(port)).await, NOT_CONNECTED);
}

#[tokio::test]
async fn a_reset_before_the_whole_event_was_written_is_not_delivered() {
    for read in [0, 1_000, 1_000_000] {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            let mut some = vec![0; read];
            stream.read_exact(&mut some).await.unwrap();
            reset(stream);
        };
        let upstream = plain(port);
        let event = large();
        let ((), outcome) = tokio::join!(backend, upstream.send(&event));
        assert_eq!(outcome, NOT_CONNECTED, "after {read} bytes");
        assert!(is_alone(&listener).await, "sent again");
    }
}

#[tokio::test]
async fn what_an_earlier_exchange_wrote_does_not_count_for_the_next_one() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let event = large();
    let backend = async {
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await.unwrap();
        answer(&mut stream, 201, "", "").await;
        read_head(&mut stream).await.unwrap();
        reset(stream);
    };
    let client = async { (upstream.send(&event).await, upstream.send(&event).await) };
    let ((), outcomes) = tokio::join!(backend, client);
    assert_eq!(outcomes, (STORED, NOT_CONNECTED));
}

#[tokio::test]
async fn a_connection_that_ends_after_the_event_was_written_is_unknown_and_it_is_not_sent_again() {
    for (with_reset, part) in [(true, ""), (false, ""), (true, "HTTP/1.1 20"), (false, "HTTP/1.1 201 Created\r\nX: ")] {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            read_request(&mut stream).await.unwrap();
            stream.write_all(part.as_bytes()).await.unwrap();
            if with_reset { reset(stream) } else { drop(stream) }
        };
        let upstream = plain(port);
        let ((), outcome) = tokio::join!(backend, send(&upstream));
        assert_eq!(outcome, Outcome::Unknown(Unknown::Reset), "{part}");
        assert!(is_alone(&listener).await, "sent again");
    }
}

#[tokio::test]
async fn an_early_answer_is_read_although_the_event_could_not_be_written() {
    for (status, expected) in [(413, Outcome::TooLarge), (401, Outcome::UpstreamAuth), (429, Outcome::Throttled)] {
        let (listener, port) = listen().await;
        let backend = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await.unwrap();
            answer(&mut stream, status, "Connection: close\r\n", "").await;
            // Closing with unread bytes in the buffer resets the connection.
            drop(stream);
        };
        let upstream = plain(port);
        let event = large();
        let ((), outcome) = tokio::join!(backend, upstream.send(&event));
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn a_silent_backend_is_unknown_after_the_timeout() {
    for part in ["", "HTTP/1.1 201 Cre", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let (listener, port) = listen().await;
        let upstream = plain(port);
        let backend = async {
            let mut stream = accept(&listener).await;
            read_request(&mut stream).await.unwrap();
            stream.write_all(part.as_bytes()).await.unwrap();
            let_time_jump().await;
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! { () = backend => None, outcome = send(&upstream) => Some(outcome) };
        assert_eq!(outcome, Some(Outcome::Unknown(Unknown::Timeout)), "{part}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_backend_that_stops_reading_is_unknown_after_the_timeout() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let event = large();
    let backend = async {
        let mut stream = accept(&listener).await;
        read_head(&mut stream).await.unwrap();
        let_time_jump().await;
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! { () = backend => None, outcome = upstream.send(&event) => Some(outcome) };
    assert_eq!(outcome, Some(Outcome::Unknown(Unknown::Timeout)));
}

#[tokio::test]
async fn a_body_that_stalls_after_a_good_head_is_accepted() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let backend = async {
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{").await.unwrap();
        let_time_jump().await;
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! { () = backend => None, outcome = send(&upstream) => Some(outcome) };
    assert_eq!(outcome, Some(STORED));
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let backend = async {
        let mut stream = accept(&listener).await;
        for _ in 0..3 {
            read_request(&mut stream).await.unwrap();
            answer(&mut stream, 201, "", "{}").await;
        }
    };
    let client = async {
        for _ in 0..3 {
            assert_eq!(send(&upstream).await, STORED);
        }
    };
    tokio::join!(backend, client);
    assert!(is_alone(&listener).await);
}

#[tokio::test]
async fn a_kept_connection_that_the_backend_closed_costs_no_event() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let backend = async {
        for with_reset in [false, true, false] {
            let mut stream = accept(&listener).await;
            read_request(&mut stream).await.unwrap();
            answer(&mut stream, 201, "", "").await;
            if with_reset { reset(stream) } else { drop(stream) }
        }
    };
    let client = async {
        for _ in 0..3 {
            assert_eq!(send(&upstream).await, STORED);
        }
    };
    tokio::join!(backend, client);
}

#[tokio::test]
async fn a_kept_connection_that_breaks_under_an_event_is_unknown_and_the_event_is_not_sent_again() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let backend = async {
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await.unwrap();
        answer(&mut stream, 201, "", "").await;
        read_request(&mut stream).await.unwrap();
    };
    let client = async {
        assert_eq!(send(&upstream).await, STORED);
        send(&upstream).await
    };
    let ((), outcome) = tokio::join!(backend, client);
    assert_eq!(outcome, Outcome::Unknown(Unknown::Reset));
    assert!(is_alone(&listener).await, "sent again");
}

#[tokio::test]
async fn an_idle_connection_is_dropped_before_the_backend_drops_it() {
    let (listener, port) = listen().await;
    let upstream = plain(port);
    let backend = async {
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await.unwrap();
        answer(&mut stream, 201, "", "").await;
        let_time_jump().await;
        assert!(read_request(&mut stream).await.is_none());
    };
    let client = async { assert_eq!(send(&upstream).await, STORED) };
    tokio::join!(backend, client);
}
