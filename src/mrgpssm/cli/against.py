"""`mrgpssm evaluate --against`: compare a model with baselines on the same data."""

from typing import Any

from mrgpssm.baselines.compare import compare, methods_named
from mrgpssm.cli.show import print_rows, score_cells, score_titles
from mrgpssm.errors import ConfigError

_SHOWN = ("rmse", "fit_percent", "nll", "crps", "coverage_90", "coverage_95")


def check_against(against: str | None, train: list[str] | None) -> tuple[str, ...]:
    """The baselines asked for; --against and --train must be given together."""
    if against is None:
        if train:
            raise ConfigError("--train is for baselines to learn from; say which with --against baselines.")
        return ()
    if not train:
        raise ConfigError("--against needs the files the model learned from; name them with --train FILES.")
    return methods_named(against)


def rivals(methods: tuple[str, ...], training, test) -> dict[str, Any]:
    """Fit and score every baseline; progress goes to standard error."""
    return compare(training, test, methods)


def rivals_json(found: dict[str, Any]) -> dict[str, Any]:
    """Scores and chosen settings as JSON values."""
    return {name: {"scores": r.scores.to_dict("index"), "chosen": r.chosen} for name, r in found.items()}


def print_comparison(title: str, scores, found: dict[str, Any]) -> None:
    """Print one row per output and method, the model first."""
    tables = {"MRGPSSM": scores} | {name: r.scores for name, r in found.items()}
    rows = []
    for output in scores.index:
        rows += [[str(output), name, *score_cells(table.loc[output], _SHOWN)] for name, table in tables.items()]
    print_rows(title, ["output", "method", *score_titles(_SHOWN)], rows)
