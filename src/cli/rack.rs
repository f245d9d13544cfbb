//! `windrow rack`: many nodes on one page. Runs on any machine; needs no node.

mod running;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::net::TcpListener;
use windrow_plan::readiness::node::Pace;
use windrow_plan::rules::parse_duration;
use windrow_rack::{Inventory, RackView, RackWord};

use self::running::running;
use super::document::now;
use super::inputs::{name_of, text_of};
use super::out::{complain, print_whole, style};
use super::output::Output;
use super::{Context, Exit};
use crate::apiserver::ApiServer;
use crate::console::Theme;
use crate::console::terminal::ConsoleSignals;
use crate::rack::ask::{self, AskWith, AskedServer};
use crate::rack::server::{Access, RackServer};
use crate::rack::store::{Store, StoreError};
use crate::rack::{Hub, cluster, terminal};
use crate::render::rack_table;
use crate::report::server::shared::SharedToken;

/// Where it listens by default.
const LISTEN: &str = "127.0.0.1:9347";
/// The token that systemd gives the unit.
const CREDENTIAL: &str = "windrow-rack.token";
/// How long `--once` waits for those whom it asks.
const ONCE: Duration = Duration::from_secs(20);
/// How often `--wait` looks.
const LOOK: Duration = Duration::from_secs(1);

/// Show many nodes on one page: from their webhooks, their status servers, and Kubernetes
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Take events (POST /events) and serve the page here; with another address than loopback's, a token is needed
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    listen: SocketAddr,
    /// Who is expected: a list in YAML or CSV with name, mac, serial, host, role, rack, url, fingerprint; or Inventory
    /// objects of Harvester's Seeder
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// Ask this status server (https://node:9346/status); again and again
    #[arg(long, value_name = "URL")]
    from: Vec<String>,
    /// The token of the nodes' status servers
    #[arg(long, value_name = "FILE")]
    ask_token_file: Option<PathBuf>,
    /// Whom to trust for their certificates, where no fingerprint is given
    #[arg(long, value_name = "FILE")]
    ask_authority: Option<PathBuf>,
    /// Look at the Nodes of this cluster: their condition WindrowBootstrap
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The token to show: as a bearer token, or as the password in a browser
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Keep what comes in here, over restarts
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print what is known and end: of the rack that listens at that address, or else by asking once
    #[arg(long)]
    once: bool,
    /// Output format, with --once
    #[arg(short, long, value_enum, default_value_t = Output::Table, requires = "once")]
    output: Output,
    /// End when every expected node is Ready; with --timeout, or then
    #[arg(long, value_name = "WHAT", value_parser = ["ready"], conflicts_with = "once")]
    wait: Option<String>,
    /// How long to wait (90s, 15m, 2h); without it, without an end
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
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
    if args.wait.is_some() {
        return wait(&args, rack);
    }
    serve(&args, rack)
}

/// What the command line and its files say.
struct Prepared {
    inventory: Inventory,
    asked: Vec<AskedServer>,
    with: AskWith,
    token: Option<PathBuf>,
}

impl Args {
    fn prepare(&self) -> Result<Prepared, Vec<String>> {
        let mut errors = Vec::new();
        let inventory = match &self.nodes {
            None => Inventory::default(),
            Some(path) => {
                let read = text_of(path).map_err(|why| vec![why]);
                let read = read.and_then(|text| {
                    Inventory::read(&name_of(path), &text)
                        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
                });
                read.unwrap_or_else(|wrong| {
                    errors.extend(wrong);
                    Inventory::default()
                })
            }
        };
        let mut asked: Vec<AskedServer> = Vec::new();
        for node in inventory.nodes().iter().filter(|node| !node.url.is_empty()) {
            asked.push(AskedServer {
                url: node.url.clone(),
                fingerprint: node.fingerprint.clone(),
                identity: Some(node.identity.clone()),
            });
        }
        for url in &self.from {
            match url.parse::<reqwest::Url>() {
                Ok(url) if matches!(url.scheme(), "https" | "http") => asked.push(AskedServer {
                    url: url.into(),
                    ..AskedServer::default()
                }),
                _ => errors.push(format!("--from {url}: write https://node:9346/status")),
            }
        }
        let with = AskWith::read(
            self.ask_token_file.as_deref(),
            self.ask_authority.as_deref(),
        );
        let with = with.unwrap_or_else(|why| {
            errors.push(why);
            AskWith::default()
        });
        let token = self.token_file.clone().or_else(credential);
        if token.is_none() && !self.listen.ip().is_loopback() {
            errors.push(format!(
                "--listen {}: other machines can reach it: give it a token with --token-file (openssl rand -hex 32)",
                self.listen
            ));
        }
        if let Some(path) = &token
            && let Err(why) = SharedToken::new(path.clone()).get()
        {
            errors.push(why);
        }
        match errors.is_empty() {
            true => Ok(Prepared {
                inventory,
                asked,
                with,
                token,
            }),
            false => Err(errors),
        }
    }

