"""`reconcile rounds`: the rules of each round, where their sources differ, and what changed between two."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath, complete_rounds, json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json, say_report
from reconciler.errors import IN_SYNC, ReconcilerError, suggest_nearest
from reconciler.fetch.scratch import FileState, Found, find_scratch, look_for
from reconciler.loadgen.user_conf import UserConf, parse_user_conf
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.render.rounds import (
    render_benchmark_list,
    render_benchmark_page,
    render_benchmark_part,
    render_benchmark_text,
    render_conflicts_part,
    render_conflicts_text,
    render_diff_part,
    render_diff_text,
    render_files_part,
    render_round_text,
)
from reconciler.render.table import render_table
from reconciler.resource.quantities import show_count
from reconciler.rules.benchmark_facts import BenchmarkFacts, find_benchmark_facts, load_benchmark_facts
from reconciler.rules.benchmark_files import find_benchmark_files
from reconciler.rules.checker_tables import read_checkers
from reconciler.rules.comparison import diff_rounds, find_conflicts
from reconciler.rules.drafting import choose_base, choose_round, draft_round, render_draft
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules, Ruleset


class ShowGroup(click.Group):
    """A group in which any word that is not a command is a name to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        shows = args[0] not in self.commands and not args[0].startswith("-")
        return super().resolve_command(ctx, ["show", *args] if shows else args)


# `reconcile benchmarks`: the bundled MLPerf benchmarks, and the disk space that each needs.


@click.group("benchmarks", cls=ShowGroup, invoke_without_command=True)
@takes([json_option()])
@click.pass_context
def benchmarks_command(context: click.Context, as_json: bool) -> int:
    """List the benchmarks of MLPerf that a spec may name without any code; `benchmarks show NAME` shows one."""
    if context.invoked_subcommand is not None:
        return IN_SYNC
    found = list(load_benchmark_facts().values())
    here = {facts.code: _look_for_files(facts) for facts in found}
    scenarios = {facts.code: _find_scenarios(facts, *facts.names.values()) for facts in found}
    if as_json:
        files = {facts.code: render_files_part(here[facts.code]) for facts in found}
        rows = [{**convert_plain_value(f), "rounds": scenarios[f.code], "files": files[f.code]} for f in found]
        say_json(render_document("benchmarks", benchmarks=rows))
    else:
        by_name = {name: _find_scenarios(facts, official) for facts in found for name, official in facts.names.items()}
        say(render_benchmark_list(found, scenarios, by_name, here, choose_paint()))
    return IN_SYNC


@benchmarks_command.command("show", short_help="Show one benchmark in full: data, model, files, rounds.")
@takes([click.Argument(["name"], metavar="NAME"), json_option()])
def show_benchmark(name: str, as_json: bool) -> int:
    """Show what NAME is made from, where to get it, and in which rounds and scenarios it may be entered."""
    facts = _find_benchmark(name)
    if facts is None:
        known = [known for facts in load_benchmark_facts().values() for known in facts.names if "_" not in known]
        raise ReconcilerError(
            f"there is no built-in benchmark {name!r}",
            fix=f"{suggest_nearest(name, known)}`reconcile benchmarks` lists them",
        )
    scenarios = _find_scenarios(facts, facts.find_official_name(name))
    here = _look_for_files(facts)
    parts = {**convert_plain_value(facts), "rounds": scenarios, "files": render_files_part(here)}
    text = render_benchmark_page(facts, scenarios, here, choose_paint())
    say_report(render_document("benchmark", **parts), text, as_json=as_json)
    return IN_SYNC


def _find_benchmark(name: str) -> BenchmarkFacts | None:
    """Find a benchmark by its name in specs, in results or in common use. For example, `llama3.1-8b-interactive` has
    been the Interactive scenario of llama3.1-8b since v5.1, and `e2e-rag` is the code that two benchmarks share."""
    written = (name, name.removesuffix("-interactive"), name.replace("-", "_"))
    return next((facts for one in written if (facts := find_benchmark_facts(one)) is not None), None)


def _look_for_files(facts: BenchmarkFacts) -> list[Found]:
    """Look for its files in the local scratch space without reading them; return nothing if there is no scratch
    space."""
    files = find_benchmark_files(facts.code, *facts.names)
    if files is None:
        return []
    try:
        scratch = find_scratch(os.environ)
    except ReconcilerError:
        return [Found(file, FileState.MISSING, Path(file.path)) for file in files.files]
    return [look_for(scratch, file, deep=False) for file in files.files]


