//! Certificates for one control plane.
//!
//! Input: names. Output: PEM files in the folder of the control plane.
//! Must not: issue anything that outlives that folder or is trusted elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A certificate and its key, as the files that programs want to be pointed to.
#[derive(Clone, Debug)]
pub struct KeyPairFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// One self-made authority and the folder that it writes to.
#[derive(Debug)]
pub struct Authority {
    dir: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(dir: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let this = Self { dir: dir.to_owned(), certificate, issuer: Issuer::new(params, key) };
        fs::write(this.certificate_file(), &this.certificate)?;
        Ok(this)
    }

    /// The authority's own certificate, as PEM: what a client must trust, or a webhook's `caBundle`.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub fn certificate_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// A serving certificate for host names and addresses.
    pub fn serving(&self, file: &str, names: &[&str]) -> Result<KeyPairFiles> {
        let mut params = CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())?;
        params.distinguished_name = common_name(names.first().copied().unwrap_or(file));
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth, file)
    }

    /// A client certificate: Kubernetes reads the user's name from CN and the groups from O.
    pub fn client(&self, file: &str, user: &str, groups: &[String]) -> Result<KeyPairFiles> {
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(user);
        // rcgen keeps one value per type of name part; O spelled as a number is a second type to it.
        let kinds = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        ensure!(
            groups.len() <= kinds.len(),
            "{user}: a certificate holds two groups here; impersonate instead"
        );
        for (kind, group) in kinds.into_iter().zip(groups) {
            params.distinguished_name.push(kind, group.as_str());
        }
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth, file)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
        file: &str,
    ) -> Result<KeyPairFiles> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let files = KeyPairFiles {
            certificate: self.dir.join(format!("{file}.crt")),
            key: self.dir.join(format!("{file}.key")),
        };
        fs::write(&files.certificate, certificate.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}

/// The key that signs service account tokens (`key`) and its public half (`certificate`).
pub fn token_keys(dir: &Path) -> Result<KeyPairFiles> {
    let files = KeyPairFiles { certificate: dir.join("tokens.pub"), key: dir.join("tokens.key") };
    let key = KeyPair::generate()?;
    fs::write(&files.certificate, key.public_key_pem())?;
    fs::write(&files.key, key.serialize_pem())?;
    Ok(files)
}

fn common_name(name: &str) -> rcgen::DistinguishedName {
    let mut parts = rcgen::DistinguishedName::new();
    parts.push(DnType::CommonName, name);
    parts
}
