//! `match` to compiled selectors.
//!
//! Input: the label selectors of a FieldPolicy, and its claims. Output: a
//! [`Selection`], or every error with its place. Whoever may write a label that
//! decides whether an object is governed could take it out: so those labels are
//! owned, too.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::error::CompileError;
use crate::api::field_policy::{self as api, FieldPolicySpec};
use crate::ownership::element::Element;
use crate::ownership::path::Path;
use crate::ownership::rule::{Claim, Mode};
use crate::ownership::selection::{Requirement, Selection, Selector, Test};

/// Compiles `match`. `strictest` is the strictest mode of anything in the policy.
pub(super) fn selection(
    spec: &FieldPolicySpec,
    strictest: Mode,
    claims: &[(Claim, String)],
    errors: &mut Vec<CompileError>,
) -> Selection {
    let api::Match { namespace_selector, object_selector } = spec.selection.clone().unwrap_or_default();
    let target = &spec.target;
    if namespace_selector.is_some() && target.group.is_empty() && target.resource == "namespaces" {
        errors.push(CompileError::new(
            "spec.match.namespaceSelector",
            "a Namespace is in no namespace; select its own labels with objectSelector",
        ));
    }
    let namespaces =
        namespace_selector.map(|selector| compiled("spec.match.namespaceSelector", &selector, errors));
    let objects = object_selector.map(|selector| compiled("spec.match.objectSelector", &selector, errors));
    if let Some(selector) = &objects {
        unclaimed_labels(selector, strictest, claims, errors);
    }
    Selection { namespaces, objects }
}

fn compiled(at: &str, selector: &LabelSelector, errors: &mut Vec<CompileError>) -> Selector {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| Requirement {
        key: Arc::from(&**key),
        test: Test::In(vec![Arc::from(&**value)]),
    });
    let mut requirements: Vec<Requirement> = labels.collect();
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        match requirement(expression) {
            Ok(requirement) => requirements.push(requirement),
            Err(message) => {
                errors.push(CompileError::new(format!("{at}.matchExpressions[{index}]"), message));
            }
        }
    }
    Selector(requirements)
}

fn requirement(expression: &LabelSelectorRequirement) -> Result<Requirement, String> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let values: Vec<Arc<str>> = values.iter().flatten().map(|value| Arc::from(&**value)).collect();
    let test = match (operator.as_str(), values.is_empty()) {
        ("In", false) => Test::In(values),
        ("NotIn", false) => Test::NotIn(values),
        ("Exists", true) => Test::Exists,
        ("DoesNotExist", true) => Test::DoesNotExist,
        ("In" | "NotIn", true) => return Err(format!("{operator} needs values")),
        ("Exists" | "DoesNotExist", false) => return Err(format!("{operator} takes no values")),
        _ => return Err(format!("unknown operator {operator:?}: In, NotIn, Exists or DoesNotExist")),
    };
    Ok(Requirement { key: Arc::from(&**key), test })
}

fn unclaimed_labels(
    selector: &Selector,
    strictest: Mode,
    claims: &[(Claim, String)],
    errors: &mut Vec<CompileError>,
) {
    let mut seen: Vec<&str> = Vec::new();
    for Requirement { key, .. } in &selector.0 {
        if seen.contains(&&**key) {
            continue;
        }
        seen.push(key);
        let path: Path =
            [Element::field("metadata"), Element::field("labels"), Element::field(key)].into_iter().collect();
        let guards = |(claim, _): &(Claim, String)| {
            claim.when.is_none() && claim.mode >= strictest && claim.pattern.covers(path.elements())
        };
        if !claims.iter().any(guards) {
            errors.push(CompileError::new(
                "spec.match.objectSelector",
                format!(
                    "it reads {path}, which no claim without a condition covers in mode {} or stricter: whoever may \
                     write it could take objects out of the policy",
                    strictest.as_str()
                ),
            ));
        }
    }
}
