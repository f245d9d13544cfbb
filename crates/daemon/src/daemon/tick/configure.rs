//! A configuration comes into force, and the platform is detected.

use std::sync::Arc;

use windrow_decide::settings::Loaded;
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;
use windrow_plan::rules::{Platform, RuleSet};

use super::Daemon;
use crate::act::{Arrivals, Executor};
use crate::configuration::Configuration;
use crate::daemon::configuration_events::{configuration_events, configuration_findings};
use crate::daemon::manifest_scanner::ManifestScanner;
use crate::daemon::reloading::Reloaded;
use crate::kubeconfig;
use crate::layout::Layout;
use crate::observe::platform;
use crate::observe::rke2::{config_files, harvester, unpacked};
use crate::orders::spool::spools;
use crate::report::journal;

impl Daemon {
    /// Loads the configuration again after SIGHUP, outside the loop.
    pub(in crate::daemon) fn reload(&mut self) {
        self.manager.reloading();
        self.reloading.begin(&self.root, true);
    }

    /// The configuration was loaded. It comes into force here first, then everywhere else.
    pub(in crate::daemon) fn loaded(&mut self, loaded: Reloaded) {
        if loaded.configuration.is_none() {
            let what = "load the configuration (the previous one stays in force)";
            let line = Code::ActionFailed.say(&[
                ("what", what),
                ("error", "a fault in Windrow; please report it"),
            ]);
            self.tell_event(Code::ActionFailed, line);
        }
        let known = Arc::clone(&self.configuration.borrow());
        let mut configuration = loaded.configuration;
        let failure = configuration
            .as_ref()
            .and_then(|new| new.failure_to_read(&known));
        if let Some(failure) = failure.map(ToString::to_string) {
            let what = "load the configuration (the previous one stays in force)";
            let line = Code::ActionFailed.say(&[("what", what), ("error", &failure)]);
            self.tell_event(Code::ActionFailed, line);
            configuration = None;
        }
        let new = match configuration {
            Some(new) if loaded.was_asked_for || !new.says_the_same(&known) => Arc::new(new),
            // A request about gates needs the gates in force to be fresh, and now they are.
            _ => known,
        };
        if !Arc::ptr_eq(&new, &self.configuration.borrow()) {
            self.configure(&new);
            self.tick();
        }
        self.configuration.send_replace(new);
        // Another requested load is still to come.
        if loaded.was_asked_for && !self.reloading.is_asked_for() {
            self.manager.ready();
        }
    }

    pub(super) fn configure(&mut self, configuration: &Configuration) {
        let loaded = &configuration.loaded;
        for event in configuration_events(loaded) {
            journal::write_event(&event);
        }
        let kind = self.platform(loaded);
        if *configuration.layout() != self.layout {
            self.layout = configuration.layout().clone();
            let arrivals = Arc::new(Arrivals::default());
            self.executor = Executor::new(
                self.layout.manifests(),
                self.layout.ledger(),
                Arc::clone(&arrivals),
            );
            self.scanner = ManifestScanner::new(
                self.layout.manifests(),
                spools(&self.layout),
                arrivals,
                self.marking.clone(),
            );
        }
        let node = node_facts(&self.layout, &loaded.rules, kind, self.hardware());
        self.state.set_node(node.clone());
        self.flight
            .configured(&self.layout, loaded, (kind, node), self.clock.now());
        let (settings, rules) = (loaded.settings.clone(), Arc::clone(&loaded.rules));
        self.state.configure(settings, rules, kind);
        self.state
            .set_findings("configuration", &configuration_findings(loaded));
        self.scanner.forget();
        self.data_dir.forget();
    }

    pub(super) fn platform(&self, loaded: &Loaded) -> Option<Platform> {
        loaded
            .settings
            .platform
            .or_else(|| platform::detect_or(&self.root, self.state.plan().platform))
    }

    /// The class of the machine's hardware, once it was read.
    fn hardware(&self) -> Option<String> {
        self.appearances.hardware.get().cloned().flatten()
    }

    /// On a first boot RKE2's configuration may come after the daemon, and a change of it counts from RKE2's next start on.
    pub(super) fn look_at_rke2(&mut self) {
        self.node_name = kubeconfig::node_name(&self.layout.kubelet_kubeconfig());
        // An unreadable file is not an answer: the known facts stay.
        if !config_files(&self.layout).errors.is_empty() {
            return;
        }
        let platform = self.state.plan().platform;
        let node = node_facts(&self.layout, self.state.rules(), platform, self.hardware());
        if self.state.set_node(node.clone()) {
            let settings = self.state.settings().clone();
            self.flight.found_node(&settings, node);
            self.scanner.forget();
        }
    }

    /// On a first boot the files that show the platform may come after the daemon.
    pub(super) fn find_platform(&mut self) {
        if self.state.plan().platform.is_none()
            && let Some(found) = platform::detect_or(&self.root, None)
        {
            let settings = self.state.settings().clone();
            let rules = self.state.rules().clone();
            self.flight.found_platform(&settings, found);
            self.state.configure(settings, rules, Some(found));
            self.scanner.forget();
        }
    }
}

/// The facts about the node in RKE2's own configuration, and its properties if something was learned that depends on
/// them.
pub(super) fn node_facts(
    layout: &Layout,
    rules: &RuleSet,
    platform: Option<Platform>,
    hardware: Option<String>,
) -> NodeFacts {
    let facts = NodeFacts::default().with_rke2_files(&config_files(layout).files);
    if rules.knowledge.phases().is_empty() {
        return facts;
    }
    let release = match platform {
        Some(Platform::Harvester) => harvester(layout),
        Some(Platform::Rke2) | None => unpacked(layout),
    };
    facts.with_machine(release.as_deref(), hardware)
}
