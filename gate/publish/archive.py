"""Takes one artifact of a run as bytes: exactly one of the name, small in every respect, never unpacked to disk."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gate.publish.hub import GitHub
from gate.publish.patience import persist
from gate.publish.translate import called, meaning
from gate.publish.values import ArtifactEntry

NAME = "flydsl-gate-results"
MEMBER = "bundle.jsonl"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """How much is taken: bytes of the archive, and of the one member once it is inflated."""

    archive_bytes: int = 32 << 20
    member_bytes: int = 128 << 20


CAPS = Caps()


class NotTaken(Exception):
    """Why an artifact is refused, in words."""


def choose(entries: Sequence[ArtifactEntry], *, run_id: int, name: str = NAME) -> ArtifactEntry:
    """The one unexpired artifact of this very name. Raises NotTaken."""
    named = [one for one in entries if one.name == name]
    alive = [one for one in named if not one.expired]
    if not named:
        raise NotTaken(f"the run has no artifact {name}")
    if not alive:
        raise NotTaken(f"the artifact {name} has expired")
    if len(alive) > 1:
        raise NotTaken(f"the run has {len(alive)} artifacts {name}")
    if alive[0].run not in (None, run_id):
        raise NotTaken(f"the artifact {name} is of run {alive[0].run}")
    if not 0 < alive[0].size_bytes <= CAPS.archive_bytes:
        raise NotTaken(f"the artifact {name} has {alive[0].size_bytes:,} bytes; at most {CAPS.archive_bytes:,}")
    return alive[0]


def download(hub: GitHub, entry: ArtifactEntry) -> bytes:
    """The archive's bytes. The link it redirects to is taken without the token. Raises NotTaken, Refused, GaveUp."""
    return persist(lambda: called(lambda: _download(hub, entry), write=False), hub.patience)


def _download(hub: GitHub, entry: ArtifactEntry) -> bytes:
    import requests

    headers = {"Accept": "application/vnd.github+json", **hub.authorization()}
    url = f"{hub.base_url}/repos/{hub.repo_name}/actions/artifacts/{entry.id}/zip"
    with requests.Session() as session:
        session.trust_env = False  # no .netrc, which would send a password of its own
        with session.get(url, headers=headers, allow_redirects=False, timeout=hub.timeout_s) as first:
            if first.status_code != 302:
                raise _meaning(first)
            link = first.headers.get("Location", "")
        _allowed(link, api=hub.base_url)
        with session.get(link, allow_redirects=False, timeout=hub.timeout_s, stream=True) as second:
            if second.status_code != 200:
                raise _meaning(second)
            return _capped(second.iter_content(1 << 16), CAPS.archive_bytes)


def _meaning(response: Any) -> Exception:
    try:
        data = response.json()
    except ValueError:
        data = {"message": response.reason}
    return meaning(response.status_code, data, {k.lower(): v for k, v in response.headers.items()}, write=False)


def _allowed(link: str, *, api: str) -> None:
    """Raises NotTaken for a link that is not HTTPS; plain HTTP stays on this machine, where the tests are."""
    parts, door = urlsplit(link), urlsplit(api)
    local = parts.scheme == door.scheme == "http" and {parts.hostname, door.hostname} <= LOOPBACK
    if not (parts.scheme == "https" and parts.hostname) and not local:
        raise NotTaken(f"the artifact's link is not HTTPS: {parts.scheme}://{parts.hostname}")


def _capped(chunks: Iterator[bytes], limit: int) -> bytes:
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > limit:
            raise NotTaken(f"the archive has more than {limit:,} bytes, whatever the listing says")
    return bytes(found)


def member(archive: bytes, *, caps: Caps = CAPS) -> bytes:
    """The bytes of the one member of a zip archive, inflated in memory up to the cap. Raises NotTaken."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            infos = opened.infolist()
            if len(infos) != 1:
                raise NotTaken(f"the archive has {len(infos)} members, not the one {MEMBER}")
            _plain(infos[0])
            with opened.open(infos[0]) as stream:
                found = stream.read(caps.member_bytes + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise NotTaken(f"not a usable zip archive: {why}") from None
    if len(found) > caps.member_bytes:
        raise NotTaken(f"{MEMBER} has more than {caps.member_bytes:,} bytes")
    return found


def _plain(info: zipfile.ZipInfo) -> None:
    if info.filename != MEMBER or info.orig_filename != MEMBER:
        raise NotTaken(f"the archive's member is {info.filename[:80]!r}, not {MEMBER}")
    if info.flag_bits & 0x1:
        raise NotTaken(f"{MEMBER} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotTaken(f"{MEMBER} is compressed by method {info.compress_type}")
    mode = info.external_attr >> 16
    if mode and (mode & 0o170000) not in (0, 0o100000):
        raise NotTaken(f"{MEMBER} is not a plain file")
