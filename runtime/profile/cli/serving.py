"""`serve`: Go's URLs over HTTP from a process of its own, for a folder that some program has open, until Ctrl-C."""

from __future__ import annotations

from argparse import Namespace

from runtime.cli.console import Console
from runtime.profile.captures.capture import pass_time
from runtime.profile.cli.app import ProfileExit
from runtime.profile.cli.shared import state_of, until_interrupted
from runtime.profile.web.server import UNIX, ProfileServer

_LONG_S = 3_600.0


def serve(arguments: Namespace, console: Console) -> int:
    """The command `serve`."""
    with (
        until_interrupted() as stop,
        ProfileServer(state_of(arguments, console), arguments.listen, arguments.token) as server,
    ):
        if server.url.startswith(UNIX):
            console.say([f"{server.url}", f"token {server.token}"])
        else:
            console.say(f"{server.url}/debug/pprof/?token={server.token}")
        while not stop():
            pass_time(_LONG_S, stop)
    return ProfileExit.OK
