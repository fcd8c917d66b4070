"""Small disks of their own for single processes: tmpfs mounts that only this process and its children see.

`private_prefix` makes a command run where mounts are its own, so that they are gone with it, however it ends. Nothing else may
call `mount`: elsewhere it would change the machine's own folders.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

COMMAND_TIMEOUT_S: Final = 20
SIZE_BYTES: Final = 256 * 1024 * 1024
"""Write-ahead logs of a few coordinators and some evidence fit; memory is only taken for what is written."""


class NoMounts(Exception):
    """Mounts are not possible on this machine; the text says why and the remedy."""


def _run(*command: str) -> None:
    found = shutil.which(command[0]) or shutil.which(command[0], path="/usr/sbin:/sbin:/usr/bin:/bin")
    if found is None:
        raise NoMounts(f"there is no program {command[0]}: install util-linux and mount")
    done = subprocess.run([found, *command[1:]], capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S)
    if done.returncode != 0:
        raise NoMounts(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-300:]}")


def private_prefix() -> tuple[str, ...]:
    """The words before a command that give it mounts of its own. Raises `NoMounts`."""
    prefix = ("unshare", "--mount", "--propagation", "private")
    _run(*prefix, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt")
    return prefix


def mount(folder: Path) -> None:
    """Put a small empty disk on a folder. Raises `NoMounts`."""
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(folder))


def unmount(folder: Path) -> None:
    """Take the disk away and leave what was on it in the folder. Raises `NoMounts`."""
    kept = folder.with_name(folder.name + ".kept")
    shutil.copytree(folder, kept)
    _run("umount", str(folder))
    folder.rmdir()
    kept.rename(folder)
