use proptest::prelude::*;

use super::*;

const LIMIT: usize = 4096;

/// Where the requests end, and what stopped the guard.
fn verdict(input: &[u8], cuts: &[usize]) -> (Vec<usize>, Option<Violation>) {
    let mut guard = HeadGuard::new(LIMIT);
    let (mut passed, mut ends) = (0, Vec::new());
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (input.len() + 1)).chain([input.len()]).collect();
    cuts.sort_unstable();
    for cut in cuts {
        loop {
            match guard.feed(&input[passed.min(cut)..cut]) {
                Ok(Fed { pass: 0, .. }) => break,
                Ok(fed) => {
                    passed += fed.pass;
                    if fed.end {
                        ends.push(passed);
                    }
                }
                Err(violation) => return (ends, Some(violation)),
            }
        }
    }
    (ends, None)
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /api/v1/lineage HTTP/1.1\r\nHost: gate\r\n{fields}\r\n{body}").into_bytes()
}

/// Request smuggling and other ways to be understood twice: every row is refused, by this rule.
fn bad_requests() -> Vec<(Vec<u8>, Violation)> {
    use Violation as V;
    let head = |text: &str| text.as_bytes().to_vec();
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    vec![
        (post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), V::TwoFramings),
        (post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), V::TwoFramings),
        (post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), V::RepeatedContentLength),
        (post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc"), V::RepeatedContentLength),
        (post("Content-Length: 3\r\ncontent-length: 3\r\n", "abc"), V::RepeatedContentLength),
        (post("Content-Length: 3, 3\r\n", "abc"), V::RepeatedContentLength),
        (post("Content-Length: 3,\r\n", "abc"), V::RepeatedContentLength),
        (post("Content-Length: +3\r\n", "abc"), V::ContentLength),
        (post("Content-Length: -3\r\n", "abc"), V::ContentLength),
        (post("Content-Length: 0x3\r\n", "abc"), V::ContentLength),
        (post("Content-Length: 3 3\r\n", "abc"), V::ContentLength),
        (post("Content-Length: \r\n", "abc"), V::ContentLength),
        (post("Content-Length: 18446744073709551615\r\n", ""), V::ContentLength),
        (post("Content-Length: 18446744073709551619\r\n", "abc"), V::ContentLength),
        (post("Content-Length: \u{0663}\r\n", "abc"), V::ContentLength),
        (post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), V::TransferEncoding),
        (post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), V::TransferEncoding),
        (post("Transfer-Encoding: identity\r\n", ""), V::TransferEncoding),
        (post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), V::TransferEncoding),
        (post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"), V::TransferEncoding),
        (post("Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n"), V::TransferEncoding),
        (post("Transfer-Encoding:\r\n", ""), V::TransferEncoding),
        (post("Transfer-Encoding: \u{b}chunked\r\n", "0\r\n\r\n"), V::Control),
        (
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
            V::RepeatedTransferEncoding,
        ),
        (post("Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n", "0\r\n\r\n"), V::RepeatedTransferEncoding),
        (head("POST / HTTP/1.0\r\nHost: gate\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), V::TransferEncoding),
        (post("X-A: b\r\n c: d\r\n", ""), V::ObsFold),
        (post("X-A: b\r\n\tc: d\r\n", ""), V::ObsFold),
        (post("Transfer-Encoding:\r\n chunked\r\n", ""), V::ObsFold),
        (head("GET / HTTP/1.1\r\n Host: gate\r\n\r\n"), V::ObsFold),
        (head("GET / HTTP/1.1\nHost: gate\n\n"), V::BareLf),
        (head("GET / HTTP/1.1\r\nHost: gate\n\r\n"), V::BareLf),
        (head("GET / HTTP/1.1\r\nHost: gate\r\n\n"), V::BareLf),
        (head("\nGET / HTTP/1.1\r\nHost: gate\r\n\r\n"), V::BareLf),
        (post("X-A: b\rc\r\n", ""), V::BareCr),
        (post("X-A: b\r\r\n", ""), V::BareCr),
        (post("X-A: b\0c\r\n", ""), V::Nul),
        (post("X\0A: b\r\n", ""), V::Nul),
        (post("X-A: b\u{1}c\r\n", ""), V::Control),
        (post("X-A: b\u{7f}c\r\n", ""), V::Control),
        (post("Content-Length : 3\r\n", "abc"), V::SpaceBeforeColon),
        (post("Content-Length\t: 3\r\n", "abc"), V::SpaceBeforeColon),
        (post("Content Length: 3\r\n", "abc"), V::FieldName),
        (post("X(A): b\r\n", ""), V::FieldName),
        (post("X\u{e4}: b\r\n", ""), V::FieldName),
        (post(": b\r\n", ""), V::FieldName),
        (post("no colon\r\n", ""), V::FieldName),
        (head("GET / HTTP/1.1\r\n\r\n"), V::MissingHost),
        (head("GET / HTTP/1.0\r\n\r\n"), V::MissingHost),
        (post("Host: gate\r\n", ""), V::RepeatedHost),
        (post("hOST: other\r\n", ""), V::RepeatedHost),
        (head("GET / HTTP/1.1\r\nHost:\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: \t \r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: user@gate\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: gate:\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: gate:65536\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: gate:80:80\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: [::1]80\r\n\r\n"), V::Host),
        (head("GET / HTTP/1.1\r\nHost: []\r\n\r\n"), V::Host),
        (head("GET /a\\b HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET http://other/ HTTP/1.1\r\nHost: gate\r\n\r\n"), V::HostMismatch),
        (head("GET http://gate:1/ HTTP/1.1\r\nHost: gate\r\n\r\n"), V::HostMismatch),
        (head("GET http://user@gate/ HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET http:///x HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET ftp://gate/ HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET gate HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET * HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET /a#b HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET /\u{e4} HTTP/1.1\r\nHost: gate\r\n\r\n"), V::Target),
        (head("GET  / HTTP/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET /a b HTTP/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET /\tHTTP/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head(" GET / HTTP/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET / HTTP/1.1 \r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET /\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET / HTTP/0.9\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET / HTTP/1.2\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET / HTTP/2.0\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("GET / http/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("G(T / HTTP/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("\r\n\r\nGET / HTTP/1.1\r\nHost: gate\r\n\r\n"), V::RequestLine),
        (head("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), V::RequestLine),
        (head("\x16\x03\x01\x02\x00\x01\x00"), V::Control),
        (head("CONNECT gate:443 HTTP/1.1\r\nHost: gate:443\r\n\r\n"), V::Connect),
        (post(&format!("X-A: {}\r\n", "a".repeat(LIMIT)), ""), V::HeadTooLarge),
        (post(&"X-A: b\r\n".repeat(head::MAX_HEADERS), ""), V::TooManyHeaders),
        (chunked("g\r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked("\r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked("0x3\r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked("+3\r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked("3 \r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked(" 3\r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked("3\nabc\r\n0\r\n\r\n"), V::BareLf),
        (chunked("3;a\nabc\r\n0\r\n\r\n"), V::BareLf),
        (chunked("3\rXabc\r\n0\r\n\r\n"), V::BareCr),
        (chunked("3;a\r\rabc\r\n0\r\n\r\n"), V::BareCr),
        (chunked("00000000000000003\r\nabc\r\n0\r\n\r\n"), V::ChunkSize),
        (chunked("3;a\0b\r\nabc\r\n0\r\n\r\n"), V::ChunkLine),
        (chunked(&format!("3;{}\r\nabc\r\n0\r\n\r\n", "a".repeat(256))), V::ChunkLine),
        (chunked("3\r\nabcd\r\n0\r\n\r\n"), V::ChunkEnd),
        (chunked("3\r\nabc\n0\r\n\r\n"), V::ChunkEnd),
        (chunked("3\r\nabc\rX0\r\n\r\n"), V::ChunkEnd),
        (chunked("0\r\nX-A: b\n\r\n"), V::BareLf),
        (chunked("0\r\nX-A: b\r\n c\r\n\r\n"), V::ObsFold),
        (chunked("0\r\nX-A : b\r\n\r\n"), V::Trailer),
        (chunked("0\r\nX-A: \0\r\n\r\n"), V::Trailer),
        (chunked("0\r\nX-A: b\rc\r\n\r\n"), V::BareCr),
        (chunked("0\r\n\rX"), V::BareCr),
        (chunked("0\r\n\n"), V::BareLf),
        (chunked(&format!("0\r\nX-A: {}", "a".repeat(LIMIT))), V::HeadTooLarge),
    ]
}

fn good_requests() -> Vec<Vec<u8>> {
    let padding = LIMIT - post("X-A: \r\n", "").len();
    vec![
        post("", ""),
        post("Content-Length: 0\r\n", ""),
        post("Content-Length: 3\r\n", "abc"),
        post("content-length:3\r\n", "\n\0\r"),
        post("Content-Length: \t003 \r\n", "abc"),
        post("Transfer-Encoding: Chunked \r\n", "3\r\nabc\r\n0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "A;n=\"v\"\r\n0123456789\r\n000\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\n", "3\r\n\r\n0\r\n0;last\r\nX-Sum: \t\u{e4}\r\nY:\r\n\r\n"),
        post("X-A: \u{e4}\tb\r\nX-Empty:\r\n", ""),
        post("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n", ""),
        post(&format!("X-A: {}\r\n", "a".repeat(padding)), ""),
        post(&"X-A: b\r\n".repeat(head::MAX_HEADERS - 1), ""),
        b"\r\nGET / HTTP/1.1\r\nHost: gate\r\n\r\n".to_vec(),
        b"GET / HTTP/1.0\r\nHost: gate\r\n\r\n".to_vec(),
        b"OPTIONS * HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n".to_vec(),
        b"GET http://Gate:80/x?y HTTP/1.1\r\nHost: gate:80\r\n\r\n".to_vec(),
        b"GET HTTPS://gate?y HTTP/1.1\r\nHost: gate\r\n\r\n".to_vec(),
    ]
}

#[test]
fn bad_requests_are_refused_by_their_rule_first_second_and_pipelined() {
    let good = post("Content-Length: 3\r\n", "abc");
    for (bad, rule) in bad_requests() {
        let shown = String::from_utf8_lossy(&bad).into_owned();
        assert_eq!(verdict(&bad, &[]), (vec![], Some(rule)), "{shown:?}");
        let second = [&good[..], &bad].concat();
        assert_eq!(verdict(&second, &[good.len()]), (vec![good.len()], Some(rule)), "second: {shown:?}");
        assert_eq!(verdict(&second, &[]), (vec![good.len()], Some(rule)), "pipelined: {shown:?}");
        let bytewise: Vec<_> = (0..bad.len()).collect();
        assert_eq!(verdict(&bad, &bytewise), (vec![], Some(rule)), "byte by byte: {shown:?}");
    }
}

#[test]
fn good_requests_end_where_their_framing_says() {
    for request in good_requests() {
        let shown = String::from_utf8_lossy(&request).into_owned();
        assert_eq!(verdict(&request, &[]), (vec![request.len()], None), "{shown:?}");
        let length = request.len();
        let twice = request.repeat(2);
        assert_eq!(verdict(&twice, &[]), (vec![length, 2 * length], None), "{shown:?}");
    }
}

#[test]
fn a_head_is_passed_whole_or_not_at_all() {
    let request = post("Content-Length: 3\r\n", "abc");
    let mut guard = HeadGuard::new(LIMIT);
    for cut in 0..request.len() - 3 {
        assert_eq!(guard.feed(&request[..cut]), Ok(Fed { pass: 0, end: false }));
    }
    assert_eq!(guard.feed(&request), Ok(Fed { pass: request.len() - 3, end: false }));
    assert!(!guard.in_head());
    assert_eq!(guard.feed(b"abcGET"), Ok(Fed { pass: 3, end: true }));
    assert!(guard.in_head());
}

#[test]
fn every_rule_has_a_row() {
    let rules: Vec<_> = bad_requests().into_iter().map(|(_, rule)| rule.rule()).collect();
    let all = [
        "request_line",
        "connect",
        "target",
        "too_many_headers",
        "head_too_large",
        "field_name",
        "space_before_colon",
        "obs_fold",
        "bare_lf",
        "bare_cr",
        "nul",
        "control",
        "two_framings",
        "repeated_content_length",
        "content_length",
        "transfer_encoding",
        "repeated_transfer_encoding",
        "missing_host",
        "repeated_host",
        "host",
        "host_mismatch",
        "chunk_size",
        "chunk_line",
        "chunk_end",
        "trailer",
    ];
    for rule in all {
        assert!(rules.contains(&rule), "{rule}");
    }
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut rows = good_requests();
        rows.extend(bad_requests().into_iter().map(|(bad, _)| bad));
        let mut input: Vec<u8> = picks.iter().flat_map(|pick| pick.get(&rows).clone()).collect();
        if let Some((place, byte)) = damage {
            let place = place.index(input.len());
            input[place] = byte;
        }
        prop_assert_eq!(verdict(&input, &cuts), verdict(&input, &[]));
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(input in prop::collection::vec(any::<u8>(), 0..512)) {
        verdict(&input, &[]);
    }
}
