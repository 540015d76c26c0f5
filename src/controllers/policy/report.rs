//! Step 4: write statuses, where they changed.
//!
//! Input: what was observed, planned and done. Output: the status of each
//! policy, written through /status by apply. Holds a writer; must not write
//! when only a time would differ, nor while the FieldPolicy CRD is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::admission::{self, Wanted};
use super::apply::{Attempt, Failure};
use super::conditions::{Admission, Facts, status};
use super::observe::Observation;
use super::pause::Pause;
use super::plan::Plan;
use super::subjects::{self, Subjects};
use crate::cluster::accounts::Accounts;
use crate::cluster::in_force::{Compiled, Judged};
use crate::cluster::policies;
use crate::cluster::write::{Existing, WriteError, Writer};
use crate::managers::Manager;
use crate::policy::export_vap;

/// What was done before.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// Whether the registration is as planned.
    pub outcome: Result<(), &'a Failure>,
    /// The admission policies that are wanted.
    pub wanted: &'a BTreeMap<String, Wanted>,
    /// What came of writing them.
    pub attempt: &'a Attempt,
}

/// What came of reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Whether no write should be tried again.
    pub written: bool,
    /// Whether every policy has all the accounts that it names.
    pub found: bool,
}

/// Writes what is new.
pub async fn report(
    writer: &Writer,
    observation: &Observation,
    plan: &Plan,
    done: &Done<'_>,
    accounts: &Accounts,
    now: Timestamp,
) -> Reported {
    let mut reported = Reported { written: true, found: true };
    if observation.scene.held.is_some() {
        return reported;
    }
    for judged in &observation.scene.policies {
        let subjects = judged.in_force.as_ref().map(|compiled| subjects::check(&compiled.spec, accounts));
        reported.found &= subjects.as_ref().is_none_or(|subjects| *subjects == Subjects::Found);
        let facts = Facts { subjects, ..facts(judged, observation, plan, done, now) };
        let Some(status) = status(judged, &facts) else { continue };
        let object = Existing {
            resource: policies::resource(),
            namespace: String::new(),
            name: judged.stored.name.clone(),
            uid: judged.stored.uid.clone(),
        };
        match writer.apply_status(Manager::PolicyControllerStatus, &object, status).await {
            // Gone: deleted meanwhile; the watch says so, too.
            Ok(_) | Err(WriteError::Gone { .. }) => {}
            Err(error) => {
                tracing::warn!(policy = judged.stored.name, category = error.category(), %error, "writing status");
                reported.written &= !error.is_transient();
            }
        }
    }
    reported
}

fn facts<'a>(
    judged: &Judged,
    observation: &'a Observation,
    plan: &Plan,
    done: &Done<'a>,
    now: Timestamp,
) -> Facts<'a> {
    let resource = judged.in_force.as_ref().map(Compiled::resource);
    Facts {
        kind: resource.as_ref().map(|resource| observation.scene.kinds.get(resource)),
        entry: resource.as_ref().and_then(|resource| plan.entries.get(resource)).copied(),
        subjects: None,
        registration: observation.live.registration(),
        replicas: &observation.replicas,
        outcome: done.outcome,
        admission: admission(judged, observation, done),
        now,
    }
}

fn admission(judged: &Judged, observation: &Observation, done: &Done<'_>) -> Option<Admission> {
    let name = &judged.stored.name;
    let wanted = done.wanted.get(name);
    if let Some(why) = done.attempt.failed.get(name) {
        return Some(Admission::Failed(why.clone()));
    }
    let wanted = wanted?;
    if let Some(why) = observation.generated.error() {
        return Some(Admission::Failed(why.to_owned()));
    }
    let generated = wanted.generated.as_ref()?;
    let name = export_vap::name(name);
    let live = observation.generated.policies.objects.as_ref().and_then(|policies| policies.get(&name));
    let warnings = live.map(admission::warnings).unwrap_or_default();
    if !warnings.is_empty() {
        return Some(Admission::Warned(warnings));
    }
    Some(Admission::Says {
        name,
        rules: generated.rules(),
        left_out: generated.left_out.len(),
        action: wanted.action,
    })
}

/// Time until the first pause begins or ends, when statuses change by themselves.
#[must_use]
pub fn until_a_pause_changes(policies: &[Judged], now: Timestamp) -> Option<Duration> {
    policies
        .iter()
        .filter_map(|judged| Pause::of(&judged.in_force.as_ref()?.policy, now))
        .filter_map(|pause| u64::try_from(pause.changes_in).ok())
        .min()
        // Seconds are cut off on both sides.
        .map(|seconds| Duration::from_secs(seconds.saturating_add(1)))
}
