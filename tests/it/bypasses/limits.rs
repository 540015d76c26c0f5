//! Limits of size and time, exemptions, and what happens beside the webhook.
//!
//! The last ones take things away that other tests need, so they have a control plane of their own.

use std::time::Duration;

use fieldkeeper::api::FieldPolicy;
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use super::ground::{Ground, ground, size};
use crate::arena::{
    Call, Kind, PATIENCE, Pond, alice, apply_policy, arena, condition, controller, pond, root,
};
use crate::decisions::with;
use crate::harness::{Identity, NAMESPACE, Signal, eventually};

/// `{"a": {"a": … 1}}`, that deep.
fn nest(depth: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

#[tokio::test]
async fn b63_depth_hides_nothing_and_a_change_too_deep_to_look_at_is_refused() {
    let pond = Pond::new("b63").await;
    let ctrl_a = controller("ctrl-a");
    let free = |name: &str| json!({"op": "add", "path": "/spec/free", "value": {name: "NEST"}});
    let size = |size: &str| json!({"op": "replace", "path": "/spec/size", "value": size});
    let patch =
        |depth: usize, patch: Value| Call::json_patch(&pond.at(""), &patch).with_text("NEST", &nest(depth));
    // A common JSON parser gives up at 128.
    let deep = 150;
    pond.send(&patch(deep, json!([free("other"), size("XL")])), &alice()).await.refused(&[".spec.size"]);
    pond.send(&patch(deep, json!([free("other")])), &alice()).await.allowed();
    let reply = pond.send(&patch(deep, json!([free("deep")])), &alice()).await;
    assert!(reply.fields().iter().all(|field| field.starts_with(".spec.free.deep")), "{:?}", reply.fields());
    assert_eq!(
        (reply.is_refused(), reply.reasons().as_slice()),
        (true, ["FieldOwnedByAnother".to_owned()].as_slice())
    );

    // A change that is deeper than anybody looks is refused as a whole, whatever it is.
    let bottomless = 2000;
    for change in [json!([free("other"), size("XL")]), json!([free("other")]), json!([free("deep")])] {
        for who in [alice(), controller("ctrl-a")] {
            let reply = pond.send(&patch(bottomless, change.clone()), &who).await;
            assert!(reply.message().contains("nested deeper than"), "{}", reply.message());
            assert_eq!(reply.reasons(), ["Undecided"]);
            reply.refused(&[""]);
        }
    }
    // Where it is there already, by somebody who is not asked, everything else is judged as ever.
    let bypass = Identity::person("carol", &["fieldkeeper.dev:bypass"]);
    pond.send(&patch(bottomless, json!([free("other")])), &bypass).await.allowed();
    let label = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    pond.json_patch(&alice(), &label).await.allowed();
    pond.json_patch(&alice(), &json!([size("XL")])).await.refused(&[".spec.size"]);
    pond.json_patch(&ctrl_a, &json!([size("XL")])).await.allowed();
}

#[tokio::test]
async fn b64_the_largest_objects_that_the_api_server_takes_are_judged() {
    let arena = arena().await;
    let big = |size: usize, spec: Value| {
        let mut pond = pond("b64", &spec);
        pond["spec"]["free"] = json!({"pad": "x".repeat(size)});
        pond
    };
    let create = |body: &Value| Call::create("ponds", body);
    // A busy machine may take longer than the API server waits; then it refuses, and one asks again.
    let send = async |call: Call, who: &Identity| {
        let answer = async || {
            let reply = arena.send(&call, who).await;
            (!reply.message().contains("failed calling webhook")).then_some(reply)
        };
        eventually("the webhook to be in time", 2 * PATIENCE, answer).await.unwrap()
    };
    // More than can be stored: the review comes first. The API server itself takes 3 MiB.
    let largest = 3 * 1024 * 1024 - 1024;
    let reply = send(create(&big(largest, json!({"size": "XL"}))), &alice()).await;
    reply.refused(&[".spec.size"]);
    let reply = send(create(&big(largest, json!({}))), &alice()).await;
    // It is reviewed, does not fit into etcd, and comes again without managedFields, which would make room.
    assert_eq!(reply.reasons(), [super::TAMPERED], "{} {}", reply.code, reply.body);
    reply.refused(&[super::WHOLE]);

    // As much as can be stored, and twice that in the review of an update. Quotes swell to two bytes each.
    let stored = with(big(0, json!({})), "/spec/free/pad", json!("\"".repeat(700 * 1024)));
    send(create(&stored), &alice()).await.allowed();
    let patch = |fields: Value| Call::merge_patch("ponds/b64", &fields);
    send(patch(json!({"spec": {"mode": "wild"}})), &alice()).await.allowed();
    send(patch(json!({"spec": {"size": "XL"}})), &alice()).await.refused(&[".spec.size"]);
    let other = json!({"spec": {"free": {"pad": "x".repeat(1_300_000)}, "size": "XL"}});
    send(patch(other), &alice()).await.refused(&[".spec.size"]);
    send(patch(json!({"spec": {"size": "XL"}})), &controller("ctrl-a")).await.allowed();
}

/// The registration as it is shipped.
fn shipped() -> ValidatingWebhookConfiguration {
    serde_saphyr::from_str(include_str!("../../../webhooks/validating-webhook-configuration.yaml")).unwrap()
}

#[tokio::test]
async fn b66_the_only_exemption_is_a_group_of_the_requester() {
    for webhook in shipped().webhooks.unwrap() {
        for condition in webhook.match_conditions.unwrap_or_default() {
            let expression = condition.expression;
            // Nothing of it can be set by whoever writes the object.
            let of_user = expression.matches("request.userInfo.groups").count();
            assert!(of_user > 0 && expression.matches("request.").count() == of_user, "{expression}");
            assert!(!expression.to_lowercase().contains("object"), "{expression}");
        }
    }
    let pond = Pond::new("b66").await;
    let exempt = json!({"fieldkeeper.dev/bypass": "true"});
    let body = with(pond.edited("/spec/size", json!("XL")).await, "/metadata/annotations", exempt);
    let body = with(body, "/metadata/labels", json!({"fieldkeeper.dev/bypass": "true"}));
    pond.put(&alice(), &body).await.refused(&[".spec.size"]);
    // The group, and no other that looks like it. Its use does not go unsaid.
    let size = Call::merge_patch(&pond.at(""), &json!({"spec": {"size": "XL"}}));
    for group in ["fieldkeeper.dev", "fieldkeeper.dev:bypass2", "bypass"] {
        pond.send(&size, &Identity::person("bob", &[group])).await.refused(&[".spec.size"]);
    }
    let reply = pond.send(&size, &Identity::person("carol", &["fieldkeeper.dev:bypass"])).await;
    assert!(reply.warnings.iter().any(|warning| warning.contains(".spec.size")), "{:?}", reply.warnings);
    reply.allowed();
}

#[tokio::test]
async fn b67_no_label_of_a_namespace_takes_its_objects_out() {
    for webhook in shipped().webhooks.unwrap() {
        let Some(selector) = webhook.namespace_selector else { continue };
        assert_eq!(selector.match_labels, None, "{}", webhook.name);
        for requirement in selector.match_expressions.unwrap() {
            assert_eq!(requirement.key, "kubernetes.io/metadata.name", "{}", webhook.name);
        }
    }
    let policy = json!({"mode": "Enforce", "owners": [
        {"name": "ann", "subjects": [{"kind": "User", "name": "ann"}], "fields": [{"path": ".spec.size"}]}]});
    let kind = Kind::with_crd("b67ponds", policy, |crd| crd["spec"]["scope"] = json!("Namespaced")).await;
    let name_label = "kubernetes.io/metadata.name";
    let named = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"any": "thing", name_label: "kube-system"}}})
    };
    let namespaces = "/api/v1/namespaces";
    let created = kind.send(&Call::create("", &named("b67")).at(namespaces), &alice()).await.allowed();
    assert_eq!(created["metadata"]["labels"][name_label], "b67", "the API server keeps it");
    let at = format!("/apis/arena.example.com/v1/namespaces/b67/{}", kind.plural);
    let xl = kind.object("x", &json!({"spec": {"size": "XL"}}));
    arena().await.until_refused(&Call::create("", &xl).at(&at), &alice()).await;
    for name in [json!("kube-system"), json!("fieldkeeper-system"), Value::Null] {
        let labels = json!({"metadata": {"labels": {name_label: name}}});
        let call = Call::merge_patch("", &labels).at(&format!("{namespaces}/b67"));
        let reply = kind.send(&call, &alice()).await;
        if reply.code < 300 {
            assert_eq!(reply.body["metadata"]["labels"][name_label], "b67");
        }
        kind.send(&Call::create("", &xl).at(&at), &alice()).await.refused(&[".spec.size"]);
    }
    // What is left out is said: whoever may write there is not stopped.
    let message = kind.condition("Enforcing", "True", "RulesLive").await;
    assert!(message.contains("outside of the namespaces fieldkeeper-system, kube-system"), "{message}");
    let outside = at.replace("/b67/", "/kube-system/");
    kind.send(&Call::create("", &xl).at(&outside), &alice()).await.allowed();
}

