//! The pipe that every child hangs on, and the folder that goes away with it.
//!
//! Input: nothing. Output: a temporary folder, and commands whose processes end when this process ends.
//! Must not: rely on destructors or signal handlers alone. `kill -9` runs neither, nor does the end of a test
//! binary drop its statics; the system, however, closes the pipe in every case. So each child is started beside a
//! one-line shell that reads the pipe and, at its end, kills the child's process group, and one more shell (the
//! janitor) then removes the folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, pipe};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

const PREFIX: &str = "fieldkeeper-";
const LOCK: &str = "owner.lock";

/// A folder that is younger may belong to a process that has not locked it yet.
const SETTLED: Duration = Duration::from_mins(1);

/// The watcher belongs to the child's process group, so the number of that group cannot be given to anything else
/// while the watcher is there to use it. `exec` keeps the number: the harness signals the program itself.
const RUN: &str = r#"exec 3<&0
( read -r _ <&3; kill -s KILL -- -$$ ) >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-"#;

/// Tries again, because the last writes of the killed programs may come between the steps of one removal.
const JANITOR: &str = r#"trap '' HUP INT TERM
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 1
done"#;

/// As long as this value (or, if it is never dropped, this process) lives, so do its children and its folder.
#[derive(Debug)]
pub struct Lifeline {
    dir: PathBuf,
    reader: PipeReader,
    writer: Option<PipeWriter>,
    janitor: Option<Child>,
    _owner: Option<File>,
}

impl Lifeline {
    pub fn new() -> Result<Self> {
        remove_stale(&std::env::temp_dir());
        let (reader, writer) = pipe().context("cannot make a pipe")?;
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir().context("no temporary folder")?;
        // From here the folder is the janitor's, unless somebody wants to look into it afterwards.
        let (janitor, owner) = if std::env::var_os("FIELDKEEPER_KEEP").is_some_and(|v| !v.is_empty()) {
            (None, None)
        } else {
            let owner = File::create(dir.path().join(LOCK))?;
            owner.lock().context("cannot lock the folder")?;
            let janitor = Command::new("/bin/sh")
                .args(["-c", JANITOR, "janitor"])
                .arg(dir.path())
                .stdin(reader.try_clone()?)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .current_dir("/")
                .process_group(0)
                .spawn()
                .context("cannot start /bin/sh")?;
            (Some(janitor), Some(owner))
        };
        Ok(Self { dir: dir.keep(), reader, writer: Some(writer), janitor, _owner: owner })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A command that runs `program` in its own process group (so that Ctrl-C in the terminal reaches only us) and
    /// does not outlive this value.
    pub fn command<I, S>(&self, program: &Path, args: I) -> Result<Command>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", RUN, "run"]).arg(program).args(args);
        command.stdin(self.reader.try_clone()?).process_group(0);
        Ok(command)
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        drop(self.writer.take());
        if let Some(mut janitor) = self.janitor.take() {
            let _ = janitor.wait();
        } else {
            super::binaries::say(&format!("kept: {}", self.dir.display()));
        }
    }
}

/// Removes what a killed janitor could not. Whether an owner lives is asked of the lock, which no reused process
/// number can confuse.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        let settled = lock
            .metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|t| SystemTime::now().duration_since(t).is_ok_and(|age| age > SETTLED));
        if settled && lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
