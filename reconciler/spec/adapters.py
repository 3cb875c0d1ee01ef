"""Adapters: data that describes how to start a published harness. ``adapters/`` contains one for each supported
harness; users may add their own to the specs, in files with ``kind: Adapter``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec.structs import replace
from pydantic import Field, ValidationError

from reconciler.errors import Problem
from reconciler.resource.inputs import Origin
from reconciler.resource.settings import ADAPTER, RESULTS
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.spec import fields
from reconciler.spec.commands import PLACEHOLDERS
from reconciler.spec.groups import Empty, Group, describe
from reconciler.spec.layers import Block, combine, flatten, give_origin
from reconciler.spec.locations import Variables
from reconciler.spec.names import find_nearest, give_advice
from reconciler.spec.nodes import ListNode, MapNode, Node, ScalarNode, convert_plain, parse
from reconciler.spec.quantities import show_quantity
from reconciler.spec.settings_models import SettingsGroup
from reconciler.spec.validation import find_group, find_node, find_position
from reconciler.storage.files import has_path

_FOLDER = Path(__file__).parent / "adapters"
KIND = "Adapter"
Scenario = Literal["SingleStream", "MultiStream", "Server", "Offline", "Interactive"]


class Needs(Group):
    """Files that the commands need, below the folder given as `code`; may contain words, {system}, {scenario} and *."""

    command: list[fields.Text] = describe("Files that the command needs.", [])
    score: list[fields.Text] = describe("Files that the scorer needs.", [])


class AdaptedBenchmark(Group):
    """A benchmark that the harness can run."""

    words: Annotated[dict[str, fields.Text], Empty] = describe("Values of {name} in the settings.", {})
    settings: SettingsGroup = describe("Settings of this benchmark only.", SettingsGroup())
    needs: Needs = describe("Files that this benchmark needs in addition.", Needs())
    unsupported: Annotated[dict[Scenario, fields.Text], Empty] = describe(
        "Scenario → reason that its command does not run it.", {}
    )


class Rates(Group):
    """Where the harness stores expected rates and batch sizes for the systems that it was published with."""

    files: fields.Text = Field(
        description="Path below its code; may contain {system} or {accelerator}, {scenario}, its placeholders and *."
    )
    otherwise: fields.OptionalText = describe("Path to look at if there is no such file.")
    accelerators: int | None = describe("Number of accelerators that a file with {accelerator} is for.")
    system: fields.OptionalText = describe("Setting that names the system, if the files do not.")
    spelling: Annotated[dict[str, fields.Text], Empty] = describe(
        "Part of a system's name → the same part in that setting.", {}
    )
    sections: Annotated[dict[str, fields.Text], Empty] = describe(
        "End of a system's name, such as _MaxQ → start of the heading of its settings.", {}
    )
    target_qps: Annotated[dict[Scenario, fields.Text], Empty] = describe("Scenario → name of its target.", {})
    batch_size: fields.OptionalText = describe("Name of the batch size.")
    min_duration: fields.OptionalText = describe("Name of the minimum duration, in ms.")
    min_query_count: fields.OptionalText = describe("Name of the minimum number of queries.")


class Harnessed(Group):
    """Facts about a published harness."""

    source: fields.Text = Field(description="Repository, commit and files that this is based on.")
    notes: fields.OptionalText = describe("Notes for users, such as the names of systems.")
    folder: fields.OptionalText = describe(
        "Path of its code below a whole checkout; may contain the benchmark's placeholders and *."
    )
    cpu_folder: fields.OptionalText = describe(
        "End of the paths of code for systems without accelerators, if other folders are for those."
    )
    settings: SettingsGroup = describe("Settings of every benchmark.", SettingsGroup())
    needs: Needs = describe("Files that every benchmark needs.", Needs())
    benchmarks: dict[str, AdaptedBenchmark] = Field(description="Official names of the benchmarks that it runs.")
    unsupported: Annotated[dict[str, fields.Text], Empty] = describe(
        "Official name → reason that it does not run it.", {}
    )
    published: Rates | None = describe("Initial values from its own files, for `init --harness`.")


class Named(Group):
    name: fields.Text = Field(description="Name for `harness.adapter`.")


class AdapterDocument(Group):
    """An adapter."""

    apiVersion: Literal["mlperf-reconciler/v1"] = Field(description="Format of this file.")  # noqa: N815
    kind: Literal["Adapter"] = Field(description="Kind of this file.")
    metadata: Named = Field(description="Name of the adapter.")
    adapter: Harnessed = Field(description="The adapter.")


class HarnessAdapter:
    """A harness's adapter. ``tree``: the parsed file."""

    def __init__(self, document: AdapterDocument, tree: MapNode) -> None:
        self.name = document.metadata.name
        self.known = document.adapter
        self.file = tree.origin.file  # the name that its settings' origins have
        self.origin = find_position(tree, ("metadata", "name"))[1]
        self._tree = tree
        self.is_shipped = self.file == f"adapter {self.name}"

    @property
    def round(self) -> str:
        """The round whose published code this describes; "" if it is not the code of a single round."""
        found = re.search(r"inference_results_(v\d+\.\d+)", self.known.source)
        return found[1] if found else ""

    def find_code(self, checkout: Path, benchmark: str) -> list[Path]:
        """Find the folders with the code of a benchmark: below ``checkout``, which may be a part of a whole one."""
        parts, own = Path(self.make_folder_name(benchmark)).parts, (self.known.folder or "").partition("{")
        ends = ("/".join(parts[skipped:]) for skipped in range(own[0].count("/") + 1) if parts)
        found = (sorted(path for path in checkout.glob(end) if path.is_dir()) for end in ends)
        return next(filter(None, found), [])

    def find_partners(self, checkout: Path) -> list[Path]:
        """Find the folders in which any submitter has this code: a checkout itself, or folders below it or below its
        closed/."""
        needed = self.known.needs.command if re.fullmatch(r"closed/\w+", self.known.folder or "") else []
        needed = [path for path in needed if "{" not in path]
        levels = ([checkout], [*checkout.glob("closed/*"), *checkout.glob("closed/*/src")], checkout.glob("*"))
        found = (sorted(path for path in paths if all((path / each).is_file() for each in needed)) for paths in levels)
        return next(filter(None, found), []) if needed else []

    def names_folder(self, folder: Path, benchmark: str) -> bool:
        """Return True if a folder is named like the one with a benchmark's code, in a harness in which other benchmarks
        have other folders."""
        end = "".join((self.known.folder or "").partition("{")[1:])
        return bool(end) and folder.match(fill_words(end, self.known.benchmarks[benchmark].words))

    def list_missing(self, folder: Path, benchmark: str, words: Mapping[str, str]) -> list[str]:
        """List the files that the command needs for a benchmark and that a folder lacks."""
        return [path for path in self.list_needs(benchmark, "command", words) if not has_path(folder, path)]

    def fits_folder(self, folder: Path, benchmark: str) -> bool:
        """Return True if a folder may contain a benchmark's code. If other benchmarks have other folders, it must have
        files that the code needs."""
        return "{" not in (self.known.folder or "") or not self.list_missing(folder, benchmark, {})

    def make_folder_name(self, benchmark: str) -> str:
        """Return the folder with a benchmark's code in a whole checkout."""
        return fill_words(self.known.folder or "", self.known.benchmarks[benchmark].words)

    def make_block(self, benchmark: str) -> Block:
        """Return the settings of a benchmark, which the spec may override. Raises KeyError for an unsupported
        benchmark."""
        words = self.known.benchmarks[benchmark].words
        common = find_node(self._tree, ("adapter", "settings"))
        own = find_node(self._tree, ("adapter", "benchmarks", benchmark, "settings"))
        return combine(self._read_settings(each, words) for each in (common, own) if isinstance(each, MapNode))

    def list_needs(self, benchmark: str, part: Literal["command", "score"], words: Mapping[str, str]) -> list[str]:
        """List the files that a part of the harness needs for a benchmark. ``words``: of the cell."""
        known = self.known.benchmarks[benchmark]
        needed = (*getattr(self.known.needs, part), *getattr(known.needs, part))
        return [fill_words(path, {**known.words, **words}) for path in needed]

    def explain_refusal(self, benchmark: str, scenario: str) -> str:
        """Explain why the adapter's command does not run a scenario of a benchmark; "" if it does."""
        known = self.known.benchmarks.get(benchmark)
        return next((why for name, why in known.unsupported.items() if name == scenario), "") if known else ""

    def describe_code(self, benchmark: str) -> str:
        """Describe the published folder that the user should name as the code."""
        source = " ".join(self.known.source.split())
        return f"{folder} of {re.split('[,:]', source)[0]}" if (folder := self.make_folder_name(benchmark)) else source

    def _read_settings(self, node: MapNode, words: Mapping[str, str]) -> Block:
        filled = _fill_node(node, words)
        assert isinstance(filled, MapNode)
        group = SettingsGroup.model_validate(convert_plain(filled), context=Variables({}))
        block = flatten(group, filled, f"adapter {self.name}")
        if not self.is_shipped:
            return block
        return give_origin(block, Origin(f"adapter {self.name}"))


