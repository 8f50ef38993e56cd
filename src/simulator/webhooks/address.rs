//! Where events may go: to this machine, and nowhere else. What is simulated must never be taken for real by anybody.
//!
//! That is to the loopback addresses, and to `localhost` and the names below it, which are taken for 127.0.0.1 without
//! asking any name server.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

/// How long a receiver may take to answer. Gemini's own patience is not documented but for "a few seconds".
const PATIENCE: Duration = Duration::from_secs(10);

/// An address as events could be sent to it; None for what is none.
pub(super) fn read(uri: &str) -> Option<Url> {
    Url::parse(uri).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Whether it is on this machine.
pub(super) fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().map_or_else(|_| is_name_here(host), |address| address.is_loopback())
}

fn is_name_here(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// A client that can reach nothing but this machine: it knows no other names, no proxy, and follows no redirect.
pub(super) fn client() -> reqwest::Result<Client> {
    let client = Client::builder().no_proxy().redirect(Policy::none()).dns_resolver(Arc::new(Here));
    // `Webhook-Id`, as it was seen live.
    client.timeout(PATIENCE).http1_title_case_headers().build()
}

struct Here;

impl Resolve for Here {
    fn resolve(&self, name: Name) -> Resolving {
        let here = is_name_here(name.as_str());
        Box::pin(async move {
            if !here {
                return Err("simulated events never leave this machine".into());
            }
            let address: Addrs = Box::new(iter::once(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
            Ok(address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for here in [
            "http://127.0.0.1:8080/hook",
            "http://127.1/hook",
            "http://[::1]:80/",
            "http://localhost/x",
            "https://LOCALHOST./x",
            "http://hooks.abc.localhost:4566/webhook",
        ] {
            assert!(is_here(&read(here).unwrap()), "{here}");
        }
        for elsewhere in [
            "https://example.test/hook",
            "http://0.0.0.0/",
            "http://10.0.0.1/",
            "http://[::ffff:10.0.0.1]/",
            "http://localhost.example.test/",
            "http://mylocalhost/",
            "http://127.0.0.1.example.test/",
            "http://localhost@example.test/",
        ] {
            assert!(!is_here(&read(elsewhere).unwrap()), "{elsewhere}");
        }
        for none in ["", "x", "ftp://127.0.0.1/", "/webhook", "mailto:a@localhost"] {
            assert!(read(none).is_none(), "{none}");
        }
    }
}
