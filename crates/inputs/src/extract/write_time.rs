//! When a file is written: cloud-init's and yip's stages.

/// When a file is written, relative to the other files of one node. Files with the same time are written in the order
/// of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteTime(u8);

/// yip's stages, in the order in which an Elemental system (such as Harvester) runs them: the units `cos-setup-<stage>`
/// of rancher/elemental-toolkit. yip itself runs only the requested stage.
const STAGES: [&str; 6] = ["rootfs", "initramfs", "fs", "boot", "network", "reconcile"];

impl WriteTime {
    /// Before the system's units start.
    pub(super) const EARLY: Self = Self(0);
    /// cloud-init's final stage, in which it writes deferred files (`cloudinit/config/cc_write_files_deferred.py`,
    /// 26.2).
    pub(super) const DEFERRED: Self = Self(1);

    /// A stage of yip, with those before and after it (`boot.before`, `boot.after`). The files of an installation were
    /// written first; an unknown stage comes last.
    pub(super) fn for_stage(stage: &str) -> Self {
        let (bare, beside) = match stage.rsplit_once('.') {
            Some((bare, "before")) => (bare, 0),
            Some((bare, "after")) => (bare, 2),
            _ => (stage, 1),
        };
        if bare.contains("install") {
            return Self::EARLY;
        }
        let known = STAGES.iter().position(|known| *known == bare);
        let rank = known.unwrap_or(STAGES.len());
        Self(u8::try_from(3 + 3 * rank + beside).unwrap_or(u8::MAX))
    }
}

/// Whether this stage of yip is over before the system's units start. Files of the installation also exist by then.
pub(super) fn is_early(stage: &str) -> bool {
    let bare = stage.trim_end_matches(".before").trim_end_matches(".after");
    matches!(bare, "rootfs" | "initramfs") || bare.contains("install")
}

/// Programs that run yip around an action: elemental-toolkit (`pkg/constants/constants.go`, 185c18b) and kairos-agent
/// (`pkg/constants`, `pkg/action`, `pkg/uki`, 96f93a0).
const ACTIONS: [&str; 4] = ["install", "upgrade", "reset", "disk"];
const OF_KAIROS: [&str; 4] = [
    "kairos-install",
    "kairos-uki-install",
    "kairos-uki-reset",
    "kairos-uki-upgrade",
];

/// A stage in the initrd, before the root is there (elemental-toolkit v2.2.0 to v2.3.2, `elemental-setup-pre-rootfs.service`).
const BEFORE_ROOT: &str = "pre-rootfs";

/// Why it is unknown whether a program runs this stage; `None` for a stage that one runs.
pub(super) fn unknown_stage(stage: &str) -> Option<&'static str> {
    let written = stage;
    let without = [".before", ".after"];
    let stage = without
        .iter()
        .find_map(|end| stage.strip_suffix(end))
        .unwrap_or(stage);
    let bare = stage;
    let is_boot = STAGES.contains(&bare) || bare == BEFORE_ROOT;
    let is_of_kairos = stage
        .strip_suffix(".pre")
        .or_else(|| stage.strip_suffix(".after"))
        .is_some_and(|action| OF_KAIROS.contains(&action));
    let is_around = || {
        let action = bare
            .split_once('-')
            .filter(|(when, _)| matches!(*when, "before" | "after" | "post"));
        let action = action.map(|(_, action)| action.strip_suffix("-chroot").unwrap_or(action));
        action.is_some_and(|action| ACTIONS.contains(&action))
    };
    // Kairos runs `NAME.pre` and `NAME.after`, each with its own before and after (`pkg/utils/runstage.go`).
    if is_boot
        || is_around()
        || is_of_kairos
        || OF_KAIROS
            .iter()
            .any(|action| written == format!("{action}.after"))
    {
        None
    } else if bare == "first-boot" {
        Some("only Kairos runs it, since kairos#4591 of September 2026")
    } else {
        Some("neither Elemental nor Kairos has a stage of this name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_known_if_elemental_or_kairos_runs_it() {
        for known in [
            "boot",
            "boot.before",
            "rootfs.after",
            "after-install-chroot",
            "before-upgrade",
            "post-reset",
            "after-disk",
            "kairos-install.pre",
            "kairos-install.pre.before",
            "kairos-uki-reset.after",
            "pre-rootfs.after",
        ] {
            assert_eq!(unknown_stage(known), None, "{known}");
        }
        for unknown in [
            "after-boot",
            "first-boot",
            "boot.late",
            "install",
            "kairos-install",
            "kairos-install.late",
            "after-install.late",
        ] {
            assert!(unknown_stage(unknown).is_some(), "{unknown}");
        }
    }
}
