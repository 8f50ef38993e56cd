//! URLs: where an interaction lies under the base URL.

use std::fmt::Write as _;
use std::net::IpAddr;

use reqwest::Url;

use super::options::OptionsError;

/// The version in every path. Whether every feature works on `v1` is not documented.
const VERSION: &str = "v1beta";

/// A base URL that was checked.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    base: Url,
    loopback: bool,
}

impl Endpoint {
    /// Checks a base URL.
    pub(super) fn parse(base_url: &str) -> Result<Self, OptionsError> {
        let base = Url::parse(base_url.trim()).map_err(|why| OptionsError::BaseUrl(format!("is no URL: {why}")))?;
        let loopback = is_loopback(base.host_str().unwrap_or_default());
        match base.scheme() {
            "https" => {}
            "http" if loopback => {}
            "http" => return Err(OptionsError::PlainHttp(base.host_str().unwrap_or_default().to_owned())),
            other => return Err(OptionsError::BaseUrl(format!("begins with {other}:// instead of https://"))),
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(OptionsError::BaseUrl("has a user name or password in it, which is not supported".to_owned()));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(OptionsError::BaseUrl(
                "has a `?` or `#` in it; the API key belongs into GEMINI_API_KEY and is sent in a header".to_owned(),
            ));
        }
        Ok(Self { base, loopback })
    }

    /// Whether it is plain HTTP, which [`Endpoint::parse`] allows within this machine only.
    pub(super) fn is_plain(&self) -> bool {
        self.loopback && self.base.scheme() == "http"
    }

    /// Where interactions are created.
    pub(super) fn interactions(&self) -> Url {
        self.at("interactions")
    }

    /// Where one interaction is looked at. None when no URL can name it.
    pub(super) fn interaction(&self, id: &str) -> Option<Url> {
        Some(self.at(&format!("interactions/{}", segment(id)?)))
    }

    /// Where one interaction is cancelled. None when no URL can name it.
    pub(super) fn cancel(&self, id: &str) -> Option<Url> {
        Some(self.at(&format!("interactions/{}/cancel", segment(id)?)))
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let prefix = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{prefix}/{VERSION}/{path}"));
        url
    }
}

/// An id as one segment of a path: every byte but RFC 3986's unreserved ones is escaped.
///
/// None for an empty id, `.` and `..`, which stand for other paths however they are written. `Url`'s own
/// `path_segments_mut` is not used because it silently drops those, and tabs and line breaks as well.
fn segment(id: &str) -> Option<String> {
    if matches!(id, "" | "." | "..") {
        return None;
    }
    let mut escaped = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").ok()?;
        }
    }
    Some(escaped)
}

/// Whether a host, as `Url` writes it, can only be this machine. The client resolves `localhost` by itself.
fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(base_url: &str, id: &str) -> String {
        Endpoint::parse(base_url).unwrap().interaction(id).unwrap().to_string()
    }

    #[test]
    fn slashes_and_prefixes_of_the_base_are_kept_right() {
        for (base, url) in [
            ("https://host.test", "https://host.test/v1beta/interactions/v1_a"),
            ("https://host.test/", "https://host.test/v1beta/interactions/v1_a"),
            (" https://host.test:8443/a/b \n", "https://host.test:8443/a/b/v1beta/interactions/v1_a"),
            ("https://host.test/a/b//", "https://host.test/a/b/v1beta/interactions/v1_a"),
            ("http://LOCALHOST:80", "http://localhost/v1beta/interactions/v1_a"),
        ] {
            assert_eq!(get(base, "v1_a"), url);
        }
        let endpoint = Endpoint::parse("https://host.test/p/").unwrap();
        assert_eq!(endpoint.interactions().path(), "/p/v1beta/interactions");
        assert_eq!(endpoint.cancel("v1_a").unwrap().path(), "/p/v1beta/interactions/v1_a/cancel");
    }

    #[test]
    fn an_id_is_always_exactly_one_segment() {
        for (id, escaped) in [
            ("a/b", "a%2Fb"),
            ("../../v1/models", "..%2F..%2Fv1%2Fmodels"),
            ("a?key=b#c", "a%3Fkey%3Db%23c"),
            ("%2e%2e", "%252e%252e"),
            (".%2E", ".%252E"),
            ("a\\b", "a%5Cb"),
            ("a\tb\nc", "a%09b%0Ac"),
            (" a ", "%20a%20"),
            ("日本", "%E6%97%A5%E6%9C%AC"),
            ("a:cancel;x=+&@", "a%3Acancel%3Bx%3D%2B%26%40"),
            ("v1_Chd-._~=", "v1_Chd-._~%3D"),
        ] {
            assert_eq!(get("https://host.test/p", id), format!("https://host.test/p/v1beta/interactions/{escaped}"));
        }
        let endpoint = Endpoint::parse("https://host.test").unwrap();
        for id in ["", ".", ".."] {
            assert!(endpoint.interaction(id).is_none() && endpoint.cancel(id).is_none(), "{id:?}");
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for base in ["http://localhost:8080", "http://127.0.0.1:1", "http://127.8.9.1", "http://[::1]:9/x"] {
            assert!(Endpoint::parse(base).unwrap().is_plain(), "{base}");
        }
        assert!(!Endpoint::parse("https://localhost").unwrap().is_plain());
        for base in [
            "http://host.test",
            "http://10.0.0.1",
            "http://0.0.0.0",
            "http://localhost.host.test",
            "http://127.0.0.1.host.test",
            "http://[::ffff:127.0.0.1]",
            "http://localhost.",
        ] {
            assert!(matches!(Endpoint::parse(base), Err(OptionsError::PlainHttp(_))), "{base}");
        }
    }

    #[test]
    fn a_base_that_cannot_be_used_is_refused_and_its_secrets_are_not_shown() {
        for base in [
            "",
            "host.test",
            "ftp://host.test",
            "file:///etc/passwd",
            "https://",
            "https://user:hunter2@host.test",
            "https://host.test/?key=hunter2",
            "https://host.test/#hunter2",
        ] {
            let error = Endpoint::parse(base).unwrap_err();
            assert!(matches!(error, OptionsError::BaseUrl(_)), "{base}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
