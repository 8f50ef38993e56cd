//! The `webhook-signature` header: signatures with a space between them.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD_INDIFFERENT, STANDARD};

use super::request::Refusal;

/// How many signatures of a header are looked at. A sender that changes its secret or key makes two.
const MOST: usize = 8;

/// The longest name of a version.
const LONGEST_VERSION: usize = 16;

/// Base64 in the standard alphabet, with its padding or without.
const PLAIN: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD_INDIFFERENT);

/// Base64 in the alphabet for URLs, with its padding or without.
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, PAD_INDIFFERENT);

/// One signature that may prove something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signature<'a> {
    /// `v1`: an HMAC-SHA256.
    Hmac([u8; 32]),
    /// `v1a`: an Ed25519 signature.
    Ed25519([u8; 64]),
    /// Three parts with dots between them.
    Token(&'a str),
}

/// Bytes in base64 of either alphabet, with padding or without: the two differ in two characters only, so that no text
/// has two readings.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    PLAIN.decode(text).or_else(|_| FOR_URLS.decode(text)).ok()
}

/// The signatures of a header that may prove something, the first few of them. Unknown versions are passed over, and so
/// are signatures of another length or in no base64: another one may fit.
///
/// # Errors
/// A header that is several ones joined with a comma, as API Gateway does with repeated ones.
pub(super) fn parse(header: &str) -> Result<Vec<Signature<'_>>, Refusal> {
    let pieces = header.split(' ').filter(|piece| !piece.is_empty());
    let read = pieces.map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(read.into_iter().flatten().take(MOST).collect())
}

fn read(piece: &str) -> Result<Option<Signature<'_>>, Refusal> {
    let Some((version, value)) = piece.split_once(',') else {
        return Ok((piece.split('.').count() == 3).then_some(Signature::Token(piece)));
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if value.contains(',') || version.is_empty() || version.len() > LONGEST_VERSION || !version.chars().all(is_name) {
        return Err(Refusal::Malformed("the header webhook-signature has a comma too many".to_owned()));
    }
    Ok(match version {
        // As Standard Webhooks writes it.
        "v1" => STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok()).map(Signature::Hmac),
        // Gemini's own spelling is not documented (`google-gemini` python-genai #2927 shows only that it is base64).
        "v1a" => from_base64(value).and_then(|bytes| bytes.try_into().ok()).map(Signature::Ed25519),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 and 64 bytes of 0xfb, which is where the two alphabets differ.
    fn hmac() -> String {
        STANDARD.encode([0xfb; 32])
    }

    fn ed25519() -> String {
        STANDARD.encode([0xfb; 64])
    }

    #[test]
    fn versions_that_are_known_are_taken_in_order_and_others_passed_over() {
        let header = format!("v9,AAAA  v1,{} nonsense a.b.c v1a,{} v2,!!, v1,{}", hmac(), ed25519(), hmac());
        assert!(parse(&header).is_err());
        let header = header.replace("!!,", "!!");
        let expected = [
            Signature::Hmac([0xfb; 32]),
            Signature::Token("a.b.c"),
            Signature::Ed25519([0xfb; 64]),
            Signature::Hmac([0xfb; 32]),
        ];
        assert_eq!(parse(&header).unwrap(), expected);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn what_is_no_signature_proves_nothing_and_hides_no_other() {
        let hmac = hmac();
        for bad in ["v1,", "v1", "v1,AAAA", "v1,****", "V1,AAAA", "a.b", "a.b.c.d", "v1a,AAAA", "..", "v1,AAAA=", "v"] {
            let header = format!("{bad} v1,{hmac}");
            assert_eq!(parse(&header).unwrap().last(), Some(&Signature::Hmac([0xfb; 32])), "{bad}");
        }
        // `v1` is padded and in the standard alphabet; `v1a` may be written in any way.
        let spellings = |text: &str| [text.trim_end_matches('=').to_owned(), text.replace('+', "-").replace('/', "_")];
        for spelling in spellings(&hmac) {
            assert_eq!(parse(&format!("v1,{spelling}")).unwrap(), [], "{spelling}");
        }
        for spelling in spellings(&ed25519()) {
            assert_eq!(parse(&format!("v1a,{spelling}")).unwrap(), [Signature::Ed25519([0xfb; 64])], "{spelling}");
        }
        // Bits behind the last byte must be zero: one signature has one text.
        assert_eq!(parse(&format!("v1,{}", hmac.replace("s=", "t="))).unwrap(), []);
    }

    #[test]
    fn joined_headers_are_seen() {
        for bad in ["v1,AAAA,v1,BBBB", "v1,AAAA, v1,BBBB", "a.b.c,d.e.f", "a.b.c, d.e.f", "v1,AAAA,a.b.c", ",v1", ","] {
            assert!(matches!(parse(bad), Err(Refusal::Malformed(_))), "{bad}");
        }
        let long = format!("{},AAAA", "v".repeat(17));
        assert!(parse(&long).is_err());
    }

    #[test]
    fn only_the_first_few_are_looked_at() {
        let header = format!("v1,{} ", hmac()).repeat(MOST + 1);
        assert_eq!(parse(&header).unwrap().len(), MOST);
        // What proves nothing takes no place.
        let header = format!("{} v1,{}", "v9,AAAA ".repeat(100), hmac());
        assert_eq!(parse(&header).unwrap().len(), 1);
    }
}
