"""`surestart verify`: the counted proof that nothing is lost and nothing doubled, from the source to the last table."""

from __future__ import annotations

import argparse
import json
import sys

from surestart.cli.arguments import add_environment_arguments, read_given_environment
from surestart.cli.doctor import given_options
from surestart.errors import EXIT_CANNOT_TELL, EXIT_FINDINGS, EXIT_FINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_environment_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout (docs/certificate.md)")
    parser.add_argument(
        "--no-source", action="store_true", help="count the tables only, without reading Kafka or the landed files"
    )


def run(args: argparse.Namespace) -> int:
    environment, pipeline, settings = read_given_environment(args)
    from surestart.remedies.basis.chain import read_chain
    from surestart.remedies.count.certificate import CANNOT_TELL, EXACT, certify
    from surestart.spark.session import obtain_session

    chain = read_chain(environment, pipeline.build_stages(settings))
    sys.stderr.write("starting Spark\n")
    found = certify(obtain_session("surestart verify"), environment, chain, ask_source=not args.no_source)
    body = found.as_dict()
    if args.json:
        sys.stdout.write(json.dumps(body, indent=2) + "\n")
    else:
        from surestart.report.text.certificate import render_certificate

        sys.stdout.write(render_certificate(body, given_options(args)))
    return {EXACT: EXIT_FINE, CANNOT_TELL: EXIT_CANNOT_TELL}.get(found.verdict, EXIT_FINDINGS)
