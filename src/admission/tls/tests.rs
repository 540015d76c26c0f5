use super::*;
use crate::admission::state::Readiness;
use crate::telemetry::metrics::registry;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use std::time::SystemTime;

struct Pair {
    certificate: String,
    key: String,
}

/// Valid from and to so many days from now.
fn pair(from: i64, to: i64) -> Pair {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let day = Duration::from_hours(24);
    let at = |days: i64| {
        let distance = day * u32::try_from(days.unsigned_abs()).unwrap();
        let now = SystemTime::now();
        if days < 0 { now - distance } else { now + distance }.into()
    };
    params.not_before = at(from);
    params.not_after = at(to);
    Pair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

fn files(directory: &Path) -> TlsFiles {
    TlsFiles {
        certificate: directory.join("tls.crt"),
        key: directory.join("tls.key"),
        client_ca: None,
        client_names: Vec::new(),
        tls12: false,
    }
}

fn configure(certificate: &str, key: &str) -> Result<Usable, TlsError> {
    let bytes = TlsBytes { certificate: certificate.into(), key: key.into(), client_ca: None };
    files(Path::new("/certs")).configure(&bytes, Timestamp::now())
}

#[test]
fn only_a_pair_that_can_be_served_is_taken() {
    let (good, other) = (pair(-1, 1), pair(-1, 1));
    assert!(configure(&good.certificate, &good.key).is_ok());
    assert!(matches!(configure(&good.certificate, &other.key), Err(TlsError::Pair(_))));
    let (expired, early) = (pair(-2, -1), pair(1, 2));
    assert!(matches!(configure(&expired.certificate, &expired.key), Err(TlsError::Expired(_))));
    assert!(matches!(configure(&early.certificate, &early.key), Err(TlsError::NotYetValid(_))));
    assert!(matches!(configure("", &good.key), Err(TlsError::Content { .. })));
    assert!(matches!(configure(&good.certificate, "junk"), Err(TlsError::Content { .. })));
    let (half, _) = good.certificate.split_at(good.certificate.len() / 2);
    assert!(configure(half, &good.key).is_err());
}

#[test]
fn a_client_authority_has_to_be_one() {
    let good = pair(-1, 1);
    let mut files = files(Path::new("/certs"));
    files.client_ca = Some("/certs/ca.crt".into());
    for junk in ["", "junk", &good.key] {
        let bytes = TlsBytes {
            certificate: good.certificate.clone().into(),
            key: good.key.clone().into(),
            client_ca: Some(junk.into()),
        };
        assert!(files.configure(&bytes, Timestamp::now()).is_err(), "{junk:.20}");
    }
}

#[test]
fn keys_do_not_show_in_debug_output() {
    let good = pair(-1, 1);
    let bytes = TlsBytes { certificate: Vec::new(), key: good.key.into(), client_ca: None };
    assert_eq!(format!("{bytes:?}"), "TlsBytes { .. }");
}

struct Scene {
    directory: tempfile::TempDir,
    readiness: Readiness,
    metrics: WebhookMetrics,
    follower: Follower,
}

fn scene() -> Scene {
    let directory = tempfile::tempdir().unwrap();
    let readiness = Readiness::default();
    let gate = readiness.gate("certificate", "not loaded yet");
    let metrics = WebhookMetrics::register(&mut registry());
    let follower = Follower::new(files(directory.path()), gate, metrics.clone());
    Scene { directory, readiness, metrics, follower }
}

impl Scene {
    fn write(&self, certificate: Option<&str>, key: Option<&str>) {
        for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
            if let Some(text) = text {
                std::fs::write(self.directory.path().join(name), text).unwrap();
            }
        }
    }

    fn reloads(&self, result: &'static str) -> u64 {
        self.metrics.certificate_reloads.get_or_create(&ResultLabels { result }).get()
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_certificate_and_says_why() {
    let mut scene = scene();
    let first = timeout_of_first(&mut scene).await;
    assert!(first.is_none());
    let reason = scene.readiness.gates()[0].1.clone().unwrap();
    assert!(reason.contains("tls.crt"), "{reason}");
    let good = pair(-1, 1);
    scene.write(Some(&good.certificate), Some(&good.key));
    assert!(timeout_of_first(&mut scene).await.is_some());
    assert!(scene.readiness.is_ready());
}

async fn timeout_of_first(scene: &mut Scene) -> Option<Arc<ServerConfig>> {
    tokio::time::timeout(3 * POLL, scene.follower.first()).await.ok()
}

#[tokio::test]
async fn a_half_written_pair_is_never_served() {
    let mut scene = scene();
    let (old, new) = (pair(-1, 1), pair(-1, 2));
    scene.write(Some(&old.certificate), Some(&old.key));
    assert!(scene.follower.look().await.is_some());
    assert!(scene.follower.look().await.is_none(), "nothing has changed");
    // The key first, as a writer may do it.
    scene.write(None, Some(&new.key));
    assert!(scene.follower.look().await.is_none());
    assert!(scene.follower.look().await.is_none());
    assert_eq!((scene.reloads("ok"), scene.reloads("error")), (1, 1));
    assert!(scene.readiness.is_ready(), "the last good one is served");
    scene.write(Some(&new.certificate), None);
    assert!(scene.follower.look().await.is_some());
    assert_eq!((scene.reloads("ok"), scene.reloads("error")), (2, 1));
    std::fs::remove_file(scene.directory.path().join("tls.crt")).unwrap();
    assert!(scene.follower.look().await.is_none());
    assert!(scene.readiness.is_ready());
}

#[tokio::test]
async fn a_swapped_link_is_followed() {
    let mut scene = scene();
    let (old, new) = (pair(-1, 1), pair(-1, 2));
    let path = scene.directory.path().to_owned();
    for (name, pair) in [("one", &old), ("two", &new)] {
        std::fs::create_dir(path.join(name)).unwrap();
        std::fs::write(path.join(name).join("tls.crt"), &pair.certificate).unwrap();
        std::fs::write(path.join(name).join("tls.key"), &pair.key).unwrap();
    }
    std::os::unix::fs::symlink("one", path.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(Path::new("..data").join(name), path.join(name)).unwrap();
    }
    assert!(scene.follower.look().await.is_some());
    std::os::unix::fs::symlink("two", path.join("..next")).unwrap();
    std::fs::rename(path.join("..next"), path.join("..data")).unwrap();
    assert!(scene.follower.look().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_ends_readiness() {
    let mut scene = scene();
    let good = pair(-1, 1);
    scene.write(Some(&good.certificate), Some(&good.key));
    let first = scene.follower.look().await.unwrap();
    assert!(scene.readiness.is_ready());
    scene.follower.not_after = Some(Timestamp::now().as_second() + EXPIRY_MARGIN - 1);
    let following = tokio::spawn(scene.follower.follow(Arc::new(ArcSwap::new(first))));
    sleep(2 * POLL).await;
    assert!(!scene.readiness.is_ready());
    following.abort();
}
