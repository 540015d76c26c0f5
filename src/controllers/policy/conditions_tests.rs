//! Policies as stored, and what is said about them.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::cluster::in_force::{GroupResource, judge, with_compiler};
use crate::cluster::policies::StoredPolicy;
use crate::cluster::replicas::Report;
use crate::ownership::decide::MAX_PAUSE;
use crate::ownership::schema::Schema;

fn stored(rest: &Value, status: Value) -> StoredPolicy {
    let mut spec = json!({
        "target": {"group": "example.com", "version": "v1", "resource": "things"},
        "mode": "Enforce",
        "owners": [{"name": "o", "subjects": [{"kind": "User", "name": "u"}], "fields": [{"path": ".spec.count"}]}],
    });
    for (key, value) in rest.as_object().unwrap() {
        spec[key] = value.clone();
    }
    StoredPolicy { name: "p".to_owned(), uid: "u".to_owned(), generation: 4, created: None, spec, status }
}

fn judged(rest: &Value, status: Value) -> Judged {
    judge([Arc::new(stored(rest, status))], with_compiler).remove(0)
}

fn kind() -> Kind {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"count": {"type": "integer"}}}}});
    let resource = GroupResource { group: "example.com".to_owned(), resource: "things".to_owned() };
    let schema = Arc::new(Schema::from_crd(&schema).unwrap());
    Kind { schema, unresolved: None, ..Kind::without_crd(&resource, Unresolved::NotLoaded) }
}

fn registration() -> Registration {
    Registration {
        with_ca: BTreeSet::from(Entry::ALL),
        excluded_namespaces: BTreeSet::from(["kube-system".to_owned()]),
        ..Registration::default()
    }
}

/// Name, when its report runs out, and the generation of the policy that it judges by.
fn replicas(reports: &[(&str, i64, i64)]) -> &'static Replicas {
    let replicas = reports.iter().map(|(name, expires, generation)| {
        let generations = [("p".to_owned(), *generation)].into();
        let report = Report { generations, ..Report::default() };
        let name = (*name).to_owned();
        (name.clone(), Replica { name, expires: *expires, report, ..Replica::default() })
    });
    Box::leak(Box::new(replicas.collect()))
}

fn facts(registration: &Registration) -> Facts<'_> {
    Facts {
        kind: Some(Arc::new(kind())),
        subjects: Some(Subjects::Found),
        entry: Some(Entry::Enforce),
        registration: Some(registration),
        replicas: replicas(&[("webhook-a", 1_000_000, 4)]),
        outcome: Ok(()),
        admission: None,
        now: Timestamp::from_second(1_000).unwrap(),
    }
}

