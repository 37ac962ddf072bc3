"""Artifact intake: what crosses the trust boundary, what is refused, and what is judged from it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate import store
from gate.cli import run
from gate.publish import archive, bundle
from gate.publish.archive import Caps, NotTaken
from gate.resources import frozen_ledgers_dir
from tests.factory import make_outcome, make_shape
from tests.publish.conftest import OTHER, SHA
from tests.publish.fake import FakeGitHub, Fault

SHAPES = [make_shape(args={"M": m, "N": 8192}) for m in (1, 32, 256)]


def zipped(data: bytes, *, name: str = archive.MEMBER, **more: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(name, data)
        for other, content in more.items():
            out.writestr(other, content)
    return buffer.getvalue()


def packed(*, head_us: float = 10.0, head_sha: str = SHA, **limits: Any) -> bytes:
    """Both sides of a small run, measured interleaved in one session."""
    rows = {"base_results": rows_of(10.0), "head_results": rows_of(head_us)}
    return bundle.encode(rows, head_sha=head_sha, base_sha="b" * 40, **limits)


def rows_of(candidate_us: float) -> list[Any]:
    found = []
    for shape in SHAPES:
        for provider, us in (("flydsl", candidate_us), ("pytorch", 12.0)):
            blocks = tuple(tuple(us * (1 + 0.001 * ((i + j) % 3)) for j in range(4)) for i in range(8))
            more = {"provider": provider, "median_us": us, "blocks_us": blocks, "session_id": "s1"}
            found.append(make_outcome(shape, **more))
    return found


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    """A frozen ledger of three shapes whose matrix has the candidate and one baseline."""
    root = tmp_path / "ledgers"
    store.write_jsonl(root / "rmsnorm" / store.LEDGER_FILE, SHAPES)
    text = (frozen_ledgers_dir() / "rmsnorm" / store.MATRIX_FILE).read_text()
    store.write_text(root / "rmsnorm" / store.MATRIX_FILE, text)
    assert run(["ledger", "freeze", str(root)]) == 0
    return root


Take = Callable[..., int]


@pytest.fixture
def take(github: FakeGitHub, tmp_path: Path) -> Take:
    def call(*more: str) -> int:
        out, decision = str(tmp_path / "intake"), str(tmp_path / "decision")
        return run(["artifact", "take", "--run", "11", "--out", out, "--decision", decision, *more])

    return call


def verdict(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "decision" / "decision.json").read_text())
    return found


@pytest.mark.parametrize(("head_us", "code", "state"), [(10.0, 0, "success"), (13.0, 1, "failure")])
def test_from_artifact_to_comment(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path, head_us: float, code: int, state: str
) -> None:
    github.add_artifact(11, zipped(packed(head_us=head_us)))
    assert take() == 0
    judged = ["--from", str(tmp_path / "intake"), "--ledgers", str(ledgers), "--out", str(tmp_path / "decision")]
    assert run(["artifact", "judge", *judged]) == code, verdict(tmp_path)
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == state
    assert len(github.ours(7)) == (1 if code else 0) or code == 0


def test_the_link_is_taken_without_the_token(github: FakeGitHub, take: Take) -> None:
    github.add_artifact(11, zipped(packed()))
    assert take() == 0
    assert github.blob_authorizations == [None]


@pytest.mark.parametrize("kind", ["502", "429", "drop"])
def test_a_fault_on_the_way_is_tried_again(github: FakeGitHub, take: Take, kind: str) -> None:
    github.add_artifact(11, zipped(packed()))
    left = [Fault(kind)]
    github.plan = lambda method, path: left.pop() if left and path.endswith("/zip") else None
    assert take() == 0


def entries() -> list[tuple[str, Callable[[FakeGitHub], None], str]]:
    good = zipped(packed())
    return [
        ("none", lambda g: None, "has no artifact"),
        ("another name", lambda g: g.add_artifact(11, good, name="flydsl-gate-results-2") and None, "has no artifact"),
        ("another run", lambda g: g.add_artifact(12, good) and None, "has no artifact"),
        ("expired", lambda g: g.add_artifact(11, good, expired=True) and None, "has expired"),
        ("two", lambda g: [g.add_artifact(11, good) for _ in range(2)] and None, "2 artifacts"),
        ("huge", lambda g: g.add_artifact(11, good, size_in_bytes=1 << 40) and None, "bytes; at most"),
        ("empty", lambda g: g.add_artifact(11, good, size_in_bytes=0) and None, "bytes; at most"),
    ]


@pytest.mark.parametrize(("name", "arrange", "words"), entries())
def test_only_one_unexpired_artifact_of_the_name_and_size(
    github: FakeGitHub, take: Take, tmp_path: Path, name: str, arrange: Callable[[FakeGitHub], None], words: str
) -> None:
    arrange(github)
    assert take() == 2
    found = verdict(tmp_path)
    assert found["gate"] == "no_verdict" and words in " ".join(found["problems"])
    assert not (tmp_path / "intake").exists()
    assert github.blob_authorizations == [], "nothing is downloaded"


def test_more_bytes_than_the_listing_said_are_not_read(github: FakeGitHub, take: Take, tmp_path: Path) -> None:
    data = zipped(b"", name=archive.MEMBER, padding=bytes(range(256)) * 4 * 40_000)
    assert len(archive._capped(iter([b"x" * 10]), 10)) == 10
    with pytest.raises(NotTaken, match="whatever the listing says"):
        archive._capped(iter([data, data]), len(data))


def test_every_page_of_artifacts_is_read(github: FakeGitHub, take: Take) -> None:
    for number in range(130):
        github.add_artifact(11, b"x", name=f"log-{number}")
    github.add_artifact(11, zipped(packed()))
    assert take() == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "zip"),
        (b"PK\x03\x04 not a zip", "zip"),
        (zipped(b"x", name="../../x"), "member is"),
        (zipped(b"x", name="/etc/passwd"), "member is"),
        (zipped(b"x", name="bundle.jsonl_.sh").replace(b"jsonl_", b"jsonl\x00"), "member is"),
        (zipped(b"x", name="dir/bundle.jsonl"), "member is"),
        (zipped(b"x", other=b"y"), "2 members"),
        (zipped(packed())[:-40], "zip"),
        (zipped(bytes(200 << 20)), "more than"),
    ],
)
def test_an_archive_that_is_not_one_plain_member_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(NotTaken, match=words):
        archive.member(data)


def test_a_bomb_is_inflated_no_further_than_the_cap() -> None:
    with pytest.raises(NotTaken, match="more than 1,000 bytes"):
        archive.member(zipped(bytes(10_000)), caps=Caps(member_bytes=1000))
    assert len(archive.member(zipped(bytes(1000)), caps=Caps(member_bytes=1000))) == 1000


@pytest.mark.parametrize("link", ["http://elsewhere.example/x", "file:///etc/passwd", "ftp://x/y", "//x", ""])
def test_the_link_must_be_https(link: str) -> None:
    with pytest.raises(NotTaken, match="not HTTPS"):
        archive._allowed(link, api="https://api.github.com")
    with pytest.raises(NotTaken, match="not HTTPS"):
        archive._allowed(link, api="http://127.0.0.1:1234")


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def refused(data: bytes, words: str, **more: Any) -> None:
    with pytest.raises(NotTaken, match=words):
        bundle.decode(data, head_sha=SHA, **more)


def joined(rows: list[Any]) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows) + b"\n"


def test_a_bundle_comes_back_as_it_was() -> None:
    found = bundle.decode(packed(), head_sha=SHA)
    assert [len(rows) for rows in found.rows.values()] == [6, 6, 0, 0, 0, 0]
    assert found.rows["head_results"] == [json.loads(store.encode(row)) for row in rows_of(10.0)]
    assert found.base_sha == "b" * 40


def test_a_bundle_of_another_commit_is_refused() -> None:
    refused(packed(head_sha=OTHER), "another commit")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[1:], "line 1 is not the header"),
        (lambda rows: rows[:-1], "cut off"),
        (lambda rows: [*rows, rows[-1]], "cut off"),
        (lambda rows: [rows[0] | {"pull": 12}, *rows[1:]], "line 1 is not the header"),
        (lambda rows: [rows[0] | {"base_sha": "main"}, *rows[1:]], "base_sha"),
        (lambda rows: [rows[0] | {"counts": {"head_results": True}}, *rows[1:]], "counts"),
        (lambda rows: [rows[0], rows[1] | {"part": "policy"}, *rows[2:]], "line 2 is not a part"),
        (lambda rows: [rows[0], rows[1] | {"part": ["head_results"]}, *rows[2:]], "line 2 is not a part"),
        (lambda rows: [rows[0], rows[1] | {"text": "<b>"}, *rows[2:]], "line 2 is not a part"),
        (lambda rows: [rows[0], [rows[1]], *rows[2:]], "line 2 is not a part"),
    ],
)
def test_a_bundle_that_is_not_whole_is_refused(change: Callable[[list[Any]], list[Any]], words: str) -> None:
    refused(joined(change(lines(packed()))), words)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("median_us", "fast", "median_us"),
        ("median_us", 1e19, "a number beyond"),
        ("repeat_iters", 10**30, "a number beyond"),
        ("shape_id", "sha1:zz", "shape_id"),
        ("benchmark_status", "great", "benchmark_status"),
        ("provider", "mine", "provider"),
        ("notes", "x" * 4001, "4,001 characters"),
        ("notes", "\ud800", "surrogate"),
        ("args", {"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, "nested deeper"),
        ("args", {str(i): 0 for i in range(20_001)}, "items; at most"),
    ],
)
def test_a_row_that_breaks_its_contract_or_a_cap_is_refused(field: str, value: Any, words: str) -> None:
    rows = lines(packed())
    rows[1]["row"][field] = value
    refused(joined(rows), words)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "1" * 5000, '{"a":1,"a":2}', "[" * 50_000])
def test_only_strict_json_is_read(text: str) -> None:
    raw = packed().splitlines()
    raw[1] = raw[1].replace(b'"median_us":10.0', b'"median_us":' + text.encode())
    refused(b"\n".join(raw) + b"\n", "line 2")


def test_lines_and_their_length_are_capped() -> None:
    refused(packed(), "lines; at most 5", limits=bundle.Limits(lines=5))
    refused(packed(), "bytes; at most 100", limits=bundle.Limits(line_bytes=100))


def test_a_text_that_is_too_long_is_packed_short_and_says_so() -> None:
    row = msgspec.structs.replace(rows_of(10.0)[0], skip_reason="x" * 9000)
    data = bundle.encode({"head_results": [row]}, head_sha=SHA, base_sha=None)
    (found,) = bundle.decode(data, head_sha=SHA).rows["head_results"]
    assert len(found["skip_reason"]) <= 4000
    assert found["skip_reason"].endswith("…(+5,040 characters)")


def test_a_refused_row_is_not_packed_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / store.RESULTS_FILE
    store.write_jsonl(path, rows_of(10.0))
    path.write_text(path.read_text() + '{"run_id": 1}\n')
    assert run(["artifact", "pack", "--head-sha", SHA, "--head", str(path), "--out", str(tmp_path / "out")]) == 2
    assert f"{path}:7: refused" in capsys.readouterr().err
    assert not (tmp_path / "out" / archive.MEMBER).exists()


@pytest.mark.parametrize(
    ("files", "code"),
    [(["docs/a.md", "README.md"], 0), (["docs/a.md", "kernels/x.py"], 2), ([], 2), (["a.md"] * 300, 2)],
)
def test_only_githubs_own_list_of_files_makes_a_run_without_results_a_pass(
    github: FakeGitHub, take: Take, tmp_path: Path, files: list[str], code: int
) -> None:
    github.files[SHA] = files
    assert take() == code
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None
    assert found["state"] == ("success" if code == 0 else "error")
    assert (found["description"] == "no kernel changed") == (code == 0)


def test_a_failed_run_without_results_is_an_error_whatever_it_changed(
    github: FakeGitHub, take: Take, tmp_path: Path
) -> None:
    github.files[SHA] = ["docs/a.md"]
    github.runs[11, 1]["conclusion"] = "failure"
    assert take() == 2
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == "error"


@pytest.mark.parametrize(("bad", "words"), [(0.0, "invalid"), (-3.0, "invalid")])
def test_a_time_that_is_none_is_never_green(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path, bad: float, words: str
) -> None:
    rows = {"base_results": rows_of(bad), "head_results": rows_of(10.0)}
    github.add_artifact(11, zipped(bundle.encode(rows, head_sha=SHA, base_sha="b" * 40)))
    assert take() == 0
    judged = ["--from", str(tmp_path / "intake"), "--ledgers", str(ledgers), "--out", str(tmp_path / "decision")]
    assert run(["artifact", "judge", *judged]) == 2
    assert run(["publish", "--from", str(tmp_path / "decision"), "--run", "11"]) == 0
    found = github.status(SHA)
    assert found is not None and found["state"] == "error"


def test_a_shape_that_the_run_left_out_is_missing(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path
) -> None:
    rows = {"base_results": rows_of(10.0), "head_results": rows_of(10.0)[2:]}
    github.add_artifact(11, zipped(bundle.encode(rows, head_sha=SHA, base_sha="b" * 40)))
    assert take() == 0
    judged = ["--from", str(tmp_path / "intake"), "--ledgers", str(ledgers), "--out", str(tmp_path / "decision")]
    assert run(["artifact", "judge", *judged]) != 0
    assert verdict(tmp_path)["counts"]["missing"] == 1


def test_nothing_measured_and_nothing_compiled_is_no_verdict(
    github: FakeGitHub, take: Take, tmp_path: Path, ledgers: Path
) -> None:
    github.add_artifact(11, zipped(bundle.encode({}, head_sha=SHA, base_sha=None)))
    assert take() == 0
    judged = ["--from", str(tmp_path / "intake"), "--ledgers", str(ledgers), "--out", str(tmp_path / "decision")]
    assert run(["artifact", "judge", *judged]) == 2
    assert verdict(tmp_path)["gate"] == "no_verdict"


def test_two_hundred_hostile_artifacts_are_refused_and_none_crashes() -> None:
    from tests.bench.publish_hostile import main

    found = main()
    assert found["accepted"] == found["crashed"] == 0
    assert found["refused"] >= 200


@pytest.mark.parametrize(("verdict", "head", "gate"), [("fail", None, "no_verdict"), ("same", "side", "pass")])
def test_a_kernel_that_does_not_compile_cannot_pass_on_time(verdict: str, head: str | None, gate: str) -> None:
    from gate.commands.artifact_judge import uncontradicted
    from gate.model.decision import CodeEvidence
    from tests.render.examples import decision, row, side

    there = side(10, 100, 8)
    code = CodeEvidence(compile_key="k", verdict=verdict, base=there, head=there if head else None)
    assert uncontradicted(decision([row(0, code=code)])).gate == gate
