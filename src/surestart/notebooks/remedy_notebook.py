"""A remedy from a notebook or the job made for it: planned by default, applied or undone only by its digest.

    mode    what it does
    plan    shows the plan and stores it as <checkpoint_root>/_plans/<digest>.json, beside the checkpoints and in none
    apply   applies the stored plan of that digest; a plan that was begun goes on
    undo    undoes the remedy of that digest; of the options it reads --accept-loss

The digest covers when a plan was made and what it rests on, so a plan that is made again is another plan. What is
applied has to be the plan that somebody has read."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from surestart.environment import Environment, environment_from_settings
from surestart.errors import Refused, SurestartError, UsageError
from surestart.history.describe_run import named
from surestart.library_types import SparkSession
from surestart.remedies.apply.stored_plans import find_plan, store_plan
from surestart.remedies.basis.plan import Plan
from surestart.typed import NOTHING, NextStep, in_the_notebook, surestart

if TYPE_CHECKING:
    from surestart.journal.journal import Journal
    from surestart.stage import Pipeline

MODES = ("plan", "apply", "undo")


@dataclass(frozen=True)
class RemedyResult:
    """page: self-contained HTML.
    text: the same on a screen of text.
    journal: None as long as nothing was applied."""

    plan: Plan
    page: str
    text: str
    journal: Journal | None = None

    def check_counted(self) -> None:
        """Raises when a count after the remedy is not exact, so that a job's run does not end green."""
        from surestart.report.html.plan import read_proof
        from surestart.report.text.certificate import command_after_count, summarize_certificate

        certificate = read_proof(self.journal)
        if certificate and not certificate["exact"]:
            raise SurestartError(
                f"after the {self.plan.remedy} of {self.plan.target}: {summarize_certificate(certificate).strip()}",
                meaning="The remedy is applied, and the rows of the tables are not what was read from the source.",
                next=command_after_count(certificate),
                do_not="repeat the same plan: it acts once.",
                code="NotExact",
            )


