"""One row is not `1 rows`: whatever a message counts is put into words by `counted`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gate.model.text import counted
from gate.render import words

TOP = Path(__file__).resolve().parents[1]
PARTS = ("analysis", "bisect", "codegen", "commands", "history", "ledgers", "profiling", "publish", "render", "replay")
FOLDERS = {**{part: TOP / "gate" / part for part in PARTS}, "bench": TOP / "tests" / "bench"}
NOUNS = (
    "arguments|baselines|blocks|calls|cases|changes|columns|commits|copies|decisions|dispatches|files|GPUs|kernels|keys|"
    "launches|lines|models|ops|pages|pairs|problems|processes|providers|reasons|records|rows|runners|runs|shapes|shards|"
    "signatures|steps|times|versions|waivers|wheels"
)
BARE = re.compile(rf" (?!(?:has|in|of) )(?:[a-z]+ )?(?:{NOUNS})\b")
# By module, what is known to be two or more where it is told, or to be no whole number.
SEVERAL = {
    "analysis/arm.py": {"len(good)"},
    "analysis/design.py": {"needed"},
    "analysis/profiled.py": {"profile.dispatches_per_call"},
    "analysis/rows.py": {"k"},
    "bench/bisect_gpu.py": {"chains[1]"},
    "bench/history_drift.py": {"STEPS", "FLAT"},
    "bench/history_scale.py": {"rows", "rows / total.cpu_s"},
    "bisect/search.py": {"len(suspects)"},
    "commands/codegen_show.py": {"len(meant)"},
    "commands/ledger_put.py": {"change.removed"},
    "profiling/calls.py": {"often"},
    "profiling/rocprof_json.py": {"len(tools)"},
    "publish/bundle.py": {"len(lines)"},
    "replay/provider.py": {"item.op_type"},
    "replay/providers/aiter/attention.py": {"PARTITION"},
    "replay/providers/gluon/attention.py": {"PARTITION"},
    "replay/shared_torch.py": {"slower"},
}


def bare(source: str) -> Iterator[str]:
    """The expressions in f-strings that a bare plural follows."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and BARE.match(str(getattr(after, "value", ""))):
                    yield ast.unparse(value.value)


@pytest.mark.parametrize("part", FOLDERS)
def test_no_number_is_followed_by_a_bare_plural(part: str) -> None:
    folder = FOLDERS[part]
    told = {f"{part}/{path.relative_to(folder)}": set(bare(path.read_text("utf-8"))) for path in folder.rglob("*.py")}
    wanted = {module: values for module, values in SEVERAL.items() if module.startswith(f"{part}/")}
    assert {module: values for module, values in told.items() if values} == wanted


def test_a_bare_plural_is_found() -> None:
    assert list(bare("f'{n} more rows of {len(files)} files; {shard} has rows; {total} shares'")) == ["n", "len(files)"]


@pytest.mark.parametrize("count", [counted, words.count])
def test_one_and_many(count: Callable[..., str]) -> None:
    told = [count(1, "row"), count(0, "row"), count(1_500, "row"), count(2, "shape is", "shapes are")]
    assert list(map(str, told)) == ["1 row", "0 rows", "1,500 rows", "2 shapes are"]
