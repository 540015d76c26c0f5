//! A mounted Secret: how a kubelet lays out certificate and key, and how it replaces them.
//!
//! Input: pairs from the authority of a control plane. Output: a directory whose two files change at once, or,
//! for the worst that a plain copy can do, one after the other.
//! Must not: ever let the two names lead nowhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::ground::HOST;
use crate::harness::{Authority, KeyPairFiles};

/// See the module.
pub struct Mounted {
    pub directory: PathBuf,
    written: usize,
}

impl Mounted {
    /// An empty one, for [`Self::swap`] to fill.
    pub fn new(parent: &Path, name: &str) -> Result<Self> {
        let directory = parent.join(name);
        fs::create_dir_all(&directory)?;
        for file in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{file}"), directory.join(file))?;
        }
        Ok(Self { directory, written: 0 })
    }

    /// Both files at once: a new folder, and one rename of the link that leads to it.
    pub fn swap(&mut self, pair: &KeyPairFiles) -> Result<()> {
        let old = fs::read_link(self.directory.join("..data")).ok();
        self.written += 1;
        let name = format!("..version-{}", self.written);
        let folder = self.directory.join(&name);
        fs::create_dir(&folder)?;
        fs::copy(&pair.certificate, folder.join("tls.crt"))?;
        fs::copy(&pair.key, folder.join("tls.key"))?;
        let link = self.directory.join("..data_tmp");
        symlink(&name, &link)?;
        fs::rename(&link, self.directory.join("..data"))?;
        if let Some(old) = old {
            fs::remove_dir_all(self.directory.join(old))?;
        }
        Ok(())
    }

    /// The key alone, in place. Until [`Self::write_certificate`] the two do not belong together.
    pub fn write_key(&self, pair: &KeyPairFiles) -> Result<()> {
        fs::copy(&pair.key, self.directory.join("tls.key"))?;
        Ok(())
    }

    pub fn write_certificate(&self, pair: &KeyPairFiles) -> Result<()> {
        fs::copy(&pair.certificate, self.directory.join("tls.crt"))?;
        Ok(())
    }
}

/// Certificates for the webhook, all of one authority, and their bytes as they are shown.
pub fn pairs(authority: &Authority, count: usize) -> Result<Vec<(KeyPairFiles, Vec<u8>)>> {
    let pair = |number| {
        let files = authority.serving(&format!("rotated-{number}"), &[HOST])?;
        let shown = CertificateDer::from_pem_file(&files.certificate)?.to_vec();
        Ok((files, shown))
    };
    (0..count).map(pair).collect()
}