    /// Where it is kept: as asked, or where systemd says, or nowhere.
    fn state(&self) -> Option<PathBuf> {
        let asked = self.state.clone();
        asked.or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from))
    }
}

/// The token in the unit's credentials.
fn credential() -> Option<PathBuf> {
    let directory = std::env::var_os("CREDENTIALS_DIRECTORY")?;
    let path = PathBuf::from(directory).join(CREDENTIAL);
    path.exists().then_some(path)
}

/// Makes the hub, and what was kept; or says how the verb ends.
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

/// Prints what is known.
fn once(args: &Args, prepared: Prepared) -> anyhow::Result<Exit> {
    let runtime = runtime()?;
    if let Some(view) = runtime.block_on(running(args.listen, prepared.token.as_deref())) {
        return show(args.output, &view);
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

/// The exit code of `windrow status`, at worst. Where there is no node, nothing is known.
fn exit_of(view: &RackView) -> Exit {
    match view.worst() {
        None | Some(RackWord::Unknown | RackWord::Silent) => Exit::Unknown,
        Some(RackWord::Ready | RackWord::Degraded) => Exit::Ok,
        Some(RackWord::SettingUp | RackWord::NeverCame) => Exit::NotYet,
        Some(RackWord::NotReady | RackWord::Failed) => Exit::Failed,
    }
}

/// Asks everybody once, all at the same time. Returns why somebody could not be asked.
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
        let listed = cluster::once(hub, &ApiServer::new(), &kubeconfig.into()).await;
        listed
            .err()
            .map(|why| format!("the cluster cannot be asked: {why}"))
    };
    let (servers, nodes) = futures::join!(futures::future::join_all(servers), nodes);
    servers.into_iter().flatten().chain(nodes).collect()
}

/// Everything that goes on beside what is shown.
async fn start(args: &Args, prepared: &Prepared, hub: &Arc<Hub>) -> anyhow::Result<String> {
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("--listen {}", args.listen))?;
    let address = format!("http://{}", listener.local_addr().unwrap_or(args.listen));
    let access = match &prepared.token {
        Some(path) => Access::Token(SharedToken::new(path.clone())),
        None => Access::Loopback,
    };
    tokio::spawn(RackServer::new(hub.clone(), access).run(listener));
    for server in &prepared.asked {
        tokio::spawn(ask::follow(
            hub.clone(),
            server.clone(),
            prepared.with.clone(),
        ));
    }
    if let Some(kubeconfig) = args.kubeconfig.as_deref() {
        tokio::spawn(cluster::follow(
            hub.clone(),
            ApiServer::new(),
            kubeconfig.into(),
        ));
    }
    Ok(address)
}

/// Runs until it is ended: full-screen on a terminal, else silently.
fn serve(args: &Args, prepared: Prepared) -> anyhow::Result<Exit> {
    let hub = match hub(args, prepared.inventory.clone())? {
        Ok(hub) => hub,
        Err(exit) => return Ok(exit),
    };
    let theme = Theme::from_environment(|name| std::env::var(name).ok());
    let is_terminal = theme.screen
        && rustix::termios::isatty(std::io::stdin())
        && rustix::termios::isatty(std::io::stdout());
    // Before any thread: what it starts inherits that these signals wait.
    let signals = ConsoleSignals::take().context("signals cannot be taken")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let address = runtime.block_on(start(args, &prepared, &hub))?;
    match is_terminal {
        true => terminal::show(&signals, theme, &address, || hub.view())
            .context("the terminal is gone")?,
        false => {
            println!("windrow rack: events to {address}/events, the page at {address}/");
            while !signals.wait() {}
        }
    }
    let exit = exit_of(&hub.view());
    runtime.shutdown_background();
    // Ended by hand or by systemd: that is no failure of a service.
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
        let mut own: Option<Arc<Hub>> = None;
        if running(args.listen, token.as_deref()).await.is_none() {
            let hub = match hub(args, prepared.inventory.clone())? {
                Ok(hub) => hub,
                Err(exit) => return Ok(exit),
            };
            start(args, &prepared, &hub).await?;
            own = Some(hub);
        }
        loop {
            let view = match &own {
                Some(hub) => Some(hub.view()),
                None => running(args.listen, token.as_deref()).await.map(Arc::new),
            };
            if let Some(view) = &view {
                if view.counts.expected == 0 {
                    eprintln!("windrow: who is expected is not known: name the nodes with --nodes");
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
            tokio::time::sleep(LOOK).await;
        }
    })
}

/// Is the wait over?
fn judge(view: &RackView) -> Option<Exit> {
    let expected = || view.nodes.iter().filter(|row| row.expected);
    if expected().all(|row| matches!(row.word, RackWord::Ready | RackWord::Degraded)) {
        println!("all {} expected nodes are ready", view.counts.expected);
        return Some(Exit::Ok);
    }
    // It is proved that this does not come right by itself.
    let stuck = expected().find(|row| row.pace == Some(Pace::Stuck))?;
    println!("gave up, {} is stuck: {}", stuck.name, stuck.blocker);
    Some(exit_of(view))
}
