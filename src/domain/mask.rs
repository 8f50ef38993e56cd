//! Keeps secrets, and more text than anybody reads, out of messages.

/// What stands in place of a secret.
const MASK: &str = "[masked]";

/// How API keys and tokens begin, whether that counts only at the start of a word ("FAQ. See" holds no key), and
/// how many further characters make it one. Key kinds: <https://ai.google.dev/gemini-api/docs/api-key>.
const PREFIXES: [(&str, bool, usize); 4] =
    [("AIza", false, 6), ("AQ.", true, 10), ("ya29.", true, 6), ("whsec_", true, 6)];

/// The text with everything masked that looks like an API key, a token or a webhook secret: `AIza…`, `AQ.…`,
/// `ya29.…`, `whsec_…`, and whatever follows `key=` up to a delimiter. Masking twice changes nothing.
#[must_use]
pub fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(next) = rest.chars().next() {
        if let Some((kept, after)) = secret_at(rest, in_word) {
            masked.push_str(kept);
            masked.push_str(MASK);
            rest = after;
            in_word = true;
        } else {
            masked.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
            in_word = is_token(next);
        }
    }
    masked
}

/// The text masked, then cut to `limit` characters, an ellipsis for what is cut.
#[must_use]
pub fn clean(text: &str, limit: usize) -> String {
    bound(&mask(text), limit)
}

/// The text cut to `limit` characters, an ellipsis for what is cut.
#[must_use]
pub fn bound(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => text.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// If a secret begins here: what of it may stay, and the text after it.
fn secret_at(text: &str, in_word: bool) -> Option<(&str, &str)> {
    for (prefix, word_start, least) in PREFIXES {
        if let Some(tail) = text.strip_prefix(prefix) {
            let after = tail.trim_start_matches(is_token);
            if !(word_start && in_word) && tail.len() - after.len() >= least {
                return Some(("", after));
            }
        }
    }
    let (marker, tail) = text.split_at_checked("key=".len())?;
    if !marker.eq_ignore_ascii_case("key=") || tail.starts_with(MASK) {
        return None;
    }
    let after = tail.trim_start_matches(|c: char| !c.is_whitespace() && !"&\"'`<>(),;\\".contains(c));
    (after.len() < tail.len()).then_some((marker, after))
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_are_masked_wherever_they_stand() {
        let cases = [
            (
                "Consumer 'api_key:AIzaSyD-1234_567890abcdefgh' has been suspended.",
                "Consumer 'api_key:[masked]' has been suspended.",
            ),
            ("bad key AQ.Ab8RN6IxyzAbcDEF123, sorry", "bad key [masked], sorry"),
            ("GET /v1beta/models?key=s3cr3t&alt=json", "GET /v1beta/models?key=[masked]&alt=json"),
            ("x-API_KEY=abc", "x-API_KEY=[masked]"),
            ("secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw.", "secret [masked]"),
            ("Bearer ya29.a0AfH6SMBx", "Bearer [masked]"),
        ];
        for (text, expected) in cases {
            assert_eq!(mask(text), expected);
            assert_eq!(mask(expected), expected, "masking twice changes nothing");
        }
    }

    #[test]
    fn ordinary_words_stay() {
        for text in [
            "See the FAQ. Everything is there, really-everything.",
            "see FAQ.everything-and-more",
            "AIza is a prefix",
            "key= and keys",
            "キー key=",
            "AQ. no",
        ] {
            assert_eq!(mask(text), text);
        }
    }

    #[test]
    fn a_text_is_cut_between_characters_and_after_masking() {
        assert_eq!(bound("潮の満ち引き", 6), "潮の満ち引き");
        assert_eq!(bound("潮の満ち引き", 4), "潮の満…");
        let cut = clean(&format!("{} AIzaSyD-1234_567890abcdefgh", "x".repeat(10)), 20);
        assert_eq!(cut, "xxxxxxxxxx [masked]");
    }
}
