//! What every object of a kind must have.

use std::sync::Arc;

use serde_json::Value;

use crate::ownership::pattern::{Pattern, Step};

/// Deeper than any chain of required fields; the recursion stays bounded whatever the schema holds.
const DEEPEST: usize = 32;

/// The leaves that every object must set itself, from the `openAPIV3Schema` of a CRD version: required at
/// every level above, and not filled by a default. What lists and maps hold is not looked at, since an
/// object may have none of it.
#[must_use]
pub fn required(schema: &Value) -> Vec<Pattern> {
    let mut found = Vec::new();
    descend(schema, &mut Vec::new(), &mut found);
    found
}

fn descend(schema: &Value, steps: &mut Vec<Step>, found: &mut Vec<Pattern>) {
    let names = schema.get("required").and_then(Value::as_array);
    for name in names.into_iter().flatten().filter_map(Value::as_str) {
        let member = schema.get("properties").and_then(|members| members.get(name));
        let Some(member) = member.filter(|member| member.get("default").is_none()) else { continue };
        // The server's own, at the root of every kind.
        if steps.is_empty() && matches!(name, "apiVersion" | "kind" | "metadata") || steps.len() >= DEEPEST {
            continue;
        }
        steps.push(Step::Field(Arc::from(name)));
        let is_struct = member.get("properties").is_some();
        if is_struct {
            descend(member, steps, found);
        } else if let Some(pattern) = Pattern::from_steps(steps.clone()) {
            found.push(pattern);
        }
        steps.pop();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_no_object_can_leave_out_is_required() {
        let schema = json!({"required": ["spec", "kind"], "properties": {
            "kind": {"type": "string"},
            "spec": {"required": ["size", "shape", "window", "ports"], "properties": {
                "size": {"type": "integer"},
                "shape": {"type": "string", "default": "round"},
                "free": {"required": ["deep"], "properties": {"deep": {"type": "string"}}},
                "window": {"required": ["from"], "properties": {"from": {}, "to": {}}},
                "ports": {"type": "array", "items": {"required": ["port"]}},
            }},
        }});
        let paths: Vec<String> = required(&schema).iter().map(ToString::to_string).collect();
        assert_eq!(paths, [".spec.size", ".spec.window.from", ".spec.ports"]);
    }
}
