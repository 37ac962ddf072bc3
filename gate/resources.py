"""Where the package's own data lies: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _find(name: str) -> Path:
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def templates_dir() -> Path:
    """The Jinja templates."""
    return _find("templates")


def frozen_ledgers_dir() -> Path:
    """The frozen ledgers that came with the package."""
    return _find("frozen_ledgers")


def schemas_dir() -> Path:
    """The JSON Schemas of the file contracts."""
    return _PACKAGE / "schemas"
