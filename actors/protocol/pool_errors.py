"""Errors of who takes a thing out of a pool; of the family of `actors.protocol.errors`, which describes them."""

from __future__ import annotations

from actors.protocol.errors import CallerError, EnvironmentFault


class UnknownPool(CallerError):
    """A handler asks for a pool that its node type does not have, or asks in a way that its worker cannot answer."""

    code = "MS170"
    hint = (
        "declare it with @tasks.pool(node_type) in the registry that has the task, and take it with `async with` in a "
        "coroutine, with `with` elsewhere"
    )


class PoolTimeout(EnvironmentFault, TimeoutError):
    """Nothing of a pool came free within its `timeout`, or the worker ends."""

    code = "MS240"
    hint = "raise max_size or timeout of the pool, hold its things for less time, or run fewer tasks at once"
    retryable = True
