"""The command line."""

import typer

app = typer.Typer(help="Multi-resolution Gaussian process state-space models.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """Multi-resolution Gaussian process state-space models."""


@app.command()
def demo() -> None:
    """Simulate a hand-set two-scale model freely and print its bands. Nothing is learned yet."""
    from mrgpssm.handset import print_demo

    print_demo()


def main() -> None:
    """Entry point of the `mrgpssm` command."""
    app()
