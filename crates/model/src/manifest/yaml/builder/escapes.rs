//! Escapes in double quotes that RKE2's reader does not know.

use libyaml_safer::{EventData, ScalarStyle};

use super::NodeBuilder;

const ESCAPED_SLASH: &str =
    "not valid YAML as RKE2 reads it: a slash cannot be escaped there; write only `/`";

impl NodeBuilder<'_> {
    /// RKE2's reader rejects `\/`, which YAML has since 1.2 and the parser accepts.
    pub(in crate::manifest::yaml) fn look_at_escapes(
        &mut self,
        event: &EventData,
        at: (u64, u64),
        line: u32,
    ) {
        let EventData::Scalar { value, style, .. } = event else {
            return;
        };
        let is_rke2s = !self.unique && !self.written_binary;
        if !is_rke2s || *style != ScalarStyle::DoubleQuoted || !value.contains('/') {
            return;
        }
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let written = self.text.get(index(at.0)..index(at.1)).unwrap_or_default();
        let mut escaped = false;
        let mut above = 0;
        for ch in written.chars() {
            above += u32::from(ch == '\n');
            if escaped && ch == '/' {
                return self.problem(line + above, ESCAPED_SLASH.to_owned());
            }
            escaped = ch == '\\' && !escaped;
        }
    }
}