#[tokio::test]
async fn b68_no_label_of_an_object_takes_it_out() {
    for webhook in shipped().webhooks.unwrap() {
        assert_eq!(webhook.object_selector, None, "{}", webhook.name);
    }
    let pond = Pond::new("b68").await;
    let labels = json!({"fieldkeeper.dev/ignore": "true", "admission": "disabled", "app": "x"});
    pond.patch(&alice(), &json!({"metadata": {"labels": labels}})).await.allowed();
    pond.patch(&alice(), &json!({"spec": {"size": "XL"}})).await.refused(&[".spec.size"]);

    // A policy may select by a label only where an owner of it guards that label.
    let policy = json!({"apiVersion": "fieldkeeper.dev/v1alpha1", "kind": "FieldPolicy", "metadata": {"name": "b68"},
        "spec": {"target": {"group": "example.com", "version": "v1", "resource": "b68s"}, "unlisted": "Deny",
            "match": {"objectSelector": {"matchLabels": {"app": "x"}}}}});
    let policies = "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies";
    let reply = pond.send(&Call::create("", &policy).at(policies), &root()).await;
    assert_eq!(reply.code, 422, "{}", reply.body);
    assert!(reply.message().contains(".metadata.labels"), "{}", reply.message());
}

#[tokio::test]
async fn b65_a_webhook_that_does_not_answer_stops_writes_unless_the_policy_says_ignore() {
    for webhook in shipped().webhooks.unwrap() {
        let policy = webhook.failure_policy.as_deref();
        let fails = webhook.name == "enforce.fieldkeeper.dev";
        assert_eq!(policy, Some(if fails { "Fail" } else { "Ignore" }), "{}", webhook.name);
    }
    let mut ground = ground().await;
    ground.fieldkeeper.webhook.signal(Signal::STOP).unwrap();
    // It may still answer what it has read.
    let asked = async || {
        let reply = ground.send(&size("ponds", "late"), &alice()).await;
        (!reply.is_refused()).then_some(reply)
    };
    let closed = eventually("the webhook to stand still", PATIENCE, asked).await;
    let open = ground.send(&size("openponds", "late"), &alice()).await;
    ground.fieldkeeper.webhook.signal(Signal::CONT).unwrap();
    let closed = closed.unwrap();
    assert_eq!(closed.code, 500, "{}", closed.body);
    assert!(
        closed.message().contains("failed calling webhook \"enforce.fieldkeeper.dev\""),
        "{}",
        closed.body
    );
    assert_eq!(ground.stored_size("ponds").await, "L");
    open.allowed();
    assert_eq!(ground.stored_size("openponds").await, "late", "which is what Ignore means");
    for plural in ["ponds", "openponds"] {
        ground.until_refused(&size(plural, "later").dry_run(), &alice()).await;
    }
}

