//! FieldPolicy to compiled rules.
//!
//! Input: a policy's name, generation and spec. Output: the rules that
//! [`ownership::decide`](crate::ownership::decide) works with, or every error with the place it
//! stands at. Paths compile without a schema; whether the schema has them is a condition, not an
//! error.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{CompileError, CompileErrors};
use super::{select, when};
use crate::api::field_policy::{self as api, FieldPolicySpec};
use crate::ownership::compare::Compare;
use crate::ownership::element::Element;
use crate::ownership::pattern::{Pattern, Step};
use crate::ownership::rule::{
    Claim, Creation, DeclaredManager, Identity, Integrity, ManagerUse, Mode, Mutator, NamespaceSource, Owner,
    Policy, Subject, Unlisted,
};

/// Metadata that only the API server sets: nobody can own it, and a condition may read it unclaimed.
const SERVER_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Compiles one policy.
///
/// # Errors
/// Everything that is wrong with the spec, not only the first.
pub fn compile(name: &str, generation: i64, spec: &FieldPolicySpec) -> Result<Policy, CompileErrors> {
    let mut errors = Vec::new();
    let mode = mode(spec.mode);
    let mut owners = Vec::new();
    let mut claims: Vec<(Claim, String)> = Vec::new();
    for (index, owner) in spec.owners.iter().enumerate() {
        let owner_mode = owner.mode.map_or(mode, self::mode);
        for (position, field) in owner.fields.iter().enumerate() {
            let at = format!("spec.owners[{}].fields[{position}]", owner.name);
            match claim(index, owner_mode, field, &at) {
                Ok(claim) => claims.push((claim, at)),
                Err(mut found) => errors.append(&mut found),
            }
        }
        owners.push(Owner {
            name: Arc::from(&*owner.name),
            subjects: owner.subjects.iter().map(subject).collect(),
            managers: owner.field_managers.iter().map(manager).collect(),
            former_managers: owner.former_field_managers.iter().map(|name| Arc::from(&**name)).collect(),
            mode: owner_mode,
        });
    }
    unclaimed_reads(&claims, &mut errors);
    if spec.admission_policy != api::AdmissionPolicy::None {
        unseen_mutators(&claims, &mut errors);
    }
    let integrity = Integrity {
        mode: spec.integrity.mode.map_or(mode, self::mode),
        co_ownership: self::mode(spec.integrity.co_ownership),
        editors: subjects(&spec.integrity.editors),
    };
    let modes = claims.iter().map(|(claim, _)| claim.mode);
    let strictest = modes.fold(mode.max(integrity.mode).max(integrity.co_ownership), Mode::max);
    let selection = select::selection(spec, strictest, &claims, &mut errors);
    let paused_until = match paused_until(spec) {
        Ok(until) => until,
        Err(error) => {
            errors.push(error);
            None
        }
    };
    if !errors.is_empty() {
        return Err(CompileErrors(errors));
    }
    let mut claims: Vec<Claim> = claims.into_iter().map(|(claim, _)| claim).collect();
    claims.sort_by(|a, b| a.pattern.cmp_specificity(&b.pattern));
    Ok(Policy {
        name: Arc::from(name),
        generation,
        selection,
        mode,
        owners,
        claims,
        unlisted: match spec.unlisted {
            api::Unlisted::Allow => Unlisted::Allow,
            api::Unlisted::Warn => Unlisted::Warn,
            api::Unlisted::Deny => Unlisted::Deny,
        },
        creation: match spec.creation.policy {
            api::CreationPolicy::Anyone => Creation::Anyone,
            api::CreationPolicy::Owners => Creation::Owners { except: subjects(&spec.creation.except) },
        },
        deletion: spec.deletion.as_ref().map(|deletion| subjects(&deletion.subjects)),
        integrity,
        break_glass: subjects(&spec.break_glass.subjects),
        paused_until,
    })
}

/// `pausedUntil` in seconds since the Unix epoch. Read by itself, so that a policy that no longer
/// compiles can still be paused.
///
/// # Errors
/// A text that is no RFC 3339 time.
pub fn paused_until(spec: &FieldPolicySpec) -> Result<Option<i64>, CompileError> {
    let Some(text) = &spec.paused_until else { return Ok(None) };
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(Some(time.as_second())),
        Err(error) => Err(CompileError::new("spec.pausedUntil", format!("not an RFC 3339 time: {error}"))),
    }
}

pub(super) fn claim(
    owner: usize,
    owner_mode: Mode,
    field: &api::FieldClaim,
    at: &str,
) -> Result<Claim, Vec<CompileError>> {
    let mut errors = Vec::new();
    let pattern = Pattern::parse(&field.path)
        .map_err(|error| {
            errors.push(CompileError::located(
                format!("{at}.path"),
                error.position,
                &field.path,
                error.message,
            ));
        })
        .ok();
    if let Some(pattern) = &pattern
        && let Some(why) = never_owned(pattern)
    {
        errors.push(CompileError::new(format!("{at}.path"), format!("{}: {why}", field.path)));
    }
    let condition = field.when.as_ref().and_then(|text| {
        when::parse(text)
            .map_err(|error| {
                errors.push(CompileError::located(format!("{at}.when"), error.position, text, error.message));
            })
            .ok()
    });
    let mut mutators = Vec::new();
    for mutator in &field.mutators {
        let condition = mutator.when.as_ref().and_then(|text| {
            let place = format!("{at}.mutators[{}].when", mutator.name);
            let parsed = when::parse_mutator(text);
            parsed
                .map_err(|error| {
                    errors.push(CompileError::located(place, error.position, text, error.message));
                })
                .ok()
        });
        mutators.push(Mutator { name: Arc::from(&*mutator.name), when: condition });
    }
    match pattern {
        Some(pattern) if errors.is_empty() => Ok(Claim {
            pattern,
            owner,
            mode: field.mode.map_or(owner_mode, mode),
            when: condition,
            instead: field.instead.as_deref().map(Arc::from),
            sensitive: field.sensitive,
            mutators,
            compare: match field.compare {
                api::Compare::Exact => Compare::Exact,
                api::Compare::Quantity => Compare::Quantity,
                api::Compare::Duration => Compare::Duration,
                api::Compare::EmptyIsAbsent => Compare::EmptyIsAbsent,
            },
        }),
        _ => Err(errors),
    }
}

