//! Certificates: read as a pair, checked, served, replaced while serving.
//!
//! Input: files that may change at any time, as mounted Secrets do. Output: a TLS configuration that
//! is only ever replaced by a better one, and a gate that is open while it can be used. A pair that
//! does not match, has expired or is not valid yet is never served; the last good one stays.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tokio::time::sleep;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use super::client_names::NamedClients;
use super::state::Gate;
use crate::telemetry::metrics::{ResultLabels, WebhookMetrics};

/// How often the files are read. A mounted Secret takes about a minute to arrive anyway; reading
/// again is simpler and surer than watching links that are swapped.
const POLL: Duration = Duration::from_secs(5);

/// Not ready any more so long before the certificate expires.
const EXPIRY_MARGIN: i64 = 30;

/// Where certificates are, and who may call.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// Clients have to show a certificate of one of these authorities, PEM.
    pub client_ca: Option<PathBuf>,
    /// Common or DNS names of clients; empty for any name.
    pub client_names: Vec<String>,
    /// Speak TLS 1.2 too.
    pub tls12: bool,
}

/// Why a configuration was not made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A file holds something else than it should.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Key and certificate do not belong together, or the key is of no use.
    #[error("certificate and key: {0}")]
    Pair(rustls::Error),
    /// Its time is over.
    #[error("the certificate expired at {0}")]
    Expired(Timestamp),
    /// Its time has not begun.
    #[error("the certificate is not valid before {0}")]
    NotYetValid(Timestamp),
    /// The library refuses it.
    #[error("TLS configuration: {0}")]
    Config(String),
}

/// The bytes of all files, to tell whether anything has changed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TlsBytes {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl fmt::Debug for TlsBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsBytes").finish_non_exhaustive()
    }
}

/// A usable configuration and the time for which it is.
#[derive(Clone, Debug)]
pub struct Usable {
    /// What to serve with.
    pub config: Arc<ServerConfig>,
    /// Seconds since the epoch.
    pub not_after: i64,
}

impl TlsFiles {
    /// Reads all files; blocking.
    pub fn read(&self) -> Result<TlsBytes, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
        };
        Ok(TlsBytes {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca: self.client_ca.as_deref().map(read).transpose()?,
        })
    }

    /// Makes a configuration of what was read, if it can be used at `now`.
    pub fn configure(&self, bytes: &TlsBytes, now: Timestamp) -> Result<Usable, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates(&bytes.certificate, &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes.key).map_err(|error| content(&self.key, &error))?;
        let leaf = chain.first().ok_or_else(|| content(&self.certificate, &"it holds no certificate"))?;
        let not_after = check_time(leaf, now, &self.certificate)?;
        let pair = CertifiedKey::from_der(chain, key, &provider).map_err(TlsError::Pair)?;
        let versions: &[&'static SupportedProtocolVersion] =
            if self.tls12 { &[&version::TLS13, &version::TLS12] } else { &[&version::TLS13] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| TlsError::Config(error.to_string()))?;
        let builder = match (&self.client_ca, &bytes.client_ca) {
            (Some(path), Some(pem)) => builder.with_client_cert_verifier(self.clients(pem, path, &provider)?),
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        // The API server speaks HTTP/1.1 to webhooks; without HTTP/2 its whole family of floods is gone.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Usable { config: Arc::new(config), not_after })
    }

    fn clients(
        &self,
        pem: &[u8],
        path: &Path,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<NamedClients>, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem, path)? {
            roots.add(certificate).map_err(|error| content(path, &error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| content(path, &error))?;
        Ok(Arc::new(NamedClients::new(verifier, self.client_names.clone())))
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| content(path, &error))
}

fn content(path: &Path, problem: &dyn fmt::Display) -> TlsError {
    TlsError::Content { path: path.to_owned(), problem: problem.to_string() }
}

/// The end of the certificate's time, if `now` lies within it.
fn check_time(leaf: &CertificateDer<'_>, now: Timestamp, path: &Path) -> Result<i64, TlsError> {
    let certificate = Certificate::from_der(leaf).map_err(|error| content(path, &error))?;
    let validity = certificate.tbs_certificate().validity();
    let seconds =
        |time: &x509_cert::time::Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    let timestamp = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    let (not_before, not_after) = (seconds(&validity.not_before), seconds(&validity.not_after));
    if now.as_second() < not_before {
        return Err(TlsError::NotYetValid(timestamp(not_before)));
    }
    if now.as_second() > not_after {
        return Err(TlsError::Expired(timestamp(not_after)));
    }
    Ok(not_after)
}

/// Follows the files for as long as it is polled, and keeps the gate.
#[derive(Debug)]
pub struct Follower {
    files: TlsFiles,
    gate: Gate,
    metrics: WebhookMetrics,
    /// What was read last, and whether it could be used.
    last: Option<(TlsBytes, bool)>,
    /// End of what is being served.
    not_after: Option<i64>,
}

impl Follower {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(files: TlsFiles, gate: Gate, metrics: WebhookMetrics) -> Self {
        Self { files, gate, metrics, last: None, not_after: None }
    }

    /// Waits for the first pair that can be served.
    pub async fn first(&mut self) -> Arc<ServerConfig> {
        loop {
            match self.look().await {
                Some(config) => return config,
                None => sleep(POLL).await,
            }
        }
    }

    /// Replaces the configuration whenever the files give another usable one. Never ends.
    pub async fn follow(mut self, served: Arc<ArcSwap<ServerConfig>>) {
        loop {
            sleep(POLL).await;
            if let Some(config) = self.look().await {
                served.store(config);
            }
            let end = self.not_after.unwrap_or(i64::MIN);
            if Timestamp::now().as_second() > end.saturating_sub(EXPIRY_MARGIN) {
                self.gate.close("the serving certificate has expired or is about to");
            }
        }
    }

    /// Reads the files; a configuration that is not served yet, or `None`.
    async fn look(&mut self) -> Option<Arc<ServerConfig>> {
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || files.read()).await.ok()?;
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                self.unusable(&error, true);
                return None;
            }
        };
        let again = match &self.last {
            Some((last, usable)) if *last == bytes => {
                if *usable {
                    return None;
                }
                true
            }
            _ => false,
        };
        let configured = self.files.configure(&bytes, Timestamp::now());
        self.last = Some((bytes, configured.is_ok()));
        match configured {
            Ok(usable) => {
                self.metrics.certificate_reloads.get_or_create(&ResultLabels { result: "ok" }).inc();
                self.metrics.certificate_expiry.set(usable.not_after);
                self.not_after = Some(usable.not_after);
                let expires = Timestamp::from_second(usable.not_after).map(|end| end.to_string());
                tracing::info!(expires = expires.unwrap_or_default(), "certificate loaded");
                self.gate.open();
                Some(usable.config)
            }
            Err(error) => {
                self.unusable(&error, again);
                None
            }
        }
    }

    /// Only what is new is logged and counted. Without any certificate so far, the gate says why.
    fn unusable(&self, error: &TlsError, again: bool) {
        if !again {
            self.metrics.certificate_reloads.get_or_create(&ResultLabels { result: "error" }).inc();
            tracing::error!(%error, "certificate not usable, the last good one stays");
        }
        if self.not_after.is_none() {
            self.gate.close(&error.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
