"""`dlgm fit`: train a model and write its file."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dlgm.cli.errors import UsageError
from dlgm.cli.options import AsJson, DataName, Offline, Quiet, Seed, settings_mistakes, users_mistakes, widths, writable
from dlgm.cli.processes import Coordinator, Distributed, NumProcesses, ProcessId, join, part_company
from dlgm.cli.rows import rows_to_fit
from dlgm.cli.tables import (
    ChunkRows,
    Delimiter,
    Drop,
    Encoding,
    Header,
    Key,
    Missing,
    Ordinal,
    SchemaFile,
    Types,
    is_file,
    print_notes,
    print_schema,
    stem,
)


def fit(
    data: DataName,
    out: Annotated[
        Path | None, typer.Option(help="The model file to write; its folder is made if need be. Default: DATA.dlgm")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="A named model, from which the options below depart: default, factor-analysis, "
            "bernoulli-factor-analysis, nlgbn, paper-mnist, fig-2c, visualisation, norb, or best, "
            "which has its own settings of the training, too."
        ),
    ] = "default",
    family: Annotated[
        str | None,
        typer.Option(
            help="Observation family: bernoulli, gaussian, student-t, logistic, log-normal, heaped-gaussian, "
            "heaped-log-normal, categorical, ordinal, poisson, negative-binomial or discretised-logistic. Default: the "
            "data set's own, or those of the columns' kinds."
        ),
    ] = None,
    valid: Annotated[
        str | None, typer.Option(help="Rows of your own to validate with: a share (0.1 by default), or a file.")
    ] = None,
    latent: Annotated[str | None, typer.Option(help="Latents in each layer, lowest first: 100 or 100,50.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Hidden layers of each network: 200,200.")] = None,
    nonlinearity: Annotated[str | None, typer.Option(help="relu, tanh, softplus, elu, silu, ...")] = None,
    covariance: Annotated[str | None, typer.Option(help="Posterior: diagonal, rank-one, rank-r or full.")] = None,
    rank: Annotated[int | None, typer.Option(help="r of --covariance rank-r.")] = None,
    structure: Annotated[str | None, typer.Option(help="Over layers: factorised, joint or directed.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data at most.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows in a step.")] = None,
    objective: Annotated[str | None, typer.Option(help="free-energy, importance-weighted or wake-sleep.")] = None,
    num_samples: Annotated[int | None, typer.Option(help="Draws of the latents a row.")] = None,
    optimiser: Annotated[
        str | None, typer.Option(help="rmsprop, adam, adamw, adamax, nadam, adagrad, lion, adan, muon, sgd.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At its highest.")] = None,
    warm_up: Annotated[float | None, typer.Option(help="Share of epochs over which the KL term comes in.")] = None,
    drop_out: Annotated[float | None, typer.Option(help="Rate of drop-out at the recognition model's input.")] = None,
    bit_flip: Annotated[float | None, typer.Option(help="Rate of bit flips there (binary data).")] = None,
    gaussian_noise: Annotated[float | None, typer.Option(help="Scale of Gaussian noise there.")] = None,
    sample_noise: Annotated[float | None, typer.Option(help="Scale of Gaussian noise on the latents.")] = None,
    patience: Annotated[int | None, typer.Option(help="Epochs without a better validation bound; 0: all.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Learning rate: cosine, linear or constant.")] = None,
    averaging: Annotated[float | None, typer.Option(help="Decay of the parameters' running average; 0: none.")] = None,
    clip: Annotated[float | None, typer.Option(help="Longest gradient taken as it is; 0: no limit.")] = None,
    scale: Annotated[str | None, typer.Option(help="The matrices G: full, diagonal or scalar.")] = None,
    sees_mask: Annotated[
        bool | None,
        typer.Option(
            "--sees-mask/--no-mask",
            help="Whether the recognition model is told which cells are holes. Default: if there are any.",
        ),
    ] = None,
    hide_cells: Annotated[
        float | None,
        typer.Option(help="Largest share of a row's cells taken for holes in a step, so that holes are known later."),
    ] = None,
    move: Annotated[
        int | None, typer.Option(help="Pixels by which images are moved at random, less and less often; 0: none are.")
    ] = None,
    slant: Annotated[
        float | None,
        typer.Option(help="By how much they are slanted at most: pixels for each line from the middle; 0: none are."),
    ] = None,
    kappa: Annotated[float | None, typer.Option(help="Variance of the generative parameters' prior.")] = None,
    bayes: Annotated[
        bool, typer.Option("--bayes", help="A posterior over the generative parameters, in place of a point.")
    ] = False,
    prior: Annotated[
        str | None, typer.Option(help="With --bayes, the prior's variances: constant (kappa), fan-in or learned.")
    ] = None,
    parameter_draws: Annotated[int | None, typer.Option(help="With --bayes, draws of the parameters a step.")] = None,
    parameter_weight: Annotated[
        float | None, typer.Option(help="With --bayes, weight of the parameters' KL; below 1, the data counts more.")
    ] = None,
    history: Annotated[Path | None, typer.Option(help="Also write a line of JSON an epoch to this file.")] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints. Default: OUT.checkpoints, which goes when OUT is written."),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="Time between checkpoints; what a kill can cost at most.")
    ] = 60.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that the checkpoints are of.")] = False,
    gradient_noise: Annotated[
        bool, typer.Option("--gradient-noise", help="Afterwards, measure the gradient's signal-to-noise by estimator.")
    ] = False,
    schema: SchemaFile = None,
    types: Types = None,
    ordinal: Ordinal = None,
    drop: Drop = None,
    missing: Missing = None,
    key: Key = None,
    delimiter: Delimiter = None,
    header: Header = None,
    encoding: Encoding = None,
    chunk_rows: ChunkRows = None,
    distributed: Distributed = False,
    coordinator: Coordinator = None,
    num_processes: NumProcesses = None,
    process_id: ProcessId = None,
    offline: Offline = False,
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a data set or a file, keep the weights with the best validation bound, and write them to a file.

    Example: dlgm fit digits --out digits.dlgm --latent 20 --epochs 200

    Example: dlgm fit adult.csv --type age=count --missing -999
    """
    speaks = join(distributed, coordinator, num_processes, process_id)
    quiet = quiet or not speaks
    out = writable("--out", out or Path(f"{stem(data) if is_file(data) else data}.dlgm"), (".dlgm",))
    if rank is not None and covariance != "rank-r":
        raise UsageError("--rank: only with --covariance rank-r.")
    if history is not None:
        writable("--history", history)
    rows = rows_to_fit(
        data,
        family=family,
        valid=valid,
        seed=seed,
        offline=offline,
        quiet=quiet,
        schema=schema,
        types=types,
        ordinal=ordinal,
        drop=drop,
        missing=missing,
        key=key,
        delimiter=delimiter,
        header=header,
        encoding=encoding,
        chunk_rows=chunk_rows,
    )

    import jax

    from dlgm.artifact import SavedModel, save_model
    from dlgm.files import to_json
    from dlgm.learning import (
        CheckpointError,
        Checkpoints,
        Interrupted,
        JsonlHistory,
        NonFiniteError,
        ProcessLostError,
        TerminalProgress,
        TrainingConfig,
        diagnose,
    )
    from dlgm.learning import fit as train
    from dlgm.model import preset as named
    from dlgm.recipes import recipe_for

    is_table = rows.table is not None and preset == "default" and rows.table.shape is None
    recipe = recipe_for("best" if preset == "best" else data)
    if is_table and covariance is None and structure is None and len(widths("--latent", latent) or (1,)) == 1:
        recipe = _recipe_for_table(rows, seed)
    asked_model = {
        "latent": widths("--latent", latent),
        "hidden": widths("--hidden", hidden),
        "nonlinearity": nonlinearity,
        "covariance": covariance,
        "rank": rank,
        "structure": structure,
        "scale": scale,
        "kappa": kappa,
        "bayes": bayes or None,
        "prior": prior,
        "sees_mask": sees_mask if sees_mask is not None else _has_holes(rows.train) or bool(hide_cells) or None,
    }
    asked_training: dict[str, Any] = {
        "epochs": epochs,
        "batch_size": batch_size,
        "objective": objective,
        "num_samples": num_samples,
        "optimiser": optimiser,
        "learning_rate": learning_rate,
        "warm_up": warm_up,
        "drop_out": drop_out,
        "bit_flip": bit_flip,
        "gaussian_noise": gaussian_noise,
        "sample_noise": sample_noise,
        "hide_cells": hide_cells,
        "move": move,
        "slant": slant,
        "parameter_draws": parameter_draws,
        "parameter_weight": parameter_weight,
        "patience": patience,
        "schedule": schedule,
        "averaging": averaging,
        "clip": clip,
        "seed": seed,
    }
    moves = {"move": move, "slant": slant}
    if any(recipe.training.get(name) if value is None else value for name, value in moves.items()):
        asked_training["image"] = image = _image(rows)
        for name, value in moves.items():
            if image is None and value:
                raise UsageError(f"--{name}: expected images of bits or 8-bit pixels, height by width (by colours).")
            if image is None:  # what suits images, for rows that are none
                asked_training[name] = 0
    with settings_mistakes({"preset", *asked_model, *asked_training} - {"image"}):
        # A preset is a model of its own: the recipe's sizes are for the default one.
        sizes = dict(recipe.model) if preset == "default" else {}
        config = named(preset, rows.observation, **{**sizes, **_given(asked_model)})
        training = TrainingConfig(**{**recipe.training, **_given(asked_training)})
        training.check_for(rows.observation.name, rows.observation.columns, validated=True)
        for part in (rows.train, rows.valid):
            part.check(rows.observation)
    if rows.table is not None and not (quiet or as_json):
        print_schema(rows.table)
        print_notes(f"{valid}: {note}" for note in rows.valid.notes if note not in rows.table.notes)

    watchers: list[Any] = [] if quiet or as_json else [TerminalProgress(f"fit {data}")]
    if history is not None:
        watchers.append(JsonlHistory(history))
    described = {"config": training.to_dict()}
    kept = Checkpoints(checkpoints or out.with_name(f"{out.name}.checkpoints"), resume=resume, every=checkpoint_every)
    if resume and speaks and not kept.paths():
        print(f"dlgm: {kept.folder}: nothing there to resume; this run starts at the beginning.", file=sys.stderr)
    try:
        with users_mistakes():
            fitted = train(
                config,
                rows.train.values,
                rows.train.mask,
                valid=rows.valid.values,
                valid_mask=rows.valid.mask,
                config=training,
                watchers=watchers,
                checkpoints=kept,
                chunk_rows=chunk_rows,
            )
    except CheckpointError as error:
        part_company()
        raise UsageError(str(error)) from error
    except Interrupted as stop:
        part_company()
        print(f"dlgm: {stop} Go on with the same command and --resume.", file=sys.stderr)
        raise typer.Exit(128 + stop.signal) from None
    except ProcessLostError as error:
        advice = f"Start all of them again with --resume: the checkpoints are in {kept.folder}."
        raise UsageError(f"{error} {advice}") from error
    except NonFiniteError as error:
        part_company()
        # Beside the file that was asked for: an earlier model there may be worth more than this one.
        rescued = out.with_suffix(".last-good.dlgm")
        if speaks:
            save_model(rescued, SavedModel(error.model, config, rows.described, described))
        if speaks and checkpoints is None:
            kept.remove()  # resumed, the run would only stop there again
        raise UsageError(f"{str(error).split(' The last good')[0]} The last good weights: {rescued}.") from error
    part_company()
    if not speaks:
        return
    save_model(out, SavedModel(fitted.model, config, rows.described, described))
    if checkpoints is None:
        kept.remove()

    branch = jax.random.fold_in(jax.random.key(seed), 99)  # apart from the branches that training takes
    seen = rows.valid.first(1000)
    found = diagnose(fitted.model, seen.values, seen.mask, key=branch)
    found = replace(found, bound=found.bound + seen.shift(), log_p=found.log_p + seen.shift())
    summary = {
        "data": data,
        "out": str(out),
        **fitted.summary(),
        "seed": seed,
        "diagnostics": found.to_dict(),
        "gradient_signal_to_noise": _signal_to_noise(fitted.model, rows.valid.first(100), branch)
        if gradient_noise
        else None,
    }
    beside = _compared(fitted.model, rows, seed) if is_table else None
    summary["comparison"] = beside and vars(beside)
    for name, part in (("train_bound", rows.train), ("valid_bound", rows.valid)):
        summary[name] += part.shift()
    save_model(out, SavedModel(fitted.model, config, rows.described, {**described, "summary": summary}))
    if as_json:
        typer.echo(to_json(summary | ({"schema": rows.table.schema.to_dict()} if rows.table else {})))
    elif not quiet:
        used = ", ".join(f"{a} of {k}" for a, k in zip(found.active_units, found.latent, strict=True))
        typer.echo(f"{data}: {len(fitted.history)} epochs in {fitted.seconds:,.0f} s; best epoch {fitted.best_epoch}.")
        # The one was trained for, and may be importance-weighted; the other is the free energy's, which is lower then.
        weighted = training.objective == "importance-weighted"
        typer.echo(
            f"Validation bound{' (importance-weighted)' if weighted else ''} {summary['valid_bound']:.2f} nats a row "
            f"(training {summary['train_bound']:.2f})."
        )
        typer.echo(
            f"Importance-sampled log p(v) on {len(seen):,} validation rows: {found.log_p:.2f}, "
            f"{found.gap:.2f} above minus their free energy, {found.bound:.2f}."
        )
        if shift := rows.valid.shift():
            typer.echo(
                f"That is in your own units; the bounds shown while training, of scaled rows, are {abs(shift):.2f} "
                f"{'lower' if shift > 0 else 'higher'}."
            )
        typer.echo(f"Latents in use: {used}.")
        if beside:
            typer.echo(
                f"{beside.num_cells:,} cells hidden in validation rows, which also chose the epoch; squared error over "
                "their columns' variance: "
                f"this model {beside.model:.3f}, factor analysis ({beside.num_factors} factors) "
                f"{beside.factor_analysis:.3f}, the columns' means about 1."
            )
        for estimator, ratio in (summary["gradient_signal_to_noise"] or {}).items():
            typer.echo(f"Gradient signal-to-noise, two draws a row, {estimator}: {ratio:.3g}")
        for warning in found.warnings:
            typer.echo(f"Warning: {warning}")
        typer.echo(f"Written to {out}. Next: dlgm score {data} --model {out}")


