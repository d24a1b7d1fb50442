"""Rules of the house that a reader could not see broken in a single file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from surestart.journal import protocol
from surestart.journal.protocol import REMEDIES, STEP_KINDS

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "src").rglob("*.py"))
# Python itself imports what lies there (tests/serverless).
SITE = ROOT / "tests" / "serverless" / "site"


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_surestart_never_imports_the_pipeline_it_serves(path: Path) -> None:
    if path.is_relative_to(ROOT / "src" / "surestart"):
        assert {name for name in imported_names(path) if name.split(".")[0] == "sensor_pipeline"} == set()


def test_no_module_imports_what_is_private_to_another_one() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {alias.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("surestart", "sensor_pipeline")
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert found == []


def test_classic_only_spark_calls_stay_in_one_module() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in MODULES
        if path.name != "session.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\._jvm\b|\._jdf\b|\._jsc\b|\.sparkContext\b|\.rdd\b", line)
    ]

    assert found == []


def test_tests_import_each_other_in_one_way() -> None:
    """From `tests.` on: the same module under two names is loaded twice, and its classes are not each other's."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    own = {path.stem for path in paths} - {"__init__"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] in own))
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] in own for alias in node.names))
    ]
    assert found == []
    assert [folder for folder in {path.parent for path in paths} if not (folder / "__init__.py").exists()] == [SITE]


OF_A_CLASS = {"self", "cls"}


def test_what_tests_share_says_its_types() -> None:
    """Helpers and fixtures. A test itself gives nothing back, and its fixtures say what they are."""
    untyped = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("test_"):
                some = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                given = [one for one in (*some, node.args.vararg, node.args.kwarg) if one and one.arg not in OF_A_CLASS]
                if node.returns is None or any(one.annotation is None for one in given):
                    untyped.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")

    assert untyped == []


def test_sql_takes_no_named_parameters() -> None:
    """Delta's parser drops them on Spark 4.1 and 4.2 (surestart.spark.every_line)."""
    called = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "sql"
        if len(node.args) > 1 or node.keywords
    ]
    assert called == []


def test_no_module_obtains_a_session_or_imports_pyspark_when_imported() -> None:
    """The doctor reads the pipeline's declarations where no Spark is installed."""
    names = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if path.name != "__main__.py"
    ]
    program = f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n" + (
        "print([name for name in ('pyspark', 'pyarrow', 'psycopg', 'confluent_kafka', 'fsspec', 'databricks.sdk')"
        " if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.stderr, done.stdout.strip()) == ("", "[]")


def test_module_names_say_one_thing() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

    assert [str(path) for path in MODULES if path.stem in vague] == []


# Whoever removes files, and which. A checkpoint is only ever moved aside, and pruned when nobody can want it back.
REMOVES = {
    "sensor_pipeline.simulate": "its own draft of a file",
    "surestart.history.claim_file": "a claim that nobody holds",
    "surestart.local.kafka_detached": "the broker's own folder",
    "surestart.remedies.apply.prune": "retired checkpoints past an age, by the digest of their list",
    "surestart.remedies.basis.beside": "what a rebuild beside has made",
    "surestart.remedies.basis.change_place": "a copy, once the other one was compared and is in its place",
    "surestart.remedies.basis.cut_checkpoint": "the copy that it has written beside, once in its place",
    "surestart.remedies.basis.fork_folder": "a fork, once it holds nothing but its own",
    "surestart.remedies.basis.move_aside": "the origin of a copy that was verified byte for byte",
    "surestart.remedies.basis.durable": "its own draft of a file",
    "surestart.remedies.steps.clone": "a clone in a fork that died before its first commit",
    "surestart.report.named_file": "its own draft of a file",
    "surestart.spark.jar_lock": "a download",
}


def removing_calls(text: str) -> list[int]:
    """The lines of calls that remove files or folders, of lists (`.remove`) none."""
    names = {"rmtree", "unlink", "rmdir", "removedirs"}
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in names)
            or (isinstance(node.func, ast.Name) and node.func.id in names)
            or ast.unparse(node.func) == "os.remove"
        )
    ]


def test_no_checkpoint_is_deleted_anywhere() -> None:
    """Law 1: a checkpoint is moved aside as a step of a plan, or left alone."""
    found = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for path in MODULES
        if removing_calls(path.read_text())
    }

    assert found == REMOVES.keys()
    assert removing_calls("def clear(checkpoint):\n    import shutil\n    shutil.rmtree(checkpoint)\n") == [3]


def test_no_committed_file_names_a_registry_or_a_path_of_this_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    hosts = (
        "pypi." + "org",
        "pythonhosted." + "org",
        "repo1." + "maven",
        "repo.maven." + "apache",
        "registry." + "npmjs",
    )
    home = "/work/" + "main"

    found = []
    for name in listed:
        path = ROOT / name
        if path.suffix in (".png", ".parquet") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name}: {word}" for word in (*hosts, home) if word in text]

    assert found == []


def test_decisions_have_one_form_and_are_numbered_without_gaps() -> None:
    folder = ROOT / "docs" / "decisions"
    pages = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    index = (folder / "README.md").read_text(encoding="utf-8")

    assert [path.name[:4] for path in pages] == [f"{number:04d}" for number in range(1, len(pages) + 1)]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        title = text.splitlines()[0].removeprefix(f"# {path.name[:4]} ")
        assert f"| [{path.name[:4]}]({path.name}) | {title} |" in index
        missing = [part for part in ("Context", "Decision", "Rejected", "Consequences") if f"**{part}.**" not in text]
        assert missing == [], path.name


