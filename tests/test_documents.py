"""What the documents point at is there: tests that are named as proof, files that are linked, verbs that are shown."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from gate.analysis.environment import COMPARED, ROW_FIELDS, Stacks, compare
from gate.cli import VERBS
from gate.model.problem import Exit
from tests.factory import make_outcome, make_shape

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED_TEST = re.compile(r"`(test_\w+\.py)::(test_\w+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
VERB = re.compile(r"^\s*(?:\.venv/bin/)?gate ([a-z]+)", re.M)
TEST_FILE = re.compile(r"\btests/[\w/]+\.py\b")
BENCH = re.compile(r"\btests[./]bench[./](\w+)")


def _tests() -> set[tuple[str, str]]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {(file.name, name) for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)}


def test_every_test_named_as_proof_exists() -> None:
    assert len(NAMED_TEST.findall((ROOT / "docs" / "security.md").read_text())) > 30
    text = "".join(document.read_text() for document in DOCUMENTS)
    assert set(NAMED_TEST.findall(text)) - _tests() == set()
    assert {path for path in TEST_FILE.findall(text) if not (ROOT / path).is_file()} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text()) if "://" not in target]
    assert [target for target in targets if not (document.parent / target).exists()] == []


def anchors(document: Path) -> set[str]:
    """What GitHub makes of the headings of a document."""
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        for heading in HEADING.findall(document.read_text())
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_into_documents_lead_to_headings(document: Path) -> None:
    links = [link for link in ANCHOR.findall(document.read_text()) if "://" not in link[0]]
    assert [link for link in links if link[1] not in anchors(document.parent / link[0] if link[0] else document)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_verbs_and_benchmarks_that_are_shown_exist(document: Path) -> None:
    text = document.read_text()
    assert {verb for block in re.findall(r"```bash\n(.*?)```", text, re.S) for verb in VERB.findall(block)} <= set(
        VERBS
    )
    assert {name for name in BENCH.findall(text) if not (ROOT / "tests" / "bench" / f"{name}.py").is_file()} == set()


def test_the_readmes_table_names_every_verb() -> None:
    table = (ROOT / "README.md").read_text().partition("## The verbs")[2].partition("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `gate")]
    assert {verb for cell in first_cells for verb in re.findall(r"`gate ([a-z]+)", cell)} == set(VERBS)


def test_the_readme_names_every_exit_code() -> None:
    told = re.search(r"^Exit codes: ([^.]+)\.", (ROOT / "README.md").read_text(), re.M)
    assert told is not None
    written = {int(code) for code in re.findall(r"code=(\d+)", (ROOT / "gate" / "cli.py").read_text())}
    assert written, "an interruption has a code of its own"
    assert [int(code) for code in re.findall(r"\b\d+\b", told[1])] == sorted({*map(int, Exit), *written})


def test_the_comments_document_names_the_fields_that_are_never_marked() -> None:
    (told,) = re.findall(r"^\| Environment \| (.+) \|$", (ROOT / "docs" / "reading-the-comment.md").read_text(), re.M)
    assert set(re.findall(r"`(\w+)`", told)) == set(ROW_FIELDS) - COMPARED
    row = make_outcome(make_shape())
    for name in ROW_FIELDS:
        sides = [Stacks.of([msgspec.structs.replace(row, **{name: side})], frozenset({"flydsl"})) for side in "ab"]
        assert compare(*sides).differences == ((name,) if name in COMPARED else ()), name


def test_the_architecture_names_every_package_and_module_of_the_gate() -> None:
    shown = set(re.findall(r"^gate/(\w+)(?:/|\.py) ", (ROOT / "docs" / "architecture.md").read_text(), re.M))
    there = {
        path.stem for path in (ROOT / "gate").iterdir() if (path / "__init__.py").is_file() or path.suffix == ".py"
    }
    assert shown == {name for name in there if not name.startswith("__")}
