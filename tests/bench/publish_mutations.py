"""Plants one fault at a time in the publisher and the intake, and counts how many the tests notice.

`python -m tests.bench.publish_mutations [SHARE/OF]` works on a copy in a temporary folder and prints a line for each.
"""

# ruff: noqa: E501  # a table reads best with one entry a line

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gate.model.text import counted

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("gate", "tests", "templates", "frozen_ledgers", "pyproject.toml", "README.md")
# (what goes wrong, file, what stands there, what is put in its place)
MUTATIONS: tuple[tuple[str, str, str, str], ...] = (
    ("anyone's marker counts", "publish/marker.py", 'comment.login != bot or comment.user_type != "Bot"', "False"),
    ("a person with the bot's login counts", "publish/marker.py", ' or comment.user_type != "Bot"', ""),
    ("the marker may stand anywhere", "publish/marker.py", "_MARKER.match(", "_MARKER.search("),
    ("another key's comment is ours", "publish/marker.py", 'found["key"] != name', "False"),
    ("an older run replaces a newer", "publish/plan.py", "if top.key > wanted.key:", "if False:"),
    ("attempts are not ordered", "publish/values.py", "RunKey(int(found[1]), int(found[2] or 1))", "RunKey(int(found[1]), 1)"),
    ("a double is left", "publish/plan.py", "if shown.id != keep]", "if False]"),
    ("worse verdicts are edited", "publish/plan.py", "if wanted.rank > top.rank:", "if False:"),
    ("better verdicts are posted anew", "publish/plan.py", "if wanted.rank > top.rank:", "if True:"),
    ("the newest double stays", "publish/plan.py", "keep = mine[0].id", "keep = mine[-1].id"),
    ("an unchanged text is edited", "publish/plan.py", "top.comment.body != wanted.body and (first or top.brief)", "True"),
    ("no-change is posted", "publish/plan.py", "[] if wanted.quiet else", "[] if False else"),
    ("a pending status undoes a verdict", "publish/plan.py", 'mine = (wanted.key, wanted.state != "pending")', "mine = (wanted.key, True)"),
    ("an old status is not repaired", "publish/plan.py", "if in_force[0] < top[0]:", "if False:"),
    ("strangers' statuses count", "publish/hub.py", " and one.login == bot]", "]"),
    ("only the first page is read", "publish/hub.py", "if not more:", "if True:"),
    ("pages of 30 are taken for all", "publish/hub.py", """'rel="next"' in headers.get("link", "")""", "False"),
    ("a POST is sent again after a 502", "publish/translate.py", 'Unknown(f"{status} {message}") if write else', ""),
    ("a dropped POST is sent again", "publish/translate.py", "(Unknown(_words(error)) if write else Passing(_words(error)))", "Passing(_words(error))"),
    ("a rate limit is final", "publish/translate.py", "if status == 429 or", "if False and"),
    ("a failing read is final", "publish/translate.py", "if write else Passing(f\"{status} {message}\")", "if write else Refused(status, message)"),
    ("a second deletion fails", "publish/hub.py", 'if step.verb != "delete_comment":', "if True:"),
    ("a refused comment stops the status", "publish/settle.py", "closed.add(place)\n", "closed.update(('comment', 'status'))\n"),
    ("a locked conversation fails the job", "publish/settle.py", "report.denied |= not locked", "report.denied = True"),
    ("a missing permission passes", "publish/settle.py", "report.denied |= not locked", "report.denied = False"),
    ("the status comes before the comment", "publish/settle.py", '(("comment", _comment_round), ("status", _status_round))', '(("status", _status_round), ("comment", _comment_round))'),
    ("nobody looks again after a write", "publish/settle.py", "        if not wrote:\n", "        if True:\n"),
    ("a newer run's status is not looked at", "publish/settle.py", "if newer is not None:", "if False:"),
    ("a moved head gets the comment", "publish/settle.py", "elif pull.head_sha == desk.target.sha:", "elif True:"),
    ("a closed pull request gets a comment", "publish/settle.py", 'if pull.state != "open":', "if False:"),
    ("forks are told apart by name only", "publish/target.py", "pull.head_repo == run.head_repo and ", ""),
    ("any head of the branch is taken", "publish/target.py", "if pull.head_sha == run.head_sha]", "]"),
    ("other workflows may report", "publish/target.py", "if run.path != workflow:", "if False:"),
    ("any event may report", "publish/target.py", "if run.event not in EVENTS:", "if False:"),
    ("manual runs of any branch may report", "publish/target.py", 'if run.event == "workflow_dispatch" and', "if False and"),
    ("a manual run is not bound to its commit", "publish/target.py", "if pull.head_sha != sha:", "if False:"),
    ("a failed run can pass", "commands/publish_texts.py", 'if run.conclusion == "success":', "if True:"),
    ("missing rows are no change", "commands/publish_texts.py", " and all(row.verdict == \"unchanged\" for row in decision.rows)", ""),
    ("problems are no change", "commands/publish_texts.py", "not decision.problems and ", ""),
    ("a missing decision is not told", "commands/publish.py", "        return judged.unusable(error.problems)\n", "        raise\n"),
    ("the footer is not counted", "commands/publish_texts.py", "budget=COMMENT_LIMIT - len(foot.encode())", "budget=COMMENT_LIMIT"),
    ("two artifacts are one too few", "publish/archive.py", "if len(alive) > 1:", "if False:"),
    ("an expired artifact is asked for", "publish/archive.py", "if not one.expired]", "]"),
    ("size in the listing is not looked at", "publish/archive.py", "if not 0 < alive[0].size_bytes <= CAPS.archive_bytes:", "if False:"),
    ("the token goes to the blob store", "publish/archive.py", "session.get(link, allow_redirects", "session.get(link, headers=headers, allow_redirects"),
    ("the link may be plain HTTP", "publish/archive.py", "and not local:", "and False:"),
    ("an archive may have more members", "publish/archive.py", "if len(infos) != 1:", "if not infos:"),
    ("any member name is read", "publish/archive.py", "if info.filename != MEMBER or info.orig_filename != MEMBER:", "if False:"),
    ("a bomb is inflated whole", "publish/archive.py", "stream.read(caps.member_bytes + 1)", "stream.read()[: caps.member_bytes]"),
    ("the download has no cap", "publish/archive.py", "if len(found) > limit:", "if False:"),
    ("another commit's results count", "publish/bundle.py", 'if value["head_sha"] != head_sha:', "if False:"),
    ("a cut-off bundle counts", "publish/bundle.py", 'if header["counts"] !=', "if False and header !="),
    ("rows are not held against the schema", "publish/bundle.py", "    if fault:\n", "    if False:\n"),
    ("texts have no cap", "publish/bundle.py", "if len(value) > limits.string:", "if False:"),
    ("numbers have no cap", "publish/bundle.py", "if abs(value) > limits.number:", "if False:"),
    ("nesting has no cap", "publish/bundle.py", "if depth >= limits.depth:", "if False:"),
    ("half characters pass", "publish/bundle.py", "if any(0xD800", "if False and any(0xD800"),
    ("too many files are harmless", "publish/scope.py", "0 < len(files) < MOST_FILES", "0 < len(files)"),
    ("no file is harmless", "publish/scope.py", "0 < len(files) < MOST_FILES", "len(files) < MOST_FILES"),
    ("one harmless file is enough", "publish/scope.py", "and all(any(", "and any(any("),
    ("a failed run may claim no change", "commands/artifact.py", 'if run.conclusion == "success" and not entries', "if not entries"),
    ("an annotation can end its line", "publish/sinks.py", '.replace("\\n", "%0A")', ""),
    ("an annotation's title can end it", "publish/sinks.py", '.replace(":", "%3A")', ""),
)  # fmt: skip

