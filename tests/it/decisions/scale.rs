//! `/scale`: two small objects that hide most of what matters.

use fieldkeeper::ownership::decide::Decision;
use fieldkeeper::ownership::scale::may_need_parent;
use fieldkeeper::ownership::verdict::Reason;
use serde_json::{Value, json};

use super::{NODEPOOLS, Request, pool, refused, target, with};

const AUTOSCALER: &str = "fieldkeeper-system/autoscaler";

#[test]
fn the_count_is_the_field_that_the_scale_path_names() {
    let target = target(&[NODEPOOLS]);
    let verdict = Request::scale(Some(5), Some(7)).with_parent(&pool()).by("mallory").judge(&target);
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    let verdict = Request::scale(Some(5), Some(7)).with_parent(&pool()).by(AUTOSCALER).judge(&target);
    assert_eq!(refused(&verdict), [""; 0]);
}

#[test]
fn a_condition_on_the_count_asks_for_the_parent() {
    let decision = Request::scale(Some(5), Some(7)).by(AUTOSCALER).decide(&target(&[NODEPOOLS]));
    assert_eq!(decision, Decision::NeedsParent);
}

#[test]
fn a_count_that_no_policy_claims_never_asks_for_the_parent() {
    let with_unlisted = |unlisted: &str| {
        let claims = NODEPOOLS.replace("path: .spec\n", "path: .spec.handOff\n");
        target(&[&claims.replace("spec.targetNodes", "spec.minNodes").replace("mode: Enforce\n", unlisted)])
    };
    let free = with_unlisted("mode: Enforce\n");
    assert!(!may_need_parent(&free) && may_need_parent(&target(&[NODEPOOLS])));
    // Zero and no count look alike, and neither is anybody's business here.
    assert_eq!(Request::scale(None, None).by("mallory").judge(&free).findings, []);
    assert_eq!(Request::scale(None, Some(7)).by("mallory").judge(&free).findings, []);
    let listed = with_unlisted("mode: Enforce\n  unlisted: Deny\n");
    assert!(may_need_parent(&listed));
    assert_eq!(Request::scale(None, None).by("mallory").decide(&listed), Decision::NeedsParent);
}

#[test]
fn zero_on_a_pool_without_a_count_is_a_write_although_the_review_shows_none() {
    let target = target(&[NODEPOOLS]);
    let unset = with(pool(), "/spec/targetNodes", Value::Null);
    let request = || Request::scale(None, None).by("mallory");
    assert_eq!(request().decide(&target), Decision::NeedsParent);
    assert_eq!(refused(&request().with_parent(&unset).judge(&target)), [".spec.targetNodes"]);
    let zero = with(pool(), "/spec/targetNodes", json!(0));
    assert_eq!(request().with_parent(&zero).judge(&target).findings, []);
}

#[test]
fn an_equal_count_under_a_field_manager_holds_the_field_beside_its_owner() {
    let target = target(&[NODEPOOLS]);
    let request = || Request::scale(Some(5), Some(5)).with_parent(&pool()).by("mallory");
    assert_eq!(request().judge(&target).findings, []);
    let verdict = request().under("kubectl").judge(&target);
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
    assert_eq!(verdict.findings[0].reason, Reason::CoOwnership);
}

#[test]
fn who_may_edit_managed_fields_may_hold_the_count_by_scale_too() {
    let target = target(&[&NODEPOOLS.replace(
        "coOwnership: Enforce",
        "coOwnership: Enforce\n    editors: [{kind: User, name: mallory}]",
    )]);
    let request =
        |count| Request::scale(Some(5), Some(count)).with_parent(&pool()).by("mallory").under("kubectl");
    assert_eq!(request(5).judge(&target).findings, []);
    assert_eq!(refused(&request(6).judge(&target)), [".spec.targetNodes"]);
}
