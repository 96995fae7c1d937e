"""`mrgpssm simulate` and `mrgpssm evaluate`."""

import io
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from mrgpssm.baselines.compare import compare, methods_named
from mrgpssm.blend.load import load
from mrgpssm.cli.flags import Files, Json, ModelPath, Seed
from mrgpssm.cli.show import collect_warnings, print_json, print_rows, print_scores, say, score_cells, score_titles
from mrgpssm.data import cut_warmup
from mrgpssm.data.doubts import was_seen
from mrgpssm.data.tables import Columns, csv_bytes, read_sequences
from mrgpssm.errors import ConfigError, need
from mrgpssm.estimator.config import DataConfig, make_config, read_config
from mrgpssm.file import write_atomic, write_json
from mrgpssm.file.words import count_of

_Samples = Annotated[int, typer.Option(min=2, help="Trajectories.")]
_WarmupRows = Annotated[int, typer.Option(min=0, help="First rows whose measured outputs set the state.")]
_TIME = typer.Option(help="The time column; left out, that of the run.")
_GAPS = typer.Option(help="split, irregular or refuse: what a gap in time does; left out, as in the run.")
_COMPARED = ("rmse", "fit_percent", "nll", "crps", "coverage_90", "coverage_95")


def simulate(
    model: ModelPath,
    data: Files,
    out: Annotated[Path, typer.Option(help="Where to write: .csv or .parquet.")],
    samples: _Samples = 100,
    seed: Seed = 0,
    stride: Annotated[int, typer.Option(min=1, help="Every how many rows to report.")] = 1,
    warmup_rows: _WarmupRows = 0,
    time: Annotated[str | None, _TIME] = None,
    gaps: Annotated[str | None, _GAPS] = None,
    as_json: Json = False,
) -> None:
    """Run freely over the inputs of tables; write mean, std, quantiles and components of every output."""
    if out.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"--out must end in .csv or .parquet; got {out.name!r}.")
    if out.suffix == ".parquet":
        need("pyarrow", "Parquet files need pyarrow (.csv needs nothing more)", "data")
    fitted = load(model)
    tables, told = [], []
    time, gaps = _find_clock(model, time, gaps)
    for sequence in _sequences(fitted, data, time, gaps, outputs_required=warmup_rows > 0):
        warmup, rest = cut_warmup(sequence, warmup_rows)
        with collect_warnings() as doubts:
            run = fitted.simulate(rest, warmup=warmup, samples=samples, seed=seed, stride=stride)
        told += doubts
        table = run.to_dataframe().reset_index()
        table.insert(0, "sequence", sequence.name)
        tables.append(table)
    whole = pd.concat(tables, ignore_index=True)
    _write(whole, out)
    if as_json:
        about = {"rows": len(whole), "sequences": len(tables), "columns": list(whole.columns)}
        print_json({"out": str(out), "warnings": told} | about)
    else:
        say(f"Wrote {len(whole):,} rows of {count_of(len(tables), 'sequence')} to {out}.")


def evaluate(
    model: ModelPath,
    data: Files,
    samples: _Samples = 100,
    seed: Seed = 0,
    warmup_rows: _WarmupRows = 0,
    time: Annotated[str | None, _TIME] = None,
    gaps: Annotated[str | None, _GAPS] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the scores to this JSON file.")] = None,
    against: Annotated[
        str | None, typer.Option(help="baselines, or some of trees,gru,arx,subspace,oe,static: fit and score them too.")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(help="File, folder or pattern the baselines learn from; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run freely over tables; score against the measured outputs, and compare with baselines."""
    methods = _find_methods(against, train)
    if methods and warmup_rows:
        raise ConfigError("Baselines are compared from the first row on; leave out --warmup-rows or --against.")
    fitted = load(model)
    time, gaps = _find_clock(model, time, gaps)
    sequences = _sequences(fitted, data, time, gaps, outputs_required=True)
    training = _sequences(fitted, train or [], time, gaps, outputs_required=True) if methods else []
    with collect_warnings() as doubts:
        scores = fitted.score(sequences, samples=samples, seed=seed, warmup_rows=warmup_rows)
    seen = [s.name for s in sequences if was_seen(fitted.fitted_.seen, s)]
    found = compare(training, sequences, methods) if methods else {}
    result = {
        "model": str(model),
        "rows": sum(map(len, sequences)),
        "sequences": len(sequences),
        "samples": samples,
        "seed": seed,
        "warmup_rows": warmup_rows,
        "scores": scores.to_dict("index"),
        "seen_in_training": seen,
        "warnings": doubts,
    }
    if methods:
        result["baselines"] = {k: {"scores": r.scores.to_dict("index"), "chosen": r.chosen} for k, r in found.items()}
    if out is not None:
        write_json(out, result)
    if as_json:
        print_json(result)
        return
    title = f"Free run over {count_of(len(sequences), 'sequence')}, {result['rows']:,} rows"
    title += f"; seen in training: {len(seen)}" if seen else ""
    if not methods:
        print_scores(title, scores)
        return
    tables = {"MRGPSSM": scores} | {name: r.scores for name, r in found.items()}
    rows = []
    for output in scores.index:
        rows += [[str(output), name, *score_cells(table.loc[output], _COMPARED)] for name, table in tables.items()]
    print_rows(title, ["output", "method", *score_titles(_COMPARED)], rows)


def _find_methods(against: str | None, train: list[str] | None) -> tuple[str, ...]:
    """The baselines asked for; --against and --train must be given together."""
    if against is None:
        if train:
            raise ConfigError("--train is for baselines to learn from; say which with --against baselines.")
        return ()
    if not train:
        raise ConfigError("--against needs the files the model learned from; name them with --train FILES.")
    return methods_named(against)


def _find_clock(model: Path, time: str | None, gaps: str | None) -> tuple[str | None, str]:
    """The time column and what a gap does: as given, else as in the run, else rows at the model's rate, split."""
    path = model / "config.toml"
    known = make_config(read_config(path), str(path)).data if path.is_file() else DataConfig()
    return time or known.time, gaps or known.gaps


def _sequences(fitted, files: list[str], time: str | None, gaps: str, outputs_required: bool):
    if gaps not in ("split", "irregular", "refuse"):
        raise ConfigError(f"--gaps must be split, irregular or refuse; got {gaps!r}.")
    model = fitted.fitted_
    columns = Columns(model.input_names, model.output_names, time, None if time else model.dt)
    return read_sequences(files, columns, gaps=gaps, outputs_required=outputs_required)  # pyright: ignore[reportArgumentType]


def _write(table, path: Path) -> None:
    if path.suffix == ".csv":
        write_atomic(path, csv_bytes(table, "%.15g"))
        return
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    write_atomic(path, buffer.getvalue())
