//! Keys as S3 lists them when it is asked to encode them: XML has no words for many of the characters that a key may have.

/// The key that stands for: `%2B` is a plus sign, `+` a space. None when it is no encoding of UTF-8 text.
pub fn decoded(listed: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(listed.len());
    let mut rest = listed.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_as_they_were_given() {
        for (listed, key) in [
            ("inbox/a.jsonl", "inbox/a.jsonl"),
            ("inbox/a+b%2Bc%20d", "inbox/a b+c d"),
            ("inbox/%E6%97%A5%e6%9c%ac", "inbox/日本"),
            ("inbox/%2525%01%0A%26%3C", "inbox/%25\u{1}\n&<"),
            ("", ""),
        ] {
            assert_eq!(decoded(listed).as_deref(), Some(key), "{listed}");
        }
        for broken in ["%", "%2", "%zz", "%E6%97", "%+1"] {
            assert_eq!(decoded(broken), None, "{broken}");
        }
    }
}
