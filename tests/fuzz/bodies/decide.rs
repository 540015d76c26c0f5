//! A whole decision: policies compiled, a review read, judged and answered, and what must hold of it.
//!
//! In: a case as JSON (`policies`: specs of FieldPolicies, `review`, and for `/scale` perhaps `parent`),
//! or else bytes that `grammar` makes one of. Out: a panic where the decision breaks what the design
//! promises of every decision.

use std::sync::Arc;

use fieldkeeper::admission::envelope::{Request, open};
use fieldkeeper::admission::judge;
use fieldkeeper::api::FieldPolicySpec;
use fieldkeeper::ownership::decide::{Decision, decide, undecided};
use fieldkeeper::ownership::facts::{Facts, Operation};
use fieldkeeper::ownership::raw::Raw;
use fieldkeeper::ownership::rule::{Mode, Policy, Target};
use fieldkeeper::ownership::verdict::{Finding, Verdict};
use fieldkeeper::policy::compile::compile;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::promises;
use super::{edge, grammar, ground, json};

/// One case.
#[derive(Deserialize)]
struct Case<'a> {
    #[serde(borrow)]
    policies: Vec<&'a RawValue>,
    #[serde(borrow)]
    review: &'a RawValue,
    #[serde(borrow, default)]
    parent: Option<&'a RawValue>,
}

/// The case that an input stands for.
pub fn case(data: &[u8]) -> Option<String> {
    match data.first() {
        Some(b'{') => std::str::from_utf8(data).ok().map(str::to_owned),
        _ => Some(grammar::case(data)),
    }
}

/// Checks one input.
pub fn check(data: &[u8]) {
    judged(data);
}

/// Checks one input; its verdict, if it comes to one.
pub fn judged(data: &[u8]) -> Option<Verdict> {
    let text = case(data)?;
    let case: Case<'_> = serde_json::from_str(&text).ok()?;
    let target = target(&case.policies)?;
    let opened = open(case.review.get().as_bytes()).ok()?;
    let snapshot = edge::snapshot([Arc::new(target.clone())]);
    let (request, judged) = edge::answer(&opened, &snapshot, case.parent, ground::NOW)?;
    if (&*request.resource.group, &*request.resource.resource) != (&*target.group, &*target.resource) {
        return None;
    }
    let name = request.object_name().into_owned();
    let facts = facts(&request, &name, case.parent);
    let verdict = verdict(&facts, &target)?;
    assert_eq!(decide(&facts, &target), Decision::Decided(verdict.clone()), "one request, two verdicts");
    let answered = judged[0].verdict.as_ref().filter(|_| facts.subresource != "scale");
    assert!(answered.is_none_or(|answered| *answered == verdict), "the webhook decides otherwise");

    promises::words(&facts, &verdict);
    promises::order(&verdict);
    promises::secrets(&target, &verdict);
    for policy in &target.policies {
        promises::policy(&facts, policy, &verdict);
    }
    without_a_change(&facts, &verdict);
    one_by_one(&facts, &target, &verdict);
    in_another_order(&facts, &target, &verdict);
    untracked(&facts, &target, &verdict);
    Some(verdict)
}

/// The target of those policies that can be read, compile, and agree about what they are on.
fn target(policies: &[&RawValue]) -> Option<Target> {
    let specs: Vec<FieldPolicySpec> =
        policies.iter().filter_map(|spec| serde_json::from_str(spec.get()).ok()).collect();
    let aim = &specs.first()?.target;
    let mut target = ground::target(specs.first()?);
    for (index, spec) in specs.iter().enumerate().filter(|(_, spec)| spec.target == *aim) {
        match compile(&format!("policy-{index}"), 1, spec) {
            Ok(policy) => target.policies.push(Arc::new(policy)),
            Err(errors) => {
                assert!(errors.0.iter().all(|error| !error.at.is_empty() && !error.message.is_empty()));
            }
        }
    }
    Some(target)
}

fn facts<'a>(request: &'a Request<'_>, name: &'a str, parent: Option<&'a RawValue>) -> Facts<'a> {
    let parent = parent.filter(|_| request.subresource == "scale");
    Facts { parent: parent.map(Raw::from), ..judge::facts(request, name, ground::NOW) }
}

fn value(raw: Raw<'_>) -> &RawValue {
    serde_json::from_str(raw.text()).expect("what is read is JSON")
}

