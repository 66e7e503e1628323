use std::collections::VecDeque;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use http::header::CONTENT_ENCODING;
use http_body::Frame;
use http_body_util::Full;

use super::*;
use crate::config::Span;
use crate::event::Metrics;

/// A body that comes in pieces, then ends, breaks off or goes silent.
struct Pieces {
    pieces: VecDeque<Bytes>,
    end: End,
}

enum End {
    Whole,
    Broken,
    Silent,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        match (this.pieces.pop_front(), &this.end) {
            (Some(piece), _) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            (None, End::Whole) => Poll::Ready(None),
            (None, End::Broken) => Poll::Ready(Some(Err(ErrorKind::ConnectionReset.into()))),
            (None, End::Silent) => Poll::Pending,
        }
    }
}

fn pieces(bytes: &[u8], size: usize, end: End) -> Pieces {
    Pieces { pieces: bytes.chunks(size).map(Bytes::copy_from_slice).collect(), end }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bounds() -> Bounds {
    Bounds { decoded: Size::mib(2), sent: Size::mib(1), ratio: 100 }
}

fn memory(total: Size) -> Memory {
    Memory::of_size(total, total, Span::millis(500), Metrics::default())
}

fn headers(coding: Option<&'static str>, length: Option<usize>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(coding) = coding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    headers
}

async fn collected(body: Pieces, headers: HeaderMap) -> Result<Collected, Error> {
    let deadline = Instant::now() + Duration::from_secs(30);
    collect(body, &headers, &bounds(), &memory(Size::mib(8)), deadline).await
}

fn too_large(result: Result<Collected, Error>) -> String {
    match result {
        Err(Error::TooLarge(bound)) => bound,
        other => panic!("{other:?}"),
    }
}

/// Bytes that gzip cannot make much smaller.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_body_arrives_whole_in_whatever_pieces() {
    let sent = noise(300_000);
    for size in [7, 1_000, 16 << 10, 300_000] {
        for length in [None, Some(sent.len())] {
            let plain = collected(pieces(&sent, size, End::Whole), headers(None, length)).await.unwrap();
            assert_eq!((plain.bytes.as_ref(), plain.received), (sent.as_slice(), 300_000));
            assert_eq!(plain.reservation.bytes(), 293 << 10);
        }
        let small = gzip(&sent);
        for length in [None, Some(small.len())] {
            let gzipped = collected(pieces(&small, size, End::Whole), headers(Some("gzip"), length)).await.unwrap();
            assert_eq!((gzipped.bytes.as_ref(), gzipped.received), (sent.as_slice(), small.len() as u64));
            assert_eq!(gzipped.reservation.bytes(), 293 << 10);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_is_empty_and_costs_no_memory() {
    let memory = memory(Size::mib(1));
    let deadline = Instant::now() + Duration::from_secs(30);
    let body = Full::<Bytes>::default();
    let whole: Result<_, Error> = collect(body, &HeaderMap::new(), &bounds(), &memory, deadline).await;
    let whole = whole.unwrap();
    assert_eq!((whole.bytes.len(), memory.in_use()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn all_members_of_a_gzip_body_are_decoded() {
    let mut sent = gzip(b"{\"a\":");
    sent.extend(gzip(b""));
    sent.extend(gzip(b"1}"));
    for size in [1, 3, 1_000] {
        let whole = collected(pieces(&sent, size, End::Whole), headers(Some("gzip"), None)).await.unwrap();
        assert_eq!(whole.bytes.as_ref(), b"{\"a\":1}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_what_its_coding_says_is_bad() {
    let good = gzip(b"{\"a\":1}");
    let cut = |by: usize| good[..good.len() - by].to_vec();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        bytes
    };
    let joined = |more: &[u8]| [good.as_slice(), more].concat();
    let (early, wrong) = ("the gzip body ends too early", "the body is not valid gzip, or its checksum is wrong");
    let table = [
        (Vec::new(), early),
        (cut(1), early),
        (cut(8), early),
        (cut(12), early),
        (good[..5].to_vec(), early),
        (b"{\"a\":1} and more".to_vec(), wrong),
        (flipped(0), wrong),
        (flipped(2), wrong),
        (flipped(good.len() - 1), wrong),
        (flipped(good.len() - 8), wrong),
        (joined(b"trailing garbage"), wrong),
        (joined(&[0; 16]), wrong),
        (joined(&good[..12]), early),
    ];
    for (sent, expected) in table {
        for size in [1, 1_000] {
            let result = collected(pieces(&sent, size, End::Whole), headers(Some("gzip"), None)).await;
            assert!(matches!(result, Err(Error::BadBody(fault)) if fault == expected), "{sent:?}: {result:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_over_a_bound_is_refused_before_it_is_read_where_its_length_is_told() {
    let plain = collected(pieces(b"", 1, End::Silent), headers(None, Some((1 << 20) + 1))).await;
    assert_eq!(too_large(plain), "the body is larger than 1MiB as sent");
    let gzipped = collected(pieces(b"", 1, End::Silent), headers(Some("gzip"), Some((1 << 20) + 1))).await;
    assert_eq!(too_large(gzipped), "the body is larger than 1MiB as sent");
}

#[tokio::test(start_paused = true)]
async fn a_body_over_a_bound_is_refused_while_it_is_read() {
    let sent = noise((1 << 20) + 1);
    let plain = collected(pieces(&sent, 4_096, End::Silent), headers(None, None)).await;
    assert_eq!(too_large(plain), "the body is larger than 1MiB as sent");
    let exact = collected(pieces(&sent[1..], 4_096, End::Whole), headers(None, None)).await.unwrap();
    assert_eq!(exact.received, 1 << 20);

    let exact = collected(pieces(&gzip(&noise(900_000)), 4_096, End::Whole), headers(Some("gzip"), None)).await;
    assert_eq!(exact.unwrap().bytes.len(), 900_000);
    let mut large = noise(600_000);
    large.resize((2 << 20) + 1, b'x');
    let large = collected(pieces(&gzip(&large), 4_096, End::Whole), headers(Some("gzip"), None)).await;
    assert_eq!(too_large(large), "the body is larger than 2MiB decoded");
}

#[tokio::test(start_paused = true)]
async fn the_ratio_counts_once_a_body_is_over_one_mebibyte() {
    let small = gzip(&vec![b' '; 1 << 20]);
    assert!((1 << 20) / small.len() > 100);
    let small = collected(pieces(&small, 4_096, End::Whole), headers(Some("gzip"), None)).await.unwrap();
    assert_eq!(small.bytes.len(), 1 << 20);
    let bomb = gzip(&vec![b' '; (1 << 20) + 1]);
    let bomb = collected(pieces(&bomb, 4_096, End::Whole), headers(Some("gzip"), None)).await;
    assert_eq!(too_large(bomb), "decoding makes the body more than 100 times larger");
}

#[tokio::test(start_paused = true)]
async fn decoding_a_large_body_gives_way_to_other_tasks() {
    let turns = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let mut sent = noise(100_000);
    sent.resize(2 << 20, b'x');
    let whole = collected(pieces(&gzip(&sent), 1 << 20, End::Whole), headers(Some("gzip"), None)).await.unwrap();
    assert_eq!(whole.bytes.len(), 2 << 20);
    assert!(turns.load(Ordering::Relaxed) >= 7);
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn a_silent_body_ends_at_its_deadline() {
    let start = Instant::now();
    let result = collected(pieces(b"{", 1, End::Silent), headers(None, Some(100))).await;
    assert!(matches!(result, Err(Error::BodyTimeout)));
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_is_told_apart_and_keeps_its_cause() {
    for coding in [None, Some("gzip")] {
        let result = collected(pieces(&gzip(b"x")[..4], 1, End::Broken), headers(coding, Some(100))).await;
        let Err(Error::BrokenOff(cause)) = result else { panic!("{result:?}") };
        assert!(cause.downcast_ref::<std::io::Error>().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_share_one_memory_and_give_it_back() {
    let memory = memory(Size::kib(64));
    let deadline = Instant::now() + Duration::from_secs(30);
    let body = || pieces(&[b' '; 40 << 10], 1_000, End::Whole);
    let (headers, bounds) = (HeaderMap::new(), bounds());
    let first = collect(body(), &headers, &bounds, &memory, deadline).await.unwrap();
    assert_eq!(memory.in_use(), 40 << 10);
    let second = collect(body(), &headers, &bounds, &memory, deadline).await;
    assert!(matches!(second, Err(Error::MemoryFull)));
    assert_eq!(memory.in_use(), 40 << 10);
    drop(first);
    assert!(collect(body(), &headers, &bounds, &memory, deadline).await.is_ok());
    assert_eq!(memory.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_announced_body_that_does_not_come_holds_little_memory() {
    let memory = memory(Size::mib(1));
    let deadline = Instant::now() + Duration::from_secs(30);
    let headers = headers(None, Some(1 << 20));
    let slow = pieces(b"{", 1, End::Silent);
    let bounds = bounds();
    let slow = collect(slow, &headers, &bounds, &memory, deadline);
    tokio::pin!(slow);
    tokio::select! {
        biased;
        result = &mut slow => panic!("{result:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(memory.in_use(), FIRST_RESERVATION);
}

#[tokio::test(start_paused = true)]
async fn headers_are_judged_before_any_memory_is_taken() {
    let none = memory(Size(0));
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut headers = headers(Some("br"), None);
    let body: Full<Bytes> = Full::default();
    let result: Result<_, Error> = collect(body.clone(), &headers, &bounds(), &none, deadline).await;
    assert!(matches!(result, Err(Error::UnsupportedEncoding)));
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let result: Result<_, Error> = collect(body, &headers, &bounds(), &none, deadline).await;
    assert!(matches!(result, Err(Error::UnsupportedMediaType)));
}

#[test]
fn the_bound_as_sent_defaults_to_the_decoded_one() {
    let event = config::Event { max_body: Size::mib(3), ..config::Event::default() };
    assert_eq!(Bounds::from(&event), Bounds { decoded: Size::mib(3), sent: Size::mib(3), ratio: 100 });
    let event = config::Event { max_compressed: Some(Size::mib(1)), ..event };
    assert_eq!(Bounds::from(&event).sent, Size::mib(1));
}
