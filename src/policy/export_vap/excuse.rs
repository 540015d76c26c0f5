//! Changes that a mutating webhook or policy made, and not the request, as CEL over `metadata.managedFields`.
//!
//! In: a field. Out: an expression that holds wherever `ownership::mutation` takes a change for a mutator's. Without
//! it, a write would be refused for what somebody else made of it on its way. It holds a little more often: CEL cannot
//! tell whether an entry that moved gained a field or only lost some.

use super::cel::{Bool, string};
use crate::ownership::element::Element;
use crate::ownership::fieldsv1::element_key;
use crate::ownership::rule::Policy;

/// Entries that the request may have been written under.
const WRITTEN_UNDER: &str = "e.?manager.orValue('') in ['ancient-changes', 'before-first-apply'] || \
    (variables.manager != '' ? e.?manager.orValue('') == variables.manager : \
    e.?operation.orValue('') == 'Update' && \
    e.?subresource.orValue('') == request.?subResource.orValue(''))";

/// The variables that excuses refer to.
pub(super) fn variables(policy: &Policy, api_version: &str) -> Vec<(&'static str, String)> {
    let entries = |of: &str| format!("{of}.?metadata.?managedFields.orValue([]).filter(e, {WRITTEN_UNDER})");
    let moved = "variables.entries.exists(e, !(e in variables.entriesBefore))";
    let finalizers = [Element::field("metadata"), Element::field("finalizers")];
    let owns_finalizers = policy
        .claims
        .iter()
        .any(|claim| claim.pattern.covers(&finalizers) || claim.pattern.reaches_below(&finalizers));
    let moved = if owns_finalizers {
        // Whoever takes its own finalizer away from an object that is going may leave no other trace.
        format!(
            "({moved} || variables.old.?metadata.?deletionTimestamp.hasValue() && \
             size(dyn(object).?metadata.?finalizers.orValue([])) < \
             size(variables.old.?metadata.?finalizers.orValue([])))"
        )
    } else {
        moved.to_owned()
    };
    vec![
        ("manager", "request.?options.?fieldManager.orValue('')".to_owned()),
        ("entries", entries("dyn(object)")),
        ("entriesBefore", entries("variables.old")),
        (
            "tracked",
            format!(
                "{moved} && variables.entries.all(e, e.?apiVersion.orValue('') == {})",
                string(api_version)
            ),
        ),
        ("heldNow", "variables.entries.map(e, e.?fieldsV1.orValue({}))".to_owned()),
        ("held", "variables.heldNow + variables.entriesBefore.map(e, e.?fieldsV1.orValue({}))".to_owned()),
    ]
}

/// Whether the change of the field at `path` is a mutator's, if `present` says that the new object has it.
pub(super) fn field(path: &[Element], present: &str) -> Bool {
    below(path, None, present)
}

/// The same of a member of the node at `path` that is only known when the expression runs: `key` is an expression for
/// its key in FieldsV1.
pub(super) fn member(path: &[Element], key: &str) -> Bool {
    below(path, Some(key), "true")
}

fn below(path: &[Element], key: Option<&str>, present: &str) -> Bool {
    let step = |at: &String, element: &Element| format!("{at}[?{}]", string(&element_key(element)));
    let mut steps = vec!["f".to_owned()];
    for element in path {
        steps.extend(steps.last().map(|at| step(at, element)));
    }
    steps.extend(key.and_then(|key| Some(format!("{}[?{key}]", steps.last()?))));
    let at = steps.pop().unwrap_or_default();
    // An entry that holds something above it, and nothing in there, may hold it as a part of one value.
    let above = steps.split_first().map_or(&[][..], |(_, above)| above);
    let swallowed = if above.is_empty() {
        Bool::Never
    } else {
        let above = above.join(", ");
        Bool::Text(format!(
            "variables.heldNow.exists(f, [{above}].exists(a, a.hasValue() && a.value().all(n, n == '.')))"
        ))
    };
    Bool::all([
        Bool::Text("variables.tracked".to_owned()),
        if present == "true" { Bool::Always } else { Bool::Text(present.to_owned()) },
        Bool::Text(format!("!variables.held.exists(f, {at}.hasValue())")),
        match swallowed {
            Bool::Text(text) => Bool::Text(format!("!{text}")),
            _ => Bool::Always,
        },
    ])
}
