"""Prints the digests of the small submission's tree, for the test that renders under other locales and time zones."""

from __future__ import annotations

import json
import locale
import random
import sys
import time

from reconciler.rules.rounds import load_ruleset
from reconciler.tree.content import SubmissionContent, SystemContent, hash_content
from reconciler.tree.render import render

sys.path.insert(0, sys.argv[1])
from conftest import make_cell

locale.setlocale(locale.LC_ALL, "")
time.tzset()
ruleset = load_ruleset("v6.1")
cells = [make_cell(ruleset, "open", "digits", name) for name in ("Offline", "SingleStream", "MultiStream")]
random.SystemRandom().shuffle(cells)
system = SystemContent("box", "open", "edge", "available", {"cooling": "Luft \u00fcber Eis", "b": "1", "a": "2"})
tree = render(SubmissionContent("ACME", (system,), tuple(cells)), ruleset)
print(json.dumps({path: hash_content(content) for path, content in tree}))
