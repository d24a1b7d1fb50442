"""resume: nothing is done. Says what the next start replays, and why that is safe, or that it is not."""

from __future__ import annotations

from surestart.environment import Environment
from surestart.remedies.basis.chain import Chain
from surestart.remedies.basis.plan import Effect, Plan
from surestart.remedies.basis.preconditions import as_preconditions, read_link
from surestart.remedies.planning.wanted import Request
from surestart.spark_types import SparkSession
from surestart.verdict.diagnose import Diagnosis


def plan_resume(
    spark: SparkSession | None,
    environment: Environment,
    chain: Chain,
    stage: str,
    diagnosis: Diagnosis,
    request: Request,
) -> Plan:
    link = chain.link(stage)
    facts = read_link(link, spark)
    checkpoint = diagnosis.evidence.checkpoint
    if checkpoint.in_flight is not None:
        first = (
            f"Batch {checkpoint.in_flight} is planned and not committed: "
            "the next start runs it again, with the same positions."
        )
    else:
        first = f"No batch is in flight: the next start plans batch {checkpoint.next_batch}."
    statements = [first]
    for answer in diagnosis.sinks:
        statements.append(f"{answer.sink.target}: {answer.acceptance.value}: {answer.detail}")
    statements.append(f"Verdict: {diagnosis.verdict.value}.")
    statements += [f"{finding.code}: {finding.evidence}" for finding in diagnosis.findings]
    return Plan(
        remedy="resume",
        stage=stage,
        method="none",
        **request.of_plan(environment),
        touched=(stage,),
        world=as_preconditions([facts]),
        steps=(),
        effects=(Effect(link.checkpoint, "stays as it is", None, len(facts.manifest.files), facts.manifest.size),),
        statements=tuple(statements),
        verdict=diagnosis.verdict.value,
    )