/// Why a path cannot be owned by anybody.
fn never_owned(pattern: &Pattern) -> Option<&'static str> {
    match pattern.steps() {
        [Step::Field(top), ..] if matches!(&**top, "apiVersion" | "kind") => {
            Some("the type of an object is not a field that anybody writes")
        }
        [Step::Field(top), Step::Field(name), ..] if **top == *"metadata" => match &**name {
            "managedFields" => Some("managedFields are guarded by integrity, not by a claim"),
            name if SERVER_METADATA.contains(&name) => Some("only the API server sets it"),
            _ => None,
        },
        [Step::Field(top)] if **top == *"metadata" => Some(
            "claim .metadata.labels, .metadata.annotations, .metadata.finalizers or .metadata.ownerReferences",
        ),
        _ => None,
    }
}

/// Every path that a condition reads must be claimed unconditionally, and at least as strictly:
/// otherwise anyone could change it first and so talk themselves into ownership in two steps.
fn unclaimed_reads(claims: &[(Claim, String)], errors: &mut Vec<CompileError>) {
    for (claim, at) in claims {
        let Some(condition) = &claim.when else { continue };
        for read in condition.reads() {
            let path: Vec<Element> = read.iter().map(|name| Element::field(name)).collect();
            if is_server_metadata(&path) {
                continue;
            }
            let guards = |(other, _): &&(Claim, String)| {
                other.when.is_none() && other.mode >= claim.mode && other.pattern.covers(&path)
            };
            if !claims.iter().any(|other| guards(&other)) {
                let path: crate::ownership::path::Path = path.into_iter().collect();
                let mode = claim.mode.as_str();
                errors.push(CompileError::new(
                    format!("{at}.when"),
                    format!(
                        "the condition reads {path}, which no claim without a condition covers in mode {mode} or \
                         stricter: whoever may write it could make themselves the owner"
                    ),
                ));
            }
        }
    }
}

/// A generated admission policy sees what became of a write, and not who made it so: it would refuse what the claim's
/// mutators may do.
fn unseen_mutators(claims: &[(Claim, String)], errors: &mut Vec<CompileError>) {
    for (claim, at) in claims.iter().filter(|(claim, _)| !claim.mutators.is_empty()) {
        errors.push(CompileError::new(
            format!("{at}.mutators"),
            format!(
                "{} has mutators, whose changes a generated admission policy cannot tell from anybody's: remove them, \
                 or set admissionPolicy to None",
                claim.pattern
            ),
        ));
    }
}

fn is_server_metadata(path: &[Element]) -> bool {
    matches!(path, [Element::Field(top), Element::Field(name), ..]
        if **top == *"metadata" && SERVER_METADATA.contains(&&**name))
}

/// The mode of the API type as a mode of the core.
#[must_use]
pub fn mode(mode: api::Mode) -> Mode {
    match mode {
        api::Mode::Audit => Mode::Audit,
        api::Mode::Warn => Mode::Warn,
        api::Mode::Enforce => Mode::Enforce,
    }
}

fn manager(manager: &api::FieldManagerClaim) -> DeclaredManager {
    DeclaredManager {
        name: Arc::from(&*manager.name),
        usage: match manager.usage {
            api::ManagerUse::Expect => ManagerUse::Expect,
            api::ManagerUse::Reserve => ManagerUse::Reserve,
            api::ManagerUse::Require => ManagerUse::Require,
        },
    }
}

fn subjects(subjects: &[api::Subject]) -> Vec<Subject> {
    subjects.iter().map(subject).collect()
}

fn subject(subject: &api::Subject) -> Subject {
    let name: Arc<str> = Arc::from(&*subject.name);
    let identity = match subject.kind {
        api::SubjectKind::User => Identity::User(name),
        api::SubjectKind::Group => Identity::Group(name),
        api::SubjectKind::ServiceAccount => Identity::ServiceAccount {
            // The CRD demands exactly one of the two; without either the subject matches nobody.
            namespace: match (&subject.namespace, subject.namespace_from) {
                (_, Some(api::NamespaceFrom::Object)) => NamespaceSource::Object,
                (namespace, None) => {
                    NamespaceSource::Named(Arc::from(namespace.as_deref().unwrap_or_default()))
                }
            },
            name,
        },
    };
    let text = |(key, value): (&String, &String)| (Arc::from(&**key), Arc::from(&**value));
    Subject {
        identity,
        uid: subject.uid.as_deref().map(Arc::from),
        extra: subject.extra.iter().map(text).collect::<BTreeMap<_, _>>(),
    }
}
