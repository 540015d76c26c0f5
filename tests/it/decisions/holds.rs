//! Holds that go without anybody's doing: on what is not there, and by an entry that the server wrote twice.

use serde_json::{Value, json};

use super::{NODEPOOLS, Request, entry, pool, refused, target, with};

#[test]
fn a_hold_on_a_field_that_is_not_there_can_be_lost() {
    let held = |field: &str| {
        let entry = entry("tool", "Apply", "", json!({"f:spec": {field: {}}}));
        with(pool(), "/metadata/managedFields/-", entry)
    };
    let lost =
        |old: &Value| Request::update(old, &pool()).by("mallory").under("tool").judge(&target(&[NODEPOOLS]));
    assert_eq!(lost(&held("f:drained")).findings, []);
    assert_eq!(refused(&lost(&held("f:handOff"))), [""; 0], "gitops holds it still");
    assert_eq!(refused(&lost(&with(held("f:paused"), "/spec/paused", json!(true)))), [".spec.paused"]);
}
