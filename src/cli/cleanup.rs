//! `windrow cleanup`: removes what Windrow put on a node, before Windrow itself is removed.

use windrow_decide::Manual;

use super::release::Lift;
use super::{Context, Exit};
use crate::act::put_drop_in;
use crate::apiserver::ApiServer;
use crate::kubeconfig;
use crate::lock::Lock;
use crate::report::cluster::{NodeWriter, remove_condition};
use crate::report::login;

/// Remove what Windrow put on this node: its holds, its feature gates, and its condition on the Node. Holds made by a
/// person (`windrow hold`) stay and are named. For the removal of Windrow; the packages do it by themselves
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: Args, context: &Context) -> anyhow::Result<Exit> {
    // Held to the end: a daemon that starts meanwhile would put everything back.
    let Some(_lock) = Lock::take(&context.layout.lock())? else {
        eprintln!(
            "windrow: the daemon runs and would put everything back; stop it first: systemctl stop \
             windrow.service"
        );
        return Ok(Exit::Failure);
    };
    let lift = Lift {
        all: true,
        by: Manual::CLEANUP,
        reason: "Windrow was removed",
    };
    let mut exit = lift.everywhere(context);
    let drop_in = context.layout.gates_drop_in();
    match put_drop_in(&context.layout, None) {
        Ok(true) => println!(
            "removed {}: RKE2 goes without these feature gates from its next start on",
            drop_in.display()
        ),
        Ok(false) => println!("{} is not there: no gates to take back", drop_in.display()),
        Err(error) => {
            eprintln!("windrow: {}: {error}", drop_in.display());
            exit = Exit::Failure;
        }
    }
    login::remove(&context.layout);
    condition(context)?;
    Ok(exit)
}

/// If the condition cannot be removed, it stays as Unknown, which is true: no failure.
fn condition(context: &Context) -> anyhow::Result<()> {
    let data_dir = context.settings().settings.data_dir;
    let layout = context.layout.clone().with_data_dir(&data_dir);
    let own = layout.kubelet_kubeconfig();
    // Without a kubelet there was never a Node.
    let Some(node) = kubeconfig::node_name(&own) else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let subject = NodeWriter {
        kubeconfig: own,
        node,
    };
    match runtime.block_on(remove_condition(&ApiServer::on(&layout), &subject)) {
        Ok(()) => println!(
            "took the condition WindrowBootstrap from Node {}",
            subject.node
        ),
        Err(why) => eprintln!(
            "windrow: the condition WindrowBootstrap of Node {} stays, as Unknown: {why}",
            subject.node
        ),
    }
    Ok(())
}