#[tokio::test]
async fn b69_nothing_of_ours_may_take_the_registration_away_and_its_loss_is_reported() {
    let ground = ground().await;
    let configuration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fieldkeeper";
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ponds.arena.example.com";
    let policy = "/apis/fieldkeeper.dev/v1alpha1/fieldpolicies/ponds";
    let empty = json!({});
    for who in [
        alice(),
        Identity::service_account(NAMESPACE, "webhook"),
        Identity::service_account(NAMESPACE, "policy-controller"),
    ] {
        let mut calls = vec![
            Call::delete("").at(configuration),
            Call::delete("").at(policy),
            Call::merge_patch("", &empty).at(policy),
            Call::merge_patch("", &empty).at(&format!("/api/v1/namespaces/{NAMESPACE}/services/fieldkeeper")),
            Call::delete("").at(&format!("/api/v1/namespaces/{NAMESPACE}")),
        ];
        if who != alice() {
            calls.extend([Call::delete("").at(crd), Call::merge_patch("", &empty).at(crd)]);
        }
        for call in calls {
            let reply = ground.send(&call, &who).await;
            assert_eq!(reply.code, 403, "{who:?} {call:?}: {}", reply.body);
            assert!(reply.message().contains(" cannot "), "by RBAC: {}", reply.message());
        }
    }

    // Who may do it by RBAC is not asked about: no webhook hears of it.
    ground.send(&Call::delete("").at(configuration), &root()).await.allowed();
    condition(&ground.plane, "ponds", "Registered", "False", "NotInstalled").await;
    condition(&ground.plane, "ponds", "Ready", "False", "NotInstalled").await;
    let passes =
        async || (ground.send(&size("ponds", "gone").dry_run(), &alice()).await.code == 200).then_some(());
    eventually("nobody to be asked", PATIENCE, passes).await.unwrap();
    ground.plane.register_webhook(&ground.fieldkeeper.endpoint).await.unwrap();
    condition(&ground.plane, "ponds", "Registered", "True", "Registered").await;
    ground.until_refused(&size("ponds", "back").dry_run(), &alice()).await;
}

