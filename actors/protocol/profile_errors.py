"""Errors that who looks inside can meet; of the family of `actors.protocol.errors`, which describes them."""

from __future__ import annotations

from actors.protocol.errors import EnvironmentFault


class ProfileUnavailable(EnvironmentFault):
    """No process of the state folder can be seen: no program of this user has it open here, or the system hides it."""

    code = "MS230"
    hint = "open the folder with Runtime(...) in a program of the same user and pid namespace, and ask while it runs"
    retryable = True
