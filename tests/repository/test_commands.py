"""Every command that README.md and the pages under docs/ print is run as printed, or checked as far as it can be here.

Two pages are run whole: docs/first-task.md on the cluster of the e2e tests, docs/install.md on a Kubernetes API below.
The others are checked word by word: programs and their subcommands are known, flags are flags of that subcommand, files
and targets exist, names of images agree. `NOT_RUN` has the commands that no test runs, and why.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from hack.cluster import binaries, progress
from hack.image.build import CLUSTER, IMAGES
from tests import console
from tests.chart import cluster as clusters
from tests.chart.rendering import CHART, KUBERNETES, Chart, containers, pods
from tests.conftest import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples" / "README.md"]
INSTALL = ROOT / "docs" / "install.md"
RUN = {
    "docs/first-task.md": "tests/e2e/test_first_task.py",
    "docs/install.md": "test_the_install_page below, and tests/e2e/test_install.py",
}
NODES = "needs nodes; tests/e2e/test_install.py runs it"
NOT_RUN = {
    # Beginning of the command: why it is not run as printed, with what is checked instead.
    "docker ": "needs Docker: the Dockerfile has the target, and the names of images agree",
    "kind ": "needs Docker",
    "make ": "minutes, and the whole machine: `make -n` knows the target",
    "pip install": "needs a package index: the project's entry points exist",
    "kubectl jervis": "parsed by the real command line, tests/cli/test_page.py",
    "jervis-kb": "parsed by the real command line, tests/cli/test_page.py",
    "kubectl ": "of a release that the reader has: subcommand, flags and files are checked",
    "helm ": "the same, and an installation is rendered with its values",
    "curl ": "of a release that the reader has",
}
"""Of pages that are not run whole."""
INSTALL_NOT_RUN = {
    "docker ": NOT_RUN["docker "],
    "kubectl -n jervis-data wait": "needs nodes and a registry; the manifests are applied",
    "kubectl -n jervis rollout status": NODES,
    "helm test": NODES,
    "kubectl jervis models --url": "asks a model server",
    "kubectl -n jervis wait": NODES,
    "kubectl delete namespace": "needs the controller of namespaces",
}
"""Of docs/install.md."""

_LOAD = ["kind", "load", "docker-image"]
_FILTERS = {
    "echo",
    "jq",
    "grep",
    "cut",
    "head",
    "sha256sum",
    "base64",
    "printf",
    "openssl",
    "eval",
    "export",
    "true",
    "sleep",
}
"""Programs of the shell and the system whose arguments are taken as they are."""


def printed() -> list[tuple[str, str]]:
    """(page, command) of all pages."""
    return [
        (path.relative_to(ROOT).as_posix(), command)
        for path in PAGES
        for command, _ in console.commands(path.read_text())
    ]


PRINTED = printed()


def reason(table: dict[str, str], command: str) -> str | None:
    """Why the command is not run; the longest beginning counts."""
    return next((table[start] for start in sorted(table, key=len, reverse=True) if command.startswith(start)), None)


def simple(command: str) -> Iterator[list[str]]:
    """The words of each simple command in a line, without assignments before it, redirections and comments."""
    text = re.sub(r"\b[A-Za-z_]\w*=\$\((.*?)\)(?=\s|$)", r"\1", command.replace("\\\n", " "))
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if re.fullmatch(r"[|&;]+", word):
            kept = list(itertools.dropwhile(re.compile(r"[A-Za-z_]\w*=").match, words))
            if kept:
                yield list(itertools.takewhile(lambda one: one not in ("<", ">", ">>"), kept))
            words = []
        else:
            words.append(word)


@cache
def program(name: str) -> Path:
    group = binaries.HELM if name == "helm" else binaries.KUBERNETES
    return binaries.program(group, name, progress.Progress())


@cache
def helped(name: str, *words: str) -> str:
    """The help of a subcommand with the flags that all share."""
    return said(name, *words, "--help") + (said(name, "options") if name == "kubectl" else "")


@cache
def said(name: str, *words: str) -> str:
    return subprocess.run([program(name), *words], capture_output=True, text=True, check=False).stdout


def subcommand(name: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The words that name the subcommand, and all flags. Raises AssertionError for one that does not exist."""
    verbs: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-n", "--namespace", "--context"):
            next(rest)
        elif not word.startswith("-"):
            verbs.append(word)
            break
    assert verbs, words
    assert "Usage:" in helped(name, *verbs), f"{name} {verbs[0]}"
    for word in rest:
        # `kubectl create namespace`, `helm show values`: the second word is one of the commands that the help lists.
        if word.startswith("-") or not re.search(rf"(?m)^  {re.escape(word)} +\S", helped(name, *verbs)):
            break
        verbs.append(word)
    return verbs, [word for word in words if re.match(r"^--?[a-z]", word)]


