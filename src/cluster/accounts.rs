//! Which service accounts there are, in the namespaces that policies name.
//!
//! Input: a client and namespaces. Output: the names of the accounts in each namespace that could be
//! read. Reads metadata only; must not say of a namespace that it could not read that nobody is in it.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::api::field_policy::{FieldPolicySpec, Subject, SubjectKind};

/// Of one list: a namespace has a handful of accounts, and one with many is read page by page.
const PAGE: u32 = 500;
/// Pages of one namespace. Who has more than 10,000 accounts in one is not told which are missing.
const MAX_PAGES: usize = 20;
/// Namespaces looked into for one policy: enough for any that was written by hand.
const MAX_NAMESPACES: usize = 50;

/// Names of accounts by namespace, complete for each namespace that it has.
pub type Accounts = BTreeMap<String, BTreeSet<String>>;

/// The namespaces of the service accounts that a policy names anywhere.
#[must_use]
pub fn namespaces(spec: &FieldPolicySpec) -> BTreeSet<String> {
    named(spec).filter_map(|(_, subject)| subject.namespace.clone()).take(MAX_NAMESPACES).collect()
}

/// The service accounts that a policy names anywhere, with the place of each.
pub fn named(spec: &FieldPolicySpec) -> impl Iterator<Item = (String, &Subject)> {
    spec.subjects().filter(|(_, subject)| subject.kind == SubjectKind::ServiceAccount)
}

/// Reads the accounts in these namespaces. One that cannot be read is left out, with a log line.
pub async fn read(client: &Client, namespaces: &BTreeSet<String>) -> Accounts {
    let reads = namespaces.iter().map(async |namespace| match names(client, namespace).await {
        Ok(names) => names.map(|names| (namespace.clone(), names)),
        Err(error) => {
            tracing::debug!(namespace, %error, "reading the service accounts of a namespace");
            None
        }
    });
    join_all(reads).await.into_iter().flatten().collect()
}

async fn names(client: &Client, namespace: &str) -> Result<Option<BTreeSet<String>>, kube::Error> {
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let mut page = ListParams::default().limit(PAGE);
    let mut names = BTreeSet::new();
    for _ in 0..MAX_PAGES {
        let list = api.list_metadata(&page).await?;
        names.extend(list.items.into_iter().filter_map(|account| account.metadata.name));
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => return Ok(Some(names)),
        }
    }
    Ok(None)
}
