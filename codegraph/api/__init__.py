"""The wire models of the code graph's API, for the service that has its routes and for its callers.

Requests refuse unknown fields, replies ignore them; every list has a limit. Callers import `codegraph.api` and name
what it lists, not its modules. A module is imported when a name of it is used first (`contracts.lazy_names`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts import lazy_names

if TYPE_CHECKING:
    from codegraph.api.cpg import MOST_CPG, Cpg, CpgExport, CpgMethod, CpgMissing, CpgReply, CpgType
    from codegraph.api.joern_queries import (
        RESULT_CHARS,
        CodeAnswer,
        CodeQuery,
        QueryClaim,
        QueryClaims,
        QueryFailure,
        QueryMade,
        QueryResult,
        QueryState,
        QueryWork,
    )
    from codegraph.api.questions import (
        Affected,
        Callers,
        CallsReply,
        CodeCall,
        CodeChange,
        CodeHistory,
        CodeMap,
        CodeNeighbourhood,
        CodePath,
        CodePlace,
        CodeQuestion,
        CodeSymbol,
        CodeWhere,
        Coverage,
        FileRename,
        HistoryReply,
        Impact,
        ImpactReply,
        MapReply,
        Neighbour,
        NeighbourCalls,
        NeighbourhoodReply,
        PathReply,
        RankedFile,
        RankedPlace,
        WhereReply,
    )
    from codegraph.api.structure import (
        ENDINGS,
        GIT_BRANCH,
        GIT_FILE,
        MOST_SOURCES,
        SOURCE_BYTES,
        FileOutcome,
        GitStructure,
        GitStructureReply,
        SkippedFile,
        SourceFile,
        is_code,
        is_project_file,
        is_source,
    )
    from contracts.api.git import Repository


_names = lazy_names.Names(__name__, __file__)
modules = _names.modules


def __dir__() -> list[str]:
    return sorted(modules())


if not TYPE_CHECKING:
    __getattr__ = _names.get
