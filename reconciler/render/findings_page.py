"""The findings about a tree as one HTML page that stands by itself: plots, a table per submitter, no script."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence

from reconciler.quantities import show_count
from reconciler.render.findings import SEVERITIES, sort_findings
from reconciler.render.svg import Bars, draw_bars, draw_histogram, draw_scatter
from reconciler.tree.findings import Facts, TreeFinding, TreeReport

_MOST = 40  # submitters in the plot
_AGREE = 0.002
_RATES = ("Server", "Interactive", "Offline")  # the scenarios whose target is a rate
_EDGES = (0.0, 0.5, 0.8, 0.85, 0.9, 0.94, 0.98, 1.02, 1.06, 1.1, 1.15, 1.2, 1.5, 2.0)
_STYLE = """
:root{--ink:#1c2430;--faint:#66707d;--line:#d9dee5;--back:#fff;
--error:#c0392b;--warning:#c98a10;--note:#8fa3b8;--plain:#3d6ea5}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--faint:#9aa5b3;--line:#39424e;--back:#161b22;--plain:#6fa3dc}}
body{margin:0 auto;padding:1.5rem;max-width:76rem;color:var(--ink);background:var(--back);
font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .3rem}
h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.3rem 0}.faint{color:var(--faint)}
.tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}
.tile{border:1px solid var(--line);border-radius:6px;padding:.6rem 1rem}
.tile b{display:block;font-size:1.4rem}table{border-collapse:collapse;width:100%;margin:.4rem 0 1rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-top:1px solid var(--line);overflow-wrap:anywhere}
th{color:var(--faint);font-weight:600;font-size:.85rem}code{font:12.5px ui-monospace,monospace;color:var(--faint)}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.4rem .9rem}
summary{cursor:pointer;font-weight:600}
.badge{border-radius:3px;padding:0 .4rem;color:#fff;font-size:.8rem}.badge.error{background:var(--error)}
.badge.warning{background:var(--warning)}.badge.note{background:var(--note)}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .error{fill:var(--error)}
svg .warning{fill:var(--warning)}svg .note{fill:var(--note)}svg .plain,svg .good{fill:var(--plain)}
svg .grid{stroke:var(--line);stroke-width:1}svg .even{stroke:var(--faint);stroke-dasharray:5 4}
.plots{display:flex;flex-wrap:wrap;gap:2rem}.plots>div{flex:1 1 26rem}@media print{details{break-inside:avoid}}
"""


def render_findings_page(report: TreeReport, title: str, by: str = "severity") -> str:
    """A whole page, UTF-8. Everything that comes out of a tree is escaped."""
    parts = [
        f"<h1>{_escape(title)}</h1>",
        f'<p class="faint">{_escape(report.root)}, MLPerf Inference {_escape(" and ".join(report.rounds))}</p>',
        _tiles(report),
        _plots(report),
        _rules(report),
        "<h2>Findings by submitter</h2>",
        *_submitters(report, by),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_escape(title)}</title>'
    body = "".join(parts)
    return f"<!doctype html>\n<html lang=en><head>{head}<style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"


def _tiles(report: TreeReport) -> str:
    compared, differing = _compared(report.facts)
    share = f" ({100 * differing / compared:.0f} %)" if compared else ""
    tiles = [
        (f"{len(report.facts):,}", "results examined"),
        (f"{len({f.submitter for f in report.facts}):,}", "submitters"),
        *((f"{report.count(severity):,}", f"{severity.value}s") for severity in SEVERITIES),
        (f"{differing:,}{share}", f"of {compared:,} targets in user.conf differ from the log"),
    ]
    return f'<div class="tiles">{"".join(f"<div class=tile><b>{a}</b>{_escape(b)}</div>" for a, b in tiles)}</div>'


def _compared(facts: Sequence[Facts]) -> tuple[int, int]:
    ratios = list(_ratios(facts))
    return len(ratios), sum(abs(ratio - 1) > _AGREE for _, ratio in ratios)


def _ratios(facts: Sequence[Facts]) -> Iterator[tuple[Facts, float]]:
    for item in facts:
        if item.target and item.conf_target and item.target > 0 and item.conf_target > 0:
            yield item, item.conf_target / item.target


def _plots(report: TreeReport) -> str:
    plots = [("Findings by submitter", _by_submitter(report)), ("Findings by kind", _by_kind(report))]
    ratios = list(_ratios(report.facts))
    off = [ratio for _, ratio in ratios if abs(ratio - 1) > _AGREE]
    points = [
        (f.target or 0.0, f.conf_target or 0.0, "good" if abs(r - 1) <= _AGREE else "error", _words(f, r))
        for f, r in ratios
        if f.cell.rpartition("/")[2] in _RATES
    ]
    axes = "target_qps in the log", "target_qps in user.conf"
    plots.append(("Target in user.conf against the log", draw_scatter(points, "targets", *axes)))
    if off:
        unit = "target in user.conf / target in the log, where they differ"
        plots.append(("How far user.conf is off", draw_histogram(off, "ratio of targets", _EDGES, unit)))
    drawn = "".join(f"<div><h2>{_escape(name)}</h2>{plot}</div>" for name, plot in plots if plot)
    return f'<div class="plots">{drawn}</div>'


def _words(facts: Facts, ratio: float) -> str:
    return f"{facts.submitter} {facts.cell}: {facts.conf_target:g} against {facts.target:g} ({ratio:.3f})"


def _by_submitter(report: TreeReport) -> str:
    counted = Counter((f.submitter or "the tree", f.severity) for f in report.findings)
    names = sorted({name for name, _ in counted}, key=lambda n: -sum(counted[n, s] for s in SEVERITIES))[:_MOST]
    parts = [[(severity.value, counted[name, severity]) for severity in SEVERITIES] for name in names]
    return draw_bars(Bars(names, parts), "findings by submitter") if names else ""


def _by_kind(report: TreeReport) -> str:
    counted = Counter((f.rule.kind, f.severity) for f in report.findings)
    names = sorted({name for name, _ in counted}, key=lambda n: -sum(counted[n, s] for s in SEVERITIES))
    parts = [[(severity.value, counted[name, severity]) for severity in SEVERITIES] for name in names]
    return draw_bars(Bars(names, parts), "findings by kind") if names else ""


def _rules(report: TreeReport) -> str:
    counted = Counter(finding.rule for finding in report.findings)
    if not counted:
        return "<p>Nothing was found.</p>"
    rows = "".join(
        f"<tr><td>{number:,}</td><td>{_escape(rule.title)}<br><code>{rule.id}</code></td>"
        f"<td>{_escape(', '.join(rule.sources))}</td></tr>"
        for rule, number in counted.most_common()
    )
    return f"<h2>Rules</h2><table><tr><th>findings<th>rule<th>source</tr>{rows}</table>"


def _submitters(report: TreeReport, by: str) -> Iterator[str]:
    groups: dict[str, list[TreeFinding]] = {}
    for finding in sort_findings(report.findings, by):
        groups.setdefault(finding.submitter or "the tree", []).append(finding)
    for name in sorted(groups, key=str.lower):
        group = groups[name]
        counted = Counter(finding.severity for finding in group)
        badges = " ".join(
            f'<span class="badge {s.value}">{show_count(counted[s], s.value)}</span>' for s in SEVERITIES if counted[s]
        )
        rows = "".join(_row(finding) for finding in group)
        opened = " open" if len(groups) == 1 else ""
        table = f"<table><tr><th>cell<th>found<th>but<th>likely cause</tr>{rows}</table>"
        yield f"<details{opened}><summary>{_escape(name)} {badges}</summary>{table}</details>"


def _row(finding: TreeFinding) -> str:
    complaint = finding.complaint
    other = f"<br><code>{_escape(str(complaint.other))}</code>" if complaint.other else ""
    badge = f'<span class="badge {finding.severity.value}">{finding.severity.value}</span>'
    return (
        f"<tr><td>{_escape(finding.cell or 'tree')}<br>{badge} <code>{finding.rule.id}</code></td>"
        f"<td>{_escape(complaint.found)}<br><code>{_escape(str(complaint.place))}</code></td>"
        f"<td>{_escape(complaint.wanted)}{other}</td><td>{_escape(complaint.cause)}</td></tr>"
    )


def _escape(text: str) -> str:
    return html.escape(text, quote=True)
