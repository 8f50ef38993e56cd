//! URLs: where things lie under the base URL.

use std::fmt::Write as _;
use std::net::IpAddr;

use reqwest::Url;

use super::options::OptionsError;
use crate::domain::model::path;

/// The version in every path. Whether every feature works on `v1` is not documented.
const VERSION: &str = "v1beta";

/// How many batch jobs a page of the list may hold. Neither the default nor the most is documented; files allow 100.
const PAGE_SIZE: &str = "100";

/// How many webhooks a page of the list may hold: 1000 is the most.
const WEBHOOKS_PAGE: &str = "1000";

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

    /// Where a batch job of a model is created: `models/…`, `tunedModels/…`, or a model's name alone.
    pub(super) fn batch_of(&self, model: &str) -> Option<Url> {
        self.of_model(model, "batchGenerateContent")
    }

    /// Where a model is called.
    pub(super) fn calls_of(&self, model: &str) -> Option<Url> {
        self.of_model(model, "generateContent")
    }

    fn of_model(&self, model: &str, method: &str) -> Option<Url> {
        let (kind, id) = path(model)?;
        Some(self.at(&format!("{kind}/{}:{method}", segment(id)?)))
    }

    /// Where a batch job, `batches/…`, is looked at.
    pub(super) fn batch(&self, name: &str) -> Option<Url> {
        Some(self.at(&format!("batches/{}", named("batches/", name)?)))
    }

    /// Where a batch job is cancelled.
    pub(super) fn cancel_batch(&self, name: &str) -> Option<Url> {
        Some(self.at(&format!("batches/{}:cancel", named("batches/", name)?)))
    }

    /// Where batch jobs are listed.
    pub(super) fn list_batches(&self, page: Option<&str>) -> Url {
        let mut url = self.at("batches");
        url.query_pairs_mut().append_pair("pageSize", PAGE_SIZE);
        if let Some(page) = page {
            url.query_pairs_mut().append_pair("pageToken", page);
        }
        url
    }

    /// Where webhooks are registered.
    pub(super) fn webhooks(&self) -> Url {
        self.at("webhooks")
    }

    /// Where webhooks are listed.
    pub(super) fn list_webhooks(&self, page: Option<&str>) -> Url {
        let mut url = self.webhooks();
        url.query_pairs_mut().append_pair("page_size", WEBHOOKS_PAGE);
        if let Some(page) = page {
            url.query_pairs_mut().append_pair("page_token", page);
        }
        url
    }

    /// Where one webhook is deleted.
    pub(super) fn webhook(&self, id: &str) -> Option<Url> {
        Some(self.at(&format!("webhooks/{}", named("webhooks/", id)?)))
    }

    /// Where a field of one webhook is changed.
    pub(super) fn change_webhook(&self, id: &str, field: &str) -> Option<Url> {
        let mut url = self.webhook(id)?;
        url.query_pairs_mut().append_pair("update_mask", field);
        Some(url)
    }

    /// Where a method of one webhook is called.
    pub(super) fn of_webhook(&self, id: &str, method: &str) -> Option<Url> {
        Some(self.at(&format!("webhooks/{}:{method}", named("webhooks/", id)?)))
    }

    /// Where an upload is begun.
    pub(super) fn uploads(&self) -> Url {
        self.under("upload/", "files")
    }

    /// Where a file, `files/…`, is deleted.
    pub(super) fn file(&self, name: &str) -> Option<Url> {
        Some(self.at(&format!("files/{}", named("files/", name)?)))
    }

    /// Where a file is downloaded from: the guide's form, and that of the SDKs.
    pub(super) fn downloads(&self, name: &str) -> Option<[Url; 2]> {
        let path = format!("files/{}:download", named("files/", name)?);
        let mut urls = [self.under("download/", &path), self.at(&path)];
        for url in &mut urls {
            url.set_query(Some("alt=media"));
        }
        Some(urls)
    }

    /// Checks the URL that the answer to a begun upload names: the file's bytes go there. Any `https://` host is taken,
    /// since it is Gemini that names it; `http://` only within this machine, and only when the base is plain as well, so
    /// that no answer from outside can have something posted to a server here.
    pub(super) fn upload_target(&self, url: &str) -> Result<Url, &'static str> {
        let url = Url::parse(url).map_err(|_| "which is no URL")?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("which has a user name or password in it");
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if self.is_plain() && is_loopback(url.host_str().unwrap_or_default()) => Ok(url),
            _ => Err("which is not https://"),
        }
    }

    fn at(&self, path: &str) -> Url {
        self.under("", path)
    }

    fn under(&self, service: &str, path: &str) -> Url {
        let mut url = self.base.clone();
        let prefix = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{prefix}/{service}{VERSION}/{path}"));
        url
    }
}

