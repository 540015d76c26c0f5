//! The members of a review as they stand in the body, each checked and looked at once.
//!
//! Input: the text. Output: what has to be known to answer at all, and the members of the request, not read.
//! Must not read what is in them, nor let one through that stands there twice.

use std::borrow::Cow;

use super::Unreadable;
use crate::ownership::raw::{Kind, Misplaced, Raw, Unchecked};

/// `apiVersion` and `kind`, and the request. Other members are skipped.
pub(super) fn outermost(text: &str) -> Result<([Cow<'_, str>; 2], Option<Members<'_>>), Unreadable> {
    read(Unchecked(text)).map_err(|Misplaced(at)| not_json(text, at))
}

fn read(body: Unchecked<'_>) -> Result<([Cow<'_, str>; 2], Option<Members<'_>>), Misplaced> {
    const NAMES: [&str; 2] = ["apiVersion", "kind"];
    let (mut found, mut request) = ([None; NAMES.len()], None);
    let end = body.members(body.start(), |name, at| {
        if name == "request" {
            let (members, end) = Members::read(body, at)?;
            return if request.replace(members).is_some() { Err(Misplaced(at)) } else { Ok(end) };
        }
        if NAMES.contains(&&*name) {
            body.string(at)?;
        }
        keep(body, at, &name, &NAMES, &mut found)
    })?;
    body.finish(end)?;
    let texts = found.map(|value| value.and_then(|value| value.string().ok()).unwrap_or_default());
    Ok((texts, request.flatten()))
}

fn not_json(text: &str, at: usize) -> Unreadable {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    Unreadable::NotJson { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
}

/// The members of the request. All but the uid stay raw, so that whatever is in them the uid is still readable.
/// `null` is as good as nothing.
#[derive(Debug)]
pub(super) struct Members<'a> {
    pub(super) uid: Option<Raw<'a>>,
    pub(super) kind: Option<Raw<'a>>,
    pub(super) resource: Option<Raw<'a>>,
    pub(super) sub_resource: Option<Raw<'a>>,
    pub(super) name: Option<Raw<'a>>,
    pub(super) namespace: Option<Raw<'a>>,
    pub(super) operation: Option<Raw<'a>>,
    pub(super) user_info: Option<Raw<'a>>,
    pub(super) object: Option<Raw<'a>>,
    pub(super) old_object: Option<Raw<'a>>,
    pub(super) options: Option<Raw<'a>>,
    pub(super) dry_run: Option<Raw<'a>>,
}

/// In the order of [`Members`].
const MEMBERS: [&str; 12] = [
    "uid",
    "kind",
    "resource",
    "subResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "options",
    "dryRun",
];

impl<'a> Members<'a> {
    /// Reads the request that begins at `at`; gives where it ends, too.
    fn read(body: Unchecked<'a>, at: usize) -> Result<(Option<Self>, usize), Misplaced> {
        if let Ok(end) = body.null(at) {
            return Ok((None, end));
        }
        let mut found = [None; MEMBERS.len()];
        let end = body.members(at, |name, at| {
            if name == "uid" {
                body.string(at)?;
            }
            keep(body, at, &name, &MEMBERS, &mut found)
        })?;
        let mut found = found.into_iter().map(|value| value.filter(|value| value.kind() != Kind::Null));
        let mut next = || found.next().flatten();
        // In the order of the names.
        let members = Self {
            uid: next(),
            kind: next(),
            resource: next(),
            sub_resource: next(),
            name: next(),
            namespace: next(),
            operation: next(),
            user_info: next(),
            object: next(),
            old_object: next(),
            options: next(),
            dry_run: next(),
        };
        Ok((Some(members), end))
    }
}

/// Reads the value at `at` and keeps it in the place of its name. A second one is an error: no reader may pick the
/// other one.
fn keep<'a>(
    body: Unchecked<'a>,
    at: usize,
    name: &str,
    names: &[&str],
    found: &mut [Option<Raw<'a>>],
) -> Result<usize, Misplaced> {
    let (value, end) = body.value(at)?;
    if let Some((_, place)) = names.iter().zip(found).find(|(wanted, _)| **wanted == name)
        && place.replace(value).is_some()
    {
        return Err(Misplaced(at));
    }
    Ok(end)
}
