"""Everything that programs use of the client, in one place (`public.py`); it is imported when a name is first asked for.

    from coordinator.client import DisklessClient, Record, open_store

    async with DisklessClient("host1:9192,host2:9192", object_store=open_store("s3://bucket")) as client:
        await client.write({("orders", 0): [Record(value=b"...")]})
        async for record in client.read("orders"): ...

All errors are a `DisklessError`; a value of a wrong type is a `TypeError`.
"""

from typing import TYPE_CHECKING

from coordinator.protocol import kio_alone as kio_alone  # before any module of this package imports kio

if TYPE_CHECKING:
    from coordinator.client.public import *  # noqa: F403 - all names of that module are public
else:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        public = import_module("coordinator.client.public")
        if name.startswith("_") or not hasattr(public, name):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(public, name)
