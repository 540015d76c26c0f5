//! Claimed paths that the schema does not have. Pure.
//!
//! Input: a compiled policy and the schema of its target. Output: one line for
//! each path that leads nowhere. Must not refuse anything: a schema may come or
//! change after the policy.

use crate::ownership::pattern::Pattern;
use crate::ownership::rule::Policy;
use crate::ownership::schema::Schema;
use crate::policy::lint::misfit;

/// Paths that are listed; a policy for another version of a kind can have hundreds.
const SHOWN: usize = 10;

/// The paths of `policy` that `schema` lacks, each with the reason.
#[must_use]
pub fn unknown(policy: &Policy, schema: &Schema) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before: Option<&Pattern> = None;
    // Claims on one path stand together.
    for pattern in policy.claims.iter().map(|claim| &claim.pattern) {
        if before.replace(pattern) != Some(pattern)
            && let Some(misfit) = misfit(pattern, schema)
        {
            lines.push(misfit.message().to_owned());
        }
    }
    let more = lines.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.truncate(SHOWN);
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::in_force::with_compiler;

    fn lines(paths: &[&str]) -> Vec<String> {
        let fields: Vec<_> = paths.iter().map(|path| json!({ "path": path })).collect();
        let spec = serde_json::from_value(json!({
            "target": {"group": "example.com", "version": "v1", "resource": "things"},
            "owners": [{"name": "o", "fields": fields}],
        }))
        .unwrap();
        let schema = Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "count": {"type": "integer"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                      "x-kubernetes-list-map-keys": ["port", "protocol"],
                      "items": {"type": "object", "required": ["port", "protocol"], "properties": {
                          "port": {"type": "integer"}, "protocol": {"type": "string"}}}},
        }}}}))
        .unwrap();
        unknown(&with_compiler("p", 1, &spec).unwrap(), &schema)
    }

    #[test]
    fn paths_that_exist_are_no_matter() {
        assert!(lines(&[".spec.count", ".spec.ports[*]", ".spec.ports[port=1,protocol=\"TCP\"]"]).is_empty());
        assert!(lines(&[".metadata.labels[\"a.b/c\"]"]).is_empty());
    }

    #[test]
    fn a_path_that_leads_nowhere_is_named_with_the_reason() {
        assert_eq!(lines(&[".spec.cuont"]), ["the schema has no .spec.cuont; did you mean .spec.count?"]);
        assert_eq!(lines(&[".spec.count.x"]), [".spec.count.x leads nowhere: .spec.count has no fields"]);
        let wrong = lines(&[".spec.ports[name=\"a\"]"]);
        assert!(wrong[0].ends_with("items of .spec.ports are told apart by port, protocol"), "{wrong:?}");
    }

    #[test]
    fn a_partial_key_covers_all_that_match_and_says_so() {
        let lines = lines(&[".spec.ports[port=1]"]);
        assert!(lines[0].ends_with("the list's keys also have protocol"), "{lines:?}");
    }

    #[test]
    fn a_long_list_is_cut() {
        let paths: Vec<String> = (0..14).map(|n| format!(".spec.no{n}")).collect();
        let lines = lines(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(lines.len(), SHOWN + 1);
        assert_eq!(lines[SHOWN], "and 4 more");
    }
}