def _to_stdout(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def remedy(
    pipeline: Pipeline, settings: Mapping[str, str], spark: SparkSession, say: Callable[[str], object] = _to_stdout
) -> RemedyResult:
    """What the widgets ask for is done; raises with the four parts when it is refused."""
    environment = environment_from_settings(settings["environment"], pipeline.name, settings)
    mode = settings.get("mode") or MODES[0]
    wanted, stage = settings["remedy"], settings["stage"]
    if mode == "plan":
        return _plan(spark, environment, pipeline, settings)
    if mode not in MODES:
        raise UsageError(
            f"mode {mode!r} is not one of {', '.join(MODES)}",
            meaning="Nothing was changed.",
            next=in_the_notebook("set the widget 'mode' to plan and run the cells again"),
        )
    plan = find_plan(spark, environment, settings.get("digest", ""), mode)
    if (plan.remedy, plan.stage) != (wanted, stage):
        raise Refused(
            f"the digest {plan.digest[:12]} is of a {plan.remedy} of "
            f"{plan.stage}; remedy and stage say {wanted} of {stage}",
            meaning="One of the two is not what was meant. Nothing was changed.",
            next=in_the_notebook(
                f"if that plan is meant, set remedy to {plan.remedy} and stage to {plan.stage}; run the cells again"
            ),
            do_not="apply a plan that you have not read.",
            code="DigestOfAnotherPlan",
        )
    from surestart.cli.apply import stages_of_plan
    from surestart.remedies.apply.apply import apply_plan
    from surestart.remedies.apply.undo import undo_remedy
    from surestart.remedies.basis.chain import read_chain

    chain = read_chain(
        environment, stages_of_plan(pipeline, _of_pipeline(pipeline, settings), plan, in_the_notebook("the same cells"))
    )
    # A person who pasted the digest, with its stage and remedy, has named what will be changed.
    if mode == "undo":
        accepted = read_options(wanted, stage, settings.get("options", "")).accept_loss
        return _shown(plan, undo_remedy(spark, environment, chain, plan, _target, say, accepted))
    return _shown(plan, apply_plan(spark, environment, chain, plan, _target, say).journal)


def _of_pipeline(pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if value and key in pipeline.settings}


def _plan(
    spark: SparkSession, environment: Environment, pipeline: Pipeline, settings: Mapping[str, str]
) -> RemedyResult:
    from surestart.cli.plan import make_plan
    from surestart.remedies.basis.chain import read_chain
    from surestart.report.html.plan import render_plan_html
    from surestart.report.text.plan import render_plan

    args = read_options(settings["remedy"], settings["stage"], settings.get("options", ""))
    given = {**_of_pipeline(pipeline, settings), **_more_settings(args, pipeline, settings)}
    chain = read_chain(environment, pipeline.build_stages(given))
    plan = make_plan(spark, environment, chain, args, given)
    if plan.steps:
        store_plan(environment, plan)
        hint = "Read it. Then paste this digest into digest, set mode to apply, and run the cells again."
        text = render_plan(plan, f"paste the digest, set mode to apply, run the cells again\n{plan.digest}")
        return RemedyResult(plan, render_plan_html(plan, plan.digest, hint=hint), text)
    if plan.kind.changes_nothing and plan.verdict == "safe":
        hint = f"Run the job of {plan.stage}, or its notebook."
        return RemedyResult(plan, render_plan_html(plan, hint=hint), render_plan(plan, hint))
    following = surestart("doctor", plan.stage, place=named(environment))
    return RemedyResult(plan, render_plan_html(plan, following), render_plan(plan, following))


class _Options(argparse.ArgumentParser):
    """Says in four parts what it does not understand, instead of ending the notebook's kernel."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(
            f"the widget 'options' is not understood: {message}",
            meaning="It takes what follows `surestart plan REMEDY STAGE` on the command line. Nothing was planned.",
            next=surestart("plan", "--help"),
        )


def read_options(wanted: str, stage: str, options: str) -> argparse.Namespace:
    """What `surestart plan` would read; raises where an option names another place than the widgets."""
    from surestart.cli.plan import add_arguments

    parser = _Options(prog="options", add_help=False, allow_abbrev=False)
    add_arguments(parser)
    try:
        words = shlex.split(options)
    except ValueError as problem:
        parser.error(str(problem))
    args = parser.parse_args([wanted, stage, *words])
    elsewhere = {"--env": args.env, "--root": args.root, "--pipeline": args.pipeline}
    elsewhere |= {"--output": args.output, "--html": args.html, "--json": args.json}
    named = [name for name, value in elsewhere.items() if value]
    if named:
        raise UsageError(
            f"the widget 'options' holds {', '.join(named)}",
            meaning="Where a remedy acts is said by the notebook's other widgets, and it shows the plan by itself. "
            "Nothing was planned.",
            next=in_the_notebook(f"take {named[0]} out of the widget 'options' and run the cells again"),
        )
    return args


def _more_settings(args: argparse.Namespace, pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, str]:
    """--set: settings of the pipeline that no widget of the notebook has."""
    from surestart.cli.arguments import read_given_settings

    more = read_given_settings(args)
    wrong = sorted(key for key in more if key not in pipeline.settings or key in settings)
    if wrong:
        raise UsageError(
            f"the widget 'options' sets {', '.join(wrong)}",
            meaning="--set is for settings of the pipeline that have no widget of their own. Nothing was planned.",
            next=in_the_notebook(f"use the widget {wrong[0]!r}, if there is one, and run the cells again"),
        )
    return more


def _target(plan: Plan) -> str:
    return plan.target


def _shown(plan: Plan, journal: Journal) -> RemedyResult:
    from surestart.journal.journal import FINISHED
    from surestart.report.html.plan import describe_state, read_proof, render_plan_html
    from surestart.report.text.certificate import command_after_count, summarize_certificate

    state, _ = describe_state(plan, journal)
    lines = [f"{plan.remedy} of {plan.target}, digest {plan.digest[:12]}", f"{state}."]
    certificate = read_proof(journal)
    if certificate:
        lines.append(summarize_certificate(certificate).rstrip())
    following: NextStep = NOTHING
    hint = "Run the notebooks of the stages, or their jobs."
    if certificate and not certificate["exact"]:
        following, hint = command_after_count(certificate), ""
    if journal.state == FINISHED and plan.undo:
        lines.append("To undo it, set mode to undo and leave the digest.")
    lines.append(f"Next: {following or hint}")
    return RemedyResult(plan, render_plan_html(plan, following, journal, hint), "\n".join(lines) + "\n", journal)
