"""Each optional part can be deleted with its entry in one table: everything else imports and works, and nothing else
names what it defines."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.storage.packaged_files import find_shipped
from tests.architecture.rules import within
from tests.architecture.source import ROOT, Module, all_imports, modules
from tests.kept_logs import unpack
from tests.shared import make_once
from tests.unit.check.made import make_tree


class Part(NamedTuple):
    """``packages``: dotted names of its folders; ``entry``: its name in each of the ``tables``, a file and a mapping in
    it. ``words``: pattern of what tests of the part write. ``commands``: those that go with it. ``asked``: (what, what
    instead) in the quickstart, so that it asks for the part."""

    entry: str
    packages: tuple[str, ...]
    tables: tuple[tuple[str, str], ...]
    words: str
    commands: tuple[str, ...] = ()
    asked: tuple[str, str] = ("", "")


_HERE, _HARNESS = ("reconciler/resource/parts.py", "PARTS"), ("harness/parts.py", "PARTS")
_QUEUES, _PROGRAMS = ("reconciler/resource/queues.py", "QUEUES"), ("reconciler/resource/programs.py", "PROGRAMS")
_STATUS = "      status: available"  # of the quickstart's system
_COUNT = "        count: 0 "
_SLICES = "        accelerator: NVIDIA A30\n        count: 1\n        mig: {profile: 1g.6gb}\n        cpu: any "


def _ask_system(text: str) -> tuple[str, str]:
    return _STATUS, f"      {text}\n{_STATUS}"


PARTS = {
    part.entry: part
    for part in (
        Part(
            "endpoints",
            ("reconciler.endpoints",),
            (("reconciler/resource/programs.py", "PROGRAMS"),),
            r"(reconciler|unit).endpoints|(program|results)\"?: \"?endpoints|endpoints.(submission|v1)|_densify",
            ("densify",),
        ),
        Part(
            "mig",
            ("reconciler.mig", "harness.mig"),
            (_HERE, _HARNESS),
            r"(reconciler|harness)\.mig|\bmig: \{",
            ("mig",),
            (_COUNT, _SLICES),
        ),
        Part("page", ("reconciler.page",), (_HERE,), r'reconciler\.page|"plot"', ("page", "plot")),
        Part(
            "power",
            ("reconciler.execute.power", "harness.power"),
            (_HERE, _HARNESS),
            r"(execute|harness)\.power\b|\bpower(_state)?: \{",
            asked=_ask_system("power: {director: meter, ntp: clock, kit: kit}"),
        ),
        Part(
            "slurm",
            ("reconciler.execute.executors.slurm", "harness.child.slurm_job"),
            (_QUEUES,),
            r"executors?(: \{|\.|\(\")slurm|slurm_job\b",
            asked=_ask_system("executor: {slurm: {}}"),
        ),
        Part(
            "ray", ("reconciler.execute.executors.ray",), (_QUEUES,), r"\bray", asked=_ask_system("executor: {ray: {}}")
        ),
        Part(
            "triton",
            ("harness.backends.triton",),
            (("harness/catalog.py", "BACKENDS"),),
            r"backends\.triton|backend\W+triton",
            asked=("        backend: onnxruntime\n", "        backend: triton\n"),
        ),
        Part(
            "stores",
            ("reconciler.stores",),
            (_HERE,),
            r"reconciler\.stores|\bstores:|\breconcile\b.*\b(push|pull)\b",
            ("push", "pull"),
            ("\n  systems:\n", "\n  stores: {lab: {url: file:///srv/objects}}\n  systems:\n"),
        ),
        Part(
            "verify",
            ("reconciler.verify",),
            (_HERE,),
            r"(reconciler|unit)\.verify|\"verify-tree(\"[,)]| )|\"objections\"",
            ("verify-tree", "objections"),
        ),
    )
}
_IMPORT_ALL = """
import importlib, pkgutil, sys
import reconciler
assert reconciler.__file__.startswith(sys.argv[1]), reconciler.__file__
names = [found.name for found in pkgutil.walk_packages(reconciler.__path__, "reconciler.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
importlib.import_module("harness.__main__")
print(len(names))
"""
_RUN_ALL = """
import contextlib, io, json, os, sys
import reconciler
assert reconciler.__file__.startswith(sys.argv[1]), reconciler.__file__
from reconciler.cli.main import main
ended = []
for where, words in json.loads(sys.argv[2]):
    os.chdir(where)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    ended.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""


# Compare what is written for all parts, a document or the schema, with the parts that are there.
_OF_ALL_PARTS = (
    "tests/unit/cli/shared/test_reference.py",
    "tests/unit/cli/test_json_outputs.py",
    "tests/unit/spec/test_commands.py::test_the_examples_of_the_documents_are_specs",
    "tests/unit/spec/test_schema.py::test_the_schema_in_the_repository_is_up_to_date",
)


@pytest.fixture(scope="module", params=PARTS)
def part(request: pytest.FixtureRequest) -> Part:
    return PARTS[request.param]


@pytest.fixture(scope="module")
def without(part: Part, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with both packages, without the part."""
    folder = tmp_path_factory.mktemp("without")
    for name in ("reconciler", "harness", "schemas", "specs"):
        shutil.copytree(ROOT / name, folder / name)  # with its byte code
    for package in part.packages:
        place = folder / package.replace(".", "/")
        if place.with_suffix(".py").is_file():  # next to a folder of byte code, where it was a package before
            place.with_suffix(".py").unlink()
        else:
            shutil.rmtree(place)
    for file, table in part.tables:
        (folder / file).write_text(delete_entry((folder / file).read_text(), table, part.entry))
    yield folder
    shutil.rmtree(folder)


def delete_entry(text: str, table: str, entry: str) -> str:
    """A module's text without one entry of a mapping that it assigns."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Dict):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == table for target in targets):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == entry:
                        lines = text.splitlines(keepends=True)
                        return "".join([*lines[: key.lineno - 1], *lines[value.end_lineno :]])
    raise AssertionError(f"{table} has no entry {entry!r}")


def run(folder: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Commands = Mapping[str, tuple[Path, list[str]]]  # by name: where, which words


def run_commands(folder: Path, commands: Commands) -> dict[str, Ended]:
    """Run commands of ``reconcile`` one after another in one process."""
    asked = json.dumps([(str(where), words) for where, words in commands.values()])
    ended = run(folder, "-c", _RUN_ALL, str(folder), asked, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return {name: Ended(*each) for name, each in zip(commands, json.loads(ended.stdout), strict=True)}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    (folder / "specs").mkdir()
    (folder / "state" / "records").mkdir(parents=True)
    shutil.copy(find_shipped("specs/quickstart.yaml"), folder / "specs" / "quickstart.yaml")
    (folder / ".gitignore").write_text(".reconcile/\n")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "Declare a submission"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = make_once(tmp_path_factory, "kept-tree", partial(unpack, "tree"))
    return make_tree(tmp_path_factory.mktemp("checked") / "tree", logs, division="closed")


@pytest.fixture(scope="module")
def commands(repository: Path, tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """One validates a spec that asks for a part, for each of those."""
    found = {"plan": (repository, ["plan", "--json"]), "help": (tree.parent, ["--help"])}
    found |= {name: (tree.parent, [name, str(tree), "--json"]) for name in ("check", "verify-tree")}
    text = find_shipped("specs/quickstart.yaml").read_text()
    for name, part in PARTS.items():
        if part.asked[0]:
            old, new = part.asked
            assert text.count(old) == 1
            spec = tmp_path_factory.mktemp(name) / "specs" / "spec.yaml"
            for folder in (spec.parent, spec.parents[1] / "state"):
                folder.mkdir()
            spec.write_text(text.replace(old, new))
            found[f"validate {name}"] = (spec.parents[1], ["validate", str(spec)])
    return found


@pytest.fixture(scope="module")
def whole(commands: Commands) -> dict[str, Ended]:
    """How each command ends in this checkout."""
    return run_commands(ROOT, commands)


@pytest.fixture(scope="module")
def ended(part: Part, without: Path, commands: Commands) -> dict[str, Ended]:
    """How each command ends without the part. Its own are not there, and other parts have their own turn."""
    left_out = {*part.commands, *(f"validate {name}" for name in PARTS if name != part.entry)}
    return run_commands(without, {name: command for name, command in commands.items() if name not in left_out})


def test_everything_else_imports_without_a_part(part: Part, without: Path, tmp_path: Path) -> None:
    ended = run(without, "-c", _IMPORT_ALL, str(without), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    own = [name for name in modules() if within(name, "reconciler") and not _is_of(name, part)]
    assert int(ended.stdout) == len(own) - 1  # the package itself is not below itself


def test_a_spec_is_planned_without_a_part(ended: dict[str, Ended], whole: dict[str, Ended]) -> None:
    sides = ended["plan"], whole["plan"]
    assert [side.code for side in sides] == [2, 2], sides[0].err
    keys = [[(step["address"], step["key"]) for step in json.loads(side.out)["steps"]] for side in sides]
    assert keys[0] == keys[1] != []


@pytest.mark.parametrize("part", [name for name, part in PARTS.items() if part.asked[0]], indirect=True)
def test_a_spec_that_asks_for_a_removed_part_is_refused(
    part: Part, ended: dict[str, Ended], whole: dict[str, Ended], commands: Commands
) -> None:
    name = f"validate {part.entry}"
    assert whole[name].code == 0, whole[name].err
    assert ended[name].code == 1
    spec, said = Path(commands[name][1][1]), ended[name].out + ended[name].err
    text, (_, new) = spec.read_text(), part.asked
    line = text[: text.index(new) + new.index(part.entry)].count("\n") + 1
    assert f"{spec.name}:{line}" in said
    assert part.entry in said


def test_a_tree_is_checked_without_a_part(part: Part, ended: dict[str, Ended], whole: dict[str, Ended]) -> None:
    for name in {"check", "verify-tree"}.difference(part.commands):
        assert ended[name].code == whole[name].code, ended[name].err
        assert json.loads(ended[name].out) == json.loads(whole[name].out)


def test_the_commands_of_a_part_go_with_it(part: Part, ended: dict[str, Ended], whole: dict[str, Ended]) -> None:
    assert ended["help"].code == 0, ended["help"].err
    assert "\n  plan " in ended["help"].out
    assert not [name for name in part.commands if f"\n  {name} " in ended["help"].out]
    assert all(f"\n  {name} " in whole["help"].out for name in part.commands)


def test_nothing_else_imports_a_part(part: Part) -> None:
    found = [item for item in all_imports() if _is_of(item.target, part) and not _is_of(item.importer.name, part)]
    assert not [f"{item.where}: {item.importer.name} imports {item.target}" for item in found]


def test_nothing_else_names_a_folder_of_a_part(part: Part) -> None:
    names = [text for package in part.packages for text in (package, package.replace(".", "/"))]
    others = [module for module in _list_others(part) if module.file not in dict(part.tables)]
    assert not [module.file for module in others if any(name in module.text for name in names)]


def test_nothing_else_uses_what_only_a_part_defines(part: Part) -> None:
    """An attribute of an object without a type would go unseen by every other check."""
    others = _list_others(part)
    known = [_read_names(module.name) for module in modules().values() if _is_of(module.name, part)]
    own = {name for names in known for name in names.defined}
    own -= {name for module in others for name in _read_names(module.name).bound}
    assert own, "the part defines nothing of its own"
    sides = tuple(package.partition(".")[0] for package in part.packages)
    reached = (module for module in others if module.name.startswith(sides))
    found = {module.file: own & _read_names(module.name).used for module in reached}
    assert not {file: names for file, names in found.items() if names}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_else_passes_its_tests_without_a_part(part: Part, without: Path, tmp_path: Path) -> None:
    """Tests go with the part that name it or what it adds."""
    for name in ("tests", "state", "pyproject.toml", "README.md", "LICENSE", ".ci", ".github"):
        place = without / name
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, place)
    texts = {path: path.read_text() for path in (without / "tests" / "unit").rglob("test_*.py")}
    own = re.compile(part.words, re.IGNORECASE)
    removed = {path for path, text in texts.items() if own.search(f"{path.relative_to(without)}\n{text}")}
    names = [".".join(path.relative_to(without).with_suffix("").parts) for path in removed]
    removed |= {path for path, text in texts.items() if any(f"from {name} import" in text for name in names)}
    assert len(removed) < len(texts) / 2
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    installed = (path for path in sys.path if path.endswith("-packages"))  # not what a .pth of theirs adds
    (packages / "copy.pth").write_text("\n".join([str(without), *installed]))
    command = [str(tmp_path / "venv/bin/python"), "-m", "pytest", "-n", str(os.cpu_count()), "tests/unit"]
    command += (f"--ignore={path}" for path in removed)
    command += (f"--deselect={test}" for test in _OF_ALL_PARTS)
    ended = subprocess.run(command, cwd=without, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-20_000:]


def _is_of(name: str, part: Part) -> bool:
    return any(within(name, package) for package in part.packages)


def _list_others(part: Part) -> list[Module]:
    return [module for module in modules().values() if not _is_of(module.name, part)]


class _Names(NamedTuple):
    """``defined``: public, at the top of a module. ``bound``: given to anything: definitions, arguments, variables,
    attributes, imports."""

    defined: set[str]
    bound: set[str]
    used: set[str]


@cache
def _read_names(module: str) -> _Names:
    tree = modules()[module].tree
    names = _Names(set(), set(), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.bound.add(node.name)
        elif isinstance(node, ast.arg):
            names.bound.add(node.arg)
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            names.used.add(name)
            if isinstance(node.ctx, ast.Store):
                names.bound.add(name)
        elif isinstance(node, ast.alias):
            names.bound.add(node.asname or node.name.partition(".")[0])
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.defined.update(
                item.id for target in targets for item in ast.walk(target) if isinstance(item, ast.Name)
            )
    return names._replace(defined={name for name in names.defined if not name.startswith("_")})
