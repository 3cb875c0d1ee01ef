"""`reconcile rounds`: the rules of each round, where their sources differ, and what changed between two."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import complete_rounds, json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.errors import IN_SYNC, ReconcilerError, suggest_nearest
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.render.rounds import (
    render_benchmark_part,
    render_benchmark_text,
    render_conflicts_part,
    render_conflicts_text,
    render_diff_part,
    render_diff_text,
    render_round_text,
)
from reconciler.render.table import render_table
from reconciler.resource.quantities import show_count
from reconciler.rules.comparison import diff_rounds, find_conflicts
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules, Ruleset


def _round(name: str = "round_name", metavar: str = "ROUND", required: bool = True) -> click.Argument:
    return click.Argument([name], metavar=metavar, required=required, shell_complete=complete_rounds)


@click.group("rounds", invoke_without_command=True)
@takes([json_option()])
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """List the rounds whose rules are known, oldest first; show, compare and question them."""
    if context.invoked_subcommand is not None:
        return IN_SYNC
    found = [load_ruleset(name) for name in list_rounds()]
    if as_json:
        rows = [{"round": r.round, "layout": r.layout, "benchmarks": list(r.benchmarks)} for r in found]
        say_json(render_document("rounds", rounds=rows))
        return IN_SYNC
    listed = [(r.round, show_count(len(r.benchmarks), "benchmark"), f"layout {r.layout}") for r in found]
    say("\n".join(render_table(listed)))
    return IN_SYNC


@command.command("show")
@takes([_round(), click.Argument(["benchmark"], required=False, metavar="[BENCHMARK]"), json_option()])
def show(round_name: str, benchmark: str | None, as_json: bool) -> int:
    """Show the rules of ROUND: all benchmarks, or every value of BENCHMARK with its sources."""
    ruleset = load_ruleset(round_name)
    if benchmark is not None:
        rules = _find(ruleset, benchmark)
        if as_json:
            say_json(render_document("round", round=round_name, benchmarks={rules.name: render_benchmark_part(rules)}))
        else:
            say(render_benchmark_text(rules, choose_paint()))
    elif as_json:
        parts = {rules.name: render_benchmark_part(rules) for rules in ruleset.benchmarks.values()}
        say_json(
            render_document("round", round=round_name, benchmarks=parts, sections=convert_plain_value(ruleset.sections))
        )
    else:
        say(render_round_text(ruleset, choose_paint()))
    return IN_SYNC


def _find(ruleset: Ruleset, name: str) -> BenchmarkRules:
    rules = ruleset.find_benchmark(ruleset.find_official_name(name) or name)
    if rules is None:
        fix = f"{suggest_nearest(name, ruleset.benchmarks)}it has {', '.join(ruleset.benchmarks)}"
        raise ReconcilerError(f"round {ruleset.round} has no benchmark {name!r}", fix=fix)
    return rules


@command.command("conflicts")
@takes([_round(metavar="[ROUND]", required=False), json_option()])
def show_conflicts(round_name: str | None, as_json: bool) -> int:
    """List each value of ROUND (by default the newest) about which the sources differ: which counts, and why."""
    ruleset = load_ruleset(round_name or list_rounds()[-1])
    found = find_conflicts(ruleset)
    if as_json:
        say_json(render_document("round conflicts", round=ruleset.round, conflicts=render_conflicts_part(found)))
    else:
        say(render_conflicts_text(ruleset.round, found, choose_paint()))
    return IN_SYNC


@command.command("diff")
@takes([_round("before", "BEFORE"), _round("after", "AFTER"), json_option()])
def show_diff(before: str, after: str, as_json: bool) -> int:
    """List what changed from round BEFORE to round AFTER: benchmarks, and the values of those that both have."""
    diff = diff_rounds(load_ruleset(before), load_ruleset(after))
    if as_json:
        say_json(render_document("rounds diff", **render_diff_part(diff)))
    else:
        say(render_diff_text(diff, choose_paint()))
    return IN_SYNC
