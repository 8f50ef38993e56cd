//! Every single bit of a delivery, changed: nothing of it is proved any more.

use bytes::Bytes;
use gleaner::domain::webhook::Request;

use crate::kit::{Verifier, good};

/// Each text or body that differs from `bytes` in one bit.
fn flips(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

fn with(request: &Request, header: usize, value: &[u8]) -> Request {
    let mut request = request.clone();
    // As a server reads what is no text.
    request.headers[header].1 = String::from_utf8_lossy(value).into_owned();
    request
}

fn is_token(piece: &str) -> bool {
    piece.matches('.').count() == 2
}

#[test]
fn no_bit_of_the_body_may_change() {
    let verifier = Verifier::new();
    for (kind, request) in good() {
        for body in flips(&request.body) {
            let changed = Request { body: Bytes::from(body), ..request.clone() };
            assert_eq!(verifier.status(&changed), 401, "{kind}: {changed:?}");
        }
        for at in 0..request.body.len() {
            for body in [[&request.body[..at], &request.body[at + 1..]].concat(), request.body[..at].to_vec()] {
                let changed = Request { body: Bytes::from(body), ..request.clone() };
                assert_eq!(verifier.status(&changed), 401, "{kind}: {changed:?}");
            }
        }
        let longer = Request { body: Bytes::from([&request.body[..], b"\n"].concat()), ..request.clone() };
        assert_eq!(verifier.status(&longer), 401, "{kind}");
    }
}

#[test]
fn no_bit_of_id_and_timestamp_may_change() {
    let verifier = Verifier::new();
    for (kind, request) in good() {
        for (at, (name, value)) in request.headers.iter().enumerate() {
            for flipped in flips(value.as_bytes()) {
                let changed = with(&request, at, &flipped);
                let fits = |fits: fn(&u8) -> bool| if flipped.iter().all(fits) { 401 } else { 400 };
                let expected = match name.as_str() {
                    "webhook-id" => fits(|byte| byte.is_ascii_graphic() && *byte != b'.' && *byte != b','),
                    "webhook-timestamp" => fits(u8::is_ascii_digit),
                    _ => continue,
                };
                assert_eq!(verifier.status(&changed), expected, "{kind}: {changed:?}");
            }
        }
    }
}

#[test]
fn no_bit_of_the_signature_may_change() {
    let verifier = Verifier::new();
    for (kind, request) in good() {
        let at = request.headers.len() - 1;
        let value = request.headers[at].1.clone();
        for flipped in flips(value.as_bytes()) {
            let changed = with(&request, at, &flipped);
            let text = String::from_utf8_lossy(&flipped).into_owned();
            let is_joined = |piece: &str| {
                piece.split_once(',').is_some_and(|(version, rest)| {
                    rest.contains(',')
                        || version.is_empty()
                        || version.len() > 16
                        || !version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
                })
            };
            let unreadable = !text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            // What is no token any more has neither id nor timestamp beside it.
            let is_bare = kind == "token" && !text.split(' ').any(is_token);
            let expected = if unreadable || is_bare || text.split(' ').any(is_joined) { 400 } else { 401 };
            assert_eq!(verifier.status(&changed), expected, "{kind}: {text}");
        }
        for length in 0..value.len() {
            // `v1a` may stand without its padding.
            if kind == "v1a" && length >= value.trim_end_matches('=').len() {
                continue;
            }
            let short = &value.as_bytes()[..length];
            let is_bare = kind == "token" && !is_token(std::str::from_utf8(short).unwrap());
            let expected = if length == 0 || is_bare { 400 } else { 401 };
            assert_eq!(verifier.status(&with(&request, at, short)), expected, "{kind} {length}");
        }
    }
}

#[test]
fn nothing_moves_between_id_timestamp_and_body() {
    // The same bytes are signed: `msg_a.1788260401.{...}`.
    let (_, request) = good().into_iter().next().unwrap();
    let [id, timestamp] = [1, 2].map(|at| request.headers[at].1.clone());
    let whole = [format!("{id}.{timestamp}.").as_bytes(), &request.body[..]].concat();
    let verifier = Verifier::new();
    assert_eq!(verifier.status(&request), 200);
    for first in 0..whole.len() {
        for second in first + 1..whole.len() {
            if whole[first] != b'.' || whole[second] != b'.' {
                continue;
            }
            let mut moved = with(&request, 1, &whole[..first]);
            moved.headers[2].1 = String::from_utf8(whole[first + 1..second].to_vec()).unwrap();
            moved.body = Bytes::from(whole[second + 1..].to_vec());
            let expected = if moved == request { 200 } else { 400 };
            assert_eq!(verifier.status(&moved), expected, "{moved:?}");
        }
    }
}
