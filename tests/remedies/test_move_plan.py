"""plan move: what it says, and what it refuses before anything is written, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from surestart.errors import CannotTell, Refused, SurestartError, UsageError
from surestart.facts.checkpoint.manifest import read_manifest
from surestart.facts.checkpoint.snapshot import read_checkpoint
from surestart.remedies.basis.chain import Chain, read_chain
from surestart.remedies.basis.durable import Signpost, put_up
from surestart.remedies.basis.plan import Plan, check_names, check_touched, parse_plan
from surestart.remedies.basis.preconditions import check_preconditions, read_what_moves
from surestart.remedies.planning.plan_move import plan_move
from surestart.remedies.planning.wanted import Request
from surestart.report.html.plan import render_plan_html
from surestart.report.text.plan import render_plan
from surestart.streams.as_pipeline import StreamEnvironment, environment_of_streams, pipeline_of_streams
from surestart.streams.project_file import parse_project_text, read_project_file
from tests.deltalog.handmade import create, write_commit
from tests.diagnosis.stage_values import QUERY_ID, write_checkpoint
from tests.remedies.remedy import chain_of


class World:
    def __init__(self, folder: Path) -> None:
        self.folder, self.old, self.file = folder, folder / "ck" / "orders", folder / "surestart.toml"
        write_checkpoint(self.old, planned=2, committed=2)
        (folder / "in").mkdir()
        self.declare()

    def declare(self, more: str = "") -> None:
        source = f"source = {{ files = '{self.folder}/in' }}"
        self.file.write_text(
            f"[stream.orders]\ncheckpoint = '{self.old}'\n{source}\nsink = {{ noop = 'x' }}\n"
            f"[stream.other]\ncheckpoint = '{self.folder}/ck/other'\nsink = {{ delta = '{self.folder}/t' }}\n{more}"
        )

    @property
    def declared(self) -> tuple[StreamEnvironment, Chain]:
        project = read_project_file(self.file)
        environment = environment_of_streams(project)
        return environment, read_chain(environment, pipeline_of_streams(project.streams).build_stages({}))

    def plan(self, to: Path | str | None) -> Plan:
        environment, chain = self.declared
        return plan_move(None, environment, chain, "orders", to and str(to), Request({}))  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def everything(folder: Path) -> list[tuple[str, bytes]]:
    return [(str(path), path.read_bytes() if path.is_file() else b"") for path in sorted(folder.rglob("*"))]


def test_a_plan_says_what_goes_where_and_writes_nothing(world: World) -> None:
    before = everything(world.folder)
    plan = world.plan(world.folder / "new")
    said = "\n".join([*plan.statements, *(step.what for step in plan.steps)])

    assert [step.kind for step in plan.steps] == ["move", "declare", "start"]
    assert f"checkpointLocation = {world.folder / 'new'}" in said
    assert "keeps its query id" in said
    assert plan.queries == ("orders",)
    assert plan.undo
    assert parse_plan(plan.as_json(), "it").digest == plan.digest
    environment, chain = world.declared
    check_names(plan, chain, environment)
    check_touched(plan, chain, environment)
    check_preconditions(None, chain, plan)  # type: ignore[arg-type]
    assert everything(world.folder) == before
    assert "put a file where it was" in " ".join(render_plan(plan).split())
    assert f"have {world.file} name {world.folder / 'new'}" in render_plan_html(plan)


def test_a_stream_that_went_on_or_was_declared_elsewhere_makes_the_plan_stale(world: World) -> None:
    plan = world.plan(world.folder / "new")
    (world.old / "offsets" / "3").write_bytes((world.old / "offsets" / "2").read_bytes())
    with pytest.raises(Refused, match="last planned batch was 2, is 3"):
        check_preconditions(None, world.declared[1], plan)  # type: ignore[arg-type]
    world.file.write_text(world.file.read_text().replace(f"'{world.old}'", f"'{world.folder}/third'"))
    with pytest.raises(Refused, match="place of its checkpoint was"):
        check_preconditions(None, world.declared[1], plan)  # type: ignore[arg-type]


def link_to_folder(world: World) -> Path:
    (world.folder / "link").symlink_to(world.folder / "in")
    return world.folder / "link"


def dangling_link(world: World) -> Path:
    (world.folder / "link").symlink_to(world.folder / "nowhere")
    return world.folder / "link"


def through_a_link(world: World) -> Path:
    (world.folder / "link").symlink_to(world.old)
    return world.folder / "link" / "inner"


def file(world: World) -> Path:
    (world.folder / "file").write_text("somebody's")
    return world.folder / "file"


def signpost_of_another(world: World) -> Path:
    put_up(world.folder / "file", Signpost("/x", "another id", "d"))
    return world.folder / "file"


def inside_a_table(world: World) -> Path:
    write_commit(world.folder / "t2", 0, *create())
    return world.folder / "t2" / "ck"


def inside_another_checkpoint(world: World) -> Path:
    write_checkpoint(world.folder / "undeclared", planned=1, committed=1)
    (world.folder / "undeclared" / "deep").mkdir()
    return world.folder / "undeclared" / "deep" / "ck"


def beside_the_retired(world: World) -> Path:
    (world.folder / "_retired").mkdir()
    return world.folder / "_retired" / "ck"


TAKEN: dict[str, Callable[[World], Path | str]] = {
    "itself": lambda world: world.old,
    "itself, spelled otherwise": lambda world: f"{world.folder}//ck/./orders/",
    "inside": lambda world: world.old / "inner",
    "around": lambda world: world.folder / "ck",
    "an empty folder": lambda world: world.folder / "in",
    "a file": file,
    "a link": link_to_folder,
    "a dangling link": dangling_link,
    "inside, through a link": through_a_link,
    "a signpost of another": signpost_of_another,
    "another stream's": lambda world: world.folder / "ck" / "other",
    "inside another stream's": lambda world: world.folder / "ck" / "other" / "inner",
    "a source": lambda world: world.folder / "in" / "ck",
    "a declared table": lambda world: world.folder / "t" / "ck",
    "a table": inside_a_table,
    "a checkpoint": inside_another_checkpoint,
    "what is retired": beside_the_retired,
    "no parent": lambda world: world.folder / "no" / "parent",
    "two dots": lambda world: f"{world.folder}/ck/../new",
    "a line break": lambda world: f"{world.folder}/new\nline",
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_place_that_is_not_free_is_refused(world: World, case: str) -> None:
    target = TAKEN[case](world)
    before = everything(world.folder)
    with pytest.raises(Refused) as said:
        world.plan(target)
    assert said.value.code == "PlaceNotFree"
    assert everything(world.folder) == before


AWAY = ["s3://bucket/ck", "dbfs:/ck/orders", "abfss://c@a.dfs.core.windows.net/ck", "dbfs:/Volumes/main/s/v/orders"]


@pytest.mark.parametrize("place", AWAY)
def test_what_cannot_be_written_and_compared_here_is_refused(world: World, place: str) -> None:
    with pytest.raises(CannotTell) as said:
        world.plan(place)
    assert said.value.code == "CheckpointNotMounted"


@pytest.mark.parametrize("place", ["/Volumes/main/s/v/orders", "dbfs:/Volumes/main/s/v/orders"])
def test_a_volume_that_is_read_from_afar_is_no_empty_folder_that_could_be_moved(world: World, place: str) -> None:
    """A laptop reads it by the Files API; what it would move aside is a folder that this machine does not have."""
    project = parse_project_text(world.file, f"[stream.orders]\ncheckpoint = '{place}'\nsink = {{ noop = 'x' }}\n")
    (link,) = read_chain(environment_of_streams(project), pipeline_of_streams(project.streams).build_stages({})).links
    with pytest.raises(CannotTell) as said:
        read_what_moves(link, read_checkpoint(str(world.old)))
    assert said.value.code == "CheckpointNotMounted"


def test_its_own_signpost_gives_way(world: World) -> None:
    put_up(world.folder / "new", Signpost(str(world.old), QUERY_ID, "an earlier move"))
    assert world.plan(world.folder / "new").steps[0].arguments["former"]["digest"] == "an earlier move"


def test_a_checkpoint_that_is_larger_than_the_disk_is_refused_without_being_read(world: World) -> None:
    with (world.old / "state").open("wb") as large:
        os.truncate(large.fileno(), 8 << 40)
    with pytest.raises(Refused) as said:
        world.plan(world.folder / "new")
    assert said.value.code == "NoRoom"


def test_a_link_in_the_place_of_the_checkpoint_is_refused(world: World) -> None:
    world.old.rename(world.folder / "real")
    world.old.symlink_to(world.folder / "real")
    with pytest.raises(CannotTell) as said:
        world.plan(world.folder / "new")
    assert said.value.code == "LinkInCheckpoint"


def test_a_link_inside_is_refused(world: World) -> None:
    (world.old / "sources").symlink_to(world.folder)
    with pytest.raises(SurestartError) as said:
        world.plan(world.folder / "new")
    assert said.value.code == "LinkInCheckpoint"


def test_where_nothing_is_nothing_is_moved(world: World) -> None:
    world.old.rename(world.folder / "gone")
    with pytest.raises(Refused) as said:
        world.plan(world.folder / "new")
    assert said.value.code == "NothingToMove"


def test_a_checkpoint_that_would_not_start_at_another_place_is_refused(world: World) -> None:
    """A Delta source with a tracked schema keeps the path of its log in it."""
    log = world.old / "sources" / "0" / "_schema_log_t"
    log.mkdir(parents=True)
    place = f"file:{log}"
    (log / "0").write_text(
        f'v1\n{{"tableId":"t","deltaCommitVersion":0,"dataSchemaJson":"{{}}","partitionSchemaJson":"{{}}",'
        f'"sourceMetadataPath":"{place}"}}'
    )
    with pytest.raises(Refused) as said:
        world.plan(world.folder / "new")
    assert said.value.code == "SCHEMA_LOG_MOVED"


def test_a_place_that_was_not_said_and_a_stream_of_no_file(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        world.plan(None)
    environment, chain = world.declared
    world.file.unlink()
    with pytest.raises(UsageError):
        plan_move(None, environment, chain, "orders", str(tmp_path / "new"), Request({}))  # type: ignore[arg-type]


def test_a_stage_of_surestarts_own_has_its_place_from_the_environment(environment: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as said:
        plan_move(None, environment, chain_of(environment), "raw-ingest", str(tmp_path / "new"), Request({}))  # type: ignore[arg-type]
    assert said.value.code == "CheckpointPlaceFixed"
    assert "--root" in said.value.meaning


def test_what_is_moved_is_the_whole_manifest(world: World) -> None:
    plan = world.plan(world.folder / "new")
    assert plan.steps[0].arguments["manifest"] == read_manifest(world.old).digest


def retired_is_a_file(world: World) -> None:
    (world.old.parent / "_retired").write_text("somebody's")


def scratch_leads_nowhere(world: World) -> None:
    (world.folder / "_moving").symlink_to(world.folder / "nowhere")


def retired_is_on_another_disk(world: World) -> None:
    (world.old.parent / "_retired").symlink_to("/proc")


@pytest.mark.parametrize("spoil", [retired_is_a_file, scratch_leads_nowhere, retired_is_on_another_disk])
def test_what_could_not_be_put_aside_or_in_place_is_refused_before(
    world: World, spoil: Callable[[World], None]
) -> None:
    """Begun, the move could neither go on nor be undone."""
    spoil(world)
    with pytest.raises(Refused) as said:
        world.plan(world.folder / "new")
    assert said.value.code == "PlaceNotFree"