# What reads and what writes, and the abilities by which each is asked.
SOURCES_AND_SINKS = re.compile(r"^class (\w+)", re.MULTILINE)


def classes_of(room: str) -> set[str]:
    paths = (ROOT / "src" / "surestart" / room).rglob("*.py")
    return {name for path in paths for name in SOURCES_AND_SINKS.findall(path.read_text(encoding="utf-8"))}


def asked_for_a_class(text: str, names: set[str]) -> list[int]:
    """The lines on which something is asked whether it is one of these."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("isinstance", "issubclass")
        and names & {one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name)}
    ]


@pytest.mark.parametrize(
    ("room", "more"),
    [("sources", {"Source", "DeclaredKafka", "DeclaredSource"}), ("sinks", {"Sink", "DeclaredSink", "DeclaredStage"})],
)
def test_no_source_and_no_sink_is_asked_for_its_class(room: str, more: set[str]) -> None:
    """What it can do is in its methods, and `abilities` of its room asks for them: one that nobody knows has them too.
    Streams that are only declared have classes of their own, which say so by `Stage.ours`."""
    names = classes_of(room) | more
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in MODULES
        if not path.is_relative_to(ROOT / "src" / "surestart" / room)
        for line in asked_for_a_class(path.read_text(encoding="utf-8"), names)
    ]

    assert found == []
    assert {"sources": {"KafkaSource", "DeltaSource", "FileSource"}, "sinks": {"Both", "DeltaMerge"}}[room] <= names
    assert asked_for_a_class("x = 1\nisinstance(x, KafkaSource | str)\nisinstance(x, str)\n", {"KafkaSource"}) == [2]


def name_of(node: ast.AST) -> str:
    """Of a variable, or of a field."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def asked_for_a_kind(text: str) -> list[int]:
    """The lines on which the kind of a step is compared with the name of one."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [one for side in (node.left, *node.comparators) for one in ast.walk(side)]
            names = [one.value for one in sides if isinstance(one, ast.Constant)]
            names += [getattr(protocol, one.id, "") for one in sides if isinstance(one, ast.Name)]
            asked = any(name_of(one) == "kind" for one in sides)
            if asked and any(isinstance(name, str) and name in STEP_KINDS for name in names):
                found.append(node.lineno)
    return found


def test_what_a_step_does_is_asked_of_the_one_table_of_steps() -> None:
    """By `kind_of`; a plan's steps of a kind are found by `Plan.of_kind`. Only the notes of commits that a table's log
    keeps have no step any more."""
    found = [
        str(path.relative_to(ROOT / "src" / "surestart"))
        for path in MODULES
        for _ in asked_for_a_kind(path.read_text(encoding="utf-8"))
    ]

    assert found == ["remedies/basis/other_writers.py"]
    assert asked_for_a_kind('ok = 1\nif step.kind == "retire": ...\nif step.kind in (FILL, 1): ...\n') == [2, 3]


def asked_for_a_remedy(text: str) -> list[int]:
    """The lines on which a remedy is compared with the name of one."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        and any(name_of(one) == "remedy" for one in (node.left, *node.comparators))
        and any(isinstance(one, ast.Constant) and one.value in REMEDIES for one in ast.walk(node))
    ]


def test_what_a_remedy_does_is_asked_of_the_one_table_of_remedies() -> None:
    """By `Plan.kind` and `JournalEntry.kind`. Only what was typed is looked at by its name."""
    found = {
        str(path.relative_to(ROOT / "src" / "surestart"))
        for path in MODULES
        if asked_for_a_remedy(path.read_text(encoding="utf-8"))
    }

    typed = {"cli/plan.py", "remedies/planning/plan_remedy.py", "remedies/basis/chain.py", "words/next_commands.py"}
    assert found == typed
    assert asked_for_a_remedy('ok = plan.stage == "reset"\nif plan.remedy in ("reset", x): ...\n') == [2]


# Made for a reader, or the name of something: whoever decides asks a field.
FOR_A_READER = {"evidence", "meaning", "what", "says", "why", "detail", "summary", "step", "run_id"}
CUTS = {"startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix", "find", "count"}


def reads_prose(text: str) -> list[int]:
    """The lines on which such a text is cut up or searched."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            searched = [node.func.value] if node.func.attr in CUTS else []
            searched += node.args if name_of(node.func.value) == "re" else []
        elif isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            searched = node.comparators if isinstance(node.left, ast.Constant | ast.Attribute) else []
        else:
            continue
        found += [node.lineno for one in searched if name_of(one) in FOR_A_READER]
    return found


def test_no_decision_reads_prose() -> None:
    """The id of a step is read in one module, which makes it as well."""
    found = {
        str(path.relative_to(ROOT / "src" / "surestart"))
        for path in MODULES
        if path.is_relative_to(ROOT / "src" / "surestart") and reads_prose(path.read_text(encoding="utf-8"))
    }

    assert found == {"facts/delta/commit_notes.py"}
    assert reads_prose("x.kind\nif one.run_id in record.taken_over: ...\n") == []
    lines = (
        '"-undo:" in x.run_id',
        'x.evidence.startswith("n")',
        're.search("n", one.meaning)',
        'x.step.partition(":")',
    )
    assert reads_prose("\n".join(lines)) == [1, 2, 3, 4]
