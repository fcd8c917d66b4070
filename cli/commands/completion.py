"""`diskless completion`: the script that makes a shell complete commands and options."""

from __future__ import annotations

import click

from cli.outcome import Failed

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_DISKLESS_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    Examples: `diskless completion bash > ~/.local/share/bash-completion/completions/diskless`,
    `diskless completion zsh > ~/.zfunc/_diskless`, `diskless completion fish > ~/.config/fish/completions/diskless.fish`
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise Failed(f"this release of click has no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "diskless", VARIABLE).source())
