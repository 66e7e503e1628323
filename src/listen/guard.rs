//! The strict guard on HTTP/1: where each request of a connection begins and ends, and whether it keeps the rules.
//!
//! No I/O and no clock. hyper accepts Content-Length beside Transfer-Encoding, repeated Content-Length, bare LF, and
//! a missing or second Host, and another reader of the same bytes may take them otherwise: so these bytes never reach
//! hyper.

use super::head::{self, Framing, Violation, is_token_byte};

/// Longest chunk size line. Extensions are allowed, and nobody sends them.
const MAX_CHUNK_LINE: usize = 256;

/// Most digits of a chunk size: what fits in 64 bits.
const MAX_CHUNK_DIGITS: usize = 16;

/// Follows the bytes of one HTTP/1 connection, request after request.
#[derive(Debug)]
pub struct HeadGuard {
    limit: usize,
    state: State,
}

/// What may be done with the bytes at the front of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// This many bytes are good: pass them on, and do not show them again.
    pub pass: usize,
    /// The request ends with them.
    pub end: bool,
}

#[derive(Debug)]
enum State {
    Head(Scan),
    Length(u64),
    Chunked(Chunked),
}

/// How far a head was looked at.
#[derive(Debug, Default)]
struct Scan {
    scanned: usize,
    line: usize,
    lines: usize,
    blank: bool,
    cr: bool,
}

#[derive(Debug)]
enum Chunked {
    Size { digits: usize, value: u64 },
    Extension { line: usize, value: u64 },
    SizeLf { value: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailer { total: usize, part: TrailerPart },
}

#[derive(Debug, Clone, Copy)]
enum TrailerPart {
    Start,
    Name,
    Value,
    Lf,
    LastLf,
}

impl HeadGuard {
    /// A guard for a new connection. A head, and the trailers of a body, may have `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit, state: State::Head(Scan { scanned: 0, line: 0, lines: 0, blank: false, cr: false }) }
    }

    /// Whether the next byte belongs to a head.
    pub const fn in_head(&self) -> bool {
        matches!(self.state, State::Head(_))
    }

    /// Judges the bytes that were not passed on yet: those of the last call that were not, and any new ones behind.
    ///
    /// A head is passed whole or not at all. With `pass` 0 the guard waits for more. How the bytes are cut into calls
    /// makes no difference. After an error the connection is over.
    ///
    /// # Errors
    ///
    /// The rule that the bytes break.
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, Violation> {
        let fed = match &mut self.state {
            State::Head(scan) => {
                let Some(end) = scan.run(input, self.limit)? else {
                    return Ok(Fed { pass: 0, end: false });
                };
                match head::check(input.get(..end).unwrap_or(input))? {
                    Framing::Length(0) => Fed { pass: end, end: true },
                    Framing::Length(length) => {
                        self.state = State::Length(length);
                        return Ok(Fed { pass: end, end: false });
                    }
                    Framing::Chunked => {
                        self.state = State::Chunked(Chunked::Size { digits: 0, value: 0 });
                        return Ok(Fed { pass: end, end: false });
                    }
                }
            }
            State::Length(left) => {
                let pass = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= pass as u64;
                Fed { pass, end: *left == 0 }
            }
            State::Chunked(chunked) => chunked.run(input, self.limit)?,
        };
        if fed.end {
            self.state = State::Head(Scan::default());
        }
        Ok(fed)
    }
}

impl Scan {
    /// Looks at the bytes not looked at before; the head's length once it is complete.
    fn run(&mut self, input: &[u8], limit: usize) -> Result<Option<usize>, Violation> {
        for &byte in input.get(self.scanned..).unwrap_or_default() {
            if self.scanned == limit {
                return Err(Violation::HeadTooLarge);
            }
            self.scanned += 1;
            if self.step(byte)? {
                return Ok(Some(self.scanned));
            }
        }
        Ok(None)
    }

    /// Whether this byte ends the head.
    fn step(&mut self, byte: u8) -> Result<bool, Violation> {
        if self.cr {
            return if byte == b'\n' { self.end_line() } else { Err(Violation::BareCr) };
        }
        match byte {
            b'\r' => self.cr = true,
            b'\n' => return Err(Violation::BareLf),
            0 => return Err(Violation::Nul),
            b' ' | b'\t' if self.line == 0 => {
                return Err(if self.lines == 0 { Violation::RequestLine } else { Violation::ObsFold });
            }
            b'\t' => self.line += 1,
            1..=31 | 127 => return Err(Violation::Control),
            _ => self.line += 1,
        }
        Ok(false)
    }

