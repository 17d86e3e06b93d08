//! Who may ask: the key, and the names that a browser may call this server by.

use std::hint::black_box;
use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST};
use sha2::{Digest, Sha256};

/// The key that requests must carry. Only its hash is kept.
///
/// Hashes are compared, so that neither the key's length nor a common beginning shows in the time that it takes; the
/// comparison reads them to their ends all the same.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    pub fn new(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }

    pub fn is(&self, offered: &str) -> bool {
        let offered: [u8; 32] = Sha256::digest(offered.as_bytes()).into();
        let differing = self.0.iter().zip(offered).fold(0, |differing, (a, b)| differing | (a ^ b));
        black_box(differing) == 0
    }

    /// Whether a request carries it, as `Authorization: Bearer KEY`.
    pub fn opens(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let offered = value.and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
        });
        offered.is_some_and(|offered| self.is(offered))
    }
}

/// Whether the request's host is this machine by an address or as localhost. Another name may be one that its owner made
/// to lead here, so that a web page of theirs can ask (DNS rebinding).
pub fn host_is_local(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn only_the_key_opens() {
        let key = Key::new("s3cret key");
        for (value, expected) in [
            ("Bearer s3cret key", true),
            ("bearer s3cret key", true),
            ("Bearer  s3cret key", true),
            ("Bearer s3cret", false),
            ("Bearer s3cret key2", false),
            ("Bearer ", false),
            ("Basic s3cret key", false),
            ("s3cret key", false),
        ] {
            assert_eq!(key.opens(&headers("authorization", value)), expected, "{value}");
        }
        assert!(!key.opens(&HeaderMap::new()));
    }

    #[test]
    fn a_foreign_name_is_no_local_host() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("[::1]", true),
            ("a.localhost:1", true),
            ("evil.example", false),
            ("evil.example:8080", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            assert_eq!(host_is_local(&headers("host", host)), expected, "{host}");
        }
    }
}
