//! The rules for one complete HTTP/1 request head, and the framing of its body.
//!
//! Stricter than RFC 9112 where two readers of one message could disagree about where it ends.

use http::StatusCode;

/// A rule of HTTP that a client broke. The connection cannot be used after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Not `METHOD SP target SP HTTP/1.x`, or a second empty line before it (RFC 9112 section 3).
    #[error("the request line is not METHOD SP target SP HTTP/1.1")]
    RequestLine,
    /// CONNECT: this is no tunnel.
    #[error("CONNECT is not served here")]
    Connect,
    /// Neither a path nor an absolute `http` or `https` URI (RFC 9112 section 3.2).
    #[error("the request target is neither a path nor an absolute URI")]
    Target,
    /// More than [`MAX_HEADERS`] fields.
    #[error("the request has more than 100 header fields")]
    TooManyHeaders,
    /// A head, or the trailers of a chunked body, over the configured number of bytes.
    #[error("the request's head is larger than allowed")]
    HeadTooLarge,
    /// A field name with other characters than RFC 9110 section 5.1 allows, or none, or a line without a colon.
    #[error("a header field name is not valid")]
    FieldName,
    /// White space between a field's name and its colon (RFC 9112 section 5.1).
    #[error("there is white space before the colon of a header field")]
    SpaceBeforeColon,
    /// A line that begins with white space (RFC 9112 section 5.2).
    #[error("a header field is folded over several lines")]
    ObsFold,
    /// A line end without CR.
    #[error("a line ends with LF alone")]
    BareLf,
    /// A CR that ends no line.
    #[error("there is a CR without LF")]
    BareCr,
    /// A NUL byte.
    #[error("there is a NUL byte in the head")]
    Nul,
    /// Any other control character.
    #[error("there is a control character in the head")]
    Control,
    /// Both framings in one request (RFC 9112 section 6.3).
    #[error("Content-Length and Transfer-Encoding are both there")]
    TwoFramings,
    /// Several Content-Length fields, or a list, also of equal numbers.
    #[error("Content-Length is there more than once")]
    RepeatedContentLength,
    /// A Content-Length that is not digits alone, or does not fit.
    #[error("Content-Length is not a plain number")]
    ContentLength,
    /// Anything but exactly `chunked`, or a Transfer-Encoding on HTTP/1.0.
    #[error("Transfer-Encoding is not exactly chunked on HTTP/1.1")]
    TransferEncoding,
    /// Several Transfer-Encoding fields.
    #[error("Transfer-Encoding is there more than once")]
    RepeatedTransferEncoding,
    /// No Host (RFC 9112 section 3.2), also on HTTP/1.0.
    #[error("the Host header is missing")]
    MissingHost,
    /// Several Host fields.
    #[error("the Host header is there more than once")]
    RepeatedHost,
    /// An empty Host, or one that is no name or address with a port or none.
    #[error("the Host header is not a host")]
    Host,
    /// An absolute request target that names another host.
    #[error("the Host header is not the host of the request target")]
    HostMismatch,
    /// A chunk size that is not 1 to 16 hexadecimal digits (RFC 9112 section 7.1).
    #[error("a chunk size is not a hexadecimal number")]
    ChunkSize,
    /// A chunk size line over 256 bytes, or with control characters.
    #[error("a chunk size line is not valid")]
    ChunkLine,
    /// No CR LF after the bytes of a chunk.
    #[error("a chunk does not end where its size says")]
    ChunkEnd,
    /// Trailers that are no header fields.
    #[error("the trailers are not valid")]
    Trailer,
}

/// Most header fields of one request: hyper's own bound.
pub const MAX_HEADERS: usize = 100;

/// Where a request's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After this many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
}

impl Violation {
    /// The rule's name in metrics and logs.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::RequestLine => "request_line",
            Self::Connect => "connect",
            Self::Target => "target",
            Self::TooManyHeaders => "too_many_headers",
            Self::HeadTooLarge => "head_too_large",
            Self::FieldName => "field_name",
            Self::SpaceBeforeColon => "space_before_colon",
            Self::ObsFold => "obs_fold",
            Self::BareLf => "bare_lf",
            Self::BareCr => "bare_cr",
            Self::Nul => "nul",
            Self::Control => "control",
            Self::TwoFramings => "two_framings",
            Self::RepeatedContentLength => "repeated_content_length",
            Self::ContentLength => "content_length",
            Self::TransferEncoding => "transfer_encoding",
            Self::RepeatedTransferEncoding => "repeated_transfer_encoding",
            Self::MissingHost => "missing_host",
            Self::RepeatedHost => "repeated_host",
            Self::Host => "host",
            Self::HostMismatch => "host_mismatch",
            Self::ChunkSize => "chunk_size",
            Self::ChunkLine => "chunk_line",
            Self::ChunkEnd => "chunk_end",
            Self::Trailer => "trailer",
        }
    }

    /// The status of its answer: 431 (RFC 6585 section 5) for what is too large, else 400.
    pub(super) fn status(self) -> StatusCode {
        if matches!(self, Self::HeadTooLarge | Self::TooManyHeaders) {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
        } else {
            StatusCode::BAD_REQUEST
        }
    }
}

