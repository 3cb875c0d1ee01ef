"""``python -m reconciler.cli.shared.reference``: writes the generated parts of the documents, between their marks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from reconciler.cli.main import reconcile
from reconciler.cli.shared.command_reference import render_command_reference, render_exit_codes
from reconciler.cli.shared.findings_reference import render_findings_reference
from reconciler.cli.shared.spec_reference import render_spec_reference
from reconciler.storage.files import replace

DOCUMENTS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
GENERATED: Mapping[str, Callable[[], str]] = {
    "spec.md": render_spec_reference,
    "commands.md": lambda: render_command_reference(reconcile),
    "exit-codes.md": render_exit_codes,
    "findings.md": render_findings_reference,
}


def write_into(text: str, generated: str) -> str:
    """The document with what is generated between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{generated}\n{END}{after}"


def write_reference(folder: Path) -> None:
    for name, render in GENERATED.items():
        path = folder / name
        replace(path, write_into(path.read_text(encoding="utf-8"), render()).encode())


if __name__ == "__main__":
    write_reference(DOCUMENTS)
    sys.stdout.write(f"wrote {', '.join(GENERATED)} in {DOCUMENTS}\n")
