//! Which claim decides about a changed leaf.

use fieldkeeper::ownership::complete::complete;
use fieldkeeper::ownership::rule::{Mode, Target};
use fieldkeeper::ownership::schema::Schema;
use fieldkeeper::ownership::verdict::Reason;
use serde_json::{Value, json};

use super::{NODEPOOLS, Request, paths, pool, refused, target, with};

const AUTOSCALER: &str = "fieldkeeper-system/autoscaler";
const CONTROLLER: &str = "fieldkeeper-system/nodepool-controller";

fn policy(owners: &str) -> String {
    format!(
        "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {{name: p}}\nspec:\n  \
         target: {{group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}}\n  mode: Enforce\n{owners}"
    )
}

#[test]
fn the_owner_of_a_field_may_change_it() {
    let new = with(pool(), "/spec/targetNodes", json!(7));
    let verdict =
        Request::update(&pool(), &new).by(AUTOSCALER).under("autoscaler").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [""; 0]);
}

#[test]
fn a_stranger_may_not_change_a_claimed_field_whatever_manager_name_it_takes() {
    let new = with(pool(), "/spec/targetNodes", json!(7));
    for manager in ["autoscaler", "kubectl-edit", "anything"] {
        let verdict =
            Request::update(&pool(), &new).by("mallory").under(manager).judge(&target(&[NODEPOOLS]));
        assert!(refused(&verdict).contains(&".spec.targetNodes".to_owned()), "{manager}: {verdict:?}");
    }
}

#[test]
fn a_broad_owner_is_never_accused_for_what_a_narrower_owner_writes() {
    let new = with(pool(), "/spec/maxNodes", json!(20));
    let verdict = Request::update(&pool(), &new).by("@platform-admins").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [""; 0]);
    let new = with(new, "/spec/targetNodes", json!(7));
    let verdict = Request::update(&pool(), &new).by("@platform-admins").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
}

#[test]
fn every_changed_leaf_is_judged_and_not_only_the_first() {
    let new = with(with(pool(), "/spec/targetNodes", json!(7)), "/spec/minNodes", json!(0));
    let verdict = Request::update(&pool(), &new).by("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.minNodes", ".spec.targetNodes"]);
}

#[test]
fn removing_a_claimed_field_is_a_write() {
    let new = with(pool(), "/spec/targetNodes", Value::Null);
    let verdict = Request::update(&pool(), &new).by("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
}

#[test]
fn removing_a_struct_needs_the_right_to_every_leaf_below() {
    let policy = policy(
        "  owners:\n  - name: all\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec}]\n  \
         - name: size\n    subjects: [{kind: User, name: bob}]\n    fields: [{path: .spec.targetNodes}]\n",
    );
    let target = target(&[&policy]);
    for emptied in [Value::Null, json!({})] {
        let new = with(pool(), "/spec", emptied);
        assert_eq!(refused(&Request::update(&pool(), &new).by("ann").judge(&target)), [".spec.targetNodes"]);
    }
}

#[test]
fn a_field_that_nobody_claims_is_free() {
    let new = with(pool(), "/metadata/labels/team", json!("blue"));
    let verdict = Request::update(&pool(), &new).by("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn an_owner_without_subjects_closes_its_field_for_all() {
    let old = with(pool(), "/spec/handOff", json!("ScaleRequest"));
    let new = with(old.clone(), "/spec/targetNodes", json!(7));
    for who in [AUTOSCALER, "@platform-admins", CONTROLLER] {
        let verdict = Request::update(&old, &new).by(who).judge(&target(&[NODEPOOLS]));
        assert_eq!(refused(&verdict), [".spec.targetNodes"], "{who}");
        assert_eq!(verdict.findings[0].reason, Reason::Closed);
        assert_eq!(verdict.findings[0].instead.as_deref(), Some("create a ScaleRequest for the pool"));
    }
}

#[test]
fn a_claim_whose_condition_does_not_hold_leaves_the_field_to_the_broader_owner() {
    let old = with(pool(), "/spec/handOff", json!("Manual"));
    let new = with(old.clone(), "/spec/targetNodes", json!(7));
    let verdict = Request::update(&old, &new).by("@platform-admins").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [""; 0]);
    let verdict = Request::update(&old, &new).by(AUTOSCALER).judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.targetNodes"]);
}

#[test]
fn one_write_may_switch_the_mode_and_set_the_field() {
    let old = with(pool(), "/spec/handOff", json!("ScaleRequest"));
    let new = with(with(old.clone(), "/spec/handOff", json!("Manual")), "/spec/targetNodes", json!(7));
    let verdict = Request::update(&old, &new).by("@platform-admins").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [""; 0]);
}

