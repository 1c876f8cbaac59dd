"""``multipartite explain``: look inside a trained network, at one image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["explain", "register"]


def register(app: typer.Typer) -> None:
    """Attach the command."""
    app.command(epilog="Example: multipartite explain runs/first --index 7")(explain)


def explain(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    index: Annotated[int, typer.Option(help="Which test image.")] = 0,
    data_dir: Annotated[str | None, typer.Option(help="Where data sets are; else where the run found them.")] = None,
    out: Annotated[Path | None, typer.Option(help="Picture to write; else RUN/explain-INDEX.png.")] = None,
) -> None:
    """Draw one test image with the score maps and picks of every pooling layer, and the class evidence."""
    from multipartite.errors import InputError
    from multipartite.experiments.report.explanation import draw
    from multipartite.experiments.report.explanation import explain as look_inside
    from multipartite.experiments.run.training import load_trained

    found, data, net = load_trained(run, data_dir)
    config = found.config
    title = f"{config.pooling} pooling on {data.name}, test image {index}"
    figure = draw(look_inside(net, data, index), title)
    path = out or run / f"explain-{index}.png"
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path} ({error}): choose another --out") from error
    print(path)