/// The id in a name as one segment, whether the name has its prefix or not.
fn named(prefix: &str, name: &str) -> Option<String> {
    segment(name.strip_prefix(prefix).unwrap_or(name))
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
pub(super) fn is_loopback(host: &str) -> bool {
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
    fn batch_jobs_and_files_lie_where_gemini_has_them() {
        let endpoint = Endpoint::parse("https://host.test/p/").unwrap();
        let of = |model: &str| endpoint.batch_of(model).unwrap().path().to_owned();
        for model in ["m-1.5", "models/m-1.5"] {
            assert_eq!(of(model), "/p/v1beta/models/m-1.5:batchGenerateContent");
        }
        assert_eq!(of("tunedModels/mine"), "/p/v1beta/tunedModels/mine:batchGenerateContent");
        assert_eq!(of("../a:b?c"), "/p/v1beta/models/..%2Fa%3Ab%3Fc:batchGenerateContent");
        assert_eq!(of("models/models/a"), "/p/v1beta/models/models%2Fa:batchGenerateContent");
        for name in ["x-1", "batches/x-1"] {
            assert_eq!(endpoint.batch(name).unwrap().path(), "/p/v1beta/batches/x-1");
            assert_eq!(endpoint.cancel_batch(name).unwrap().path(), "/p/v1beta/batches/x-1:cancel");
        }
        assert_eq!(endpoint.batch("files/x").unwrap().path(), "/p/v1beta/batches/files%2Fx");
        assert_eq!(endpoint.list_batches(None).as_str(), "https://host.test/p/v1beta/batches?pageSize=100");
        let page = endpoint.list_batches(Some("a&b=c+d/#")).to_string();
        assert_eq!(page, "https://host.test/p/v1beta/batches?pageSize=100&pageToken=a%26b%3Dc%2Bd%2F%23");
        assert_eq!(endpoint.uploads().as_str(), "https://host.test/p/upload/v1beta/files");
        for name in ["batch-x", "files/batch-x"] {
            assert_eq!(endpoint.file(name).unwrap().path(), "/p/v1beta/files/batch-x");
            assert_eq!(
                endpoint.downloads(name).unwrap().map(String::from),
                [
                    "https://host.test/p/download/v1beta/files/batch-x:download?alt=media",
                    "https://host.test/p/v1beta/files/batch-x:download?alt=media"
                ]
            );
        }
        for id in ["", ".", ".."] {
            assert!(endpoint.batch_of(id).is_none() && endpoint.batch_of(&format!("models/{id}")).is_none(), "{id:?}");
            for name in [id.to_owned(), format!("batches/{id}")] {
                assert!(endpoint.batch(&name).is_none() && endpoint.cancel_batch(&name).is_none(), "{name:?}");
            }
            for name in [id.to_owned(), format!("files/{id}")] {
                assert!(endpoint.file(&name).is_none() && endpoint.downloads(&name).is_none(), "{name:?}");
            }
        }
    }

    #[test]
    fn an_upload_goes_to_https_or_stays_on_this_machine() {
        let outside = Endpoint::parse("https://host.test/p/").unwrap();
        let here = Endpoint::parse("http://127.0.0.1:8080").unwrap();
        for url in ["https://host.test/u?id=1", "https://other.test:8443/u"] {
            assert_eq!(outside.upload_target(url).unwrap().as_str(), url);
            assert_eq!(here.upload_target(url).unwrap().as_str(), url);
        }
        for url in ["http://localhost:9/u", "http://127.0.0.1:1/u", "http://[::1]:9/u"] {
            assert_eq!(here.upload_target(url).unwrap().as_str(), url);
            outside.upload_target(url).unwrap_err();
        }
        for url in ["http://host.test/u", "http://10.0.0.1/u", "/u", "", "ftp://host.test/u", "file:///u"] {
            outside.upload_target(url).unwrap_err();
            here.upload_target(url).unwrap_err();
        }
        for url in ["https://me@host.test/u", "https://:pw@host.test/u"] {
            assert!(!outside.upload_target(url).unwrap_err().contains("pw"));
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