def _fill_node(node: Node, words: Mapping[str, str]) -> Node:
    """Replace each {name} of ``words`` in a node; other placeholders are filled in for each run."""
    if isinstance(node, MapNode):
        return MapNode(node.origin, {name: _fill_node(item, words) for name, item in node.items.items()}, node.keys)
    if isinstance(node, ListNode):
        return ListNode(node.origin, [_fill_node(item, words) for item in node.items])
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        return replace(node, value=fill_words(node.value, words))
    return node


def fill_words(text: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@cache
def list_adapters() -> Mapping[str, HarnessAdapter]:
    """Return the included adapters by name."""
    found = {}
    for path in sorted(_FOLDER.glob("*.yaml")):
        tree, problems = parse(path.read_text(encoding="utf-8"), f"adapter {path.stem}")
        assert tree is not None, problems
        adapter, problems = convert_adapter(tree)
        assert adapter is not None
        assert not problems, problems
        found[adapter.name] = adapter
    return found


def is_adapter(tree: MapNode) -> bool:
    return getattr(tree.items.get("kind"), "value", None) == KIND


def correct_kind(tree: MapNode) -> tuple[MapNode, list[Problem]]:
    """If a file's kind is misspelled, but closer to an adapter's than to a spec's, return the file with the intended
    kind, and the problem."""
    node = tree.items.get("kind")
    value = getattr(node, "value", None)
    if not isinstance(node, ScalarNode) or not isinstance(value, str) or value == KIND:
        return tree, []
    if find_nearest(value, (KIND, "Submission")) != KIND:
        return tree, []
    message = f"kind is {show_quantity(value)}, not {KIND}"
    problem = node.origin.make_problem("kind", message, f"write 'kind: {KIND}'")
    return MapNode(tree.origin, {**tree.items, "kind": replace(node, value=KIND)}, tree.keys), [problem]


def convert_adapter(tree: MapNode) -> tuple[HarnessAdapter | None, list[Problem]]:
    try:
        document = AdapterDocument.model_validate(convert_plain(tree), context=Variables({}))
        adapter = HarnessAdapter(document, tree)
        for benchmark in document.adapter.benchmarks:
            adapter.make_block(benchmark)
    except ValidationError as error:
        found = error.errors(include_url=False)
        meant = {(*f["loc"][:-1], _find_meant(f["loc"])) for f in found if f["type"] == "extra_forbidden"}
        return None, [_explain_finding(finding, tree) for finding in found if finding["loc"] not in meant]
    return adapter, [*_check_words(adapter, tree), *_check_benchmarks(adapter, tree)]


def _check_words(adapter: HarnessAdapter, tree: MapNode) -> Iterator[Problem]:
    """Check that no word replaces a placeholder, and that paths and names contain only words. Settings are checked
    with the cells that use them."""
    known = {"system", "scenario"}  # words that come from a cell
    for name, benchmark in adapter.known.benchmarks.items():
        for word in benchmark.words:
            known.add(word)
            if word in PLACEHOLDERS:
                path = ("adapter", "benchmarks", name, "words", word)
                fix = f"choose another name for the word, and write it in the settings instead of {{{word}}}"
                message = f"{{{word}}} is a placeholder: {PLACEHOLDERS[word]}"
                yield find_position(tree, path)[0].make_problem(".".join(path), message, fix)
    checked: list[tuple[str, ...]] = [("adapter", part) for part in ("folder", "needs", "published")]
    checked += [("adapter", "benchmarks", name, "needs") for name in adapter.known.benchmarks]
    for where in checked:
        for node in _list_texts(find_node(tree, where)):
            for word in re.findall(r"\{(\w+)\}", str(node.value)):
                if word not in known | ({"accelerator"} if where[-1] == "published" else set()):
                    message = f"{{{word}}} is not a word of any benchmark"
                    yield node.origin.make_problem(".".join(where), message, give_advice(word, sorted(known)))


def _check_benchmarks(adapter: HarnessAdapter, tree: MapNode) -> Iterator[Problem]:
    """Check that the names are official ones, and that no benchmark is also an unsupported one."""
    free = adapter.is_shipped or any(RESULTS in adapter.make_block(name) for name in adapter.known.benchmarks)
    for part in ("benchmarks", "unsupported"):
        for name in getattr(adapter.known, part) if not free else ():  # another program names its own
            if not any(name in load_ruleset(each).benchmarks for each in reversed(list_rounds())):
                where = ("adapter", part, name)
                fix = give_advice(name, sorted(load_ruleset(list_rounds()[-1]).benchmarks))
                message = f"{name} is not the official name of a benchmark"
                yield find_position(tree, where)[0].make_problem(".".join(where), message, fix)
    for name in adapter.known.unsupported:
        if name in adapter.known.benchmarks:
            where = ("adapter", "unsupported", name)
            there = find_position(tree, ("adapter", "benchmarks", name))[0]
            message = f"{name} is also one of its benchmarks ({there.file}:{there.line}:{there.column})"
            yield find_position(tree, where)[0].make_problem(".".join(where), message, "remove it from one of them")


def _list_texts(node: Node | None) -> Iterator[ScalarNode]:
    if isinstance(node, ScalarNode):
        yield node
    items = node.items if isinstance(node, ListNode | MapNode) else []
    for item in items.values() if isinstance(items, dict) else items:
        yield from _list_texts(item)


def _explain_finding(finding: Any, tree: MapNode) -> Problem:
    where = tuple(str(part) for part in finding["loc"] if part != "[key]")
    origin, _ = find_position(tree, where)
    context = finding.get("ctx", {})
    message = str(context.get("message", finding["msg"]))
    fix = str(context.get("fix", "see 'Your own adapter' in `reconcile help harnesses`"))
    if finding["type"] == "extra_forbidden":
        message, near = "not a field here", _find_meant(where)
        fix = f"write {near}" if near else fix
    elif finding["type"] == "literal_error" and "[key]" in finding["loc"]:
        message, fix = "not a scenario", give_advice(where[-1], get_args(Scenario))
    return origin.make_problem(".".join(where), f"{where[-1]}: {message}", fix)


def _find_meant(where: Sequence[int | str]) -> str | None:
    *above, name = map(str, where)
    group = find_group(above, AdapterDocument)
    return find_nearest(name, group.list_names()) if group is not None else None


def describe_missing(adapter: HarnessAdapter, benchmark: str, scenario: str = "") -> tuple[str, str]:
    """Return the message and fix for a benchmark, or a scenario of it, that the adapter does not support."""
    if scenario:
        message = f"adapter {adapter.name} does not run {benchmark} in {scenario}: "
        message += adapter.explain_refusal(benchmark, scenario)
        return message, "remove the cell, or declare its harness.command yourself"
    because = adapter.known.unsupported.get(benchmark)
    runs = ", ".join(adapter.known.benchmarks)
    message = f"adapter {adapter.name} does not run {benchmark}" + (f": {because}" if because else "")
    return message, f"it runs {runs}; or declare harness.command yourself"


def list_all_adapters(own: Iterable[HarnessAdapter]) -> dict[str, HarnessAdapter]:
    """Return all adapters by name."""
    return {**list_adapters(), **{adapter.name: adapter for adapter in own}}


def check_names(own: Iterable[HarnessAdapter]) -> Iterator[Problem]:
    """Report each adapter whose name another adapter already has."""
    first: dict[str, Origin] = {}
    for adapter in own:
        there = first.setdefault(adapter.name, adapter.origin)
        if adapter.name in list_adapters():
            message = f"{adapter.name} is an included adapter"
            fix = f"write another name here and in '{ADAPTER}', such as {adapter.name}-own"
        elif there is not adapter.origin:
            message = f"the name of an adapter is set here and in {there.file}:{there.line}:{there.column}"
            fix = "remove one of the files, or write another name in it"
        else:
            continue
        yield adapter.origin.make_problem("metadata.name", message, fix)
