//! The values that an unattended installation needs and that nothing provides.

use super::remark::{Remark, RemarkKind};
use super::rules::{Checker, Mode, entry, is_set, whole};

impl Checker<'_, '_> {
    /// Values that only the kernel's command line, or you at the console, can add. A disk and an image are chosen in the file for an
    /// unattended installation.
    pub(super) fn what_is_missing(&mut self) {
        let automatic = self.automatic();
        let mode = self.install.and_then(|install| entry(install, "mode"));
        let mut chosen = ["isoUrl", "device"].into_iter();
        let is_unattended = chosen.any(|key| is_set(self.install, key));
        let (line, kind) = match (automatic, mode) {
            (Some(automatic), _) if self.arguments.is_some() => {
                (automatic.line, RemarkKind::Refused)
            }
            (Some(automatic), _) => (automatic.line, RemarkKind::Depends),
            (None, Some(mode)) if matches!(self.mode, Mode::Create | Mode::Join) => {
                let kind = match is_unattended && self.arguments.is_none() {
                    true => RemarkKind::Depends,
                    false => RemarkKind::Asks,
                };
                (mode.line, kind)
            }
            _ => return,
        };
        let scheme = entry(self.root, "schemeVersion");
        match scheme.and_then(|scheme| Some((whole(&scheme.value)?, scheme.line))) {
            Some((1, _)) => {}
            Some((_, line)) if automatic.is_some() => {
                self.refuse(line, "`scheme_version` is 1 in all releases");
            }
            _ => self.missing.insert(0, "scheme_version"),
        }
        self.needs(self.install, "isoUrl", "install.iso_url");
        self.needs(self.install, "device", "install.device");
        self.values_behind_missing_modes();
        if let Some(arguments) = self.arguments {
            self.missing.retain(|key| !arguments.has_open(key));
        }
        if self.missing.is_empty() {
            return;
        }
        let missing: Vec<String> = self.missing.iter().map(|one| format!("`{one}`")).collect();
        let missing = missing.join(", ");
        let first = self.missing.first().copied().unwrap_or_default();
        let why = match kind {
            RemarkKind::Refused => format!(
                "an unattended installation also needs {missing}, and neither the file nor the kernel's command line has it"
            ),
            _ => format!(
                "an unattended installation also needs {missing}; write it here, or on the kernel's command line (harvester.{first}=…)"
            ),
        };
        self.remarks.push(Remark { line, kind, why });
    }

    /// The values that depend on a missing mode, so that all of them are in one message.
    fn values_behind_missing_modes(&mut self) {
        let lacks = |missing: &[&str], key: &str| missing.contains(&key);
        if lacks(&self.missing, "install.vip_mode") && !is_set(self.install, "vip") {
            self.missing.push("install.vip (if vip_mode is static)");
        }
        if lacks(&self.missing, "install.management_interface.method") {
            let addresses = ["ip", "subnetMask", "gateway"];
            if addresses
                .into_iter()
                .any(|key| !is_set(self.management, key))
            {
                self.missing
                    .push("ip, subnet_mask, gateway and os.dns_nameservers (if method is static)");
            }
        }
    }
}
