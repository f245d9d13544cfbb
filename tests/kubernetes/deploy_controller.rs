//! Level 4: the facts about RKE2's deploy controller that the design relies on, one per test.
//!
//! The controller under test is the one of `tests/cluster/node/deploy`: reading YAML, applying and pruning are the
//! libraries that RKE2 uses, at its versions, against a real API server; the loop around the files imitates what the
//! real controller was seen to do. These tests hold it to that, and with it every test that relies on it.
//!
//! A pass comes every 15 s and cannot be hurried, so each test waits for passes, not for time. They run side by side,
//! each with its own folder, controller and names; `RUST_TEST_THREADS=16` lets them all wait at once.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use sha2::{Digest as _, Sha256};
use support::cluster::{self, Cluster, DEADLINE, DeployController, Who, eventually};

use crate::support;

static CLUSTER: cluster::SharedCluster = cluster::SharedCluster::const_new();

/// A folder with a deploy controller on it, not yet started.
struct Folder {
    cluster: &'static Cluster,
    client: kube::Client,
    dir: PathBuf,
    /// Addons are cluster-wide by name: every file of the folder has a prefix of its own.
    prefix: &'static str,
}

impl Folder {
    async fn new(prefix: &'static str) -> Option<Self> {
        let cluster = cluster::shared(&CLUSTER).await?;
        let dir = cluster.dir().join(prefix).join("manifests");
        fs::create_dir_all(&dir).unwrap();
        Some(Self {
            cluster,
            client: cluster.client(Who::Admin).await,
            dir,
            prefix,
        })
    }

    fn start(&self) -> Option<DeployController> {
        self.cluster.deploy(&self.dir)
    }

    /// The path of `name` in this folder: `<prefix>-name`, in a subdirectory where the name has one.
    fn path(&self, name: &str) -> PathBuf {
        let (dir, base) = name.rsplit_once('/').unwrap_or(("", name));
        let dir = self.dir.join(dir);
        fs::create_dir_all(&dir).unwrap();
        dir.join(format!("{}-{base}", self.prefix))
    }

    /// Puts a file in place as a careful writer does: RKE2 never sees half of it.
    fn put(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        let temporary = path.with_file_name(".new.tmp");
        fs::write(&temporary, content).unwrap();
        fs::rename(&temporary, &path).unwrap();
        path
    }

    fn hold(&self, name: &str) -> PathBuf {
        self.put(&format!("{name}.skip"), "held")
    }

