"""Expected digests of a tree, and the differences of a directory."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from reconciler.mlperf.rules.ruleset import Ruleset
from reconciler.tree.content import LogRef, SubmissionContent
from reconciler.tree.manifest import Differences, build_manifest, compare
from reconciler.tree.render import render


def test_manifest_takes_digests_of_bytes_and_of_references() -> None:
    digest = hashlib.sha256(b"a").hexdigest()
    assert build_manifest([("x", b"a"), ("y", LogRef("00", 1))]) == {"x": digest, "y": "00"}


def test_a_tree_as_rendered_has_no_differences(submission: SubmissionContent, ruleset: Ruleset) -> None:
    expected = build_manifest(render(submission, ruleset))
    assert compare(expected, dict(reversed(expected.items()))) == Differences()
    assert not compare(expected, expected)


def test_each_kind_of_difference_is_named(submission: SubmissionContent, ruleset: Ruleset) -> None:
    expected = build_manifest(render(submission, ruleset))
    first, second, *_ = expected
    found = {**expected, second: "00", "stray.txt": "11"}
    del found[first]
    assert compare(expected, found) == Differences(missing=(first,), edited=(second,), extra=("stray.txt",))


_TREES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("01"))


@given(_TREES, _TREES)
def test_differences_account_for_every_path(expected: dict[str, str], found: dict[str, str]) -> None:
    differences = compare(expected, found)
    mended = {path: digest for path, digest in found.items() if path not in differences.extra}
    mended |= {path: expected[path] for path in differences.missing + differences.edited}
    assert mended == expected
    assert bool(differences) == (expected != found)
