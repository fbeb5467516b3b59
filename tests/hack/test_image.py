"""What goes into an image build and into the sandbox image."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from hack.cluster import layout, pause, prerequisites
from hack.image import build, debian, sources
from hack.packages import PACKAGES
from tests.fakes.ollama import tesseract
from tests.hack import imports

DOCKERFILE = (layout.CHECKOUT / "Dockerfile").read_text()
# What langchain-mongodb brings, which [tool.uv] in pyproject.toml takes out of the locks; what the Dockerfile deletes.
LEFT_OUT = {"langchain", "langchain_classic", "langchain_mongodb", "lark", "pymongo_search_utils"}
LEFT_OUT |= {"langchain_text_splitters", "sqlalchemy"}
DELETED = {"kubernetes.aio", "zstandard._cffi", "regex.tests", "websocket.tests", "certifi.tests"}


def test_package_sources_are_secrets_and_only_what_exists_is_mounted(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.write_text("certificates")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "x-1-py3-none-any.whl").touch()
    (tmp_path / "empty").mkdir()
    environment = {
        "PIP_CERT": str(bundle),
        "PIP_INDEX_URL": "https://user:secret@index.example/simple",
        "PIP_FIND_LINKS": f"{tmp_path}/wheels {tmp_path}/empty {tmp_path}/absent",
        "HOME": str(tmp_path),
    }
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2/settings.xml").write_text("<settings/>")
    with sources.arguments(environment) as arguments:
        assert not [argument for argument in arguments if "index.example" in argument]
        assert f"--secret=id=ca,src={bundle}" in arguments
        assert f"--secret=id=maven,src={tmp_path}/.m2/settings.xml" in arguments
        assert [argument for argument in arguments if argument.startswith("--volume")] == [
            f"--volume={tmp_path}/wheels:/run/wheels/0:ro"
        ]
        secret = Path(arguments[-1].rpartition("src=")[2])
        assert secret.stat().st_mode & 0o777 == 0o600
        lines = dict(line.split("=", 1) for line in secret.read_text().splitlines())
    assert lines["UV_DEFAULT_INDEX"] == lines["PIP_INDEX_URL"] == "https://user:secret@index.example/simple"
    assert lines["SSL_CERT_FILE"] == "/run/secrets/ca"
    assert lines["UV_FIND_LINKS"] == "/run/wheels/0"
    assert "HOME" not in lines
    assert not secret.exists()


def test_without_settings_nothing_but_an_empty_secret_is_passed() -> None:
    with sources.arguments({}) as arguments:
        assert len(arguments) == 1
        assert Path(arguments[0].rpartition("src=")[2]).read_text() == ""


def test_the_sandbox_archive_is_consistent() -> None:
    with tarfile.open(fileobj=io.BytesIO(pause.archive(b"program", "localhost/x:1"))) as archive:
        blobs = {member.name: (archive.extractfile(member) or io.BytesIO()).read() for member in archive}
    for name, content in blobs.items():
        if name.startswith("blobs/sha256/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    entry = json.loads(blobs["index.json"])["manifests"][0]
    manifest = json.loads(blobs[f"blobs/sha256/{entry['digest'][7:]}"])
    layer = blobs[f"blobs/sha256/{manifest['layers'][0]['digest'][7:]}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        (program,) = files.getmembers()
        assert (program.name, program.mode) == ("pause", 0o755)
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/x:1"


def test_the_build_context_leaves_secrets_and_state_out() -> None:
    lines = (layout.CHECKOUT / ".dockerignore").read_text().split()
    assert lines[0] == "*"
    words = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ")]
    copied = [word for line in words for word in line if not word.startswith("--")]
    for source in copied:
        assert any(f"!{source}".startswith(line) for line in lines if line.startswith("!")), source


def test_nothing_of_ours_imports_what_the_image_leaves_out() -> None:
    done = subprocess.run(
        [sys.executable, imports.__file__, ",".join(PACKAGES), *LEFT_OUT, *DELETED],
        cwd=layout.CHECKOUT, env={"PYTHONPATH": str(layout.CHECKOUT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ours = [path for package in PACKAGES for path in (layout.CHECKOUT / package).rglob("*.py")]
    assert int(done.stdout) == len(ours) - len(PACKAGES)


def test_the_image_has_git_for_repositories_and_no_library_that_nothing_imports() -> None:
    locked = (layout.CHECKOUT / "requirements" / "runtime.txt").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", locked, re.MULTILINE))
    assert "langgraph-checkpoint-mongodb" in names
    assert not {name.replace("_", "-") for name in LEFT_OUT} & names
    # A new dependency that brings a dozen others is noticed here; decision 0092 has what each costs, 0127 the grammars;
    # eleven are the client of the Model Context Protocol, what it brings, and the scanner of secrets; numpy: 0154.
    assert len(names) <= 142
    assert re.findall(r"(?<=\s)(?:git|openssh-client)\b", DOCKERFILE) == ["git", "openssh-client"], "decision 0113"
    assert set(debian._PACKAGES) == {"ca-certificates", "python3", "python3-venv"}


def test_the_simulator_s_image_has_the_programs_that_the_tests_are_given() -> None:
    [installed, *_] = re.findall(r'apt-get "\$@" install [^\n]*\\\n\s+(.*) \\', DOCKERFILE)
    assert set(installed.split()) == set(tesseract.PACKAGES)
    assert set(tesseract.PACKAGES) == prerequisites.OCR.keys() - {"fonts-dejavu-core"}, "nothing is drawn in it"


def test_a_base_keeps_licences_and_nothing_of_the_machine_that_made_it(tmp_path: Path) -> None:
    files = {
        "etc/hostname": "builder-7",
        "etc/resolv.conf": "nameserver 10.0.0.1",
        "etc/apt/sources.list": "deb http://user:secret@mirror.test/debian bookworm main",
        "var/log/bootstrap.log": "URL:http://user:secret@mirror.test/debian",
        "usr/share/doc/zlib1g/copyright": "Permission is granted",
        "usr/share/doc/zlib1g/changelog.gz": "x",
        "usr/share/man/man1/sh.1": "x",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    debian.clean(tmp_path)
    left = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {
        "etc/hostname": "",
        "etc/resolv.conf": "",
        "etc/apt/sources.list": "deb http://deb.debian.org/debian bookworm main\n",
        "usr/share/doc/zlib1g/copyright": "Permission is granted",
    }


def test_labels_say_what_the_image_is() -> None:
    found = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", DOCKERFILE))
    assert {"title", "description", "licenses"} <= found
    assert f'image.licenses="{build.project()["license"]}"' in DOCKERFILE
    digest = f"sha256:{'5' * 64}"
    for base in ("localhost/base:1", f"localhost/base:1@{digest}"):
        assert build.labels("", base, digest)[1::2] == [
            f"org.opencontainers.image.version={build.project()['version']}",
            "org.opencontainers.image.base.name=localhost/base:1",
            f"org.opencontainers.image.base.digest={digest}",
        ]
    assert build.labels("abc", "base", digest)[6:] == ["--label", "org.opencontainers.image.revision=abc"]
