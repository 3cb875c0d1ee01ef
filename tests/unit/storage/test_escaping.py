"""Whatever somebody wrote, it is only shown: on a terminal, in Markdown, in a workflow's log, as HTML, JSON and CSV."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.storage import escaping
from reconciler.storage.escaping import (
    encode_json,
    escape_html,
    escape_line,
    escape_markdown,
    escape_output,
    quote_code,
    seal_style,
)

TEXTS = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]m:#\n`|@\udcff‮​")), max_size=60)


@given(TEXTS)
def test_output_has_no_control_characters_and_no_commands(text: str) -> None:
    shown = escape_output(text)
    assert all(c == "\n" or c == "\t" or ord(c) >= 32 for c in shown)
    assert not re.search("[\x7f-\x9f‪-‮⁦-⁩\ud800-\udfff]", shown)
    assert not any(line.strip().startswith("::") or "##[" in line or "##vso[" in line for line in shown.split("\n"))
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain — größer", "plain — größer"),
        ("a\x1b[2Jb\x07", "a\\x1b[2Jb\\x07"),
        ("  ::error::x", "  \\::error::x"),
        ("a::b", "a::b"),
        ("x ##[stop-commands]y", "x #\\#[stop-commands]y"),
        ("###[x]", "##\\#[x]"),
        ("##vso[task]", "#\\#vso[task]"),
        ("evil\u202etxt", "evil\\u202etxt"),
        ("Ac\udcff\udcfe", "Ac\\xff\\xfe"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    ],
)
def test_what_is_shown_of_it(text: str, shown: str) -> None:
    assert escape_output(text) == shown


def test_only_styles_of_ours_reach_a_terminal() -> None:
    assert escape_output(seal_style("a\x1b[8m", "31")) == "\x1b[31ma\\x1b[8m\x1b[0m"


@given(TEXTS)
def test_line_is_one_line(text: str) -> None:
    assert "\n" not in escape_line(text)
    assert len((escape_line(text) + "x").splitlines()) == 1


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=5))
def test_json_says_the_same(value: object) -> None:
    shown = encode_json(value)
    assert json.loads(shown) == value
    shown.encode()
    assert "##" not in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f‪-‮]", shown)


LEAVES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from([1e16, 1e-7, 2**70]))


@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS | st.integers(), inner)))
def test_json_is_as_pythons_own_writer_indents_it(value: object) -> None:
    assert escaping._dump_json(value) == json.dumps(value, indent=2, ensure_ascii=False)


@given(TEXTS)
def test_code_in_markdown_does_not_end(text: str) -> None:
    quoted = quote_code(text, in_table=True)
    fence = re.match("`+", quoted)
    assert fence
    assert quoted.endswith(fence[0])
    inside = quoted[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inside)
    assert "\n" not in quoted
    assert not re.search(r"(?<!\\)\|", quoted)


@given(TEXTS)
def test_prose_in_markdown_holds_no_markup(text: str) -> None:
    shown = escape_markdown(text).replace("@<!-- -->", "")
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>|]", re.sub(r"\\[^\\]", "", shown.replace("\\\\", "")))
    assert "@" not in shown


@given(TEXTS)
def test_html_holds_no_markup(text: str) -> None:
    shown = escape_html(text)
    assert not set("<>\"'") & set(shown)
    shown.encode()


def test_values_of_variables_are_shown_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escaping, "_HIDDEN_VALUES", {})
    escaping.hide_value("BUCKET", "hunter2-bucket")
    escaping.hide_value("SCRATCH", "/mnt/scratch")
    escaping.hide_value("ONE", "1")
    assert escape_output("s3://hunter2-bucket/x 1 /mnt/scratch") == "s3://${BUCKET}/x 1 /mnt/scratch"
    assert json.loads(encode_json({"url": "hunter2-bucket"})) == {"url": "${BUCKET}"}
