"""The command `clew completion`."""

from __future__ import annotations

import click

from clew.cli.ui.printing import say


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell. It completes commands, options and the names of threads.

    \b
    bash: clew completion bash > ~/.local/share/bash-completion/completions/clew
    zsh:  clew completion zsh > _clew   (in a folder of your fpath)
    fish: clew completion fish > ~/.config/fish/completions/clew.fish
    """
    from click.shell_completion import get_completion_class

    from clew.cli.commands import cli

    maker = get_completion_class(shell)
    assert maker is not None
    complete = maker(cli, {}, "clew", "_CLEW_COMPLETE")
    # Not .source(): it starts bash to check its version, and the script works in every version that is in use.
    say(complete.source_template % complete.source_vars())
