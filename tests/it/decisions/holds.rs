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

/// A scale write that changes nothing leaves the holder of the count with two entries, of which the server keeps
/// one in the next write of the object, whoever sends it.
#[test]
fn an_entry_that_the_server_wrote_twice_is_not_the_next_writers_fault() {
    let mut count = entry("tool", "Update", "", json!({"f:spec": {"f:targetNodes": {}}}));
    count.as_object_mut().unwrap().remove("time");
    let rest = |fields: Value| entry("tool", "Update", "", json!({"f:spec": fields}));
    let own = entry("mallory", "Update", "", json!({"f:metadata": {"f:labels": {"f:mine": {}}}}));
    let both = rest(json!({"f:minNodes": {}, "f:maxNodes": {}}));
    let old = with(pool(), "/metadata/managedFields", json!([count, both]));
    let judged = |left: Value| {
        let new = with(pool(), "/metadata/labels/mine", json!("x"));
        let new = with(new, "/metadata/managedFields", json!([left, own]));
        refused(&Request::update(&old, &new).by("mallory").under("mallory").judge(&target(&[NODEPOOLS])))
    };
    assert_eq!(judged(both.clone()), [""; 0]);
    // Nothing else may go that way, nor may the time of what is left be another.
    assert_eq!(judged(rest(json!({"f:maxNodes": {}}))), [".spec.minNodes"]);
    assert_eq!(judged(with(both.clone(), "/time", json!("2027-01-01T00:00:00Z"))), [".spec.maxNodes"]);
}
