//! Who may call: client certificates of given authorities, and optionally only of given names.
//!
//! Input: the certificate that a client shows during the handshake. Output: yes or no, before a byte
//! of a request is read.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// A verifier that also looks at the name.
pub(super) struct NamedClients {
    verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl NamedClients {
    /// No names: any certificate of the authorities will do.
    pub(super) fn new(verifier: Arc<dyn ClientCertVerifier>, names: Vec<String>) -> Self {
        Self { verifier, names }
    }

    fn is_named(&self, certificate: &CertificateDer<'_>) -> bool {
        self.names.is_empty()
            || names_of(certificate).is_some_and(|own| own.iter().any(|name| self.names.contains(name)))
    }
}

/// Common name and DNS names; `None` when the certificate cannot be read.
fn names_of(certificate: &CertificateDer<'_>) -> Option<Vec<String>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    let mut names = Vec::new();
    if let Some(name) = certificate.subject().common_name().ok()? {
        names.push(name.value().into_owned());
    }
    if let Some((_, alternatives)) = certificate.get_extension::<SubjectAltName>().ok()? {
        names.extend(alternatives.0.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
            _ => None,
        }));
    }
    Some(names)
}

impl fmt::Debug for NamedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedClients").field("names", &self.names).finish_non_exhaustive()
    }
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        if self.is_named(end_entity) {
            Ok(verified)
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
