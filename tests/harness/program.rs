//! Where our own program is.
//!
//! Input: how this crate was built. Output: the path of `fieldkeeper`, built from the same sources.
//! Must not: run a stale one.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, ensure};

/// Cargo builds the program for an integration test and says where it is. For an example it does not, so there we
/// ask Cargo to; a build of what is built already takes a fraction of a second.
pub fn fieldkeeper() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf>> = OnceLock::new();
    if let Some(path) = option_env!("CARGO_BIN_EXE_fieldkeeper") {
        return Ok(PathBuf::from(path));
    }
    match BUILT.get_or_init(build) {
        Ok(path) => Ok(path.clone()),
        Err(error) => Err(anyhow!("{error:#}")),
    }
}

fn build() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    // target/<profile>/examples/playground
    let profile = here.parent().and_then(|examples| examples.parent()).context("not in a target folder")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--bin", "fieldkeeper", "--manifest-path"]);
    cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => {
            cargo.args(["--profile", name]);
        }
    }
    if let Some(target) = profile.parent() {
        cargo.arg("--target-dir").arg(target);
    }
    ensure!(cargo.status().context("cannot run cargo")?.success(), "cannot build fieldkeeper");
    let program = profile.join("fieldkeeper");
    ensure!(program.exists(), "cargo built fieldkeeper, but there is no {}", program.display());
    Ok(program)
}
