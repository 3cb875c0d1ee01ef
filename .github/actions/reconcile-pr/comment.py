"""Write a file as the one comment of this action on a pull request: ``python comment.py FILE``.

The action's earlier comment, which begins with a mark, is changed; else a new one is made. Needs the variables that
GitHub sets, and FOLDER, PULL_REQUEST and TOKEN. The standard library alone.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

_LONGEST = 65_000  # characters; GitHub takes 65,536
_PAGE = 100  # comments
_FORBIDDEN = (401, 403, 404)  # to a token without the right to comment, such as that of a fork's pull request


def main(report: Path) -> None:
    mark = f"<!-- reconcile-pr {json.dumps(os.environ['FOLDER'])} -->"
    text = f"{mark}\n{report.read_text(encoding='utf-8')}"
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rpartition("\n")[0] + "\n\n… the rest is in the summary of the run.\n"
    comments = f"issues/{os.environ['PULL_REQUEST']}/comments"
    try:
        number = find_comment(comments, mark)
        if number is None:
            ask("POST", comments, {"body": text})
        else:
            ask("PATCH", f"issues/comments/{number}", {"body": text})
    except urllib.error.HTTPError as error:
        if error.code not in _FORBIDDEN:
            raise
        print(f"::warning::no comment: GitHub answers {error.code}; the job needs `pull-requests: write`")  # noqa: T201


def find_comment(comments: str, mark: str) -> int | None:
    """The number of this action's comment. One by a person is left alone, even if it begins alike."""
    page = 1
    while found := ask("GET", f"{comments}?per_page={_PAGE}&page={page}"):
        for comment in found:
            if comment["user"]["type"] == "Bot" and comment["body"].startswith(mark):
                return int(comment["id"])
        page += 1
    return None


def ask(method: str, path: str, document: Any = None) -> Any:
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    headers = {"Accept": "application/vnd.github+json", "Authorization": f"Bearer {os.environ['TOKEN']}"}
    data = json.dumps(document).encode() if document is not None else None
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 -- the address is GitHub's own
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        return json.load(response)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
