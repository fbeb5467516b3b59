"""What a source says becomes a document that the knowledge base takes, whatever it says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from codegraph import api as code_api
from codegraph.branch import analyst
from kb import api
from tests.codegraph import projects


def documents(sources: Mapping[str, str]) -> analyst.Analysis:
    sent = {
        "scope": {"clientId": "acme", "projectId": "shop"},
        "repository": {"org": "acme", "name": "shop"},
        "branch": "main",
        "commit": "a" * 40,
        "files": [{"path": path, "blob": "b" * 40, "size": len(text)} for path, text in sources.items()],
    }
    return analyst.analyse(
        code_api.GitStructure.model_validate(sent).model_dump_json(by_alias=True), tuple(projects.packed(sources))
    )


HOSTILE = {
    "names of thousands of letters": {"a.py": f"def {'f' * 5000}(): pass\nclass {'C' * 1500}({'B' * 5000}): pass\n"},
    "paths with line breaks": {"a\nb/c d.py": "def f(): pass\n", "../../e.py": "def g(): pass\n"},
    "modules of thousands of packages": {"A.java": f"import {'a.' * 20_000}B;\nclass X extends Y<{'a' * 6000}> {{}}"},
    "declarations inside of each other": {"A.java": "class a{" * 3000 + "}" * 3000},
    "thousands of bases": {"a.py": f"class A({','.join(f'B{number}' for number in range(3000))}): pass\n"},
}


@pytest.mark.parametrize("sources", HOSTILE.values(), ids=HOSTILE)
def test_every_document_of_a_hostile_source_is_taken(sources: Mapping[str, str]) -> None:
    found = documents(sources)
    assert [one.path for one in found.documents] == ["", *sorted(sources)]
    taken = [api.IngestRequest.model_validate_json(one.request) for one in found.documents]
    assert all(len(one.key) <= 1024 for request in taken for one in request.nodes)
    assert found.symbols <= 64