def _find_scenarios(facts: BenchmarkFacts, *officials: str) -> dict[str, dict[str, list[str]]]:
    """Map each round that has the benchmark, oldest first, to the allowed scenarios of each category. ``officials``:
    the benchmark's official names; the first one that the round knows is used."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in _list_rounds_of(facts):
        ruleset = load_ruleset(name)
        rules = next((known for official in officials if (known := ruleset.find_benchmark(official)) is not None), None)
        if rules is not None:
            found[name] = {
                category: [*table.required, *table.optional]
                for category, table in rules.tables.items()
                if table.required or table.optional
            }
    return found


def _list_rounds_of(facts: BenchmarkFacts) -> tuple[str, ...]:
    """List the rounds in which the benchmark's names refer to it. In earlier rounds, they may refer to other
    benchmarks."""
    rounds = list_rounds()
    if facts.until:
        return rounds[: rounds.index(facts.until) + 1]
    own, others = set(facts.names.values()), load_benchmark_facts().values()
    before = [other.until for other in others if other.until and own & set(other.names.values())]
    return rounds[max((rounds.index(until) + 1 for until in before), default=0) :]


def _round_argument(name: str = "round_name", metavar: str = "ROUND", required: bool = True) -> click.Argument:
    return click.Argument([name], metavar=metavar, required=required, shell_complete=complete_rounds)


@click.group("rounds", cls=ShowGroup, invoke_without_command=True)
@takes([json_option()])
@click.pass_context
def rounds_command(context: click.Context, as_json: bool) -> int:
    """List the rounds whose rules are known, oldest first; show and compare them."""
    if context.invoked_subcommand is not None:
        return IN_SYNC
    found = [load_ruleset(name) for name in list_rounds()]
    rows = [{"round": r.round, "layout": r.layout, "benchmarks": list(r.benchmarks)} for r in found]
    listed = [(r.round, show_count(len(r.benchmarks), "benchmark"), f"layout {r.layout}") for r in found]
    say_report(render_document("rounds", rounds=rows), "\n".join(render_table(listed)), as_json=as_json)
    return IN_SYNC


@rounds_command.command("show", short_help="Show the rules of a round, or of one benchmark in it.")
@takes([_round_argument(), click.Argument(["benchmark"], required=False, metavar="[BENCHMARK]"), json_option()])
def show_round(round_name: str, benchmark: str | None, as_json: bool) -> int:
    """Show the rules of ROUND: all benchmarks, or every value of BENCHMARK with its sources."""
    ruleset = load_ruleset(round_name)
    rules = None if benchmark is None else _find_rules(ruleset, benchmark)
    if as_json:
        shown = [rules] if rules else ruleset.benchmarks.values()
        parts = {found.name: render_benchmark_part(found) for found in shown}
        sections = {} if rules else {"sections": ruleset.sections}
        say_json(render_document("round", round=round_name, benchmarks=parts, **sections))
    else:
        paint = choose_paint()
        say(render_benchmark_text(rules, paint) if rules else render_round_text(ruleset, paint))
    return IN_SYNC


def _find_rules(ruleset: Ruleset, name: str) -> BenchmarkRules:
    rules = ruleset.find_benchmark(ruleset.find_official_name(name) or name)
    if rules is None:
        fix = f"{suggest_nearest(name, ruleset.benchmarks)}it has {', '.join(ruleset.benchmarks)}"
        raise ReconcilerError(f"round {ruleset.round} has no benchmark {name!r}", fix=fix)
    return rules


@rounds_command.command("conflicts", short_help="List the values about which sources differ.")
@takes([_round_argument(metavar="[ROUND]", required=False), json_option()])
def show_conflicts(round_name: str | None, as_json: bool) -> int:
    """List each value of ROUND (by default the newest) for which the sources differ: the one that applies, and why."""
    ruleset = load_ruleset(round_name or list_rounds()[-1])
    found = find_conflicts(ruleset)
    document = render_document("round conflicts", round=ruleset.round, conflicts=render_conflicts_part(found))
    say_report(document, render_conflicts_text(ruleset.round, found, choose_paint()), as_json=as_json)
    return IN_SYNC


@rounds_command.command("draft", short_help="Draft a new round's file from its official checker.")
@takes(
    [
        click.Option(
            ["--checker"],
            required=True,
            type=ExistingPath(file_okay=False, path_type=Path),
            help="A checkout of mlcommons/inference, or its folder tools/submission. No code of it is run.",
        ),
        click.Option(["--conf"], type=ExistingPath(dir_okay=False, path_type=Path), help="The round's mlperf.conf."),
        click.Option(["--round", "round_name"], help="Default: the newest that the checker has."),
        click.Option(["--base"], help="The round that it extends. Default: the newest known one before it."),
        json_option(),
    ]
)
def draft(checker: Path, conf: Path | None, round_name: str | None, base: str | None, as_json: bool) -> int:
    """Write a round's file from a new official checker and mlperf.conf, on standard output.

    It lists the values that differ from the previous round, each with its file and line; comments list open decisions
    and what the round would make stale.
    """
    checkers = read_checkers(checker)
    name = round_name or choose_round(checkers)
    if name not in (known := checkers[0].list_rounds()):
        raise ReconcilerError(f"{checkers[0].file} has no round {name!r}", fix=f"it has {', '.join(known)}")
    read = _read_conf(conf) if conf is not None else None
    made = draft_round(name, load_ruleset(base or choose_base(name)), checkers, read)
    text = render_draft(made)
    places = [{"place": str(place), "said": said} for place, said in made.changed.items()]
    document = render_document("round draft", round=name, base=made.base.round, changed=places, text=text)
    say_report(document, text.rstrip(), as_json=as_json)
    return IN_SYNC


def _read_conf(path: Path) -> UserConf:
    """Raises ReconcilerError for a file that LoadGen would reject, or that sets nothing."""
    read = parse_user_conf(path.read_bytes(), path.name)
    fix = "pass the round's mlperf.conf: loadgen/mlperf.conf of mlcommons/inference"
    if wrong := next((problem for problem in read.problems if problem.fatal), None):
        raise ReconcilerError(f"{path}:{wrong.line}: LoadGen would reject this file: {wrong.message}", fix=fix)
    if not read.values:
        raise ReconcilerError(f"{path} sets no value", fix=fix)
    return read


@rounds_command.command("diff", short_help="List what changed between two rounds.")
@takes([_round_argument("before", "BEFORE"), _round_argument("after", "AFTER"), json_option()])
def show_diff(before: str, after: str, as_json: bool) -> int:
    """List what changed from round BEFORE to round AFTER: benchmarks, and the values of those that both have."""
    diff = diff_rounds(load_ruleset(before), load_ruleset(after))
    document = render_document("rounds diff", **render_diff_part(diff))
    say_report(document, render_diff_text(diff, choose_paint()), as_json=as_json)
    return IN_SYNC