    /// A manifest of one ConfigMap, `<prefix>-name`, with a value.
    fn config_map(&self, name: &str, value: &str) -> String {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}-{name}}}\ndata: {{value: \"{value}\"}}\n",
            self.prefix
        )
    }

    /// The value of each of this folder's ConfigMaps, by name without the prefix.
    async fn values(&self) -> BTreeMap<String, String> {
        let all = self.config_maps().await;
        all.into_iter()
            .map(|(name, map)| (name, map.data.unwrap_or_default()["value"].clone()))
            .collect()
    }

    async fn config_maps(&self) -> BTreeMap<String, ConfigMap> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let all = api.list(&ListParams::default()).await.unwrap();
        let prefix = format!("{}-", self.prefix);
        all.into_iter()
            .filter_map(|map| {
                let name = map.metadata.name.clone()?.strip_prefix(&prefix)?.to_owned();
                Some((name, map))
            })
            .collect()
    }

    /// The checksum of an Addon; `None` if there is no Addon, empty if it was never fully applied.
    async fn checksum(&self, name: &str) -> Option<String> {
        let kind = GroupVersionKind::gvk("k3s.cattle.io", "v1", "Addon");
        let api: Api<DynamicObject> = Api::namespaced_with(
            self.client.clone(),
            "kube-system",
            &ApiResource::from_gvk(&kind),
        );
        let addon = api
            .get_opt(&format!("{}-{name}", self.prefix))
            .await
            .unwrap()?;
        Some(
            addon.data["spec"]["checksum"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// How often an Addon's file got an event of this reason.
    async fn events(&self, addon: &str, reason: &str) -> i32 {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "kube-system");
        let name = format!("{}-{addon}", self.prefix);
        let all = api.list(&ListParams::default()).await.unwrap();
        all.into_iter()
            .filter(|e| {
                e.involved_object.name.as_deref() == Some(&name)
                    && e.reason.as_deref() == Some(reason)
            })
            .inspect(|e| {
                assert_eq!(
                    e.source.as_ref().unwrap().component.as_deref(),
                    Some("deploy")
                )
            })
            .map(|e| e.count.unwrap_or(1))
            .sum()
    }

    /// Waits for an event count: events are written behind the controller's back.
    async fn events_reach(&self, addon: &str, reason: &str, count: i32) {
        eventually(
            &format!("{count} times {reason} for {addon}"),
            DEADLINE,
            async || (self.events(addon, reason).await >= count).then_some(()),
        )
        .await;
    }
}

fn sha256_of(path: &Path) -> String {
    Sha256::digest(fs::read(path).unwrap())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A new folder; or leaves the test, after a line that says why.
macro_rules! folder {
    ($prefix:literal) => {
        match Folder::new($prefix).await {
            Some(folder) => folder,
            None => return,
        }
    };
}
/// Starts the controller of a folder; or leaves the test, after a line that says why.
macro_rules! start {
    ($folder:expr) => {
        match $folder.start() {
            Some(controller) => controller,
            None => return,
        }
    };
}

const UNKNOWN_KIND: &str = "apiVersion: nowhere.example/v1\nkind: Missing\nmetadata: {name: m}\n";

#[tokio::test]
async fn files_are_applied_in_byte_order_of_their_paths_and_nothing_else_is() {
    let f = folder!("order");
    // "-" sorts before "." and "." before "/"; digits as text; what a human calls first has no say.
    let names = ["10", "9", "a", "a-b", "z", "sub/c", "Zone/d"];
    for name in names {
        let object = name.rsplit('/').next().unwrap();
        f.put(&format!("{name}.yaml"), &f.config_map(object, "1"));
    }
    let controller = start!(f);
    controller.passed(1).await;
    let mut order: Vec<(u64, String)> = f
        .config_maps()
        .await
        .into_iter()
        .map(|(name, map)| {
            (
                map.metadata.resource_version.unwrap().parse().unwrap(),
                name,
            )
        })
        .collect();
    order.sort_unstable();
    let order: Vec<_> = order.into_iter().map(|(_, name)| name).collect();
    assert_eq!(order, ["d", "10", "9", "a-b", "a", "z", "c"]);
}

#[tokio::test]
async fn what_a_file_brings_is_there_in_the_same_pass_for_the_files_behind_it() {
    let f = folder!("behind");
    let many = |count: usize| {
        let maps = (0..count).map(|number| f.config_map(&format!("many-{number}"), "1"));
        maps.collect::<Vec<_>>().join("---\n")
    };
    let in_space = "metadata: {name: behind, namespace: behind-space}\n";
    f.put(
        "a-space.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: behind-space}\n",
    );
    f.put(
        "b-map.yaml",
        &format!("apiVersion: v1\nkind: ConfigMap\n{in_space}"),
    );
    f.put(
        "c-kind.yaml",
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plums.behind.example.com}
spec:
  group: behind.example.com
  scope: Namespaced
  names: {kind: Plum, plural: plums}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
",
    );
    f.put("d-many.yaml", &many(20));
    f.put(
        "e-plum.yaml",
        &format!("apiVersion: behind.example.com/v1\nkind: Plum\n{in_space}"),
    );
    let controller = start!(f);
    controller.passed(1).await;
    for name in ["a-space", "b-map", "c-kind", "d-many", "e-plum"] {
        let path = f.path(&format!("{name}.yaml"));
        assert_eq!(f.checksum(name).await, Some(sha256_of(&path)), "{name}");
    }
}

#[tokio::test]
async fn a_marker_holds_its_exact_name_and_removing_it_applies_the_file_at_the_next_poll() {
    let f = folder!("hold");
    f.put("held.yaml", &f.config_map("held", "1"));
    let marker = f.hold("held.yaml");
    f.put("loose.yaml", &f.config_map("loose", "1"));
    f.hold("loose");
    let controller = start!(f);
    controller.passed(2).await;
    assert_eq!(f.values().await.into_keys().collect::<Vec<_>>(), ["loose"]);
    assert_eq!(f.checksum("held").await, None, "a held file has no Addon");

    fs::remove_file(marker).unwrap();
    controller.next_pass().await;
    assert!(f.values().await.contains_key("held"));
}

#[tokio::test]
async fn a_marker_after_the_apply_prunes_nothing_and_hides_every_change() {
    let f = folder!("later");
    let path = f.put(
        "a.yaml",
        &(f.config_map("one", "1") + "---\n" + &f.config_map("two", "1")),
    );
    let first = sha256_of(&path);
    let controller = start!(f);
    controller.passed(1).await;
    let marker = f.hold("a.yaml");
    f.put("a.yaml", &f.config_map("one", "2"));
    controller.next_pass().await;
    let both =
        BTreeMap::from([("one", "1"), ("two", "1")].map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(f.values().await, both);
    assert_eq!(f.checksum("a").await.unwrap(), first);

    fs::remove_file(marker).unwrap();
    controller.next_pass().await;
    assert_eq!(
        f.values().await,
        BTreeMap::from([("one".to_owned(), "2".to_owned())])
    );
}

#[tokio::test]
async fn removing_a_marker_from_content_that_was_applied_does_not_apply_it_again() {
    let f = folder!("again");
    f.put("a.yaml", &f.config_map("a", "1"));
    let controller = start!(f);
    controller.passed(1).await;
    f.events_reach("a", "AppliedManifest", 1).await;
    let marker = f.hold("a.yaml");
    controller.next_pass().await;
    fs::remove_file(marker).unwrap();
    // The other file shows that the pass did happen, and its event that events were written.
    f.put("b.yaml", &f.config_map("b", "1"));
    controller.next_pass().await;
    f.events_reach("b", "AppliedManifest", 1).await;
    assert_eq!(f.events("a", "AppliedManifest").await, 1);
}

#[tokio::test]
async fn a_marker_in_one_directory_hides_the_name_in_every_directory() {
    let f = folder!("everywhere");
    f.put("a.yaml", &f.config_map("top", "1"));
    f.put("one/a.yaml", &f.config_map("one", "1"));
    f.put("other/b.yaml", &f.config_map("other", "1"));
    f.hold("two/deep/a.yaml");
    let controller = start!(f);
    controller.passed(1).await;
    assert_eq!(f.values().await.into_keys().collect::<Vec<_>>(), ["other"]);
}

#[tokio::test]
async fn two_files_whose_names_share_what_stands_before_the_first_dot_prune_each_other_and_a_held_one_loses()
 {
    let f = folder!("shared");
    f.put("foo.bar.yml", &f.config_map("from-bar", "1"));
    f.put("foo.yaml", &f.config_map("from-foo", "1"));
    let controller = start!(f);
    controller.passed(1).await;
    // Both write one Addon: where its cache lags behind, the second one's apply or update fails, and comes again.
    eventually(
        "the later file's objects are the only ones",
        DEADLINE,
        async || (f.values().await.into_keys().collect::<Vec<_>>() == ["from-foo"]).then_some(()),
    )
    .await;
    f.hold("foo.yaml");
    f.put("foo.bar.yml", &f.config_map("from-bar", "2"));
    controller.next_pass().await;
    assert_eq!(
        f.values().await.into_keys().collect::<Vec<_>>(),
        ["from-bar"]
    );
}

#[tokio::test]
async fn one_failing_file_makes_every_file_be_applied_in_every_pass_until_it_is_held() {
    let f = folder!("storm");
    f.put("bad.yaml", UNKNOWN_KIND);
    f.put("good.yaml", &f.config_map("good", "1"));
    let controller = start!(f);
    controller.passed(3).await;
    f.events_reach("good", "AppliedManifest", 3).await;
    f.events_reach("bad", "ApplyManifestFailed", 3).await;

    f.hold("bad.yaml");
    controller.next_pass().await;
    f.events_reach("good", "AppliedManifest", 4).await;
    // That pass was the first clean one; from now on only what changed is applied.
    f.put("new.yaml", &f.config_map("new", "1"));
    controller.next_pass().await;
    f.events_reach("new", "AppliedManifest", 1).await;
    assert_eq!(f.events("good", "AppliedManifest").await, 4);
}

#[tokio::test]
async fn a_file_that_fails_after_a_clean_pass_is_retried_alone() {
    let f = folder!("alone");
    f.put("good.yaml", &f.config_map("good", "1"));
    let controller = start!(f);
    controller.passed(1).await;
    f.put("bad.yaml", UNKNOWN_KIND);
    controller.next_pass().await;
    controller.next_pass().await;
    f.events_reach("bad", "ApplyManifestFailed", 2).await;
    assert_eq!(f.events("good", "AppliedManifest").await, 1);
}

#[tokio::test]
async fn a_dangling_link_stops_the_whole_pass_and_a_marker_does_not_help() {
    let f = folder!("dangling");
    f.put("a.yaml", &f.config_map("a", "1"));
    let link = f.path("z.yaml");
    symlink(f.dir.join("nowhere"), &link).unwrap();
    f.hold("z.yaml");
    let controller = start!(f);
    controller.passed(1).await;
    assert!(f.values().await.is_empty());
    assert!(
        controller.log().contains("Failed to process config: stat "),
        "{}",
        controller.log()
    );

    fs::remove_file(link).unwrap();
    controller.next_pass().await;
    assert_eq!(f.values().await.len(), 1);
}

#[tokio::test]
async fn a_marker_keeps_the_controller_from_opening_a_fifo() {
    let f = folder!("unopened");
    nix::unistd::mkfifo(&f.path("a.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    f.hold("a.yaml");
    f.put("b.yaml", &f.config_map("b", "1"));
    let controller = start!(f);
    controller.passed(1).await;
    assert_eq!(
        f.values().await.len(),
        1,
        "what comes after the FIFO was applied"
    );
}

#[tokio::test]
async fn a_fifo_without_a_marker_hangs_every_pass_until_somebody_writes_to_it() {
    let f = folder!("fifo");
    let fifo = f.path("b.yaml");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    f.put("a.yaml", &f.config_map("a", "1"));
    f.put("c.yaml", &f.config_map("c", "1"));
    let controller = start!(f);
    eventually("the first pass begins", DEADLINE, async || {
        controller.log().contains("pass begins").then_some(())
    })
    .await;
    // The Addon comes before the open: once it is there, the controller is in it or about to be.
    eventually("the FIFO has an Addon", DEADLINE, async || {
        f.checksum("b").await
    })
    .await;
    // A marker that comes now is too late: the names were already read.
    f.hold("b.yaml");
    assert_eq!(f.values().await.into_keys().collect::<Vec<_>>(), ["a"]);
    assert!(!controller.log().contains("pass ended"));

    // Opening for writing waits for the reader, and there is one.
    let content = f.config_map("b", "1");
    tokio::task::spawn_blocking(move || fs::write(fifo, content))
        .await
        .unwrap()
        .unwrap();
    controller.passed(1).await;
    assert_eq!(
        f.values().await.into_keys().collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
}

#[tokio::test]
async fn the_checksum_of_the_addon_is_that_of_the_file_once_all_of_it_is_applied_and_empty_before()
{
    let f = folder!("checksum");
    let whole = f.put("whole.yaml", &f.config_map("whole", "1"));
    let part = f.put(
        "part.yaml",
        &(f.config_map("part", "1") + "---\n" + UNKNOWN_KIND),
    );
    let controller = start!(f);
    controller.passed(1).await;
    assert_eq!(f.checksum("whole").await.unwrap(), sha256_of(&whole));
    assert_eq!(f.checksum("part").await.unwrap(), "");
    assert!(
        f.values().await.contains_key("part"),
        "what could be applied was"
    );

    fs::write(&part, f.config_map("part", "1")).unwrap();
    controller.next_pass().await;
    assert_eq!(f.checksum("part").await.unwrap(), sha256_of(&part));
}

#[tokio::test]
async fn truncating_a_file_prunes_its_objects_and_deleting_it_does_not() {
    let f = folder!("prune");
    let cut = f.put("cut.yaml", &f.config_map("cut", "1"));
    let deleted = f.put("deleted.yaml", &f.config_map("deleted", "1"));
    let controller = start!(f);
    controller.passed(1).await;
    assert_eq!(f.values().await.len(), 2);
    fs::write(&cut, "").unwrap();
    fs::remove_file(&deleted).unwrap();
    controller.next_pass().await;
    assert_eq!(
        f.values().await.into_keys().collect::<Vec<_>>(),
        ["deleted"]
    );
    assert!(f.checksum("deleted").await.is_some());
}

#[tokio::test]
async fn a_change_that_keeps_the_modification_time_is_not_seen() {
    let f = folder!("mtime");
    let path = f.put("a.yaml", &f.config_map("a", "1"));
    let controller = start!(f);
    controller.passed(1).await;
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    // Beside it first: between the write and the change of its time it must not be seen.
    let temporary = f.path("a.tmp");
    fs::write(&temporary, f.config_map("a", "2")).unwrap();
    fs::File::options()
        .write(true)
        .open(&temporary)
        .unwrap()
        .set_modified(written)
        .unwrap();
    fs::rename(&temporary, &path).unwrap();
    controller.next_pass().await;
    assert_eq!(f.values().await["a"], "1");
}

#[tokio::test]
async fn a_dot_hides_a_file_but_not_a_directory_and_only_three_endings_are_read() {
    let f = folder!("names");
    f.put(".hidden/in.yaml", &f.config_map("in-hidden", "1"));
    f.put("upper-ending.YML", &f.config_map("upper-ending", "1"));
    // The ending does not choose the reader: this is YAML, and it is read.
    f.put("json.JSON", &f.config_map("json", "1"));
    f.put("a.yaml.tmp", &f.config_map("tmp", "1"));
    fs::write(f.dir.join(".dot.yaml"), f.config_map("dot", "1")).unwrap();
    fs::create_dir(f.path("dir.yaml")).unwrap();
    let controller = start!(f);
    controller.passed(1).await;
    assert_eq!(
        f.values().await.into_keys().collect::<Vec<_>>(),
        ["in-hidden", "json", "upper-ending"]
    );
}

#[tokio::test]
async fn a_name_that_no_object_may_have_fails_for_ever_and_leaves_no_trace_but_the_log() {
    let f = folder!("invalid");
    f.put("Upper.yaml", &f.config_map("upper", "1"));
    f.put("under_score.yaml", &f.config_map("under", "1"));
    f.put("good.yaml", &f.config_map("good", "1"));
    let controller = start!(f);
    controller.passed(2).await;
    f.events_reach("good", "AppliedManifest", 2).await;
    assert_eq!(f.values().await.into_keys().collect::<Vec<_>>(), ["good"]);
    for name in ["Upper", "under_score"] {
        let line = format!("Addon.k3s.cattle.io \"invalid-{name}\" is invalid");
        assert!(controller.log().contains(&line), "{}", controller.log());
    }
}

#[tokio::test]
async fn a_wait_for_a_controller_that_has_ended_ends_at_once_with_its_last_words() {
    let Some(cluster) = Cluster::start(cluster::Spec::default()).await else {
        return;
    };
    fs::remove_file(cluster.kubeconfig(Who::Admin)).unwrap();
    let Some(controller) = cluster.deploy(cluster.dir()) else {
        return;
    };
    let local = tokio::task::LocalSet::new();
    let waits = local.run_until(async {
        tokio::task::spawn_local(async move { controller.passed(1).await }).await
    });
    let failed = waits.await.unwrap_err().into_panic();
    let said = failed.downcast_ref::<String>().unwrap();
    assert!(
        said.contains("the deploy controller has ended") && said.contains("no such file"),
        "{said}"
    );
}
