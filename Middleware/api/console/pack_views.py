"""Packs on the page: one is made and downloaded, one is looked at and unpacked. What runs programs is
unpacked by the command alone.

The work is that of `--pack` and `--unpack`. Source: spec workbench.md 10, 17.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from Middleware.api.commands.setup_files import write_beside
from Middleware.api.console.config_files import SHIPPED
from Middleware.api.console.view_contract import ApiRoute, Ask, Reply, ViewRefused
from Middleware.common.secrets import mask_secrets
from Middleware.common.types import JsonObject
from Middleware.config.endpoints import EndpointConfig
from Middleware.config.loader import ConfigSnapshot
from Middleware.config.validation import describe_value
from Middleware.services.pack_archive import Pack, PackRefused, file_name, pack_bytes, read_pack
from Middleware.utilities.file_utils import remove_stale_temporaries
from Middleware.utilities.install_layout import is_shipped
from Middleware.workflows.checks.config_check import checked_tree
from Middleware.workflows.checks.pack_contents import meant_by, pack_user
from Middleware.workflows.checks.pack_plan import (
    UnpackPlan,
    best_cast,
    candidates,
    cast_of,
    endpoints_there,
    findings_of,
    plan_unpack,
    programs_of,
    refuse_what_fails,
    refuse_what_is_there,
    sentence_of_finding,
    strangers_in,
)

logger = logging.getLogger(__name__)

ZIP = "application/zip"
MOST_ZIP = 16 * 1024 * 1024
NOTES = "X-Headrace-Notes"
"""The header of a pack with what its maker should know: a JSON list of sentences, in ASCII."""
_CALLED = "the file"
_FOR_THE_COMMAND = (
    "this pack runs programs, so the page doesn't unpack it; if you trust its author, run "
    "--unpack FILE --with-programs"
)


def pack(ask: Ask) -> Reply:
    """POST `pack`: the zip file of `{"name", "user"?}`, the bytes that `--pack` writes. 422 for what can't be
    packed.
    """
    ask.words()
    fields = ask.fields(name=str, user=str | None)
    snapshot = checked_tree(ask.hub.snapshot().root).snapshot()
    try:
        packed = pack_user(snapshot, *meant_by(snapshot, fields["name"], fields["user"] or ""))
        data = pack_bytes(packed.pack)
    except PackRefused as error:
        raise ViewRefused(422, str(error)) from error
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file_name(packed.pack.name), safe='')}",
        NOTES: json.dumps(packed.remarks),
    }
    return Reply(data, 200, headers, ZIP)


def unpack(ask: Ask) -> Reply:
    """POST `unpack?map=ROLE=ENDPOINT&prefix=&write=1`, the body is the zip file: what would be written, or
    with `write` 201 and what was.

    403 for the shipped examples, 409 for what is in the way, 413 for more than 16 MiB, 422 for what is no
    pack, runs programs, finds no endpoint or would not work.
    """
    wish = ask.words("map", "prefix", "write")
    if wish["write"] not in ("", "0", "1"):
        raise ViewRefused(400, f"write: found {describe_value(wish['write'])}, allowed: 0, 1")
    wanted = _wanted(ask.several("map"))
    data = ask.file(ZIP, MOST_ZIP)
    snapshot = checked_tree(ask.hub.snapshot().root).snapshot()
    if is_shipped(snapshot.root):
        raise ViewRefused(403, SHIPPED)
    try:
        return _unpack(ask, snapshot, read_pack(data, _CALLED), wanted, wish)
    except PackRefused as error:
        raise ViewRefused(422, str(error)) from error


def _wanted(pairs: Iterable[str]) -> dict[str, str]:
    """Role -> endpoint."""
    wanted: dict[str, str] = {}
    for pair in pairs:
        role, _, endpoint = (part.strip() for part in pair.partition("="))
        if not role or not endpoint:
            raise ViewRefused(400, f"map: found {describe_value(pair)}, allowed: ROLE=ENDPOINT")
        wanted[role] = endpoint.removesuffix(".json")
    return wanted


def _unpack(
    ask: Ask, snapshot: ConfigSnapshot, pack: Pack, wanted: Mapping[str, str], wish: Mapping[str, str]
) -> Reply:
    if programs := programs_of(pack):
        raise ViewRefused(422, _FOR_THE_COMMAND, programs=programs)
    there = endpoints_there(snapshot)
    chosen = best_cast(candidates(pack, there, wanted))
    plan = plan_unpack(snapshot, pack, cast_of(chosen), wish["prefix"], {})
    said = _checked(snapshot, pack, plan)
    secrets = ask.hub.secrets
    answer: JsonObject = {
        **_told_of_pack(pack, there, chosen),
        "new_user": plan.user,
        "files": list(plan.files),
        "unchanged": plan.unchanged,
        "in_the_way": plan.in_the_way,
        "notes": [mask_secrets(note, *secrets) for note in [*plan.remarks, *said]],
        "written": False,
    }
    try:
        refuse_what_is_there(plan)
    except PackRefused as error:
        if wish["write"] == "1":
            raise ViewRefused(409, str(error), in_the_way=plan.in_the_way) from error
        return Reply({**answer, "why": str(error)})
    if wish["write"] != "1":
        return Reply({**answer, "why": ""})
    _write(snapshot, plan)
    return Reply({**answer, "why": "", "written": True}, 201)


def _checked(snapshot: ConfigSnapshot, pack: Pack, plan: UnpackPlan) -> list[str]:
    """What the check of the new user says. Raises Refused for errors, with the sentences in `problems`."""
    if plan.in_the_way:
        return []
    findings = findings_of(snapshot, plan)
    sentences = [sentence_of_finding(finding) for finding in findings]
    try:
        refuse_what_fails(findings, strangers_in(snapshot, plan, {}))
    except PackRefused as error:
        raise ViewRefused(422, str(error), problems=sentences) from error
    return sentences


def _told_of_pack(
    pack: Pack, there: Mapping[str, EndpointConfig], chosen: Mapping[str, str]
) -> dict[str, Any]:
    """`{"name", "user", "version", "roles", "extras", "environment"}`; of each role what it is asked for, the
    model of its author, the endpoints that can play it, and the one that does.
    """
    fit = candidates(pack, there, {})
    needs = pack.needs
    return {
        "name": pack.name,
        "user": pack.user,
        "version": pack.version,
        "roles": [
            {
                "role": role,
                "abilities": abilities,
                "model": needs.models.get(role),
                "endpoints": fit[role],
                "endpoint": chosen[role],
            }
            for role, abilities in needs.roles.items()
        ],
        "extras": needs.extras,
        "environment": needs.environment,
    }


def _write(snapshot: ConfigSnapshot, plan: UnpackPlan) -> None:
    """All of it or nothing. 409 for a file that came meanwhile, 403 and 500 for what the system refuses."""
    remove_stale_temporaries(snapshot.root)
    try:
        write_beside({snapshot.root / name: text for name, text in plan.files.items()})
    except FileExistsError as error:
        raise ViewRefused(409, f"nothing was written: {error.filename} was made meanwhile") from error
    except OSError as error:
        status = 403 if isinstance(error, PermissionError) else 500
        raise ViewRefused(status, f"nothing was written: {error.strerror or error}") from error
    logger.info("console: unpacked user %s, %d files", plan.user, len(plan.files))


ROUTES = (
    ApiRoute("POST", "pack", "save", pack),
    ApiRoute("POST", "unpack", "save", unpack),
)