#[test]
fn nobody_talks_themselves_into_ownership_by_switching_the_mode_on_the_way() {
    let old = with(pool(), "/spec/handOff", json!("ScaleRequest"));
    let new = with(with(old.clone(), "/spec/handOff", json!("Direct")), "/spec/targetNodes", json!(7));
    let verdict = Request::update(&old, &new).by(AUTOSCALER).judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.handOff", ".spec.targetNodes"]);
}

#[test]
fn an_item_of_a_keyed_list_is_found_by_its_key_and_not_by_its_place() {
    let autoscaler = json!({"requester": "autoscaler", "nodes": 3});
    let team = json!({"requester": "team", "nodes": 2});
    let old = with(pool(), "/spec/requested", json!([autoscaler, team]));
    let reordered = with(old.clone(), "/spec/requested", json!([team, autoscaler]));
    assert_eq!(Request::update(&old, &reordered).by("mallory").judge(&target(&[NODEPOOLS])).findings, []);
    let changed = with(reordered, "/spec/requested/1/nodes", json!(9));
    let verdict =
        Request::update(&old, &changed).by(AUTOSCALER).under("autoscaler").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [""; 0]);
    let verdict = Request::update(&old, &changed).by("@platform-admins").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".spec.requested[requester=\"autoscaler\"].nodes"]);
}

#[test]
fn the_owner_of_an_item_adds_and_removes_it_whole_with_the_parts_that_others_claim() {
    let policy = policy(
        "  owners:\n  - name: items\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: '.spec.requested[*]'}]\n  \
         - name: reasons\n    subjects: [{kind: User, name: bob}]\n    fields: [{path: '.spec.requested[*].reason'}]\n",
    );
    let target = target(&[&policy]);
    let item = json!({"requester": "x", "nodes": 1, "reason": "r"});
    let old = with(pool(), "/spec/requested", json!([item]));
    assert_eq!(refused(&Request::update(&pool(), &old).by("ann").judge(&target)), [""; 0]);
    assert_eq!(refused(&Request::update(&old, &pool()).by("ann").judge(&target)), [""; 0]);
    let changed = with(old.clone(), "/spec/requested/0/reason", json!("s"));
    let verdict = Request::update(&old, &changed).by("ann").judge(&target);
    assert_eq!(refused(&verdict), [".spec.requested[requester=\"x\"].reason"]);
    let verdict = Request::update(&pool(), &old).by("bob").judge(&target);
    assert!(refused(&verdict).contains(&".spec.requested[requester=\"x\"].nodes".to_owned()), "{verdict:?}");
}

#[test]
fn renaming_a_list_key_takes_one_item_away_and_adds_another() {
    let policy = policy(
        "  owners:\n  - name: red\n    subjects: [{kind: User, name: ann}]\n    \
         fields: [{path: '.spec.template.taints[key=\"team\",effect=\"NoSchedule\"]'}]\n",
    );
    let new = with(pool(), "/spec/template/taints/0/key", json!("zz"));
    let verdict = Request::update(&pool(), &new).by("mallory").judge(&target(&[&policy]));
    let item = ".spec.template.taints[effect=\"NoSchedule\",key=\"team\"]";
    assert!(refused(&verdict).iter().all(|path| path.starts_with(item)), "{verdict:?}");
    assert!(!refused(&verdict).is_empty());
}

