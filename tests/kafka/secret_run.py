"""Run by test_security in a process of its own: a stage over SASL at log level INFO, printing whatever can be printed.

argv: bootstrap, topic, root. The credentials are in the environment; a wrong password follows in WRONG.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback

from surestart.cli.main import main
from surestart.environment import environment_from_settings
from surestart.facts.kafka.evidence import read_kafka_evidence
from surestart.runs.runner import run_stage
from surestart.sources.kafka import KafkaSource
from surestart.spark.session import local_session
from tests.kafka.kafka_client import raw_rows, raw_stage

bootstrap, topic, root = sys.argv[1:]
spark = local_session("secrets")
spark.sparkContext.setLogLevel("INFO")
environment = environment_from_settings("local", "sensor", {"root": root}, environ={})
source = KafkaSource(bootstrap, topic)
stage = raw_stage(source)
reports = []
run = run_stage(spark, environment, stage, on_progress=lambda progress: reports.append(progress.report))
print("ROWS", raw_rows(spark, environment).total())
print(source, run, json.dumps(stage.declare(environment).as_dict()), json.dumps(reports, default=str))
print(pickle.dumps(source), read_kafka_evidence(bootstrap, topic, source.security))
frame = source.read_stream(spark, environment)
frame.explain(True)
frame.explain("formatted")
print(frame)
try:
    # A plan that cannot be resolved is printed by the error itself.
    frame.select("no_such_column")
except Exception:  # noqa: BLE001  Whatever it is, it is printed whole.
    traceback.print_exc()
settings = [part for pair in (f"bootstrap={bootstrap}", f"topic={topic}", "source=kafka") for part in ("--set", pair)]
place = ["raw-ingest", "-e", "local", "--root", root, *settings]
for arguments in (
    ["doctor", *place, "--json", "--html", f"{root}/doctor.html", "--bundle", f"{root}/bundle"],
    ["doctor", *place],
    ["plan", "reset", *place, "-o", f"{root}/plan.json", "--html", f"{root}/plan.html", "--jobs", "none"],
    ["plan", "reset", *place, "--json", "--jobs", "none"],
    ["history", *place[:5]],
):
    print("COMMAND", arguments[0], "ENDED", main(arguments))
os.environ["SURESTART_KAFKA_SASL_PASSWORD"] = os.environ["WRONG"]


def stream() -> None:
    writer = source.read_stream(spark, environment).writeStream.format("noop")
    writer.option("checkpointLocation", f"{root}/refused").trigger(availableNow=True).start().awaitTermination()


def gated() -> None:
    run_stage(spark, environment, stage)


for attempt in (stream, gated, lambda: read_kafka_evidence(bootstrap, topic, source.security, timeout_seconds=5)):
    try:
        attempt()
        print("SUCCEEDED")
    except Exception:  # noqa: BLE001  Whatever it is, it is printed whole.
        traceback.print_exc()
print("DONE")