    fn end_line(&mut self) -> Result<bool, Violation> {
        self.cr = false;
        if self.line > 0 {
            self.line = 0;
            self.lines += 1;
            return Ok(false);
        }
        if self.lines > 0 {
            return Ok(true);
        }
        // RFC 9112 section 2.2: one empty line before a request line is forgiven.
        if self.blank {
            return Err(Violation::RequestLine);
        }
        self.blank = true;
        Ok(false)
    }
}

impl Chunked {
    fn run(&mut self, input: &[u8], limit: usize) -> Result<Fed, Violation> {
        let mut pass = 0;
        while let Some(&byte) = input.get(pass) {
            if let Self::Data { left } = self {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len() - pass);
                *left -= take as u64;
                pass += take;
                if *left == 0 {
                    *self = Self::DataCr;
                }
                continue;
            }
            pass += 1;
            if self.step(byte, limit)? {
                return Ok(Fed { pass, end: true });
            }
        }
        Ok(Fed { pass, end: false })
    }

    /// Whether this byte ends the body.
    fn step(&mut self, byte: u8, limit: usize) -> Result<bool, Violation> {
        match self {
            Self::Size { digits, value } => {
                *self = Self::size(*digits, *value, byte)?;
            }
            Self::Extension { line, value } => match byte {
                b'\r' => *self = Self::SizeLf { value: *value },
                b'\n' => return Err(Violation::BareLf),
                b'\t' | 32..=126 | 128.. if *line < MAX_CHUNK_LINE => *line += 1,
                0..=127 | 128.. => return Err(Violation::ChunkLine),
            },
            Self::SizeLf { value } if byte == b'\n' => {
                *self = match *value {
                    0 => Self::Trailer { total: 0, part: TrailerPart::Start },
                    left => Self::Data { left },
                };
            }
            Self::SizeLf { .. } => return Err(Violation::BareCr),
            Self::DataCr if byte == b'\r' => *self = Self::DataLf,
            Self::DataLf if byte == b'\n' => *self = Self::Size { digits: 0, value: 0 },
            Self::Data { .. } | Self::DataCr | Self::DataLf => return Err(Violation::ChunkEnd),
            Self::Trailer { total, part } => {
                if *total == limit {
                    return Err(Violation::HeadTooLarge);
                }
                *total += 1;
                match part.step(byte)? {
                    Some(next) => *part = next,
                    None => return Ok(true),
                }
            }
        }
        Ok(false)
    }

    fn size(digits: usize, value: u64, byte: u8) -> Result<Self, Violation> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            if digits == MAX_CHUNK_DIGITS {
                return Err(Violation::ChunkSize);
            }
            return Ok(Self::Size { digits: digits + 1, value: value << 4 | u64::from(digit) });
        }
        match byte {
            b'\n' => Err(Violation::BareLf),
            b'\r' if digits > 0 => Ok(Self::SizeLf { value }),
            b';' if digits > 0 => Ok(Self::Extension { line: digits + 1, value }),
            _ => Err(Violation::ChunkSize),
        }
    }
}

impl TrailerPart {
    /// What comes after this byte; nothing after the last one.
    fn step(self, byte: u8) -> Result<Option<Self>, Violation> {
        let next = match (self, byte) {
            (Self::Lf, b'\n') => Self::Start,
            (Self::LastLf, b'\n') => return Ok(None),
            (Self::Lf | Self::LastLf, _) => return Err(Violation::BareCr),
            (Self::Start | Self::Name | Self::Value, b'\n') => return Err(Violation::BareLf),
            (Self::Start, b'\r') => Self::LastLf,
            (Self::Start, b' ' | b'\t') => return Err(Violation::ObsFold),
            (Self::Start | Self::Name, byte) if is_token_byte(byte) => Self::Name,
            (Self::Name, b':') => Self::Value,
            (Self::Value, b'\r') => Self::Lf,
            (Self::Value, b'\t' | 32..=126 | 128..) => Self::Value,
            (Self::Start | Self::Name | Self::Value, _) => return Err(Violation::Trailer),
        };
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests;