/// The verdict; `None` where the parent is needed and not there.
fn verdict(facts: &Facts<'_>, target: &Target) -> Option<Verdict> {
    match decide(facts, target) {
        Decision::Decided(verdict) => Some(verdict),
        Decision::NeedsParent => {
            assert!(facts.subresource == "scale" && facts.parent.is_none(), "nothing else has a parent");
            let given_up = undecided(facts, target, "there is no parent");
            assert_eq!(given_up.findings.len(), target.policies.len(), "every policy has its say");
            None
        }
    }
}

/// Anybody may write what is there already, whatever its spelling.
fn without_a_change(facts: &Facts<'_>, verdict: &Verdict) {
    let (Operation::Update, Some(old), Some(new)) = (facts.operation, facts.old_object, facts.object) else {
        return;
    };
    let same = |old: Value, new: Value| old == new;
    let read = |raw: Raw<'_>| serde_json::from_str(raw.text()).ok();
    if facts.subresource != "scale" && read(old).zip(read(new)).is_some_and(|(old, new)| same(old, new)) {
        let other = verdict.findings.iter().find(|finding| !promises::is_beside_the_values(finding));
        assert!(other.is_none(), "nothing changes, and {other:?}");
    }
}

/// Every policy is judged by itself: others neither add to its refusals nor take any away.
fn one_by_one(facts: &Facts<'_>, target: &Target, verdict: &Verdict) {
    if target.policies.len() < 2 {
        return;
    }
    for policy in &target.policies {
        let alone = Target { policies: vec![Arc::clone(policy)], ..target.clone() };
        let Some(alone) = self::verdict(facts, &alone) else { continue };
        let (by_itself, among_others) = (refuses(&alone, policy), refuses(verdict, policy));
        let as_well = by_itself == among_others || (among_others && promises::gives_up(verdict));
        assert!(as_well, "{} alone says {alone:#?}, and among others {verdict:#?}", policy.name);
    }
}

fn refuses(verdict: &Verdict, policy: &Policy) -> bool {
    verdict.findings.iter().any(|finding| finding.policy == policy.name && finding.mode == Mode::Enforce)
}

/// The order of members means nothing. (Equal bytes do: they write nothing, not even under a reserved name.)
fn in_another_order(facts: &Facts<'_>, target: &Target, verdict: &Verdict) {
    let Some(object) = facts.object else { return };
    if facts.old_object.is_some_and(|old| old.text() == object.text()) {
        return;
    }
    let Some(turned) = json::rewritten(value(object), |_, members| members.reverse()) else { return };
    let Some(again) = self::verdict(&Facts { object: Some(Raw::from(&*turned)), ..facts.clone() }, target)
    else {
        return;
    };
    if promises::gives_up(&again) || promises::gives_up(verdict) {
        return;
    }
    let one = |finding: &Finding| (promises::gist(finding), finding.untracked);
    let said = |verdict: &Verdict| verdict.findings.iter().map(one).collect::<Vec<_>>();
    assert_eq!(said(&again), said(verdict), "the members of the new object in another order: {turned}");
}

/// `managedFields` are no authority: where both objects have none, nothing passes that was refused.
fn untracked(facts: &Facts<'_>, target: &Target, verdict: &Verdict) {
    let (Operation::Update, Some(old), Some(new)) = (facts.operation, facts.old_object, facts.object) else {
        return;
    };
    let strip = |raw: Raw<'_>| {
        json::rewritten(value(raw), |depth, members| {
            if depth == 1 {
                members.retain(|(name, _)| name != "managedFields");
            }
        })
    };
    let tracked = |raw: Raw<'_>| raw.text().matches("managedFields").count() <= 1;
    let (true, true, Some(old), Some(new)) = (tracked(old), tracked(new), strip(old), strip(new)) else {
        return;
    };
    let facts = Facts { object: Some(Raw::from(&*new)), old_object: Some(Raw::from(&*old)), ..facts.clone() };
    let Some(bare) = self::verdict(&facts, target) else { return };
    let of_values = |verdict: &Verdict| {
        let findings = verdict.findings.iter().filter(|finding| promises::is_about_a_value(finding));
        findings.map(promises::gist).collect::<Vec<_>>()
    };
    let (bare, tracked) = (of_values(&bare), of_values(verdict));
    let lost = tracked.iter().find(|finding| !bare.contains(finding));
    assert!(lost.is_none(), "{lost:?} is refused only because of managedFields; without them: {bare:#?}");
}
