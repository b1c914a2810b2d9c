"""What builds, tests and publishes the package names files, targets and flags that exist."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from remask.cli.app import LazyCommands

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the container file with what follows them."""
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def named(word: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == word]


def flags_of(command: str) -> set[str]:
    return {flag for parameter in LazyCommands()[command].params for flag in parameter.opts}


def test_what_the_container_copies_is_there_and_is_not_ignored() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = {source for rest in named("COPY") for source in rest.split()[:-1]}
    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert copied == sent


def test_the_container_installs_extras_that_exist() -> None:
    extras = re.search(r"\.\[([\w,]+)\]", " ".join(named("RUN")))
    assert extras is not None
    assert set(extras[1].split(",")) <= PROJECT["optional-dependencies"].keys()


def test_the_container_serves_with_flags_that_exist_and_not_as_root() -> None:
    program, command, *words = json.loads(named("ENTRYPOINT")[0]) + json.loads(named("CMD")[0])
    assert (program, command) == ("remask", "serve")
    assert {word for word in words if word.startswith("-")} <= flags_of("serve")
    assert named("USER") == ["remask"]
    port = words[words.index("--port") + 1]
    assert named("EXPOSE") == [port]
    assert f"http://127.0.0.1:{port}/health" in named("HEALTHCHECK")[0]


def test_the_page_of_the_container_runs_what_the_file_is_called() -> None:
    page = (ROOT / "docs" / "container.md").read_text()
    (build,) = re.findall(r"^docker build (.*)$", page, re.MULTILINE)
    words = shlex.split(build)
    assert (ROOT / words[words.index("-f") + 1]).is_file()


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_targets_that_exist(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow[True]  # `on`, as YAML 1.1 reads it
    assert workflow["permissions"] == {"contents": "read"}
    called = re.findall(r"\bmake ([a-z-]+)", " ".join(s.get("run", "") for s in steps(workflow)))
    assert called
    assert set(called) <= TARGETS
    assert all(bool(step.get("run")) != bool(step.get("uses")) for step in steps(workflow))


def test_there_are_workflows_for_test_docs_and_release() -> None:
    assert [path.stem for path in WORKFLOWS] == ["docs", "matrix", "release", "test"]


def test_together_the_workflows_run_every_test() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS)
    wanted = {"check", "test", "test-browser", "test-matrix", "docs", "check-notebooks", "wheel"}
    assert wanted <= set(re.findall(r"run: make ([a-z-]+)", text))


def test_a_release_was_tested_like_every_commit_and_has_its_sources() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    called = re.findall(r"run: make ([a-z-]+)", text)
    assert called == ["check", "test", "docs", "test-browser", "wheel"]
    assert "path: dist/*}" in text
    assert "-m build\n" in (ROOT / "Makefile").read_text()  # both kinds of archive


def test_a_site_that_is_being_published_is_not_cut_off() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "docs.yml").read_text())
    cancelled = workflow["concurrency"]["cancel-in-progress"]
    assert cancelled == "${{ github.event_name == 'pull_request' }}"


def test_the_versions_of_python_that_are_declared_are_those_of_the_workflow() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_extras_of_the_page_are_those_of_the_package() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    named = {extra for row in rows for extra in re.findall(r"`(\w+)`", row)}
    assert named == PROJECT["optional-dependencies"].keys()


def test_the_site_is_built_by_the_same_targets_everywhere() -> None:
    """The tutorials take minutes: the workflow of the docs runs them, not every check."""
    calls = re.findall(r"^make ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert "docs" in calls
    assert set(calls) <= TARGETS
    workflow = (ROOT / ".github" / "workflows" / "docs.yml").read_text()
    assert {"docs", "check-notebooks"} <= set(re.findall(r"run: make ([a-z-]+)", workflow))