#[test]
fn a_finalizer_is_protected_where_it_is_listed() {
    let new = with(pool(), "/metadata/finalizers/0", Value::Null);
    let verdict = Request::update(&pool(), &new).by("@platform-admins").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [".metadata.finalizers[=\"compute.fieldkeeper.dev/nodepool\"]"]);
    let verdict = Request::update(&pool(), &new).by(CONTROLLER).judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), [""; 0]);
    let new = with(pool(), "/metadata/finalizers/-", json!("other.example.com/x"));
    let verdict = Request::update(&pool(), &new).by("mallory").judge(&target(&[NODEPOOLS]));
    assert_eq!(verdict.findings, []);
}

#[test]
fn a_milder_claim_does_not_shadow_a_stricter_broader_one() {
    let policy = policy(
        "  owners:\n  - name: platform\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec}]\n  \
         - name: scaler\n    mode: Warn\n    subjects: [{kind: User, name: bob}]\n    fields: [{path: .spec.targetNodes}]\n",
    );
    let target = target(&[&policy]);
    let new = with(pool(), "/spec/targetNodes", json!(7));
    let judged = |who: &str| Request::update(&pool(), &new).by(who).judge(&target);
    assert_eq!(refused(&judged("mallory")), [".spec.targetNodes"]);
    assert_eq!(judged("bob").findings, []);
    // Its owner may still write, and sees what the narrower claim will do once it is enforced.
    assert_eq!(refused(&judged("ann")), [""; 0]);
    assert_eq!(paths(&judged("ann"), Mode::Warn), [".spec.targetNodes"]);
}

#[test]
fn several_owners_of_one_path_share_it_in_the_strictest_of_their_modes() {
    let policy = policy(
        "  owners:\n  - name: a\n    mode: Audit\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec.minNodes}]\n  \
         - name: b\n    subjects: [{kind: User, name: bob}]\n    fields: [{path: .spec.minNodes}]\n",
    );
    let target = target(&[&policy]);
    let new = with(pool(), "/spec/minNodes", json!(0));
    for who in ["ann", "bob"] {
        assert_eq!(Request::update(&pool(), &new).by(who).judge(&target).findings, [], "{who}");
    }
    assert_eq!(refused(&Request::update(&pool(), &new).by("mallory").judge(&target)), [".spec.minNodes"]);
}

#[test]
fn a_path_is_closed_to_its_owners_as_strictly_as_whoever_closes_it_says() {
    let policy = policy(
        "  owners:\n  - name: a\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec.minNodes}]\n  \
         - name: nobody\n    mode: Warn\n    fields: [{path: .spec.minNodes}]\n",
    );
    let target = target(&[&policy]);
    let new = with(pool(), "/spec/minNodes", json!(0));
    let judged = |who: &str| Request::update(&pool(), &new).by(who).judge(&target);
    assert_eq!(paths(&judged("ann"), Mode::Warn), [".spec.minNodes"]);
    assert_eq!(refused(&judged("ann")), [""; 0]);
    assert_eq!(refused(&judged("mallory")), [".spec.minNodes"]);
}

#[test]
fn a_second_policy_never_widens_access() {
    let second =
        NODEPOOLS.replace("name: nodepools\n", "name: second\n").replace("platform-admins", "strangers");
    let new = with(pool(), "/spec/maxNodes", json!(20));
    let verdict = Request::update(&pool(), &new).by("@strangers").judge(&target(&[NODEPOOLS, &second]));
    assert_eq!(refused(&verdict), [".spec.maxNodes"]);
    assert_eq!(&*verdict.findings[0].policy, "nodepools");
}