def _image(rows: Any) -> tuple[int, ...] | None:
    """The shape of rows that are images whose pixels share their units; None if they are none."""
    shape = tuple(rows.described["shape"])
    kinds = {column.kind for column in rows.table.schema.columns} if rows.table else {"pixel"}
    is_image = len(shape) == 2 or (len(shape) == 3 and shape[2] <= 4)
    return shape if is_image and kinds <= {"binary", "pixel"} else None


def _signal_to_noise(model: Any, part: Any, key: Any) -> dict[str, float]:
    from dlgm.learning import gradient_signal_to_noise
    from dlgm.stochastic import LeaveOneOut, Pathwise, Reinforce

    estimators = {
        "pathwise": Pathwise(),
        "REINFORCE": Reinforce(),
        "REINFORCE with leave-one-out baseline": Reinforce(LeaveOneOut()),
    }
    return gradient_signal_to_noise(model, part.values, estimators, part.mask, num_samples=2, key=key)


def _recipe_for_table(rows: Any, seed: int) -> Any:
    """What suits a table of this size; a source is judged by some thousand of its rows."""
    from dlgm.sizing import recipe_for_table

    seen = rows.train.first(5_000)
    return recipe_for_table(rows.observation, seen.values, seen.mask, num_rows=len(rows.train), seed=seed)


def _compared(model: Any, rows: Any, seed: int) -> Any:
    """The model's fills beside those of a classical method."""
    from dlgm.comparison import compare

    train, held_out = rows.train.first(5_000), rows.valid.first(1_000)
    parts = ((part.values, part.mask) for part in (train, held_out))
    return compare(model, rows.table.schema, *parts, seed=seed)


def _has_holes(part: Any) -> bool:
    """Whether training rows have holes; those of a source, as far as the first few thousand say."""
    mask = part.first(5_000).mask
    return mask is not None and not mask.all()


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
