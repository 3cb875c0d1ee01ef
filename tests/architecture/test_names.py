"""One name, one thing: who reads a class name elsewhere in the code need not ask which of two is meant."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.architecture.source import modules


def test_no_public_class_name_is_defined_twice() -> None:
    defined = defaultdict[str, list[str]](list)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(f"{module.file}:{node.lineno}")
    assert defined["Address"], "the classes are not found"
    assert not {name: found for name, found in defined.items() if len(found) > 1}
