//! `windrow rack`: many nodes on one page. It runs on any machine and requires no node.

mod prepared;
mod running;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::net::TcpListener;
use windrow_plan::readiness::node::Pace;
use windrow_plan::rules::parse_duration;
use windrow_rack::{Inventory, NodeRow, RackView, RackWord};

use self::prepared::Prepared;
use self::running::running;
use super::document::now;
use super::out::{complain, print_whole, style};
use super::output::Output;
use super::{Context, Exit};
use crate::addresses::certificate_names;
use crate::apiserver::ApiServer;
use crate::background::{Background, EndedTask};
use crate::console::Theme;
use crate::console::terminal::ConsoleSignals;
use crate::https::{Certificate, Token};
use crate::layout::Layout;
use crate::observe::management::own_host_name;
use crate::rack::announced::{Announced, AskAnnounced};
use crate::rack::ask::{self, AskWith, AskedServer};
use crate::rack::server::{Access, RackServer};
use crate::rack::store::{Store, StoreError};
use crate::rack::tasks::RackTasks;
use crate::rack::{Hub, cluster, terminal};
use crate::render::rack_table;

const LISTEN: &str = "127.0.0.1:9347";
/// How long `--once` waits for answers.
const ONCE: Duration = Duration::from_secs(20);
/// How often `--for` looks.
const LOOK: Duration = Duration::from_secs(1);

/// Show many nodes on one page
///
/// Reads the nodes' webhooks, their status servers, and Kubernetes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Accept events (POST /events) and serve the page here: over HTTP on loopback, otherwise over HTTPS and with a token
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    listen: SocketAddr,
    /// The expected nodes: a list in YAML or CSV with name, mac, serial, host, role, rack, url, fingerprint; or Inventory
    /// objects of Harvester's Seeder
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Poll this status server (https://node:9346/status); can be repeated
    #[arg(long, value_name = "URL")]
    ask: Vec<String>,
    /// The token of the nodes' status servers
    #[arg(long, value_name = "FILE")]
    ask_token_file: Option<PathBuf>,
    /// CA certificates for status servers without a fingerprint
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Also poll the status servers that nodes announce in their events, but only on the sending host
    #[arg(long, value_name = "WHICH", value_enum, requires = "ask_token_file")]
    ask_announced: Option<AskAnnounced>,
    /// Watch the Nodes of this cluster: condition windrow.dev/BootstrapIncomplete and annotation windrow.dev/bootstrap
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The token that clients must send: as a bearer token, or as the password in a browser
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Serve over HTTPS with this certificate (PEM), also on loopback; reloaded when it changes [default: a self-signed
    /// certificate, kept in --state]
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Serve over HTTP on any address: for an HTTPS proxy, or a network where no one else can listen
    #[arg(long, conflicts_with = "tls_cert_file")]
    plain_http: bool,
    /// With --once and --for: the SHA-256 of the certificate of a rack on another host
    #[arg(long, value_name = "SHA256", value_parser = fingerprint)]
    fingerprint: Option<String>,
    /// Keep the received state in this directory, across restarts
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print the nodes and exit: from the rack that listens at this address, otherwise after polling once
    #[arg(long)]
    once: bool,
    /// Output format, with --once
    #[arg(short, long, value_parser = Output::one_of(Output::DOCUMENT), default_value = "table", requires = "once")]
    output: Output,
    /// Exit when all expected nodes are Ready, or after --timeout
    #[arg(long, value_name = "WHAT", value_parser = ["ready"], conflicts_with = "once")]
    r#for: Option<String>,
    /// Maximum time to wait, for example 90s, 15m or 2h [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "for")]
    timeout: Option<Duration>,
}

pub(super) fn run(args: Args, _: &Context) -> anyhow::Result<Exit> {
    let rack = match args.prepare() {
        Ok(rack) => rack,
        Err(errors) => {
            complain(&errors);
            return Ok(Exit::Configuration);
        }
    };
    if args.once {
        return once(&args, rack);
    }
    if args.r#for.is_some() {
        return wait(&args, rack);
    }
    serve(&args, rack)
}

fn fingerprint(text: &str) -> Result<String, String> {
    let digits = text.replace(':', "").to_ascii_lowercase();
    let is_digest = digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest
        .then_some(digits)
        .ok_or_else(|| "write 64 hexadecimal digits".to_owned())
}

