//! Where a server is, and the key that it wants.

use std::fmt;

use ureq::http::Uri;

/// A secret that says who asks. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// `by` names where it comes from, for the error: the key itself is not in it.
    pub fn parse(text: &str, by: &str) -> Result<Self, EndpointError> {
        let text = text.trim();
        match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(EndpointError::Key(by.to_owned())),
        }
    }

    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("'{0}' is no server's address; expected one like https://api.example.com/v1 or http://127.0.0.1:8080")]
    Address(String),
    #[error("a server's address must not have a user's name or password in it; put the key into a variable")]
    Secret,
    #[error("{0} is no key: it is empty, or has blanks or other characters that no key has")]
    Key(String),
}

/// A server that speaks OpenAI's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// What the interface's paths are put behind; without a slash at its end.
    api: String,
    /// The server itself: scheme, host and port.
    root: String,
    host: String,
    pub(super) key: Option<ApiKey>,
}

impl Endpoint {
    /// An address without a path means the interface at `/v1`, where all servers have it; one with a path is taken as it is.
    pub fn parse(address: &str, key: Option<ApiKey>) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Address(address.to_owned());
        let trimmed = address.trim();
        if trimmed.split("://").nth(1).and_then(|rest| rest.split('/').next()).is_some_and(|host| host.contains('@')) {
            return Err(EndpointError::Secret);
        }
        let uri: Uri = trimmed.parse().map_err(|_| wrong())?;
        let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https")).ok_or_else(wrong)?;
        let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or_else(wrong)?;
        if uri.query().is_some() || trimmed.contains('#') {
            return Err(wrong());
        }
        let root = format!("{scheme}://{authority}");
        let path = match uri.path().trim_end_matches('/') {
            "" => "/v1",
            path => path,
        };
        Ok(Self { api: format!("{root}{path}"), root, host: authority.as_str().to_owned(), key })
    }

    /// For people: the host, and the port where it is not the usual one.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The interface's address, without the key.
    pub fn url(&self) -> &str {
        &self.api
    }

    pub fn is_encrypted(&self) -> bool {
        self.root.starts_with("https://")
    }

    /// Whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        let name = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => &self.host,
        };
        let address = name.trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost")
            || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// `path` begins with a slash, as in OpenAI's reference without the version: `/chat/completions`.
    pub(super) fn api(&self, path: &str) -> String {
        format!("{}{path}", self.api)
    }

    /// `path` begins with a slash: `/metrics`.
    pub(super) fn root(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_at_v1_where_no_path_is_given() {
        for (address, api, root, host) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("https://api.example.com/v1/", "https://api.example.com/v1", "https://api.example.com", "api.example.com"),
            ("https://h.example/openai/v2", "https://h.example/openai/v2", "https://h.example", "h.example"),
            ("http://[::1]:9/x", "http://[::1]:9/x", "http://[::1]:9", "[::1]:9"),
        ] {
            let endpoint = Endpoint::parse(address, None).unwrap();
            assert_eq!((endpoint.url(), endpoint.root.as_str(), endpoint.host()), (api, root, host), "{address}");
        }
        let endpoint = Endpoint::parse("http://h", None).unwrap();
        assert_eq!(
            (endpoint.api("/models"), endpoint.root("/metrics")),
            ("http://h/v1/models".into(), "http://h/metrics".into())
        );
    }

    #[test]
    fn what_is_no_address_is_named_and_secrets_are_not() {
        for wrong in
            ["", "example.com", "ftp://h/v1", "https://", "http://a b", "http://h/v1?key=1", "/v1", "http://h/#x"]
        {
            let error = Endpoint::parse(wrong, None).unwrap_err();
            assert_eq!(error, EndpointError::Address(wrong.into()));
        }
        let error = Endpoint::parse("https://me:hunter2@h/v1", None).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        let error = ApiKey::parse("two words", "EXAMPLE_KEY").unwrap_err().to_string();
        assert!(error.starts_with("EXAMPLE_KEY is no key") && !error.contains("two"), "{error}");
        let endpoint = Endpoint::parse("http://h", Some(ApiKey::parse(" sk-1\n", "K").unwrap())).unwrap();
        assert_eq!(endpoint.key.as_ref().unwrap().secret(), "sk-1");
        assert!(!format!("{endpoint:?}").contains("sk-1"));
    }

    #[test]
    fn this_machine_is_known() {
        for (address, expected) in [
            ("http://127.0.0.1:8080", true),
            ("http://127.3.2.1", true),
            ("http://LOCALHOST:1/v1", true),
            ("http://[::1]:8080", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(Endpoint::parse(address, None).unwrap().is_loopback(), expected, "{address}");
        }
    }
}
