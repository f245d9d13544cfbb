//! The journal's entries about a configuration.

use windrow_decide::Event;
use windrow_decide::settings::Loaded;
use windrow_model::reasons::Code;

/// One entry per error, with file and line.
pub(super) fn configuration_events(loaded: &Loaded) -> Vec<Event> {
    if loaded.errors.is_empty() {
        return vec![Event::new(
            Code::ConfigurationLoaded,
            Code::ConfigurationLoaded.say(&[]),
        )];
    }
    loaded
        .errors
        .iter()
        .map(|error| Event {
            code: Code::ConfigurationInvalid,
            file: Some(error.at.file.clone()),
            message: Code::ConfigurationInvalid.say(&[("why", &error.to_string())]),
        })
        .collect()
}
