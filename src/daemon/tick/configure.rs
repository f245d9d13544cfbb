//! A configuration comes into force, and the platform is detected.

use std::sync::Arc;

use windrow_decide::settings::Loaded;
use windrow_model::reasons::Code;
use windrow_plan::knowledge::NodeFacts;

use super::Daemon;
use crate::act::Executor;
use crate::configuration::Configuration;
use crate::daemon::configuration_events::configuration_events;
use crate::daemon::manifest_scanner::ManifestScanner;
use crate::daemon::reloading::Reloaded;
use crate::daemon::request_spool::spools;
use crate::layout::Layout;
use crate::observe::platform;
use crate::observe::rke2::config_files;
use crate::report::journal;

impl Daemon {
    /// SIGHUP asks for the configuration to be loaded again. It is loaded beside the loop.
    pub(in crate::daemon) fn reload(&mut self) {
        self.manager.reloading();
        self.reloading.begin(&self.root, true);
    }

    /// The configuration was loaded. It comes into force here first, then everywhere else.
    pub(in crate::daemon) fn loaded(&mut self, loaded: Reloaded) {
        if loaded.configuration.is_none() {
            let what = "load the configuration (what was in force stays)";
            let line = Code::ActionFailed.say(&[("what", what), ("error", "it broke off")]);
            self.tell_event(Code::ActionFailed, line);
        }
        let known = Arc::clone(&self.configuration.borrow());
        let new = match loaded.configuration {
            Some(new) if loaded.was_asked_for || !new.says_the_same(&known) => Arc::new(new),
            // A request about gates needs the gates in force to be fresh, and now they are.
            _ => known,
        };
        if !Arc::ptr_eq(&new, &self.configuration.borrow()) {
            self.configure(&new);
            self.tick();
        }
        self.configuration.send_replace(new);
        // Another load that was asked for meanwhile is still to come.
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
            self.executor = Executor::new(self.layout.manifests(), self.layout.ledger());
            self.scanner = ManifestScanner::new(
                self.layout.manifests(),
                spools(&self.layout),
                self.marking.clone(),
            );
        }
        let node = rke2_facts(&self.layout);
        self.state.set_node(node.clone());
        self.flight
            .configured(&self.layout, loaded, (kind, node), self.clock.now());
        let (settings, rules) = (loaded.settings.clone(), Arc::clone(&loaded.rules));
        self.state.configure(settings, rules, kind);
        self.scanner.forget();
        self.data_dir.forget();
    }

    pub(super) fn platform(&self, loaded: &Loaded) -> Option<windrow_plan::rules::Platform> {
        loaded
            .settings
            .platform
            .or_else(|| platform::detect(&self.root))
    }

    /// On a first boot RKE2's configuration may come after the daemon, and a change of it counts from RKE2's next start on.
    pub(super) fn look_at_rke2(&mut self) {
        let node = rke2_facts(&self.layout);
        if self.state.set_node(node.clone()) {
            let settings = self.state.settings().clone();
            self.flight.found_node(&settings, node);
            self.scanner.forget();
        }
    }

    /// On a first boot the files that show the platform may come after the daemon.
    pub(super) fn find_platform(&mut self) {
        if self.state.plan().platform.is_none()
            && let Some(found) = platform::detect(&self.root)
        {
            let settings = self.state.settings().clone();
            let rules = self.state.rules().clone();
            self.flight.found_platform(&settings, found);
            self.state.configure(settings, rules, Some(found));
            self.scanner.forget();
        }
    }
}

/// What RKE2's own configuration says of the node.
pub(super) fn rke2_facts(layout: &Layout) -> NodeFacts {
    NodeFacts::default().with_rke2_files(&config_files(layout).files)
}