def check_kubernetes(name: str, words: list[str]) -> None:
    verbs, flags = subcommand(name, words)
    text = helped(name, *verbs)
    for flag in flags:
        known = re.escape(flag.split("=")[0])
        assert re.search(rf"(?m)^ +(-\w, )?{known}[ =,]", text), f"{name} {' '.join(verbs)} has no {flag}"
    for option in ("-f", "--filename", "--values", "--patch-file"):
        for at, word in enumerate(words):
            if word == option and words[at + 1] != "-" and not words[at + 1].isupper():
                assert (ROOT / words[at + 1]).exists(), words[at + 1]


def check_kubectl(words: list[str]) -> None:
    if words[:1] != ["jervis"]:
        check_kubernetes("kubectl", words)


def check_helm(words: list[str]) -> None:
    check_kubernetes("helm", words)
    if "charts/jervis" in words:
        at = words.index("charts/jervis")
        others = ("--create-namespace", "--wait", "--reset-then-reuse-values")
        values = [word for word in words[at + 1 :] if word not in others]
        done = Chart(program("helm")).run("template", "jervis", str(CHART), "--kube-version", KUBERNETES, *values)
        assert done.returncode == 0, done.stderr


def check_make(words: list[str]) -> None:
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout, words


def check_docker(words: list[str]) -> None:
    """The targets are stages of the Dockerfile; what is built or pushed is named as something here expects it."""
    if words[0] == "build":
        assert words[-1] == ".", words
        stages = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        target = words[words.index("--target") + 1] if "--target" in words else stages[-1]
        assert target in stages, target
        tag = words[words.index("-t") + 1]
        assert tag == IMAGES[target] or (target == "jervis" and tag == production()), tag
    else:
        assert words == ["push", production()], words


def check_kind(words: list[str]) -> None:
    if words[:2] == ["load", "docker-image"]:
        assert set(words[2:]) == {IMAGES[target] for target in CLUSTER}, words
    else:
        assert words in (["create", "cluster"], ["delete", "cluster"]), words


def check_pip(words: list[str]) -> None:
    assert words == ["install", "."], words
    assert 'kubectl-jervis = "' in (ROOT / "pyproject.toml").read_text()


def check_file(words: list[str]) -> None:
    for word in words:
        assert word.startswith(("-", "s/")) or (ROOT / word).exists(), word


def check_nothing(words: list[str]) -> None:
    """For programs whose arguments are taken as they are."""


CHECKS: dict[str, Callable[[list[str]], None]] = {
    "kubectl": check_kubectl,
    "helm": check_helm,
    "make": check_make,
    "docker": check_docker,
    "kind": check_kind,
    "pip": check_pip,
    "cat": check_file,
    "sed": check_file,
    "curl": check_nothing,
    "jervis-kb": check_nothing,
    **dict.fromkeys(_FILTERS, check_nothing),
}


def production() -> str:
    """The image of examples/values/production.yaml."""
    image = yaml.safe_load((ROOT / "examples" / "values" / "production.yaml").read_text())["image"]
    return f"{image['repository']}:{image['tag']}"


@pytest.mark.parametrize(("page", "command"), PRINTED, ids=[f"{page}: {command[:60]}" for page, command in PRINTED])
def test_every_printed_command_can_be_right(page: str, command: str) -> None:
    for words in simple(command):
        assert words[0] in CHECKS, f"{page}: {words[0]} is a program that nothing checks: {command!r}"
        excused = page in RUN or words[0] in _FILTERS or reason(NOT_RUN, " ".join(words))
        assert excused, f"{page} prints {command!r}: run it in a test, or say in NOT_RUN why not"
        CHECKS[words[0]](words[1:])


