//! The source of a cluster's objects, for the verbs that look at a cluster.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::Client;
use tokio::runtime::Runtime;
use windrow_harvester::incidents::OwnNode;
use windrow_harvester::objects::{ObjectKind, Objects};
use windrow_model::manifest::GroupKind;

use super::document::now;
use super::inputs::{STANDARD_INPUT, is_standard_input, standard_input};
use super::{Context, Exit};
use crate::apiserver::ApiServer;
use crate::fs;
use crate::inspect::saved::{LARGEST, saved, saved_in};
use crate::kubeconfig::KubeconfigFiles;
use crate::layout::Layout;
use crate::observe::objects::{Room, ask_by_name, reach};
use crate::observe::rke2::admin_kubeconfig;

/// The source of a cluster's objects.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ObjectSource {
    /// Read saved data instead of the cluster: an archive of `windrow report`, a support bundle of
    /// Harvester, a file or directory with lists from `kubectl get KIND -A -o yaml`, or `-`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Which cluster a verb asks, and as whom.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ClusterArgs {
    /// Kubeconfig with admin access [default: $KUBECONFIG, then RKE2's own, then ~/.kube/config]. With --root, Windrow only
    /// contacts the cluster if you set this option
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterArgs {
    /// The given kubeconfig, or else the one of `$KUBECONFIG`, RKE2's own, or kubectl's.
    pub(super) fn kubeconfig(&self, context: &Context) -> KubeconfigFiles {
        let files = match &self.kubeconfig {
            Some(path) => KubeconfigFiles::from(path).chosen(),
            None => self
                .chosen_by_variable(context)
                .unwrap_or_else(|| own_or_kubectls(&context.layout)),
        };
        files.in_context(self.context.clone())
    }

    /// The file of `$KUBECONFIG`, if it applies. The variable names the cluster of the machine on which you type: with
    /// another root (a sandbox, a mounted disk) it does not apply.
    pub(super) fn chosen_by_variable(&self, context: &Context) -> Option<KubeconfigFiles> {
        match self.kubeconfig {
            None if context.layout.is_this_machine() => KubeconfigFiles::from_environment(),
            _ => None,
        }
    }

    /// Prints why the cluster cannot be asked, and the part of `$KUBECONFIG` in it.
    pub(super) fn complain(&self, why: &str, context: &Context) {
        eprintln!("windrow: cannot query the cluster: {why}");
        match (self.chosen_by_variable(context), &self.kubeconfig) {
            (Some(files), _) => eprintln!("The kubeconfig comes from KUBECONFIG: {files}"),
            (None, None) if !context.layout.is_this_machine() => {
                if KubeconfigFiles::from_environment().is_some() {
                    eprintln!("KUBECONFIG is ignored, because --root is set");
                }
                eprintln!("To contact the cluster, set its kubeconfig with --kubeconfig");
            }
            _ => {}
        }
    }

    fn can_be_read(&self, context: &Context) -> bool {
        let files = self.kubeconfig(context);
        let mut paths = files.paths().iter();
        paths.any(|path| fs::open(path).is_ok())
    }
}

/// RKE2's own; if it cannot be read, as on a workstation, kubectl's default file.
fn own_or_kubectls(layout: &Layout) -> KubeconfigFiles {
    let own = admin_kubeconfig(layout);
    let can_be_read = |path: &Path| fs::open(path).is_ok();
    if layout.is_this_machine()
        && !can_be_read(&own)
        && let Some(home) = std::env::home_dir()
    {
        let of_kubectl = home.join(".kube/config");
        if can_be_read(&of_kubectl) {
            return (&of_kubectl).into();
        }
    }
    (&own).into()
}

impl ObjectSource {
    /// The saved or requested objects, and their time; or the exit code of the verb, after printing the reason. Kinds of which the input may
    /// have a part only are unknown.
    pub(super) fn objects(
        &self,
        context: &Context,
        ask: impl AsyncFnOnce(&Client, Timestamp) -> Objects,
    ) -> anyhow::Result<Result<ClusterObjects, Exit>> {
        let mut looked = self.look(context, ask)?;
        if let Ok(found) = &looked
            && !found.broken.is_empty()
        {
            super::complain(&found.broken);
            looked = Err(NoObjects::Unreadable);
        }
        let complete = looked.map(|mut found| {
            if let Some(why) = &found.partial {
                found.objects.forget_users_kinds(why);
            }
            found
        });
        Ok(complete.map_err(|none| match none {
            NoObjects::Unreadable => Exit::Usage,
            NoObjects::NotAsked(_) => Exit::Unknown,
        }))
    }