TAKEN_IN = ("artifact", "bundle", "sinks")
SHOWN = ("order", "verdicts", "heads", "faults", "length", "settling")


def main() -> int:
    share, of = (int(word) for word in (sys.argv[1] if len(sys.argv) > 1 else "1/1").split("/"))
    chosen = MUTATIONS[share - 1 :: of]
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / part)
        for what, file, old, new in chosen:
            caught = notices(copy, copy / "gate" / file, old, new)
            missed += [] if caught else [what]
            print(f"{'caught' if caught else 'MISSED':7} {file:28} {what}: {caught}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted faults are noticed; missed: {missed or 'none'}")
    return len(missed)


def notices(copy: Path, path: Path, old: str, new: str) -> str:
    """The first test that fails with the fault in place; empty where all pass."""
    text = path.read_text()
    if text.count(old) != 1:
        raise SystemExit(f"{path.name}: {old!r} stands there {counted(text.count(old), 'time')}")
    path.write_text(text.replace(old, new))
    intake = path.name in ("archive.py", "bundle.py", "scope.py", "artifact.py")
    order = (*TAKEN_IN, *SHOWN) if intake else (*SHOWN, *TAKEN_IN)
    tests = [f"tests/publish/test_{name}.py" for name in order]
    try:
        argv = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
        environ = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(argv, cwd=copy, env=environ, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "(never ends)"
    finally:
        path.write_text(text)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split("::")[-1].split(" - ")[0] if lines else "" if done.returncode == 0 else "(tests do not run)"


if __name__ == "__main__":
    sys.exit(main())