/// `(status, reason)` of one condition.
fn condition(status: &Value, type_: &str) -> (String, String) {
    let conditions: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
    let found = conditions.into_iter().find(|condition| condition.type_ == type_).unwrap();
    assert_eq!(found.observed_generation, Some(4));
    (found.status, found.reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn bad_path() -> Value {
    json!({"owners": [{"name": "o", "fields": [{"path": ".spec["}]}]})
}

#[test]
fn a_policy_that_works_says_so_in_all_conditions() {
    let registration = registration();
    let judged = judged(&json!({}), Value::Null);
    let status = status(&judged, &facts(&registration)).unwrap();
    assert_eq!(condition(&status, ACCEPTED), is("True", "Accepted"));
    assert_eq!(condition(&status, SCHEMA_RESOLVED), is("True", "Resolved"));
    assert_eq!(condition(&status, REGISTERED), is("True", "Registered"));
    assert_eq!(condition(&status, PARENTS_READABLE), is("True", "Readable"));
    assert_eq!(condition(&status, ENFORCING), is("True", "RulesLive"));
    assert_eq!(condition(&status, READY), is("True", "Ready"));
    assert_eq!(status["observedGeneration"], 4);
    assert_eq!(status["acceptedSpec"], judged.stored.spec);
    assert!(status.to_string().contains("outside of the namespaces kube-system"));
}

#[test]
fn nothing_is_written_when_nothing_but_the_time_differs() {
    let registration = registration();
    let mut facts = facts(&registration);
    let first = status(&judged(&json!({}), Value::Null), &facts).unwrap();
    facts.now = Timestamp::from_second(9_000).unwrap();
    assert_eq!(status(&judged(&json!({}), first.clone()), &facts), None);
    // Other writers' parts of the status are no news either.
    let mut with_counts = first;
    with_counts["wouldDeny"] = 3.into();
    assert_eq!(status(&judged(&json!({}), with_counts), &facts), None);
}

#[test]
fn an_edit_that_does_not_compile_keeps_what_was_accepted() {
    let registration = registration();
    let accepted = stored(&json!({}), Value::Null).spec;
    let judged = judged(&bad_path(), json!({ "acceptedSpec": accepted }));
    let status = status(&judged, &facts(&registration)).unwrap();
    assert_eq!(status["acceptedSpec"], accepted);
    assert_eq!(condition(&status, ACCEPTED), is("False", "Invalid"));
    assert_eq!(condition(&status, ENFORCING), is("True", "RulesLive"), "the accepted one is enforced");
    assert_eq!(condition(&status, READY), is("False", "Invalid"));
    assert!(status.to_string().contains("stays in force"), "{status}");
}

#[test]
fn a_policy_that_was_never_accepted_says_what_is_wrong_and_where() {
    let registration = registration();
    let facts = Facts { kind: None, entry: None, ..facts(&registration) };
    let status = status(&judged(&bad_path(), Value::Null), &facts).unwrap();
    assert_eq!(condition(&status, REGISTERED), is("False", NOT_ACCEPTED));
    assert_eq!(condition(&status, READY), is("False", "Invalid"));
    assert!(status.to_string().contains("spec.owners[o].fields[0].path"), "{status}");
    assert!(status.get("acceptedSpec").is_none());
}

#[test]
fn a_path_that_the_schema_lacks_is_a_condition() {
    let registration = registration();
    let rest = json!({"owners": [{"name": "o", "fields": [{"path": ".spec.cuont"}]}]});
    let status = status(&judged(&rest, Value::Null), &facts(&registration)).unwrap();
    assert_eq!(condition(&status, ACCEPTED), is("True", "Accepted"));
    assert_eq!(condition(&status, SCHEMA_RESOLVED), is("False", "PathNotFound"));
    assert_eq!(condition(&status, ENFORCING), is("True", "RulesLive"));
    assert_eq!(condition(&status, READY), is("False", "PathNotFound"));
}

#[test]
fn a_built_in_kind_is_resolved_like_any_other() {
    let registration = registration();
    let apps = GroupResource { group: "apps".to_owned(), resource: "deployments".to_owned() };
    let kind = Kind::from_openapi(&apps, vec!["v1".to_owned()], Ok(Schema::deduced()));
    let facts = Facts { kind: Some(Arc::new(kind)), ..facts(&registration) };
    let status = status(&judged(&json!({}), Value::Null), &facts).unwrap();
    assert_eq!(condition(&status, SCHEMA_RESOLVED), is("True", "Resolved"));
    assert_eq!(condition(&status, READY), is("True", "Ready"));
}

#[test]
fn subjects_that_are_missing_or_unknown_are_told_and_block_nothing() {
    let registration = registration();
    let with = |subjects| {
        let facts = Facts { subjects, ..facts(&registration) };
        status(&judged(&json!({}), Value::Null), &facts).unwrap()
    };
    for (subjects, expected) in [
        (Some(Subjects::Found), is("True", "Found")),
        (Some(Subjects::Missing(vec!["a".to_owned()])), is("False", "SubjectNotFound")),
        (Some(Subjects::Unread(["ns".to_owned()].into())), is("Unknown", "NotReadable")),
        (None, is("Unknown", "NotLoaded")),
    ] {
        let status = with(subjects);
        assert_eq!(condition(&status, SUBJECTS_RESOLVED), expected);
        assert_eq!(condition(&status, READY), is("True", "Ready"));
    }
}

#[test]
fn a_registration_that_fails_is_reported_with_its_reason() {
    let failure = Failure { reason: "OwnershipConflict", message: "helm".to_owned(), retry: None };
    let registration = registration();
    let facts = Facts { outcome: Err(&failure), ..facts(&registration) };
    let status = status(&judged(&json!({}), Value::Null), &facts).unwrap();
    assert_eq!(condition(&status, REGISTERED), is("False", "OwnershipConflict"));
    assert_eq!(condition(&status, ENFORCING), is("False", "NotRegistered"));
    assert_eq!(condition(&status, READY), is("False", "OwnershipConflict"));
}

#[test]
fn an_entry_without_authority_is_no_proof_of_anything() {
    let mut registration = registration();
    registration.with_ca.remove(&Entry::Enforce);
    let status = status(&judged(&json!({}), Value::Null), &facts(&registration)).unwrap();
    assert_eq!(condition(&status, ENFORCING), is("Unknown", "NoCertificateAuthority"));
    assert_eq!(condition(&status, READY), is("Unknown", "NoCertificateAuthority"));
}

#[test]
fn what_only_audits_is_ready_and_not_enforcing() {
    let registration = registration();
    let facts = Facts { entry: Some(Entry::Observe), ..facts(&registration) };
    let status = status(&judged(&json!({"mode": "Audit"}), Value::Null), &facts).unwrap();
    assert_eq!(condition(&status, ENFORCING), is("False", NOTHING_TO_ENFORCE));
    assert_eq!(condition(&status, READY), is("True", "Ready"));
}

#[test]
fn a_policy_enforces_once_every_replica_that_is_there_judges_by_it() {
    let registration = registration();
    let with = |reports: &[(&str, i64, i64)]| {
        let facts = Facts { replicas: replicas(reports), ..facts(&registration) };
        let status = status(&judged(&json!({}), Value::Null), &facts).unwrap();
        assert_eq!(condition(&status, ENFORCING).0, condition(&status, READY).0);
        (condition(&status, ENFORCING), status.to_string())
    };
    assert_eq!(with(&[("a", 2_000, 4), ("b", 2_000, 4)]).0, is("True", "RulesLive"));
    let (found, text) = with(&[("a", 2_000, 4), ("b", 2_000, 3)]);
    assert_eq!(found, is("False", "ReplicasBehind"));
    assert!(text.contains("1 of 2 webhook replicas do not judge by generation 4 yet: b"), "{text}");
    // One that does not report any more is not there.
    assert_eq!(with(&[("a", 2_000, 4), ("b", 999, 3)]).0, is("True", "RulesLive"));
    let (found, text) = with(&[("a", 1_000, 4)]);
    assert_eq!(found, is("False", "NoReplica"));
    assert!(text.contains("every write is refused until one does"), "{text}");
}

/// Message of one condition.
fn message(status: &Value, type_: &str) -> String {
    let conditions: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
    conditions.into_iter().find(|condition| condition.type_ == type_).unwrap().message
}

#[test]
fn without_any_replica_it_is_said_what_becomes_of_writes() {
    let registration = registration();
    let says = |entry, action| {
        let admission = Admission::Says { name: "p".to_owned(), rules: 2, left_out: 0, action };
        let (entry, admission) = (Some(entry), Some(admission));
        let facts = Facts { replicas: replicas(&[]), entry, admission, ..facts(&registration) };
        message(&status(&judged(&json!({}), Value::Null), &facts).unwrap(), ENFORCING)
    };
    let refused = says(Entry::Enforce, Action::Deny);
    assert!(refused.contains("every write is refused until one does"), "{refused}");
    let unjudged = says(Entry::EnforceOpen, Action::Audit);
    assert!(unjudged.contains("every write is let through unjudged until one does"), "{unjudged}");
    let partly = says(Entry::EnforceOpen, Action::Deny);
    assert!(partly.contains("let through but for what its ValidatingAdmissionPolicy refuses"), "{partly}");
}

#[test]
fn objects_that_the_webhook_may_not_read_are_told_with_the_way_to_allow_it() {
    let registration = registration();
    let with = |expires: i64, unreadable: &str| {
        let report =
            Report { generations: [("p".to_owned(), 4)].into(), unreadable: [unreadable.to_owned()].into() };
        let replica = Replica { name: "a".to_owned(), expires, report, ..Replica::default() };
        let replicas = Replicas::from([("a".to_owned(), replica)]);
        status(&judged(&json!({}), Value::Null), &Facts { replicas: &replicas, ..facts(&registration) })
            .unwrap()
    };
    let lacking = with(2_000, "things.example.com");
    assert_eq!(condition(&lacking, PARENTS_READABLE), is("False", "MissingRight"));
    assert_eq!(condition(&lacking, READY), is("False", "MissingRight"));
    let message = message(&lacking, PARENTS_READABLE);
    assert!(
        message.contains("may not read things.example.com") && message.contains(AGGREGATE_LABEL),
        "{message}"
    );
    assert_eq!(
        condition(&with(2_000, "things"), PARENTS_READABLE),
        is("True", "Readable"),
        "of another group"
    );
    assert_eq!(condition(&with(900, "things.example.com"), PARENTS_READABLE), is("Unknown", NOT_REPORTED));
}

#[test]
fn a_pause_shows_while_it_lasts() {
    let registration = registration();
    let mut facts = facts(&registration);
    let rest = json!({"pausedUntil": "1970-01-01T01:00:00Z"});
    let paused = status(&judged(&rest, Value::Null), &facts).unwrap();
    assert_eq!(condition(&paused, READY), is("False", "Paused"));
    let early = Timestamp::from_second(3_600 - MAX_PAUSE - 10).unwrap();
    let policy = judged(&rest, Value::Null).in_force.unwrap().policy;
    assert_eq!(Pause::of(&policy, early), Some(Pause { began: false, changes_in: 10 }));
    facts.now = Timestamp::from_second(3_600).unwrap();
    assert_eq!(Pause::of(&policy, facts.now), None);
    let over = status(&judged(&rest, paused), &facts).unwrap();
    assert_eq!(condition(&over, READY), is("True", "Ready"));
}

/// `Registered` beside this generated admission policy, as `(status, reason)`, and its message.
fn registered_beside(
    admission: Option<Admission>,
    outcome: Result<(), &Failure>,
) -> ((String, String), String) {
    let registration = registration();
    let judged = judged(&json!({}), Value::Null);
    let status = status(&judged, &Facts { outcome, admission, ..facts(&registration) }).unwrap();
    let conditions: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
    let message = conditions.into_iter().find(|condition| condition.type_ == REGISTERED).unwrap().message;
    (condition(&status, REGISTERED), message)
}

#[test]
fn a_generated_admission_policy_is_named_with_how_much_it_leaves_out() {
    let says = |rules, action| {
        Some(Admission::Says {
            name: "p.fieldpolicies.fieldkeeper.dev".to_owned(),
            rules,
            left_out: 3,
            action,
        })
    };
    let (found, message) = registered_beside(says(2, Action::Deny), Ok(()));
    assert_eq!(found, is("True", "Registered"));
    assert!(
        message.contains("enforce.fieldkeeper.dev") && message.contains("refuses by 2 rules"),
        "{message}"
    );
    assert!(message.contains("fieldkeeper.dev/left-out") && message.contains("(3)"), "{message}");
    let (_, message) = registered_beside(says(1, Action::Audit), Ok(()));
    assert!(message.contains("records by 1 rule,"), "{message}");
    assert_eq!(registered_beside(says(0, Action::Deny), Ok(())).0, is("False", "AdmissionPolicyEmpty"));
}

#[test]
fn a_generated_admission_policy_that_is_not_as_it_should_be_stands_in_the_way_of_registered() {
    let warned = Admission::Warned(vec!["spec.validations[0].expression: undefined field 'x'".to_owned()]);
    let (found, message) = registered_beside(Some(warned), Ok(()));
    assert_eq!(found, is("False", "AdmissionPolicyWarnings"));
    assert!(message.contains("undefined field 'x'"), "{message}");
    let failed = || Some(Admission::Failed("not permitted".to_owned()));
    assert_eq!(registered_beside(failed(), Ok(())).0, is("False", "AdmissionPolicyFailed"));
    // The webhook's own trouble comes first, and the other is not forgotten.
    let failure = Failure { reason: "NotInstalled", message: "there is none".to_owned(), retry: None };
    let (found, message) = registered_beside(failed(), Err(&failure));
    assert_eq!(found, is("False", "NotInstalled"));
    assert!(message.starts_with("there is none\n") && message.contains("not permitted"), "{message}");
}