/// Checks a head of whole lines, each ended by CR LF, the empty one included.
///
/// Line ends, control characters and folding are the guard's; everything that needs a whole line is checked here.
pub(super) fn check(head: &[u8]) -> Result<Framing, Violation> {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.find(|line| !line.is_empty()).ok_or(Violation::RequestLine)?;
    let (old, authority) = request_line(first)?;
    let mut fields = Fields::default();
    for (count, line) in lines.take_while(|line| !line.is_empty()).enumerate() {
        if count == MAX_HEADERS {
            return Err(Violation::TooManyHeaders);
        }
        fields.add(line)?;
    }
    fields.host(authority)?;
    fields.framing(old)
}

/// The fields of a head that decide where it goes and where its body ends.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn add(&mut self, line: &'a [u8]) -> Result<(), Violation> {
        let (name, value) = split_field(line)?;
        let (slot, repeated) = if name.eq_ignore_ascii_case(b"host") {
            (&mut self.host, Violation::RepeatedHost)
        } else if name.eq_ignore_ascii_case(b"content-length") {
            (&mut self.content_length, Violation::RepeatedContentLength)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            (&mut self.transfer_encoding, Violation::RepeatedTransferEncoding)
        } else {
            return Ok(());
        };
        match slot.replace(value.trim_ascii()) {
            Some(_) => Err(repeated),
            None => Ok(()),
        }
    }

    fn host(&self, authority: Option<&[u8]>) -> Result<(), Violation> {
        let host = self.host.ok_or(Violation::MissingHost)?;
        if !is_host(host) {
            return Err(Violation::Host);
        }
        match authority {
            Some(authority) if !authority.eq_ignore_ascii_case(host) => Err(Violation::HostMismatch),
            Some(_) | None => Ok(()),
        }
    }

    fn framing(&self, old: bool) -> Result<Framing, Violation> {
        match (self.content_length, self.transfer_encoding) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(_), Some(_)) => Err(Violation::TwoFramings),
            (Some(length), None) => content_length(length),
            (None, Some(coding)) if !old && coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
            (None, Some(_)) => Err(Violation::TransferEncoding),
        }
    }
}

/// Whether it is HTTP/1.0, and the authority of an absolute target.
fn request_line(line: &[u8]) -> Result<(bool, Option<&[u8]>), Violation> {
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Violation::RequestLine);
    };
    let old = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        _ => return Err(Violation::RequestLine),
    };
    if method.is_empty() || !method.iter().all(|&byte| is_token_byte(byte)) {
        return Err(Violation::RequestLine);
    }
    if method.eq_ignore_ascii_case(b"CONNECT") {
        return Err(Violation::Connect);
    }
    if target.is_empty() || !target.iter().all(|&byte| is_target_byte(byte)) {
        return Err(Violation::Target);
    }
    Ok((old, authority(method, target)?))
}

fn authority<'a>(method: &[u8], target: &'a [u8]) -> Result<Option<&'a [u8]>, Violation> {
    if target.starts_with(b"/") || (target == b"*" && method == b"OPTIONS") {
        return Ok(None);
    }
    let rest = strip_prefix(target, b"http://").or_else(|| strip_prefix(target, b"https://"));
    let rest = rest.ok_or(Violation::Target)?;
    let authority = rest.split(|byte| matches!(byte, b'/' | b'?')).next().unwrap_or_default();
    if !is_host(authority) {
        return Err(Violation::Target);
    }
    Ok(Some(authority))
}

fn strip_prefix<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn split_field(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(Violation::FieldName)?;
    let (name, rest) = line.split_at_checked(colon).ok_or(Violation::FieldName)?;
    if name.last().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
        return Err(Violation::SpaceBeforeColon);
    }
    if name.is_empty() || !name.iter().all(|&byte| is_token_byte(byte)) {
        return Err(Violation::FieldName);
    }
    Ok((name, rest.strip_prefix(b":").unwrap_or(rest)))
}

fn content_length(value: &[u8]) -> Result<Framing, Violation> {
    if value.contains(&b',') {
        return Err(Violation::RepeatedContentLength);
    }
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Violation::ContentLength);
    }
    // hyper keeps the two largest numbers for itself.
    let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<u64>().ok());
    length.filter(|&length| length < u64::MAX - 1).map(Framing::Length).ok_or(Violation::ContentLength)
}

/// `tchar` of RFC 9110 section 5.6.2.
pub(super) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// What a path, a query or an absolute URI may hold (RFC 3986): no fragment, and nothing that it calls unsafe.
pub(super) const fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

/// A name or address, and a port or none (RFC 3986 section 3.2); no user, and no list.
pub(super) fn is_host(host: &[u8]) -> bool {
    let (good_name, port) = match host.strip_prefix(b"[") {
        Some(rest) => {
            let mut parts = rest.splitn(2, |&byte| byte == b']');
            let inner = parts.next().unwrap_or_default();
            let is_address = |&byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            (!inner.is_empty() && inner.iter().all(is_address), parts.next())
        }
        None => {
            let (name, port) = host.split_at(host.iter().position(|&byte| byte == b':').unwrap_or(host.len()));
            let is_name = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
            (!name.is_empty() && name.iter().all(is_name), Some(port))
        }
    };
    good_name && port.is_some_and(is_port)
}

/// Nothing, or a colon and a number.
fn is_port(port: &[u8]) -> bool {
    match port.strip_prefix(b":") {
        Some(digits) => {
            digits.iter().all(u8::is_ascii_digit)
                && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u16>().is_ok())
        }
        None => port.is_empty(),
    }
}