/// Creates the hub with the kept state; or returns the exit code of the verb.
fn hub(args: &Args, inventory: Inventory) -> anyhow::Result<Result<Arc<Hub>, Exit>> {
    let opened = match args.state() {
        None => None,
        Some(directory) => match Store::open(&directory, now()) {
            Ok(opened) => Some(opened),
            Err(error) => {
                eprintln!("windrow: {error}");
                return Ok(Err(match error {
                    StoreError::InUse(_) => Exit::AnotherRuns,
                    StoreError::Io { .. } => Exit::Failure,
                }));
            }
        },
    };
    let hub = Hub::new(inventory, opened, now).context("no thread can be started")?;
    Ok(Ok(hub))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

fn once(args: &Args, prepared: Prepared) -> anyhow::Result<Exit> {
    let runtime = runtime()?;
    match runtime.block_on(running(&args.running(), prepared.token.as_deref())) {
        Ok(Some(view)) => return show(args.output, &view),
        Ok(None) if prepared.asked.is_empty() && args.kubeconfig.is_none() => eprintln!(
            "windrow: no rack listens at {}, and there is no other source (--nodes with url, --ask, --kubeconfig)",
            args.listen
        ),
        Ok(None) => {}
        Err(why) => {
            eprintln!("windrow: {why}");
            return Ok(Exit::Failure);
        }
    }
    let hub = match hub(args, prepared.inventory)? {
        Ok(hub) => hub,
        Err(exit) => return Ok(exit),
    };
    let missed = runtime.block_on(ask_all(&hub, &prepared.asked, &prepared.with, args));
    for why in missed {
        eprintln!("windrow: {why}");
    }
    show(args.output, &hub.view())
}

fn show(output: Output, view: &RackView) -> anyhow::Result<Exit> {
    print_whole(&output.render(view, || rack_table(view, style()))?)?;
    Ok(exit_of(view))
}

/// The worst exit code of `windrow status`. Without a node: unknown.
fn exit_of(view: &RackView) -> Exit {
    match view.worst() {
        None | Some(RackWord::Unknown | RackWord::Silent) => Exit::Unknown,
        Some(RackWord::Ready | RackWord::Degraded) => Exit::Ok,
        Some(RackWord::SettingUp | RackWord::NeverCame) => Exit::NotYet,
        Some(RackWord::Failed) => Exit::Failed,
    }
}

/// Polls all sources once, at the same time. Returns the errors.
async fn ask_all(
    hub: &Arc<Hub>,
    asked: &[AskedServer],
    with: &AskWith,
    args: &Args,
) -> Vec<String> {
    let servers = asked.iter().map(async |server| {
        let asked = tokio::time::timeout(ONCE, ask::once(hub, server, with)).await;
        let asked = asked.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        asked.err().map(|why| format!("{}: {why}", server.url))
    });
    let nodes = async {
        let kubeconfig = args.kubeconfig.as_deref()?;
        let listed = cluster::once(
            hub,
            &ApiServer::for_person(&Layout::new("/")),
            &kubeconfig.into(),
        )
        .await;
        listed
            .err()
            .map(|why| format!("cannot query the cluster: {why}"))
    };
    let (servers, nodes) = futures::join!(futures::future::join_all(servers), nodes);
    servers.into_iter().flatten().chain(nodes).collect()
}

struct Serving {
    address: String,
    certificate: Option<String>,
    tasks: Background,
}

async fn start(args: &Args, prepared: &Prepared, hub: &Arc<Hub>) -> anyhow::Result<Serving> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("--listen {}", args.listen))?;
    let access = match &prepared.token {
        Some(path) => Access::Token(Token::new(vec![path.clone()])),
        None => Access::Loopback,
    };
    let announced = args
        .ask_announced
        .map(|who| Announced::new(who, prepared.with.clone(), &prepared.inventory));
    let files = prepared.certificate.clone();
    let certificate =
        files.map(|files| Certificate::new(files, Arc::new(|| certificate_names(own_host_name()))));
    let server = RackServer::new(hub.clone(), access, certificate, announced);
    let serving = server.certificate().map_err(anyhow::Error::msg)?;
    let scheme = if serving.is_some() { "https" } else { "http" };
    let listen = listener.local_addr().unwrap_or(args.listen);
    let certificate = serving.map(|with| {
        let source = with.source.in_words();
        format!("{source}, SHA-256 {}{}", with.fingerprint, with.note)
    });
    let mut tasks = Background::default();
    hub.listen();
    tasks.start("rack server", server.run(listener));
    for server in &prepared.asked {
        let with = prepared.with.clone();
        tasks.start(
            "status of a node",
            ask::follow(hub.clone(), server.clone(), with, None),
        );
    }
    if let Some(kubeconfig) = args.kubeconfig.as_deref() {
        let api = ApiServer::for_person(&Layout::new("/"));
        // The screen uses the terminal. A command that wants to ask there fails, and this is among the rack's notices.
        api.leave_terminal();
        let nodes = cluster::follow(hub.clone(), api, kubeconfig.into());
        tasks.start("Nodes of the cluster", nodes);
    }
    Ok(Serving {
        address: format!("{scheme}://{listen}"),
        certificate,
        tasks,
    })
}

