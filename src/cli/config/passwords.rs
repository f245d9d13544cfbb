//! Settings files with passwords that every user can read.

use std::os::unix::fs::MetadataExt as _;

use windrow_decide::settings::{ConfigError, Loaded};

use crate::fs;
use crate::report::webhooks::has_password;

/// The webhooks whose password every user can read, as warnings. A file that cannot be read is reported elsewhere.
pub(super) fn readable_passwords(loaded: &Loaded) -> Vec<ConfigError> {
    let hooks = loaded.settings.webhooks.iter();
    let readable = hooks.filter(|hook| has_password(hook)).filter_map(|hook| {
        let file = &hook.at.file;
        let mode = fs::metadata(file).ok()?.mode() & 0o7777;
        let shown = format!("{mode:04o}");
        (mode & 0o007 != 0).then(|| ConfigError {
            at: hook.at.clone(),
            message: format!(
                "this webhook has a password or a header, and every user can read the file (mode {shown}): chmod 0600 {file}"
            ),
        })
    });
    readable.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::configuration;
    use crate::layout::Layout;

    #[test]
    fn a_settings_file_with_a_password_that_everybody_can_read_is_a_warning() {
        const PASSWORD: &str = "basicAuth: {user: ann, password: polecat-fir}";
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let path = layout.path("/etc/windrow/conf.d/20-site.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (further, mode, is_readable) in [
            (PASSWORD, 0o644, true),
            ("headers: {X-Api-Key: [polecat-fir]}", 0o604, true),
            (PASSWORD, 0o600, false),
            (PASSWORD, 0o640, false),
            ("headers: {Accept: [text/plain]}", 0o644, false),
            ("insecure: true", 0o644, false),
        ] {
            let text = format!("webhooks:\n- event: NODE_READY\n  url: https://x\n  {further}\n");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let loaded = configuration::load(&layout);
            assert_eq!(loaded.errors, []);
            let warnings = readable_passwords(&loaded);
            assert_eq!(
                warnings.len(),
                usize::from(is_readable),
                "{further} {mode:o}"
            );
            for warning in warnings {
                assert_eq!(warning.at.file, path.display().to_string());
                assert!(warning.at.line.is_some());
                assert!(!warning.message.contains("polecat-fir"), "{warning:?}");
            }
        }
    }
}
