"""The commands that manage API keys of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from perdure.domain.access import ROLES, Role
from perdure.domain.errors import ConfigError, InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.frontends.cli.open_memory import need_server, read_settings, read_standing
from perdure.frontends.cli.options import CONTEXT, JsonOption, PathOption, folder
from perdure.frontends.cli.output import ID, Column, day, note, print_json, print_table, print_text

if TYPE_CHECKING:
    from perdure.backends.ledgers.repositories.base import Keys

T = TypeVar("T")
app = typer.Typer(context_settings=CONTEXT, rich_markup_mode=None, no_args_is_help=True)
_ROLE_HELP = "reader, member (default), admin or service."
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, such as its application.")]
RoleOption = Annotated[str, typer.Option("--role", metavar="ROLE", help=_ROLE_HELP, show_default=False)]


@app.callback()
def keys() -> None:
    """Manage API keys of a server of this memory: create, list and revoke them.

    Once a key has been created, a server requires one on every address. A key is shown once, when it is created; only
    its digest is stored. All of these commands take --path and --json.

    Example: perdure keys create my-app
    """


def _read_role(role: str) -> Role:
    found = next((each for each in ROLES if each == role), None)
    if found is None:
        raise InvalidInputError(f"role must be one of {', '.join(ROLES)}, not {shown(role)}", field="role", value=role)
    return found


@app.command("create", short_help="Create a key and show it once.", context_settings=CONTEXT)
def create(
    name: NameArgument,
    *,
    role: RoleOption = "member",
    project: Annotated[
        str | None, typer.Option("--project", metavar="ID", help="Limit the key to one project.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user-id", "--user", metavar="ID", help="Limit the key to one user.")
    ] = None,
    team: Annotated[
        str | None, typer.Option("--team", metavar="ID", help="Limit the key to one team's memory.")
    ] = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Create a key and print it; it cannot be shown again.

    A key with --project, --user-id or --team reads and changes nothing outside. If PERDURE_KEY_PEPPER is set, the
    server must have the same value.

    Example: perdure keys create my-app

    Example: perdure keys create dashboard --role reader --project apollo
    """
    from perdure.engine import api_keys as making  # heavy: pydantic
    from perdure.frontends.server.settings import ServerSecrets

    walls = Scope(user_id=user, project_id=project, team_id=team)
    pepper = ServerSecrets.read().key_pepper
    key, secret = with_keys(
        folder(path),
        lambda desk: making.create(
            desk, name, role=_read_role(role), walls=walls, pepper=pepper.get_secret_value() if pepper else None
        ),
        makes=True,
    )
    if as_json:
        print_json({**key.model_dump(), "key": secret})
        return
    print_text(secret)
    note(f"the key {key.name} is shown this once; send it as Authorization: Bearer, or X-API-Key")


@app.command("list", short_help="List keys, revoked ones too.", context_settings=CONTEXT)
def list_keys(as_json: JsonOption = False, path: PathOption = None) -> None:
    """List all keys, oldest first, revoked ones too, with name, role, scope and first characters.

    Example: perdure keys list --json
    """
    found = with_keys(folder(path), lambda desk: desk.list())
    if as_json:
        print_json({"results": [key.model_dump() for key in found]})
        return
    columns = [Column("name", style="bold"), Column("role"), Column("begins"), Column("walls"), Column("made")]
    print_table(
        [*columns, Column("revoked"), ID],
        (
            (
                key.name,
                key.role,
                key.hint,
                " ".join(f"{axis}={value}" for axis, value in key.walls.given().items()),
                day(key.created_at),
                day(key.revoked_at),
                key.id,
            )
            for key in found
        ),
    )


@app.command("revoke", short_help="Revoke a key.", context_settings=CONTEXT)
def revoke(
    key: Annotated[str, typer.Argument(metavar="NAME|ID", help="The key's name, or its id.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Revoke a key: running servers refuse it from the next request on. Its name can be used again.

    Example: perdure keys revoke my-app
    """
    from perdure.engine import api_keys as making  # heavy, see above

    ended = with_keys(folder(path), lambda desk: making.revoke(desk, key))
    if as_json:
        print_json(ended.model_dump())
    else:
        note(f"the key {ended.name} is revoked")


@app.command("token", short_help="Create a token for a team member, for development.", context_settings=CONTEXT)
def token(
    *,
    sub: Annotated[str, typer.Option("--sub", metavar="ID", help="The subject: the user of the token.")],
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="ID", help="A team of theirs; may be given again.")
    ] = None,
    role: RoleOption = "member",
    project: Annotated[
        list[str] | None, typer.Option("--project", metavar="ID", help="A project of theirs; may be given again.")
    ] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=8760, help="Hours until it expires.")] = 1.0,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Create a token as an identity provider would, signed with PERDURE_JWT_SECRET, for development.

    Example: perdure keys token --sub ana --team excalibur --role admin
    """
    need_server()
    from perdure.frontends.server.auth.jwt import mint
    from perdure.frontends.server.settings import ServerSecrets  # heavy, see above
    from perdure.frontends.server.settings import read_settings as read_server

    secret = ServerSecrets.read().jwt_secret
    if secret is None:
        raise ConfigError("a token is signed by PERDURE_JWT_SECRET, which is not set", field="PERDURE_JWT_SECRET")
    made = mint(
        secret.get_secret_value(),
        sub=sub,
        teams=team or [],
        role=_read_role(role),
        projects=project or [],
        hours=hours,
        settings=read_server(read_settings(folder(path))).jwt,
    )
    if as_json:
        print_json({"token": made})
    else:
        print_text(made)


def with_keys(place: Path, work: Callable[[Keys], Awaitable[T]], *, makes: bool = False) -> T:
    """Open only the ledger of a folder and run `work` on its API keys; `makes` creates a missing memory."""
    from perdure.engine.build import build_ledger  # heavy, see above

    async def run() -> T:
        ledger = build_ledger(read_settings(place) if makes else read_standing(place))
        await ledger.open()
        try:
            return await work(ledger.keys)
        finally:
            await ledger.close()

    return asyncio.run(run())
