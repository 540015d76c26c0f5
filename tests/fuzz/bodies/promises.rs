//! What holds of every verdict, whatever the policies and the request.
//!
//! In: facts, a policy, a verdict. Out: a panic where the design says otherwise.

use fieldkeeper::ownership::explain::explain;
use fieldkeeper::ownership::facts::{Facts, Operation};
use fieldkeeper::ownership::rule::{Creation, Mode, Policy, Subject, Target};
use fieldkeeper::ownership::verdict::{Finding, Reason, Shown, Tampering, Verdict};

/// Bounds of what a client is told, as `explain` states them.
const FIELDS: usize = 10;
const CAUSES: usize = 50;
const WARNINGS: usize = 16;
const WARNING: usize = 256;
const ANNOTATION: usize = 1024;

/// A pause counts so far ahead.
const DAY: i64 = 24 * 60 * 60;

/// Longer paths are cut in messages.
const SHOWN_PATH: usize = 150;

/// A finding without its values and words.
pub fn gist(finding: &Finding) -> (String, Mode, String, String) {
    let reason = match &finding.reason {
        Reason::Undecided(_) => "Undecided".to_owned(),
        other => format!("{other:?}"),
    };
    let path = finding.path.as_ref().map_or("*".to_owned(), ToString::to_string);
    (finding.policy.to_string(), finding.mode, reason, path)
}

/// Whether a value is what it is about, so that it must be a value that changed.
pub fn is_about_a_value(finding: &Finding) -> bool {
    let by_value = matches!(
        finding.reason,
        Reason::OwnedByAnother | Reason::Closed | Reason::Unlisted | Reason::RequiredManager
    );
    by_value && finding.path.is_some()
}

/// Whether it can be true of a write that changes nothing: a name that is taken, an entry of an unknown
/// version that is spelled anew, or no decision.
pub fn is_beside_the_values(finding: &Finding) -> bool {
    matches!(
        finding.reason,
        Reason::ReservedManager(_) | Reason::Undecided(_) | Reason::Integrity(Tampering::Poisoned)
    )
}

/// Whether a policy could not decide on the request as a whole. The API server sends no object of which
/// that is true in one spelling and not in another, or below one policy's claims and not another's.
pub fn gives_up(verdict: &Verdict) -> bool {
    let whole = |finding: &Finding| finding.path.is_none() && matches!(finding.reason, Reason::Undecided(_));
    verdict.findings.iter().any(whole)
}

/// Every denial has words that name what it is about, and all words are bounded.
pub fn words(facts: &Facts<'_>, verdict: &Verdict) {
    let answer = explain(facts, verdict);
    let refused: Vec<&Finding> =
        verdict.findings.iter().filter(|finding| finding.mode == Mode::Enforce).collect();
    assert_eq!(verdict.denies(), !refused.is_empty());
    assert_eq!(answer.message.is_empty(), refused.is_empty());
    assert_eq!(answer.causes.len(), refused.len().min(CAUSES));
    for (finding, cause) in refused.iter().zip(&answer.causes) {
        assert!(!cause.message.is_empty() && !cause.reason.is_empty());
        assert_eq!(cause.field.is_empty(), finding.path.is_none());
        assert!(cause.message.contains(&*finding.policy), "{}", cause.message);
    }
    for finding in refused.iter().take(FIELDS) {
        let Some(path) = &finding.path else {
            assert!(is_about_the_whole(&finding.reason), "{finding:?} names no field");
            continue;
        };
        let path = path.to_string();
        if path.chars().count() < SHOWN_PATH {
            assert!(answer.message.contains(&path), "{path} is refused, and not in: {}", answer.message);
        }
    }
    assert!(answer.warnings.len() <= WARNINGS);
    assert!(answer.warnings.iter().all(|warning| !warning.is_empty() && warning.chars().count() <= WARNING));
    let bounded = answer.annotations.iter().filter(|(key, _)| key != "break-glass");
    for (key, value) in bounded {
        assert!(!value.is_empty() && value.chars().count() <= ANNOTATION, "{key}: {value}");
    }
}

fn is_about_the_whole(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Deletion
            | Reason::ReservedManager(_)
            | Reason::Undecided(_)
            | Reason::Integrity(Tampering::Poisoned | Tampering::Wiped | Tampering::Retimed)
    )
}

/// Refusals come first, and nothing is said twice.
pub fn order(verdict: &Verdict) {
    assert!(verdict.findings.is_sorted_by(|a, b| a.mode >= b.mode));
    assert!(verdict.findings.windows(2).all(|pair| pair[0] != pair[1]));
}

/// Values of a sensitive kind are never shown.
pub fn secrets(target: &Target, verdict: &Verdict) {
    let shown = |finding: &Finding| {
        [&finding.old, &finding.new].into_iter().any(|value| matches!(value, Shown::Text(_)))
    };
    assert!(!target.sensitive || !verdict.findings.iter().any(shown));
}

/// What a policy says of itself holds in its own findings.
pub fn policy(facts: &Facts<'_>, policy: &Policy, verdict: &Verdict) {
    let is = |subjects: &[Subject]| {
        subjects.iter().any(|subject| subject.matches(facts.requester, facts.namespace))
    };
    let own: Vec<&Finding> =
        verdict.findings.iter().filter(|finding| finding.policy == policy.name).collect();
    let none = |text: &str, such: &dyn Fn(&Finding) -> bool| {
        let found = own.iter().find(|finding| such(finding));
        assert!(found.is_none(), "{text}: {found:#?}");
    };
    let owner_modes = policy.owners.iter().map(|owner| owner.mode);
    let strictest = policy.strictest().max(policy.integrity.mode).max(policy.integrity.co_ownership);
    let strictest = owner_modes.fold(strictest, Mode::max);
    none("stricter than the policy is anywhere", &|finding| finding.mode > strictest);
    if is(&policy.break_glass) {
        none("whom break-glass names is never refused", &|finding| finding.mode == Mode::Enforce);
    }
    if policy.paused_until.is_some_and(|until| until > facts.now && until - facts.now <= DAY) {
        none("a paused policy only audits", &|finding| finding.mode > Mode::Audit);
    }
    if is(&policy.integrity.editors) {
        none("an editor may edit managedFields", &|finding| {
            matches!(finding.reason, Reason::Integrity(_) | Reason::CoOwnership)
        });
    }
    if policy.owners.iter().all(|owner| is(&owner.subjects)) {
        none("who is every owner writes every owner's fields", &|finding| {
            matches!(finding.reason, Reason::OwnedByAnother | Reason::Closed | Reason::ReservedManager(_))
        });
    }
    if policy.deletion.as_ref().is_none_or(|deleters| is(deleters)) {
        none("who may delete may do what deletes", &|finding| finding.reason == Reason::Deletion);
    }
    match facts.operation {
        Operation::Connect => assert!(own.is_empty(), "a connection is never governed"),
        Operation::Delete => none("a deletion writes no field", &|finding| {
            !matches!(finding.reason, Reason::Deletion | Reason::Undecided(_))
        }),
        Operation::Create => {
            let anything = match &policy.creation {
                Creation::Anyone => true,
                Creation::Owners { except } => is(except),
            };
            none("what nobody claims may be created", &|finding| finding.reason == Reason::Unlisted);
            if anything {
                none("whoever may create may set everything", &|finding| {
                    !matches!(
                        finding.reason,
                        Reason::ReservedManager(_) | Reason::Undecided(_) | Reason::Deletion
                    )
                });
            }
        }
        Operation::Update => {}
    }
}