/// CRDs under the shipped sample.
async fn with_owned_crds() -> MutexGuard<'static, Ground> {
    let ground = ground().await;
    let sample: FieldPolicy =
        serde_saphyr::from_str(include_str!("../../../deploy/samples/crds-policy.yaml")).unwrap();
    let spec = serde_json::to_value(&sample.spec).unwrap();
    apply_policy(&ground.plane, sample.metadata.name.as_deref().unwrap(), &spec).await;
    let probe = Call::delete("").at(&crd("openponds")).dry_run();
    ground.until_refused(&probe, &alice()).await;
    ground
}

fn crd(plural: &str) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.arena.example.com")
}

fn platform() -> Identity {
    Identity::person("paula", &["platform-admins"])
}

#[tokio::test]
async fn b70_a_kind_cannot_be_changed_under_its_policies_where_the_sample_for_crds_is_applied() {
    let ground = with_owned_crds().await;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let patch = |patch: Value| Call::json_patch("", &patch).at(&crd("ponds"));
    let add = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://example.com/convert"}}});
    let edits = [
        (add(&format!("{spec}/properties/mode/default"), json!("calm")), ".spec.versions"),
        (add(&format!("{spec}/properties/args/x-kubernetes-list-type"), json!("set")), ".spec.versions"),
        (add(&format!("{spec}/x-kubernetes-preserve-unknown-fields"), json!(true)), ".spec.versions"),
        (json!([{"op": "remove", "path": "/spec/versions/0/subresources/status"}]), ".spec.versions"),
        (add("/spec/conversion", webhook), ".spec.conversion.strategy"),
    ];
    for (edit, field) in edits {
        let reply = ground.send(&patch(edit.clone()), &alice()).await;
        assert!(reply.is_refused(), "{edit}: {} {}", reply.code, reply.body);
        assert!(reply.fields().contains(&field.to_owned()), "{edit}: {:?}", reply.fields());
        ground.send(&patch(edit).dry_run(), &platform()).await.allowed();
    }
    // What an owner of the kind puts there is asked about by no review of an object.
    let default = add(&format!("{spec}/properties/mode/default"), json!("calm"));
    ground.send(&patch(default), &platform()).await.allowed();
    let defaulted = async || {
        let object = ground.send(&Call::get("ponds/x"), &root()).await.allowed();
        (object["spec"]["mode"] == "calm").then_some(())
    };
    eventually("the default to show", PATIENCE, defaulted).await.unwrap();
}

