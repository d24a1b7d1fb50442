"""`surestart apply PLAN`: does what a plan says; `PLAN` is its file, or the digest of one that was begun."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surestart.cli.arguments import add_environment_arguments, add_job_wait, read_given_environment
from surestart.cli.doctor import given_place
from surestart.environment import Environment
from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINDINGS, EXIT_FINE, UsageError
from surestart.library_types import SparkSession
from surestart.remedies.basis.plan import FORK
from surestart.typed import NextCommand, NextStep, Place, surestart

if TYPE_CHECKING:
    from surestart.remedies.basis.plan import Plan
    from surestart.remedies.basis.step_context import StopOptions
    from surestart.stage import Pipeline


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", help="the plan's file; or the digest of a plan that was begun")
    add_environment_arguments(parser)
    parser.add_argument(
        "--confirm", metavar="TARGET", help="the name of what is changed, such as local/sensor-raw-ingest, for scripts"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_job_wait(parser)


def run(args: argparse.Namespace) -> int:
    from surestart.remedies.apply.apply import ALREADY, apply_plan
    from surestart.remedies.basis.chain import read_chain
    from surestart.remedies.basis.plan import check_environment, read_plan
    from surestart.spark.session import obtain_session

    environment, pipeline, settings = read_given_environment(args)
    plan = read_plan(args.plan) if Path(args.plan).exists() or not _is_digest(args.plan) else None
    if plan is not None:
        check_environment(plan, environment)
    sys.stderr.write("starting Spark\n")
    spark = obtain_session("surestart apply")
    plan = plan or find_begun(spark, environment, args.plan)
    place = given_place(args, environment)
    command = surestart("apply", args.plan, place=place)
    chain = read_chain(environment, stages_of_plan(pipeline, settings, plan, command))
    done = apply_plan(spark, environment, chain, plan, confirming(args.confirm, command), say, stopping(args))
    certificate = done.certificate
    exact = certificate is None or bool(certificate.get("exact"))
    if args.json:
        body = {"schema_version": 1, "digest": plan.digest, "outcome": done.outcome, "certificate": certificate}
        sys.stdout.write(json.dumps(body, indent=2) + "\n")
        return exit_code(certificate)
    first = "was applied before; nothing was done" if done.outcome == ALREADY else "is applied"
    sys.stdout.write(f"\n{plan.remedy} of {plan.target} {first} (digest {plan.digest[:12]}).\n")
    if certificate is not None:
        from surestart.report.text.certificate import summarize_certificate

        sys.stdout.write(summarize_certificate(certificate))
    if plan.undo:
        sys.stdout.write(f"Undo: {surestart('undo', plan.digest[:12], place=place)}\n")
    sys.stdout.write(f"Next: {look_at_fork(plan) or _following(certificate, exact, place)}\n")
    return exit_code(certificate)


def look_at_fork(plan: Plan) -> NextCommand | None:
    """Of a plan that has made one."""
    if plan.method != FORK:
        return None
    folder = Path(str(plan.steps[-1].arguments["folder"]))
    return surestart("doctor", "--streams", folder / "surestart.toml")


def _following(certificate: Mapping[str, Any] | None, exact: bool, place: Place) -> NextCommand:
    """The command that repairs the first fault that was counted; where a row could not be judged, `verify` names it."""
    if certificate is None or exact or certificate.get("verdict") != "not exact":
        return surestart("status" if exact else "verify", place=place)
    from surestart.report.text.certificate import command_after_count

    return command_after_count(certificate, place.options)


def exit_code(certificate: Mapping[str, Any] | None) -> int:
    """The exit code of a remedy that is applied, by the certificate of its last step, if it counts."""
    if certificate is None or certificate.get("exact"):
        return EXIT_FINE
    return EXIT_CANNOT_TELL if certificate.get("verdict") == "cannot tell" else EXIT_FINDINGS


def stages_of_plan(pipeline: Pipeline, settings: dict[str, str], plan: Plan, command: NextStep):  # type: ignore[no-untyped-def]
    """With the settings that the plan was made with; a setting given now must agree with them."""
    for key, value in settings.items():
        if key in plan.settings and plan.settings[key] != value:
            raise UsageError(
                f"--set {key}={value!r} was given, the plan was made with {plan.settings[key]!r}",
                meaning="The stages would not be those that were planned for. Nothing was changed.",
                next=command.noting("without that setting"),
            )
    return pipeline.build_stages({**plan.settings, **settings})


def find_begun(spark: SparkSession, environment: Environment, digest: str) -> Plan:
    from surestart.remedies.apply.undo import find_applied

    return find_applied(spark, environment, digest)


def confirming(given: str | None, command: NextCommand) -> Callable[[Plan], str]:
    """Asks for the target's name, where nobody has given it. command: this call, to be made again."""

    def read(plan: Plan) -> str:
        if given is not None:
            return given
        if not sys.stdin.isatty():
            return ""
        sys.stderr.write(f"Type {plan.target} to go on: ")
        sys.stderr.flush()
        return sys.stdin.readline()

    def ask(plan: Plan) -> str:
        typed = read(plan).strip()
        if typed != plan.target:
            raise UsageError(
                f"{typed!r} is not {plan.target!r}" if typed else f"{plan.target!r} was not confirmed",
                meaning="The name of what is changed must be typed. Nothing was changed.",
                next=command.adding("--confirm", plan.target),
                code="NotConfirmed",
            )
        return typed

    return ask


def stopping(args: argparse.Namespace) -> StopOptions:
    from surestart.remedies.basis.step_context import StopOptions

    return StopOptions(limit_seconds=60.0 * args.job_wait, accept=tuple(args.accept))


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _is_digest(text: str) -> bool:
    return len(text) >= 8 and all(letter in "0123456789abcdef" for letter in text.lower())
