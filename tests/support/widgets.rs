//! A manifest that is held for good, and the rule that holds it: someone has to be notified of it.

/// Keeps widgets from RKE2 beyond their deadline.
pub(crate) const KEEP: &str = "\
apiVersion: windrow.dev/v1
kind: RulePack
metadata: {name: test}
rules:
- name: widgets-wait
  match: {group: example.com, kind: Widget}
  reason: the test says so
  deadline: 1s
  onDeadline: keep
  requires:
  - object: {group: \"\", kind: ConfigMap, namespace: default, name: never}
    condition: exists
";
/// Waits for a kind that nothing brings.
pub(crate) const WIDGET: &str =
    "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget, namespace: default}\n";