    pub(super) fn look(
        &self,
        context: &Context,
        ask: impl AsyncFnOnce(&Client, Timestamp) -> Objects,
    ) -> anyhow::Result<Result<ClusterObjects, NoObjects>> {
        if let Some(path) = &self.from {
            let found = match is_standard_input(path) {
                true => standard_input(LARGEST)
                    .and_then(|bytes| saved_in(STANDARD_INPUT, &bytes))
                    .map_err(|error| vec![error]),
                false => saved(path),
            };
            return Ok(found
                .map(|found| ClusterObjects {
                    at: found
                        .at
                        .or_else(|| Some(found.objects.newest_time()?.min(now())))
                        .unwrap_or_else(now),
                    objects: found.objects,
                    own: found.own,
                    partial: found.partial,
                    unread: found.unread,
                    broken: found.broken,
                })
                .map_err(|errors| {
                    super::complain(&errors);
                    NoObjects::Unreadable
                }));
        }
        let kubeconfig = self.cluster.kubeconfig(context);
        let ClusterAsker { runtime, api } = context.cluster_asker()?;
        let looked = runtime.block_on(async {
            let client = reach(api, &kubeconfig).await?;
            let at = now();
            let objects = ask(&client, at).await;
            let own = None;
            let partial = None;
            Ok::<_, String>(ClusterObjects {
                objects,
                at,
                own,
                partial,
                unread: Vec::new(),
                broken: Vec::new(),
            })
        });
        Ok(looked.map_err(|why| {
            self.cluster.complain(&why, context);
            if !self.cluster.can_be_read(context) {
                let variable = match context.layout.is_this_machine() {
                    true => " or in KUBECONFIG",
                    false => "",
                };
                eprintln!(
                    "The admin credential is needed: run it as root on a server, or set one with \
                     --kubeconfig{variable}; or read saved objects with --from"
                );
            }
            NoObjects::NotAsked(why)
        }))
    }

    pub(super) fn is_live(&self) -> bool {
        self.from.is_none()
    }

    /// Whether it is saved data without any list of objects.
    pub(super) fn is_empty_input(&self, objects: &Objects) -> bool {
        let is_absent = |kind: &ObjectKind| {
            let listed = objects.list(&kind.group_kind());
            listed.is_err_and(|why| why.is_not_in_input())
        };
        !self.is_live() && ObjectKind::ALL.iter().all(is_absent)
    }

    /// The objects of kinds that are only known by name; from a saved cluster, the saved objects.
    pub(super) fn named_objects(
        &self,
        saved: &Objects,
        kinds: &[GroupKind],
        context: &Context,
    ) -> anyhow::Result<Result<Objects, Exit>> {
        if !self.is_live() || kinds.is_empty() {
            return Ok(Ok(saved.clone()));
        }
        self.ask(context, async |client| {
            let mut objects = Objects::default();
            ask_by_name(client, kinds, &mut objects, &mut Room::of_a_person()).await;
            objects
        })
    }

    /// Sends further requests to the live cluster; or returns the exit code of the verb, after printing the reason.
    pub(super) fn ask<T>(
        &self,
        context: &Context,
        ask: impl AsyncFnOnce(&Client) -> T,
    ) -> anyhow::Result<Result<T, Exit>> {
        let kubeconfig = self.cluster.kubeconfig(context);
        let ClusterAsker { runtime, api } = context.cluster_asker()?;
        let looked = runtime.block_on(async {
            let client = reach(api, &kubeconfig).await?;
            Ok::<_, String>(ask(&client).await)
        });
        Ok(looked.map_err(|why| {
            self.cluster.complain(&why, context);
            Exit::Unknown
        }))
    }
}

pub(super) struct ClusterObjects {
    pub(super) objects: Objects,
    pub(super) at: Timestamp,
    pub(super) own: Option<OwnNode>,
    /// Why kinds that users may have in any namespace are not complete.
    pub(super) partial: Option<String>,
    /// The saved files that could not be read, of kinds that no check reads.
    pub(super) unread: Vec<String>,
    /// The saved files that could not be read, and may have objects of any kind.
    pub(super) broken: Vec<String>,
}

pub(super) enum NoObjects {
    Unreadable,
    NotAsked(String),
}

/// The client of a verb for any number of requests, so that you only log in once.
pub(super) struct ClusterAsker {
    pub(super) runtime: Runtime,
    pub(super) api: ApiServer,
}

impl ClusterAsker {
    pub(super) fn new(layout: &Layout) -> std::io::Result<Self> {
        Ok(Self {
            runtime: runtime()?,
            api: ApiServer::for_person(layout),
        })
    }
}

pub(super) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
