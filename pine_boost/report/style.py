"""The style sheet of the report.

Nothing comes in; out goes one constant. Colours are variables with a light and a dark value.
"""

STYLE = """
:root { --ground:#f7f7f4; --card:#fff; --ink:#1d2421; --soft:#5d6964; --line:#dfe3df;
  --accent:#1f6f4a; --pale:#d5e8dc; --warn:#8a5a00; --warn-pale:#f6e7c6; }
@media (prefers-color-scheme: dark) { :root { --ground:#131715; --card:#1c2220; --ink:#e7ece9;
  --soft:#9aa8a1; --line:#303936; --accent:#6fcf9d; --pale:#234234; --warn:#e8b75a;
  --warn-pale:#443417; } }
* { box-sizing:border-box }
body { margin:0; background:var(--ground); color:var(--ink);
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif }
main { max-width:860px; margin:0 auto; padding:40px 20px 64px }
h1 { font-size:27px; line-height:1.3; margin:6px 0 18px; font-weight:650; text-wrap:balance }
h2 { font-size:18px; margin:0 0 14px }
p { margin:0 0 12px } .kind,.note { color:var(--soft); font-size:14px } .note { margin:12px 0 0 }
section > :last-child { margin-bottom:0 }
section { background:var(--card); border:1px solid var(--line); border-radius:12px;
  padding:22px 24px; margin-top:20px }
.badge { display:inline-block; padding:1px 10px; border-radius:99px; font-size:13px;
  font-weight:650; letter-spacing:.03em; margin-right:8px }
.good { background:var(--pale); color:var(--accent) }
.warn { background:var(--warn-pale); color:var(--warn) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(180px,1fr)); gap:14px }
.card { border:1px solid var(--line); border-radius:10px; padding:12px 14px }
.label { color:var(--soft); font-size:13px }
.number { font-size:18px; font-variant-numeric:tabular-nums; white-space:nowrap }
.number strong { color:var(--accent) } .arrow { color:var(--soft) }
.bar { height:6px; border-radius:3px; background:var(--line); margin-top:9px; overflow:hidden }
.bar i { display:block; height:100%; background:var(--accent); border-radius:3px }
.scroll { overflow-x:auto }
table { border-collapse:collapse; width:100%; font-size:14px; font-variant-numeric:tabular-nums }
th { text-align:left; color:var(--soft); font-weight:550 }
th,td { padding:6px 14px 6px 0; border-bottom:1px solid var(--line); vertical-align:top }
td { overflow-wrap:anywhere }
tbody tr:last-child td { border-bottom:0 }
details { margin-top:10px } summary { cursor:pointer; color:var(--soft); font-size:14px }
details p { margin-top:8px; font-size:15px }
.outside { border-left:3px solid var(--warn); padding:2px 0 2px 14px; margin-top:16px }
.outside p { margin:0 } .outside ul { margin:6px 0 0; padding-left:20px; font-size:15px }
svg { width:100%; height:auto; display:block }
svg .grid { stroke:var(--line) } svg .curve { fill:none; stroke:var(--accent); stroke-width:2 }
svg .dot { fill:var(--accent); stroke:var(--card); stroke-width:2 }
svg .open { fill:var(--card); stroke:var(--warn); stroke-width:2 }
svg .reach { stroke:var(--soft) } svg .chosen { stroke:var(--ink); stroke-width:3 }
svg .mark { stroke:var(--warn); stroke-width:1.5; stroke-dasharray:5 4 }
svg .bar-in { fill:var(--accent) } svg .bar-out { fill:var(--warn); opacity:.75 }
svg .changed { fill:var(--warn); stroke:var(--warn) }
svg text { fill:var(--soft); font-size:12px } svg .value { fill:var(--ink); font-weight:600 }
@media print { :root { --ground:#fff; --card:#fff; --ink:#000; --soft:#444; --line:#bbb;
  --accent:#1f6f4a; --pale:#d5e8dc; --warn:#8a5a00; --warn-pale:#f6e7c6 }
  body { background:#fff; print-color-adjust:exact } section,.outside { break-inside:avoid }
  .scroll { overflow:visible } }
"""