def test_no_reason_is_without_a_command() -> None:
    """A reason that excuses nothing is out of date."""
    outside = [" ".join(words) for page, command in PRINTED if page not in RUN for words in simple(command)]
    used = {start for start in NOT_RUN for command in outside if command.startswith(start)}
    spare = {"curl ", "jervis-kb"}  # of pages to come
    assert set(NOT_RUN) - used <= spare
    page = [command for name, command in PRINTED if name == "docs/install.md"]
    assert all(any(command.startswith(start) for command in page) for start in INSTALL_NOT_RUN)


def test_lines_are_read_as_a_shell_reads_them() -> None:
    page = "```console\n$ kubectl get \\\n    pt\nNAME   AGE\na      ...\n...\nlast line\n```\n"
    ((command, expected),) = console.commands(page)
    assert command == "kubectl get \\\n    pt"
    assert console.pattern(expected).fullmatch(console.normal("NAME  AGE\na     5s\nb  6s\nc 7s\nlast    line"))
    assert not console.pattern(expected).fullmatch(console.normal("NAME  AGE\nb     5s\nlast line"))
    line = "A=1 make demo B=2   # why | not\n"
    assert list(simple(line)) == [["make", "demo", "B=2"]]
    assert list(simple("kubectl get pt -o json | jq '.a | .b' && helm list")) == [
        ["kubectl", "get", "pt", "-o", "json"],
        ["jq", ".a | .b"],
        ["helm", "list"],
    ]


def test_a_shell_reports_status_and_output(tmp_path: Path) -> None:
    page = "```console\n$ A=1; echo a $A\na ...\n$ false\n$ echo b\nc\n```\n"
    with console.shell(tmp_path, {}) as shell:
        wrong = console.wrong(shell, page)
    assert [one.splitlines()[:2] for one in wrong] == [["$ false", "exit status 1: "], ["$ echo b", "expected: c"]]


@pytest.mark.parametrize(
    "command",
    [
        "kubectl applly -f examples/demo/first-mail.yaml",
        "kubectl apply --dryrun -f examples/demo/first-mail.yaml",
        "kubectl apply -f examples/demo/no-such.yaml",
        "helm upgrade jervis charts/jervis --set kb.profil=local",
        "helm upgrade jervis charts/jervis --no-such-flag",
        "make no-such-target",
        "docker build -t localhost/jervis:dev --target no-such .",
        "docker build -t localhost/other:dev .",
        "kind load docker-image localhost/other:dev",
        "cat no/such/file",
    ],
)
def test_a_wrong_command_is_found(command: str) -> None:
    [words] = simple(command)
    with pytest.raises(AssertionError):
        CHECKS[words[0]](words[1:])


def test_the_kind_path_loads_what_the_release_runs() -> None:
    """What needs Docker and kind is not run; that it fits together is seen without them."""
    blocks = [command for page, command in PRINTED if page == "docs/try.md"]
    [loaded] = [words[3:] for command in blocks for words in simple(command) if words[:3] == _LOAD]
    built = [words[words.index("-t") + 1] for command in blocks for words in simple(command) if words[0] == "docker"]
    assert set(loaded) == set(built)
    chart = Chart(program("helm"))
    release = chart.render("-f", str(CHART / "values-demo.yaml"))
    images = {container["image"] for _, pod in pods(release) for container in containers(pod)}
    assert images == set(loaded)
    applied = list(yaml.safe_load_all((ROOT / "hack" / "demo" / "services.yaml").read_text()))
    hosts = {f"{m['metadata']['name']}.{m['metadata']['namespace']}.svc" for m in applied if m["kind"] == "Service"}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {urlsplit(values["mongodb"]["uri"]).hostname, urlsplit(values["weaviate"]["url"]).hostname} == hosts


@pytest.mark.apiserver
def test_the_install_page(tmp_path: Path) -> None:
    """All commands in order, on an API without nodes; Helm and kubectl are found in PATH, as a reader has them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("helm", "kubectl"):
        (folder / name).symlink_to(program(name))
    assert shutil.which("openssl")
    with clusters.empty(tmp_path) as env:
        environment = {**env, "PATH": f"{folder}:{os.environ['PATH']}"}
        with console.shell(ROOT, environment) as shell:
            page = INSTALL.read_text()
            wrong = console.wrong(shell, page, lambda command: None if reason(INSTALL_NOT_RUN, command) else command)
    assert not wrong, "\n".join(wrong)
