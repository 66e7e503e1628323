//! The body of a request → its decoded bytes. The only part of the stage that waits.
//!
//! Every bound is tested before the bytes that would break it are kept: size as sent, size decoded, ratio, the memory
//! that all bodies share, and the deadline. Decoding goes in small steps and gives way to other tasks between them.

use std::error::Error as StdError;
use std::io::{BufRead, ErrorKind, Read};

use bytes::{Buf, Bytes};
use flate2::bufread::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use self::coding::{Coding, content_coding, require_json};
pub use self::memory::{Memory, Reservation};
use crate::config::{self, Size};
use crate::event::Error;

mod coding;
mod memory;

/// Decoded bytes from which on the ratio counts: small bodies may be as repetitive as they like.
const RATIO_FROM: u64 = 1 << 20;

/// Decoded bytes of one step.
const STEP: usize = 16 << 10;

/// Decoded bytes after which other tasks get their turn.
const TURN: usize = 256 << 10;

/// The first piece of memory that a body asks for.
const FIRST_RESERVATION: u64 = 16 << 10;

/// How large a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes, decoded.
    pub decoded: Size,
    /// Bytes as sent.
    pub sent: Size,
    /// How many times larger decoding may make it, once it is over 1 MiB.
    pub ratio: u32,
}

/// A whole body.
#[derive(Debug)]
pub struct Collected {
    /// The decoded bytes.
    pub bytes: Bytes,
    /// Bytes as sent, before decoding.
    pub received: u64,
    /// Its share of the memory for bodies; to be kept as long as `bytes`.
    pub reservation: Reservation,
}

impl From<&config::Event> for Bounds {
    fn from(event: &config::Event) -> Self {
        Self { decoded: event.max_body, sent: event.max_compressed.unwrap_or(event.max_body), ratio: event.max_ratio }
    }
}

/// Reads `body` to its end.
///
/// Memory is reserved as bytes arrive, not as they are announced: a caller who sends a large `Content-Length` and then
/// nothing takes nothing from the others.
///
/// # Errors
///
/// Wrong media type or coding, any of `bounds` exceeded, no room in `memory`, `deadline` past, a body that breaks off, or
/// one that is not what its coding says. Headers are judged before the first byte is read.
pub async fn collect<B>(
    body: B,
    headers: &HeaderMap,
    bounds: &Bounds,
    memory: &Memory,
    deadline: Instant,
) -> Result<Collected, Error>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    require_json(headers)?;
    let coding = content_coding(headers)?;
    let announced = content_length(headers);
    if let Some(length) = announced {
        bounds.check_sent(length, coding)?;
    }
    let mut source = Source { body, received: 0, bounds, coding, deadline };
    let expected = announced.filter(|_| coding == Coding::Identity);
    let mut kept = Kept::new(memory, bounds.decoded.0, expected).await?;
    match coding {
        Coding::Identity => copy(&mut source, &mut kept).await?,
        Coding::Gzip => decode(&mut source, &mut kept).await?,
    }
    let (bytes, reservation) = kept.finish();
    Ok(Collected { bytes, received: source.received, reservation })
}

impl Bounds {
    fn check_sent(&self, length: u64, coding: Coding) -> Result<(), Error> {
        let bound = match coding {
            Coding::Identity => self.sent.min(self.decoded),
            Coding::Gzip => self.sent,
        };
        if length > bound.0 {
            return Err(Error::TooLarge(format!("the body is larger than {bound} as sent")));
        }
        Ok(())
    }

