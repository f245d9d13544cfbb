//! Colours and fonts, light first. A viewer that supports `prefers-color-scheme` gets the dark ones; the background is
//! always painted, so the picture is readable everywhere.

pub(super) const STYLE: &str = r#"<style>
text { font-family: "DejaVu Sans", Verdana, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; font-size: 12px; fill: #1f2937; }
.page { fill: #ffffff; }
.headline { font-size: 17px; font-weight: 600; }
.heading { font-size: 11px; fill: #6b7280; letter-spacing: .04em; }
.box { fill: #f9fafb; stroke: #9ca3af; stroke-width: 1.4; }
.rule { stroke: #e5e7eb; fill: none; }
.title { font-size: 13px; font-weight: 700; }
.kind { font-size: 11px; fill: #6b7280; }
.legend { font-size: 11px; fill: #4b5563; }
.error { fill: #b91c1c; }
.warning { fill: #92400e; }
.number { font-size: 11px; font-weight: 700; text-anchor: middle; fill: #ffffff; }
.disc { fill: #6b7280; }
.badge { fill: #e5e7eb; }
.badge-text { font-size: 11px; text-anchor: middle; fill: #374151; }
.free .box { stroke: #16a34a; } .free .disc { fill: #15803d; } .free .badge { fill: #dcfce7; } .free .badge-text { fill: #166534; }
.held .box { stroke: #d97706; } .held .disc { fill: #b45309; } .held .badge { fill: #fef3c7; } .held .badge-text { fill: #92400e; }
.wrong .box { stroke: #dc2626; stroke-width: 2; } .wrong .disc { fill: #b91c1c; } .wrong .badge { fill: #fee2e2; } .wrong .badge-text { fill: #991b1b; }
.other .box { fill: #ffffff; stroke-dasharray: 5 3; }
.edge { fill: none; stroke-width: 1.5; }
.required { stroke: #374151; } .head.required { fill: #374151; }
.advisory { stroke: #9ca3af; stroke-dasharray: 5 4; } .head.advisory { fill: #9ca3af; }
.yields { stroke: #9ca3af; stroke-dasharray: 1.5 4; } .head.yields { fill: #9ca3af; }
.cycle { stroke: #dc2626; stroke-width: 2; } .head.cycle { fill: #dc2626; }
.head { stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #e5e7eb; }
.page { fill: #111827; }
.heading, .kind, .legend { fill: #9ca3af; }
.box { fill: #1f2937; stroke: #6b7280; }
.rule { stroke: #374151; }
.error { fill: #fca5a5; } .warning { fill: #fcd34d; }
.badge { fill: #374151; } .badge-text { fill: #d1d5db; }
.free .badge { fill: #14532d; } .free .badge-text { fill: #bbf7d0; }
.held .badge { fill: #78350f; } .held .badge-text { fill: #fde68a; }
.wrong .badge { fill: #7f1d1d; } .wrong .badge-text { fill: #fecaca; }
.other .box { fill: #111827; }
.required { stroke: #d1d5db; } .head.required { fill: #d1d5db; }
.advisory, .yields { stroke: #6b7280; } .head.advisory, .head.yields { fill: #6b7280; }
.cycle { stroke: #f87171; } .head.cycle { fill: #f87171; }
}
</style>
"#;
