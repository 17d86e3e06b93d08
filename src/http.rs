//! What all that is asked over HTTP has in common, the Hub and servers: the system's certificates, no redirect that nobody
//! looked at, and how an answer begins. Threads, silence and retries are each asker's own.

use std::time::Duration;

use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::http::HeaderMap;
use ureq::http::response::Parts;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;

/// How an answer begins.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: u16,
    headers: HeaderMap,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }
}

impl From<Parts> for Head {
    fn from(parts: Parts) -> Self {
        Self { status: parts.status.as_u16(), headers: parts.headers }
    }
}

/// An agent that gives every status and every redirect to who asked: a key goes to the host that was named, and to no other.
/// `patience` is for finding the host and for its connection.
pub fn agent(patience: Duration) -> ConfigBuilder<AgentScope> {
    let provider =
        if cfg!(any(windows, target_vendor = "apple")) { TlsProvider::NativeTls } else { TlsProvider::Rustls };
    // The system's own roots: a company's proxy has its certificate there.
    let tls = TlsConfig::builder().provider(provider).root_certs(RootCerts::PlatformVerifier).build();
    Agent::config_builder()
        .tls_config(tls)
        .user_agent(concat!("ortalk/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_resolve(Some(patience))
        .timeout_connect(Some(patience))
}