#[test]
fn a_change_outside_every_claim_is_judged_as_unlisted_says() {
    let unlisted = |how: &str| {
        policy(&format!(
            "  unlisted: {how}\n  owners:\n  - name: a\n    subjects: [{{kind: User, name: ann}}]\n    fields: [{{path: .spec.minNodes}}]\n"
        ))
    };
    let new = with(pool(), "/spec/maxNodes", json!(20));
    let judged = |how: &str| Request::update(&pool(), &new).by("ann").judge(&target(&[&unlisted(how)]));
    assert_eq!(judged("Allow").findings, []);
    assert_eq!(paths(&judged("Warn"), Mode::Warn), [".spec.maxNodes"]);
    assert_eq!(refused(&judged("Deny")), [".spec.maxNodes"]);
    let label = with(pool(), "/metadata/labels/team", json!("blue"));
    let verdict = Request::update(&pool(), &label).by("ann").judge(&target(&[&unlisted("Deny")]));
    assert_eq!(verdict.findings, [], "metadata is governed only where listed");
}

#[test]
fn a_condition_that_cannot_be_evaluated_leaves_the_field_undecided_and_so_refused() {
    let policy = policy(
        "  owners:\n  - name: all\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec}]\n  \
         - name: few\n    subjects: [{kind: User, name: bob}]\n    fields: [{path: .spec.minNodes, when: 'oldObject.spec.template < 3'}]\n",
    );
    let new = with(pool(), "/spec/minNodes", json!(0));
    let verdict = Request::update(&pool(), &new).by("bob").judge(&target(&[&policy]));
    assert_eq!(refused(&verdict), [".spec.minNodes"]);
    assert!(matches!(verdict.findings[0].reason, Reason::Undecided(_)), "{verdict:?}");
}

#[test]
fn a_required_manager_binds_the_owner_itself() {
    let policy = policy(
        "  owners:\n  - name: a\n    subjects: [{kind: User, name: ann}]\n    \
         fieldManagers: [{name: right, use: Require}]\n    fields: [{path: .spec.minNodes}]\n",
    );
    let new = with(pool(), "/spec/minNodes", json!(0));
    let target = target(&[&policy]);
    assert_eq!(refused(&Request::update(&pool(), &new).by("ann").under("right").judge(&target)), [""; 0]);
    for request in
        [Request::update(&pool(), &new).by("ann"), Request::update(&pool(), &new).by("ann").under("other")]
    {
        let verdict = request.judge(&target);
        assert_eq!(refused(&verdict), [".spec.minNodes"]);
        assert_eq!(verdict.findings[0].reason, Reason::RequiredManager);
    }
}

#[test]
fn a_reserved_manager_name_is_refused_to_anybody_else() {
    let new = with(pool(), "/metadata/labels/team", json!("blue"));
    let verdict =
        Request::update(&pool(), &new).by("mallory").under("autoscaler").judge(&target(&[NODEPOOLS]));
    assert_eq!(refused(&verdict), ["*"]);
    assert!(matches!(verdict.findings[0].reason, Reason::ReservedManager(_)), "{verdict:?}");
}

#[test]
fn a_paused_policy_only_audits_until_its_time() {
    let paused =
        NODEPOOLS.replace("  mode: Enforce\n", "  mode: Enforce\n  pausedUntil: 1970-01-12T14:00:00Z\n");
    let target = target(&[&paused]);
    let new = with(pool(), "/spec/minNodes", json!(0));
    let judged = |now: i64| Request::update(&pool(), &new).by("mallory").at(now).judge(&target);
    assert_eq!(paths(&judged(1_000_000), Mode::Audit), [".spec.minNodes"]);
    assert_eq!(refused(&judged(1_000_000)), [""; 0]);
    assert_eq!(refused(&judged(1_100_000)), [".spec.minNodes"]);
    assert_eq!(refused(&judged(0)), [".spec.minNodes"], "a pause of more than a day ahead does not count");
}

#[test]
fn break_glass_is_judged_but_never_refused() {
    let glass = NODEPOOLS.replace(
        "  mode: Enforce\n",
        "  mode: Enforce\n  breakGlass: {subjects: [{kind: Group, name: oncall}]}\n",
    );
    let new = with(pool(), "/spec/minNodes", json!(0));
    let verdict = Request::update(&pool(), &new).by("@oncall").judge(&target(&[&glass]));
    assert_eq!(refused(&verdict), [""; 0]);
    assert_eq!(paths(&verdict, Mode::Warn), [".spec.minNodes"]);
    assert_eq!(verdict.break_glass.len(), 1);
}

