"""Plans, journals and certificates as values, with everything that their page can show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from surestart.journal.journal import BEGUN, DONE, FINISHED, RELEASED, UNDONE, WITHDRAWN, Journal, JournalEntry
from surestart.remedies.basis.plan import Effect, Plan, Step
from surestart.remedies.count.certificate import Certificate
from surestart.remedies.count.counts import CountedPlace, Counts, Gap, StageCount
from tests.report.checkpoints import FIRST_MINUTE, HOSTILE

ROOT = "/data/sensor"
STEPS = (
    Step("clear:sensor_raw", "clear", "remove 3,500 of 3,500 rows from sensor_raw", "raw-ingest"),
    Step("retire:raw-ingest", "retire", "move the checkpoint of sensor-raw-ingest aside: 22 files, 9,120 bytes"),
    Step("start", "start", "write down where sensor-raw-ingest begins"),
    Step("run:raw-ingest", "run", "run sensor-raw-ingest to the end of the data", "raw-ingest"),
    Step("certify", "certify", "count every row from the source to the last table"),
)


def make_plan(**given: Any) -> Plan:
    facts: dict[str, Any] = {
        "remedy": "reset",
        "stage": "raw-ingest",
        "method": "in-place",
        "environment": {
            "name": "local",
            "pipeline": "sensor",
            "root": ROOT,
            "checkpoint_root": f"{ROOT}/checkpoints",
            "catalog": "",
            "schema": "",
            "landing": f"{ROOT}/landing",
        },
        "created_at": FIRST_MINUTE,
        "touched": ("raw-ingest", "deserialize", "merge-gold"),
        "preconditions": {},
        "steps": STEPS,
        "effects": (
            Effect("sensor_raw", "remove rows", 3_500, 8, 120_000),
            Effect("postgres gold", "remove rows"),
            Effect(f"{ROOT}/checkpoints/sensor-raw-ingest", "move aside", None, 22, 9_120),
        ),
        "statements": (
            "Everything the stage has written is removed and read again from the beginning of its source.",
            "Every row that is removed comes again.",
            "sensor-raw-ingest: about 12 s for 3,500 rows, by its last runs.",
        ),
        "undo": "possible until a VACUUM deletes the removed files",
        "settings": {"source": "files"},
    }
    return Plan(**{**facts, **given})


def make_journal(plan: Plan, state: str, certificate: dict[str, Any] | None = None) -> Journal:
    """As `apply` leaves it in that state; begun: after its first step."""
    steps = [step.id for step in plan.steps]
    first = JournalEntry(
        plan.digest, 0, BEGUN, next=steps[0], remedy=plan.remedy, stage=plan.stage, queries=plan.queries
    )
    entries = [first]

    def add(kind: str, step: str = "", **facts: Any) -> None:
        left = steps[steps.index(step) + 1 :] if step in steps else []
        number = len(entries)
        following = left[0] if left else ""
        at = FIRST_MINUTE + 60_000 * number
        entries.append(replace(first, number=number, state=kind, step=step, next=following, at=at, **facts))

    add(DONE, steps[0])
    if state == BEGUN:
        return Journal(tuple(entries))
    for step in steps[1:]:
        if step.startswith("run:"):
            add(RELEASED, "release")
        add(DONE, step, facts=(certificate or {}) if step == "certify" else {})
    add(FINISHED)
    if state == WITHDRAWN:
        add(UNDONE, steps[0])
        add(WITHDRAWN)
    return Journal(tuple(entries))


def make_certificate(**counts: int) -> dict[str, Any]:
    found = Counts(**{"input": 3_500, "rows": 3_500, "distinct": 3_500, **counts})
    faulty = bool(found.faults)
    place = CountedPlace("file:landing/0001.jsonl", 0, 0, 499, found)
    gap = Gap("raw-ingest", "file:landing/0001.jsonl", 0, 17, 19, 3)
    raw = StageCount(
        "raw-ingest", "positions", "landing", {"sensor_raw": 9}, found, True, (place,), 1, (gap,) if faulty else ()
    )
    gold = StageCount("merge-gold", "keys", "readings", {"sensor_gold": 4}, Counts(rows=9, distinct=9), compared=False)
    return Certificate("sensor", "local", "2026-06-01T03:00:00+00:00", True, (raw, gold)).as_dict()


def make_hostile_plan() -> Plan:
    """Hostile text wherever a plan holds text."""
    everything = " ".join(HOSTILE)
    return make_plan(
        remedy=HOSTILE[0],
        stage=HOSTILE[1],
        method=HOSTILE[2],
        environment={"name": HOSTILE[3], "pipeline": HOSTILE[0], "root": everything, "checkpoint_root": everything},
        touched=HOSTILE,
        steps=tuple(Step(text, text, text, text, {text: text}) for text in HOSTILE),
        effects=tuple(Effect(text, text) for text in HOSTILE),
        statements=HOSTILE,
        undo=everything,
        settings={text: text for text in HOSTILE},
    )


def make_hostile_certificate() -> dict[str, Any]:
    body = make_certificate(lost=3)
    for stage in body["stages"]:
        stage.update(stage=HOSTILE[0], kind=HOSTILE[1], input=HOSTILE[2], problem=HOSTILE[3], examples=HOSTILE)
        stage["outputs"] = dict.fromkeys(HOSTILE, 1)
        for part in (*stage["places"], *stage["gaps"]):
            part.update(source=HOSTILE[5], partition=HOSTILE[0])
    return {**body, "observed_at": HOSTILE[0]}
