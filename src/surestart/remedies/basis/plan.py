"""A remedy as a value: printed, saved, reviewed, applied by its digest, refused when what it rests on has changed.

    {"schema_version": 1, "digest": …, "remedy": "reset", "stage": "raw-ingest", "environment": {…},
     "preconditions": {…}, "steps": [{"id": "clear:sensor_raw", "kind": "clear", …}, …], "effects": […], …}

The digest covers everything else, so that an edited plan is another plan, which nobody has made.

Also checks that a plan names stages, tables and databases of this pipeline and no others, whoever has made its digest.
If a wrong name came out only at its step, the plan would stand half-way, and could go neither on nor back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from surestart.environment import Environment
from surestart.errors import Refused, SurestartError, UsageError
from surestart.facts.delta.commit_notes import step_id
from surestart.facts.state.compare_rows import RowsGivenUp
from surestart.history.describe_run import named, plan_command, settings_of
from surestart.journal.protocol import STEP_KINDS, RemedyKind, kind_of, remedy_kind
from surestart.remedies.basis.chain import Chain, Link
from surestart.typed import NextCommand, Place, Words, surestart, word, words_in

SCHEMA_VERSION = 1
# The method of a rewind that changes nothing of the stream.
FORK = "fork"


@dataclass(frozen=True)
class Step:
    """One step of a plan.

    kind: the module under `steps` that applies and undoes it.
    what: one line for the reader."""

    id: str
    kind: str
    what: str
    stage: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, about: str, what: str, stage: str = "", arguments: Mapping[str, Any] | None = None) -> Step:
        """about: the stage or the table, where a plan may have several steps of the kind; else ""."""
        return cls(step_id(kind, about), kind, what, stage, arguments or {})


def steps_of_kind(steps: Iterable[Step], kind: str) -> tuple[Step, ...]:
    return tuple(step for step in steps if step.kind == kind)


REMOVE_ROWS, REPLACE_ROWS = "remove rows", "replace rows"


@dataclass(frozen=True)
class Effect:
    """What the plan does to one table or database.

    action: REMOVE_ROWS, REPLACE_ROWS, or in other words for a reader.
    rows: None where only running it tells."""

    target: str
    action: str
    rows: int | None = None
    files: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Plan:
    """touched: the stages, in the order in which rows pass.
    loss: rows that nobody can bring again.
    accepted_loss: how many of them the author of the plan has named.
    verdict: on a start as things are; only a resume has one.
    state: rows of each store now and at the batch that is gone back to.
    options: what `surestart plan` was given beside the stage and the place, to make the same plan again."""

    remedy: str
    stage: str
    method: str
    environment: Mapping[str, str]
    created_at: int
    touched: tuple[str, ...]
    preconditions: Mapping[str, Any]
    steps: tuple[Step, ...]
    effects: tuple[Effect, ...] = ()
    statements: tuple[str, ...] = ()
    loss: int = 0
    accepted_loss: int = 0
    undo: str = ""
    verdict: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    pipeline: str = ""
    options: Words = ()
    state: tuple[RowsGivenUp, ...] = ()

    @property
    def kind(self) -> RemedyKind:
        return remedy_kind(self.remedy)

    @property
    def digest(self) -> str:
        return plan_digest(self._body())

    @property
    def target(self) -> str:
        """What --confirm has to repeat."""
        return f"{self.environment['name']}/{self.environment['pipeline']}-{self.stage}"

    @property
    def queries(self) -> tuple[str, ...]:
        """The names by which the gate knows the queries: pipeline and stage, or the name of a declared stream."""
        pipeline = self.environment["pipeline"]
        return tuple(
            str(self.preconditions.get(stage, {}).get("query", f"{pipeline}-{stage}")) for stage in self.touched
        )

    def of_kind(self, kind: str) -> tuple[Step, ...]:
        return steps_of_kind(self.steps, kind)

    def as_json(self) -> str:
        body = {"schema_version": SCHEMA_VERSION, "digest": self.digest, **self._body()}
        return json.dumps(body, indent=2, ensure_ascii=True) + "\n"

    def _body(self) -> dict[str, Any]:
        """Of the plan's own values, not of copies: asdict copies whatever a plan holds, a third of what making one
        costs the simulation."""
        body = {
            **vars(self),
            "steps": [vars(step) for step in self.steps],
            "effects": [vars(effect) for effect in self.effects],
            "options": " ".join(map(word, self.options)),
            "state": [vars(store) for store in self.state],
        }
        if not self.state:
            # The digest of a plan stays what it was when plans said nothing of state.
            del body["state"]
        return body


def plan_digest(body: Mapping[str, Any]) -> str:
    text = json.dumps({key: value for key, value in body.items() if key not in ("digest", "schema_version")}, **_CANON)
    return hashlib.sha256(text.encode()).hexdigest()


_CANON: dict[str, Any] = {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": True}


_FACTS = tuple(one.name for one in fields(Environment) if one.name != "typed")


def environment_facts(environment: Environment) -> dict[str, str]:
    """The environment's names and places. What was typed to name the pipeline is in the plan's own settings."""
    # Nor which other streams the same file declares: one more is no other place.
    return {name: str(getattr(environment, name)) for name in _FACTS}


def environment_of(facts: Mapping[str, str]) -> Environment:
    """Enough of it to name the place; where declared streams have their checkpoints is in their file."""
    known: dict[str, Any] = {name: facts[name] for name in _FACTS if name in facts}
    return Environment(**known)


# A plan over thousands of tables is some MB; a device has no end.
MOST_TEXT = 16 << 20


def read_plan(path: str) -> Plan:
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(MOST_TEXT + 1)
    except (OSError, UnicodeDecodeError) as problem:
        raise _unreadable(path, f"cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem
    if len(text) > MOST_TEXT:
        raise _unreadable(path, f"has more than {MOST_TEXT >> 20} MB: it is not a plan")
    return parse_plan(text, path)


def parse_plan(text: str, where: str) -> Plan:
    """The plan that the text says; raises when it is not one, or not the one that its digest was made of."""
    try:
        body = json.loads(text)
        version, digest = body["schema_version"], body["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise _unreadable(where, "is not a plan") from problem
    if version != SCHEMA_VERSION:
        raise _unreadable(where, f"is a plan of format {version!r}; this version reads {SCHEMA_VERSION}")
    if plan_digest(body) != digest:
        raise Refused(
            f"{where} was edited: its content has the digest {plan_digest(body)[:12]}, it says {str(digest)[:12]}",
            meaning="What is applied has to be what was planned and reviewed. Nothing was changed.",
            next=surestart("plan", "--help", note="make the plan that you want"),
            do_not="write the new digest into the file.",
            code="PlanEdited",
        )
    try:
        plan = Plan(
            **{
                **{key: value for key, value in body.items() if key not in ("schema_version", "digest")},
                "steps": tuple(Step(**step) for step in body["steps"]),
                "effects": tuple(Effect(**effect) for effect in body["effects"]),
                "state": tuple(RowsGivenUp(**store) for store in body.get("state", ())),
                "touched": tuple(body["touched"]),
                "statements": tuple(body["statements"]),
                "options": words_in(body["options"]),
            }
        )
    except (KeyError, TypeError) as problem:
        raise _unreadable(where, f"is not a plan of this version: {problem}") from problem
    return plan


def check_environment(plan: Plan, environment: Environment) -> None:
    """Raises unless the plan was made for this very environment: same names, same places."""
    ours = environment_facts(environment)
    theirs = dict(plan.environment)
    if ours == theirs:
        return
    other = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    raise Refused(
        f"the plan is for {', '.join(f'{key}={theirs.get(key)!r}' for key in other)}; this call speaks of "
        f"{', '.join(f'{key}={ours.get(key)!r}' for key in other)}",
        meaning="Its paths and tables are another environment's. Nothing was changed.",
        next=_apply_there(theirs),
        code="PlanOfAnotherEnvironment",
    )


def _apply_there(facts: Mapping[str, str]) -> NextCommand:
    """The call that applies it in that environment."""
    from surestart.history.describe_run import named

    try:
        return surestart("apply", "plan.json", place=named(environment_of(facts)))
    except (TypeError, SurestartError):
        note = "with the settings that the plan was made with"
        return surestart("apply", "plan.json", place=Place(facts.get("name", "local")), note=note)


def _unreadable(where: str, what: str) -> UsageError:
    return UsageError(
        f"{where} {what}",
        meaning="Nothing was changed.",
        next=surestart("plan", "--help", note="it writes one"),
        code="PlanUnreadable",
    )


# What `options_of` says already.
_OF_THE_PLACE = ("root", "checkpoint_root", "catalog", "schema", "landing")


def plan_again(plan: Plan) -> NextCommand:
    """The command that plans the same remedy from what is there now, with the options, settings and pipeline of this
    plan."""
    settings = settings_of({key: value for key, value in plan.settings.items() if key not in _OF_THE_PLACE})
    pipeline = ("--pipeline", plan.pipeline) if plan.pipeline else ()
    there = environment_of(plan.environment)
    return plan_command(there, plan.remedy, plan.stage, *plan.options, *settings, *pipeline)


def check_names(plan: Plan, chain: Chain, environment: Environment, verb: str = "apply") -> None:
    """Raises Refused when a step is for a stage, a table or a database that the pipeline does not write."""
    links = {link.name: link for link in chain}
    strange = [name for name in (plan.stage, *plan.touched, *plan.preconditions) if name not in links]
    strange += [what for step in plan.steps for what in _strange(step, links)]
    if strange:
        raise _refused(plan, environment, f"{', '.join(dict.fromkeys(strange))}: not of this pipeline", verb)


def check_touched(plan: Plan, chain: Chain, environment: Environment) -> None:
    """Raises Refused unless the plan claims, and looks at, just the stages whose rows it changes."""
    if plan.method == FORK:
        wanted: tuple[str, ...] = ()
    else:
        wanted = (plan.stage,) if plan.kind.one_stage else tuple(link.name for link in chain.below(plan.stage))
    if not plan.kind.changes_nothing and (plan.touched != wanted or set(plan.preconditions) != set(wanted)):
        raise _refused(
            plan, environment, f"it touches {', '.join(plan.touched) or 'nothing'} and was made for the state of "
            f"{', '.join(plan.preconditions) or 'nothing'}; a {plan.remedy} of {plan.stage} touches {', '.join(wanted)}"
        )  # fmt: skip
    changed = {step.stage for step in plan.steps if step.stage and kind_of(step.kind).changes_stage}
    changed |= {name for step in plan.steps for name in step.arguments.get("starts", {})}
    if not changed <= set(wanted):
        raise _refused(plan, environment, f"it changes {', '.join(sorted(changed - set(wanted)))}, and claims {wanted}")


def _strange(step: Step, links: dict[str, Link]) -> Iterator[str]:
    names = [step.stage] if step.stage else []
    yield from (f"stage {name}" for name in (*names, *step.arguments.get("starts", {})) if name not in links)
    link = links.get(step.stage)
    table, target = step.arguments.get("table"), step.arguments.get("target")
    own = step.arguments.get("sink")
    if own is not None and (link is None or all(own != sink.target for sink in link.own_sinks)):
        yield f"sink {own} of {step.stage or 'no stage'}"
    if table is not None and (link is None or all(table != output.table.name for output in link.outputs)):
        yield f"table {table} of {step.stage or 'no stage'}"
    if target is not None and (link is None or all(target != sink.target for sink in link.databases)):
        yield f"database table {target} of {step.stage or 'no stage'}"


def _refused(plan: Plan, environment: Environment, what: str, verb: str = "apply") -> Refused:
    return Refused(
        f"the plan {plan.digest[:12]} does not fit the pipeline: {what}",
        meaning="It was edited, or made for other code or other settings than those of this call. Nothing was changed.",
        next=plan_command(environment, plan.remedy, plan.stage, *plan.options)
        if verb == "apply"
        else surestart("undo", plan.digest[:12], place=named(environment), note="with the code that has these stages"),
        do_not="edit the plan to fit.",
        code="PlanDoesNotFit",
    )


def check_steps(plan: Plan) -> None:
    """Raises when this version cannot do one of the steps. If that was found out only at the step, the plan would stand
    half-way."""
    unknown = [step.kind for step in plan.steps if step.kind not in STEP_KINDS]
    if unknown:
        raise Refused(
            f"the plan {plan.digest[:12]} has steps that this version cannot do: {', '.join(dict.fromkeys(unknown))}",
            meaning="Another version made it, or it is for what no remedy can do yet. This call changed nothing.",
            next=surestart("--version"),
            do_not="do that step by hand.",
            code="StepUnknown",
        )