#[test]
fn a_list_has_no_members_that_a_claim_could_name() {
    let policy = "apiVersion: fieldkeeper.dev/v1alpha1\nkind: FieldPolicy\nmetadata: {name: p}\nspec:\n  \
        target: {group: compute.fieldkeeper.dev, version: v1alpha1, resource: nodepools}\n  mode: Enforce\n  \
        owners:\n  - name: a\n    subjects: [{kind: User, name: ann}]\n    fields: [{path: .spec.free.deep.a}]\n";
    let mut target = target(&[policy]);
    target.schema = fieldkeeper::ownership::schema::Schema::deduced().into();
    let judged = |old: Value, new: Value| {
        let [old, new] = [old, new].map(|deep| with(pool(), "/spec/free", json!({"deep": deep})));
        refused(&Request::update(&old, &new).by("mallory").under("mallory").judge(&target))
    };
    assert_eq!(judged(json!("x"), json!([1, 2])), [""; 0]);
    assert_eq!(judged(json!([1, 2]), json!([2, 1])), [""; 0]);
    assert_eq!(judged(json!({"a": 1}), json!([1, 2])), [".spec.free.deep.a"]);
    assert_eq!(judged(json!([1, 2]), json!({"a": 1})), [".spec.free.deep.a"]);
}

#[test]
fn paths_hold_in_other_versions_only_where_the_own_one_is_gone_and_nothing_converts() {
    let mut target = target(&[NODEPOOLS]);
    let new = with(pool(), "/spec/targetNodes", json!(7));
    let request = || {
        let request = Request::update(&pool(), &new).by("mallory");
        request.of("compute.fieldkeeper.dev", "v1beta1", "nodepools", "NodePool")
    };
    assert!(matches!(request().judge(&target).findings[0].reason, Reason::Undecided(_)));
    target.any_version = true;
    assert_eq!(refused(&request().judge(&target)), [".spec.targetNodes"]);
}

#[test]
fn a_key_that_a_path_leaves_out_is_its_default_in_the_schema() {
    let ports = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol", "zone"],
        "items": {"type": "object", "required": ["port", "zone"], "properties": {
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "zone": {"type": "string"}}}});
    let spec = json!({"type": "object", "properties": {"ports": ports}});
    let schema = Schema::from_crd(&json!({"type": "object", "properties": {"spec": spec}})).unwrap();
    let ann =
        "  - {name: ann, subjects: [{kind: User, name: ann}], fields: [{path: '.spec.ports[port=80]'}]}\n";
    let bob =
        "  - {name: bob, subjects: [{kind: User, name: bob}], fields: [{path: '.spec.ports[zone=\"a\"]'}]}\n";
    let target = target(&[&policy(&format!("  owners:\n{ann}{bob}"))]);
    let policies = target.policies.iter().map(|policy| complete(policy, &schema)).collect();
    let target = Target { schema: schema.into(), policies, ..target };
    let old = with(pool(), "/spec", json!({}));
    let judge = |who: &str, port: u16, protocol: &str, zone: &str| {
        let item = json!({"port": port, "protocol": protocol, "zone": zone});
        let new = with(old.clone(), "/spec/ports", json!([item]));
        Request::update(&old, &new).by(who).under(who).judge(&target).denies()
    };
    assert!(judge("mallory", 80, "TCP", "b") && !judge("ann", 80, "TCP", "b"));
    assert!(!judge("mallory", 80, "UDP", "b"), "another item");
    // Without a default any value will do, and the rest is filled in all the same.
    assert!(judge("mallory", 22, "TCP", "a") && !judge("bob", 22, "TCP", "a"));
    assert!(!judge("mallory", 22, "UDP", "a"));
}
