"""keys: the commands that say who may ask a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from perdure.domain.access import ROLES, Role
from perdure.domain.errors import ConfigError, InvalidInputError
from perdure.domain.scope import Scope
from perdure.domain.text import shown
from perdure.frontends.cli.opening import need_server, read_settings, read_standing
from perdure.frontends.cli.options import CONTEXT, JsonOption, PathOption, folder
from perdure.frontends.cli.output import ID, Column, day, note, print_json, print_table, print_text

if TYPE_CHECKING:
    from perdure.backends.ledgers.desk.base import Keys

T = TypeVar("T")

app = typer.Typer(context_settings=CONTEXT, rich_markup_mode=None, no_args_is_help=True)

_ROLE_HELP = "reader, member (default), admin or service."
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the key is called, such as its application.")]
RoleOption = Annotated[str, typer.Option("--role", metavar="ROLE", help=_ROLE_HELP, show_default=False)]


@app.callback()
def keys() -> None:
    """Say who may ask a server of this memory: make keys, list them, end them.

    Once there has been a key, every address of a server asks for one. A key is shown once, when it is made; what is
    kept is its digest. Every one of these commands takes --path and --json.

    Example: perdure keys create my-app
    """


def _read_role(role: str) -> Role:
    found = next((each for each in ROLES if each == role), None)
    if found is None:
        raise InvalidInputError(f"role must be one of {', '.join(ROLES)}, not {shown(role)}", field="role", value=role)
    return found


@app.command("create", short_help="Make a key, and show it once.", context_settings=CONTEXT)
def create(
    name: NameArgument,
    *,
    role: RoleOption = "member",
    project: Annotated[
        str | None, typer.Option("--project", metavar="ID", help="Hold the key to one project's memories.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user-id", "--user", metavar="ID", help="Hold the key to one user's memories.")
    ] = None,
    team: Annotated[
        str | None, typer.Option("--team", metavar="ID", help="Make the key for one team's memory, and that alone.")
    ] = None,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Make a key and print it: nobody can be told it again.

    A key with --project, --user-id or --team sees and changes nothing outside. PERDURE_KEY_PEPPER, where it is set,
    must be the server's too.

    Example: perdure keys create my-app

    Example: perdure keys create dashboard --role reader --project apollo
    """
    from perdure.engine import keys as making  # heavy: pydantic
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
    """List keys, oldest first, revoked ones too: their names, roles, walls, and how each begins.

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


@app.command("revoke", short_help="End a key.", context_settings=CONTEXT)
def revoke(
    key: Annotated[str, typer.Argument(metavar="NAME|ID", help="The key's name, or its id.")],
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """End a key: from the next request on it is refused, by servers that run too. Its name is free again.

    Example: perdure keys revoke my-app
    """
    from perdure.engine import keys as making  # heavy, see above

    ended = with_keys(folder(path), lambda desk: making.revoke(desk, key))
    if as_json:
        print_json(ended.model_dump())
    else:
        note(f"the key {ended.name} is revoked")


@app.command("token", short_help="Make a token of a team's member, for development.", context_settings=CONTEXT)
def token(
    *,
    sub: Annotated[str, typer.Option("--sub", metavar="ID", help="Whom the token speaks for.")],
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="ID", help="A team of theirs; may be given again.")
    ] = None,
    role: RoleOption = "member",
    project: Annotated[
        list[str] | None, typer.Option("--project", metavar="ID", help="A project of theirs; may be given again.")
    ] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, max=8760, help="How long it is good.")] = 1.0,
    as_json: JsonOption = False,
    path: PathOption = None,
) -> None:
    """Make a token such as an identity provider would give, signed by PERDURE_JWT_SECRET: for development.

    Example: perdure keys token --sub ana --team excalibur --role admin
    """
    need_server()
    from perdure.frontends.server.settings import ServerSecrets  # heavy, see above
    from perdure.frontends.server.settings import read_settings as read_server
    from perdure.frontends.server.tokens import mint

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
    """Open the ledger of a memory's folder alone, and do something with its keys; `makes` one where there is none."""
    from perdure.engine.build import build_ledger  # heavy, see above

    async def run() -> T:
        ledger = build_ledger(read_settings(place) if makes else read_standing(place))
        await ledger.open()
        try:
            return await work(ledger.keys)
        finally:
            await ledger.close()

    return asyncio.run(run())