fn stopped(ended: EndedTask) -> Exit {
    eprintln!("windrow: {ended}, so this rack exits");
    Exit::Failure
}

/// Runs until it is ended: full-screen on a terminal, else silently.
fn serve(args: &Args, prepared: Prepared) -> anyhow::Result<Exit> {
    // Before any thread, including the store's: threads inherit that these signals are blocked.
    let signals = ConsoleSignals::take().context("signals cannot be handled")?;
    let hub = match hub(args, prepared.inventory.clone())? {
        Ok(hub) => hub,
        Err(exit) => return Ok(exit),
    };
    let theme = Theme::from_environment(|name| std::env::var(name).ok());
    let is_terminal = theme.screen
        && rustix::termios::isatty(std::io::stdin())
        && rustix::termios::isatty(rustix::stdio::stdout());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let serving = runtime.block_on(start(args, &prepared, &hub))?;
    let address = &serving.address;
    println!("windrow rack: events to {address}/events, the page at {address}/");
    if let Some(certificate) = &serving.certificate {
        println!("windrow rack: with {certificate}");
    }
    let tasks =
        RackTasks::new(serving.tasks, runtime.handle()).context("a pipe cannot be created")?;
    match is_terminal {
        true => terminal::show(&signals, &tasks, theme, address, || hub.view())
            .context("the terminal is gone")?,
        false => while !signals.wait(tasks.fd()) && tasks.ended().is_none() {},
    }
    let exit = exit_of(&hub.view());
    runtime.shutdown_background();
    if let Some(ended) = tasks.ended() {
        return Ok(stopped(ended));
    }
    // Ended by an operator or by systemd: not a failure of the service.
    Ok(if is_terminal { exit } else { Exit::Ok })
}

/// Waits until every expected node is Ready.
fn wait(args: &Args, prepared: Prepared) -> anyhow::Result<Exit> {
    let until = args
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let runtime = runtime()?;
    runtime.block_on(async {
        let token = prepared.token.clone();
        let mut own: Option<(Arc<Hub>, Background)> = None;
        let at = args.running();
        let there = match running(&at, token.as_deref()).await {
            Ok(there) => there.is_some(),
            Err(why) => {
                eprintln!("windrow: {why}");
                return Ok(Exit::Failure);
            }
        };
        if !there {
            let hub = match hub(args, prepared.inventory.clone())? {
                Ok(hub) => hub,
                Err(exit) => return Ok(exit),
            };
            let serving = start(args, &prepared, &hub).await?;
            own = Some((hub, serving.tasks));
        }
        loop {
            let view = match &own {
                Some((hub, _)) => Some(hub.view()),
                // It may be starting again.
                None => {
                    let there = running(&at, token.as_deref()).await;
                    there.ok().flatten().map(Arc::new)
                }
            };
            if let Some(view) = &view {
                if view.counts.expected == 0 {
                    eprintln!("windrow: there are no expected nodes: list them with --nodes");
                    return Ok(Exit::Usage);
                }
                if let Some(exit) = judge(view) {
                    return Ok(exit);
                }
            }
            if until.is_some_and(|until| until <= Instant::now()) {
                let exit = view.as_deref().map_or(Exit::Unknown, exit_of);
                if let Some(view) = view {
                    println!("gave up:");
                    print_whole(&rack_table(&view, style()))?;
                }
                return Ok(exit);
            }
            let look = tokio::time::sleep(LOOK);
            match &mut own {
                Some((_, tasks)) => tokio::select! {
                    ended = tasks.ended() => return Ok(stopped(ended)),
                    () = look => {}
                },
                None => look.await,
            }
        }
    })
}

fn judge(view: &RackView) -> Option<Exit> {
    let expected = || view.nodes.iter().filter(|row| row.expected);
    if expected().all(NodeRow::is_surely_ready) {
        println!("all {} expected nodes are ready", view.counts.expected);
        return Some(Exit::Ok);
    }
    // This does not recover automatically: there is proof.
    let stuck = expected().find(|row| row.pace == Some(Pace::Stuck))?;
    println!("gave up, {} is stuck: {}", stuck.name, stuck.blocker);
    Some(exit_of(view))
}