#[tokio::test]
async fn b71_a_kind_cannot_be_deleted_with_all_its_objects_where_the_sample_for_crds_is_applied() {
    let ground = with_owned_crds().await;
    let reply = ground.send(&Call::delete("").at(&crd("ponds")), &alice()).await;
    assert_eq!(reply.reasons(), ["DeletionNotAllowed"]);
    reply.refused(&[""]);
    ground.send(&Call::delete("").at(&crd("ponds")), &root()).await.refused(&[""]);
    assert_eq!(ground.stored_size("ponds").await, "L");

    // Whoever may: the objects go without a question, though nobody may delete a single one.
    ground.kind("goneponds", "Fail").await;
    let policy = json!({"target": {"group": "arena.example.com", "version": "v1", "resource": "goneponds"},
        "mode": "Enforce", "deletion": {"subjects": []}});
    apply_policy(&ground.plane, "goneponds-stay", &policy).await;
    ground.until_refused(&Call::delete("goneponds/x"), &root()).await;
    ground.send(&Call::delete("").at(&crd("goneponds")), &platform()).await.allowed();
    let gone = async || (ground.send(&Call::get("goneponds/x"), &root()).await.code == 404).then_some(());
    eventually("kind and objects to be gone", PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn b72_an_api_server_that_starts_lets_no_write_pass_before_it_knows_its_webhooks() {
    let mut ground = ground().await;
    let client = ground.plane.client(&alice(), "curl").await.unwrap();
    ground.plane.stop_api_server().await.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(());
    let hammer = tokio::spawn(async move {
        let (mut accepted, mut refused, mut early) = (0, 0, 0);
        while !stopped.has_changed().unwrap_or(true) {
            match write_size(&client, "early").await {
                Ok(()) => accepted += 1,
                Err(kube::Error::Api(status)) if status.message.contains("denied the request") => {
                    refused += 1;
                }
                Err(kube::Error::Api(_)) => early += 1,
                // Nobody listens yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        (accepted, refused, early)
    });
    ground.plane.start_api_server().await.unwrap();
    ground.until_refused(&size("ponds", "early").dry_run(), &alice()).await;
    stop.send(()).unwrap();
    let (accepted, refused, early) = hammer.await.unwrap();
    assert_eq!(accepted, 0, "{refused} refused by us, {early} by the API server");
    assert!(refused > 0, "{early} refused by the API server");
    assert_eq!(ground.stored_size("ponds").await, "L");
}

async fn write_size(client: &Client, size: &str) -> kube::Result<()> {
    let body = json!({"spec": {"size": size}}).to_string().into_bytes();
    let request = Request::patch("/apis/arena.example.com/v1/ponds/x")
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(body)
        .unwrap();
    client.request_text(request).await.map(drop)
}