    /// `received` is what has arrived so far, so a body must keep to the ratio from its beginning on.
    fn check_decoded(&self, length: u64, received: u64) -> Result<(), Error> {
        if length > self.decoded.0 {
            return Err(Error::TooLarge(format!("the body is larger than {} decoded", self.decoded)));
        }
        if length > RATIO_FROM && length > received.saturating_mul(u64::from(self.ratio)) {
            return Err(Error::TooLarge(format!("decoding makes the body more than {} times larger", self.ratio)));
        }
        Ok(())
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// A body, counted.
struct Source<'a, B> {
    body: B,
    received: u64,
    bounds: &'a Bounds,
    coding: Coding,
    deadline: Instant,
}

impl<B> Source<'_, B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    /// The next bytes, or `None` at the end. Trailers are dropped: they say nothing that is judged.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = timeout_at(self.deadline, self.body.frame()).await.map_err(|_| Error::BodyTimeout)?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|fault| Error::BrokenOff(fault.into()))?;
            let Ok(data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            self.received = self.received.saturating_add(data.len() as u64);
            self.bounds.check_sent(self.received, self.coding)?;
            return Ok(Some(data));
        }
    }
}

/// Decoded bytes, within their reservation.
struct Kept {
    bytes: Vec<u8>,
    reservation: Reservation,
    most: u64,
}

impl Kept {
    async fn new(memory: &Memory, most: u64, expected: Option<u64>) -> Result<Self, Error> {
        let first = expected.unwrap_or(FIRST_RESERVATION).min(FIRST_RESERVATION);
        let reservation = memory.reserve(first).await?;
        let most = expected.map_or(most, |expected| expected.min(most));
        Ok(Self { bytes: Vec::with_capacity(to_length(first)), reservation, most })
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Doubles the reservation when it is used up: few waits, and never more than twice what arrived.
    async fn push(&mut self, data: &[u8]) -> Result<(), Error> {
        let needed = self.len().saturating_add(data.len() as u64);
        let reserved = self.reservation.bytes();
        if needed > reserved {
            let wanted = reserved.saturating_mul(2).min(self.most).max(needed);
            self.reservation.grow(wanted).await?;
            self.bytes.reserve_exact(to_length(wanted).saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn finish(mut self) -> (Bytes, Reservation) {
        self.bytes.shrink_to_fit();
        self.reservation.shrink(self.bytes.len() as u64);
        (Bytes::from(self.bytes), self.reservation)
    }
}

fn to_length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

async fn copy<B>(source: &mut Source<'_, B>, kept: &mut Kept) -> Result<(), Error>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    while let Some(data) = source.next().await? {
        kept.push(&data).await?;
    }
    Ok(())
}

/// Decodes all members of a gzip body (RFC 1952 section 2.2). What follows the last one must be a member again.
async fn decode<B>(source: &mut Source<'_, B>, kept: &mut Kept) -> Result<(), Error>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut decoder = MultiGzDecoder::new(Feed::default());
    let mut step = vec![0; STEP];
    let mut turn = 0;
    loop {
        match decoder.read(&mut step) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                source.bounds.check_decoded(kept.len().saturating_add(count as u64), source.received)?;
                kept.push(step.get(..count).unwrap_or_default()).await?;
                turn += count;
                if turn >= TURN {
                    turn = 0;
                    tokio::task::yield_now().await;
                }
            }
            Err(fault) if fault.kind() == ErrorKind::WouldBlock => decoder.get_mut().feed(source.next().await?),
            Err(fault) if fault.kind() == ErrorKind::UnexpectedEof => {
                return Err(Error::BadBody("the gzip body ends too early"));
            }
            Err(_) => return Err(Error::BadBody("the body is not valid gzip, or its checksum is wrong")),
        }
    }
}

/// What the decoder reads from: `WouldBlock` asks for the next bytes of the body.
#[derive(Default)]
struct Feed {
    data: Bytes,
    ended: bool,
}

impl Feed {
    fn feed(&mut self, next: Option<Bytes>) {
        match next {
            Some(data) => self.data = data,
            None => self.ended = true,
        }
    }
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.data.is_empty() && !self.ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(&self.data)
    }

    fn consume(&mut self, count: usize) {
        self.data.advance(count.min(self.data.len()));
    }
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
