//! Where the programs of the control plane come from.
//!
//! Input: the Go module in `tests/control-plane`, the environment. Output: [`Binaries`].
//! Must not: build what is in the cache already, or build it twice at once.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::go_build;

pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane");
const PROGRAM: &str = "control-plane";
const PARTS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// The programs of one release.
#[derive(Clone, Debug)]
pub struct Binaries {
    pub etcd: PathBuf,
    pub api_server: PathBuf,
    pub kubectl: PathBuf,
    /// Absent when the programs come from `KUBEBUILDER_ASSETS`.
    pub controller_manager: Option<PathBuf>,
    /// Absent when the programs come from `KUBEBUILDER_ASSETS`.
    pub scheduler: Option<PathBuf>,
}

impl Binaries {
    /// Finds the programs, building them first where necessary. Blocks, the first time for many minutes.
    pub fn find() -> Result<Self> {
        if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|v| !v.is_empty()) {
            return Self::from_assets(Path::new(&assets));
        }
        let release = Release::chosen()?;
        let dir = cache_dir()?.join(format!("{}-{:016x}", release.version, release.key()?));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let program = dir.join(PROGRAM);
        if !program.exists() {
            build_once(&release, &dir, &program)?;
        }
        let part = |name: &str| dir.join(name);
        Ok(Self {
            etcd: part("etcd"),
            api_server: part("kube-apiserver"),
            kubectl: part("kubectl"),
            controller_manager: Some(part("kube-controller-manager")),
            scheduler: Some(part("kube-scheduler")),
        })
    }

    fn from_assets(dir: &Path) -> Result<Self> {
        let part = |name: &str| {
            let path = dir.join(name);
            ensure!(path.exists(), "KUBEBUILDER_ASSETS is set, but there is no {}", path.display());
            Ok(path)
        };
        Ok(Self {
            etcd: part("etcd")?,
            api_server: part("kube-apiserver")?,
            kubectl: part("kubectl")?,
            controller_manager: part("kube-controller-manager").ok(),
            scheduler: part("kube-scheduler").ok(),
        })
    }
}

/// One release of Kubernetes that the Go module can be built for.
#[derive(Debug)]
pub struct Release {
    /// For example `go.1.34.mod`.
    pub mod_file: String,
    /// For example `1.34.4`.
    pub version: String,
}

impl Release {
    /// `go.mod`, or the release that `FIELDKEEPER_KUBERNETES` names by its first two numbers.
    pub fn chosen() -> Result<Self> {
        let main = Self::read("go.mod")?;
        let wanted = std::env::var("FIELDKEEPER_KUBERNETES").unwrap_or_default();
        let wanted = wanted.trim_start_matches('v');
        if wanted.is_empty() || main.is(wanted) {
            return Ok(main);
        }
        let minor: String = wanted.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        match Self::read(&format!("go.{minor}.mod")) {
            Ok(release) if release.is(wanted) => Ok(release),
            _ => bail!(
                "FIELDKEEPER_KUBERNETES={wanted}: no such release here; there are {} (go.mod) and those with a go.<release>.mod in {SOURCES}",
                main.version
            ),
        }
    }

    fn read(mod_file: &str) -> Result<Self> {
        let path = Path::new(SOURCES).join(mod_file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let version = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"))
            .with_context(|| format!("{} does not require k8s.io/kubernetes", path.display()))?;
        Ok(Self { mod_file: mod_file.to_owned(), version: version.trim().to_owned() })
    }

    fn is(&self, wanted: &str) -> bool {
        self.version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Changes with everything that the program is made from, except the Go compiler: whoever has the program in
    /// the cache needs none.
    fn key(&self) -> Result<u64> {
        let sources = Path::new(SOURCES);
        let mut hash = Fnv::new();
        hash.add(std::env::consts::OS.as_bytes());
        hash.add(std::env::consts::ARCH.as_bytes());
        hash.add(go_build::link_flags(&self.version).as_bytes());
        for file in ["main.go", &self.mod_file, &self.mod_file.replace(".mod", ".sum")] {
            hash.add(&fs::read(sources.join(file)).with_context(|| format!("cannot read {file}"))?);
        }
        Ok(hash.0)
    }
}

/// FNV-1a: a key for a cache must be the same tomorrow, which the standard hasher does not promise.
pub struct Fnv(pub u64);

impl Fnv {
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, bytes: &[u8]) {
        // The length first, so that the borders between the parts count.
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

pub fn cache_dir() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("fieldkeeper").join("control-plane"))
        .context("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep the control plane")
}

fn build_once(release: &Release, dir: &Path, program: &Path) -> Result<()> {
    let lock = File::create(dir.join("build.lock"))?;
    if lock.try_lock().is_err() {
        say("another process is building the control plane; waiting for it");
        lock.lock()?;
    }
    if program.exists() {
        return Ok(());
    }
    let unfinished = dir.join(format!("{PROGRAM}.new"));
    go_build::build(release, &unfinished)?;
    for part in PARTS {
        let link = dir.join(part);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(PROGRAM, &link)?;
    }
    // Last of all: the program in its place means that the folder is complete.
    fs::rename(&unfinished, program)?;
    Ok(())
}

/// Tells the person something, also from inside a test, whose `eprintln!` is withheld until it fails.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "fieldkeeper: {text}");
}
