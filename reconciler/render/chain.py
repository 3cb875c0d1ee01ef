"""From the submission down to the model: what each step was made from, by which commit, and the line behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from reconciler.render.causes import label, word_reason
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import render_measured
from reconciler.render.status import render_metric_text
from reconciler.resource.inputs import Input
from reconciler.resource.kinds import Address
from reconciler.resource.wording import name_setting, shorten_value, show_value


class By(Struct, frozen=True):
    """A commit, as far as git knows it. ``age`` for people: "2 days ago"; ``older``: a shallow clone ends here."""

    commit: str
    author: str
    when: str
    subject: str
    age: str = ""
    older: bool = False

    def __str__(self) -> str:
        older = " or earlier: the clone is shallow" if self.older else ""
        return f"{self.commit[:7]}, {self.author}, {self.age}: {self.subject}{older}"


class Link(Struct, frozen=True):
    """One step. ``record`` "" for what is rendered or not there; ``metric``: (value, unit); ``due``: why it is to be
    made, so that the record, if any, is the last one. ``brought``: the commit that brought the record, if any.
    ``line``: of its own inputs that a spec line sets, the one that changed last, and by whom."""

    address: Address
    key: str
    upstream: tuple[Address, ...]
    record: str = ""
    metric: tuple[str, str] | None = None
    due: str = ""
    brought: By | None = None
    line: Input | None = None
    changed: By | None = None


def render_chain_text(links: Iterable[Link], paint: Paint = show_plain) -> list[str]:
    lines = ["Down the chain:"]
    for link in links:
        parts = [f"record {link.record}" if link.record else "rendered from what is below"]
        parts += [render_metric_text(link.metric)] if link.metric else []
        parts += [f"committed in {link.brought}" if link.brought else "not committed yet"] if link.record else []
        parts += [paint(f"due: {word_reason(link.due)}", Tone.DOUBT)] if link.due else []
        lines.append(f"  {label(link.address)}: {', '.join(parts)}")
        if link.line is not None:
            name = name_setting(link.line.name, link.address.kind)
            lines.append(
                f"      {link.line.origin}  {name} {shorten_value(show_value(link.line.name, link.line.value))}"
            )
            lines.append(f"          {link.changed or 'not committed yet'}")
    return lines


def render_chain_part(links: Iterable[Link]) -> list[dict[str, Any]]:
    """For the JSON report."""
    return [
        {
            "address": str(link.address),
            "key": link.key,
            "made_from": [str(address) for address in link.upstream],
            "record": link.record or None,
            "metric": render_measured(link.metric),
            "due": link.due or None,
            "recorded_by": _by(link.brought),
            "line": {
                "file": link.line.origin.file,
                "line": link.line.origin.line,
                "name": link.line.name,
                "value": link.line.value,
                "changed_by": _by(link.changed),
            }
            if link.line is not None
            else None,
        }
        for link in links
    ]


def _by(by: By | None) -> dict[str, Any] | None:
    return {"commit": by.commit, "author": by.author, "when": by.when, "subject": by.subject} if by else None
