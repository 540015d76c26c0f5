//! May this process read the objects behind `/scale`?
//!
//! Input: resources. Output: those whose objects RBAC keeps from the identity that asks. The API server is asked
//! about the asker itself, which every authenticated identity may do.
//!
//! Must not guess: where the API server does not answer, nothing is said about a resource.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use super::in_force::GroupResource;

/// How long a right counts that was there. That it is missing is asked again each time: somebody is about to add it.
const BELIEVED: Duration = Duration::from_mins(5);
/// For asking about all of them.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the API server has said of each resource.
pub struct Rights {
    client: Client,
    granted: BTreeMap<GroupResource, Instant>,
}

impl Rights {
    /// Of the identity of `client`. Nothing is asked yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, granted: BTreeMap::new() }
    }

    /// Those of the resources whose objects may not be read in every namespace.
    pub async fn missing(&mut self, resources: &BTreeSet<GroupResource>) -> BTreeSet<GroupResource> {
        self.granted.retain(|resource, asked| resources.contains(resource) && asked.elapsed() < BELIEVED);
        let mut missing = BTreeSet::new();
        let ask = async {
            for resource in resources {
                if self.granted.contains_key(resource) {
                    continue;
                }
                match may_read(&self.client, resource).await {
                    Ok(true) => {
                        self.granted.insert(resource.clone(), Instant::now());
                    }
                    Ok(false) => {
                        missing.insert(resource.clone());
                    }
                    Err(error) => tracing::debug!(%resource, %error, "asking for the right to read"),
                }
            }
        };
        if timeout(PATIENCE, ask).await.is_err() {
            tracing::debug!("the API server does not say in time what may be read");
        }
        missing
    }
}

async fn may_read(client: &Client, resource: &GroupResource) -> Result<bool, kube::Error> {
    let question = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some("get".to_owned()),
                group: Some(resource.group.clone()),
                resource: Some(resource.resource.clone()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    // Answered, never stored: there is nothing that a field manager could own.
    let answer = Api::all(client.clone()).create(&PostParams::default(), &question).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
