//! The text that people read.

use serde_json::{Value, json};

use super::{NODEPOOLS, Request, pool, target, with};

#[test]
fn a_denial_names_requester_object_field_values_owner_policy_and_a_way_that_works() {
    let new = with(pool(), "/spec/targetNodes", json!(2));
    let answer =
        Request::update(&pool(), &new).by("alice").under("kubectl-patch").answer(&target(&[NODEPOOLS]));
    assert_eq!(
        answer.message,
        "user \"alice\" may not change 1 field of NodePool \"general\"\n  \
         .spec.targetNodes: 5 -> 2\n    \
         owner:   autoscaler (ServiceAccount fieldkeeper-system/autoscaler)\n    \
         policy:  nodepools\n    \
         set by:  field manager autoscaler (Apply)\n    \
         note:    no entry of managedFields records it: perhaps a mutating webhook changed it, not your request\n    \
         instead: send the field unchanged, or leave it out of what you apply; its owner can change it"
    );
    assert_eq!(answer.causes.len(), 1);
    assert_eq!(answer.causes[0].reason, "FieldOwnedByAnother");
    assert_eq!(answer.causes[0].field, ".spec.targetNodes");
}

#[test]
fn sensitive_values_are_never_printed() {
    let sensitive = NODEPOOLS.replace("    - path: .spec\n", "    - path: .spec\n      sensitive: true\n");
    let new = with(pool(), "/spec/minNodes", json!(4242));
    let mut hidden = target(&[NODEPOOLS]);
    hidden.sensitive = true;
    for target in [target(&[&sensitive]), hidden] {
        let answer = Request::update(&pool(), &new).by("alice").answer(&target);
        let text = format!("{answer:?}");
        assert!(text.contains("(hidden) -> (hidden)") && !text.contains("4242"), "{text}");
    }
}

#[test]
fn an_answer_stays_bounded_however_many_fields_are_refused() {
    let mut new = pool();
    let long = "x".repeat(5_000);
    for index in 0..2_000 {
        new["spec"]["template"]["labels"][format!("{long}{index}")] = Value::String(long.clone());
    }
    let answer = Request::update(&pool(), &new).by("alice").answer(&target(&[NODEPOOLS]));
    assert!(answer.message.len() < 8_192, "{}", answer.message.len());
    assert!(answer.message.ends_with("and 1990 more"), "{}", answer.message);
    assert!(answer.causes.len() <= 50);
    assert!(answer.annotations.iter().all(|(_, value)| value.len() <= 4_096));
    let warn = NODEPOOLS.replace("mode: Enforce", "mode: Warn");
    let answer = Request::update(&pool(), &new).by("alice").answer(&target(&[&warn]));
    assert!(answer.message.is_empty());
    assert!(answer.warnings.iter().all(|warning| warning.chars().count() <= 256));
    assert!(answer.warnings.iter().map(String::len).sum::<usize>() < 4_096);
}
