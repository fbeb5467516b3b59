"""What a viewer may see, and what it chose, as Weaviate's filters. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from weaviate.classes.query import Filter
from weaviate.collections.classes.filters import FilterReturn

from crds import scope
from kb import selection, visibility
from kb.vectors import record


def of_document(document_id: str) -> FilterReturn:
    """The objects of one document."""
    return Filter.by_property("documentId").equal(document_id)


def of_documents(document_ids: Collection[str]) -> FilterReturn:
    """The objects of any of these documents."""
    return Filter.by_property("documentId").contains_any(list(document_ids))


def following(object_id: str) -> FilterReturn:
    """The objects whose ids come after this one."""
    return Filter.by_property("_id").greater_than(object_id)


def exactly(owner: scope.Scope) -> FilterReturn:
    """What is owned by this scope and no other of the same client."""
    project, group = Filter.by_property("projectId"), Filter.by_property("groupId")
    return project.equal(owner.project_id or record.NONE) & group.equal(owner.group_id or record.NONE)


def sees(viewer: scope.Scope) -> FilterReturn:
    """`kb.visibility.sees` within the viewer's own client."""
    project, group = Filter.by_property("projectId"), Filter.by_property("groupId")
    ways: list[Any] = [project.equal(record.NONE) & group.equal(record.NONE)]
    if viewer.project_id:
        ways.append(project.equal(viewer.project_id))
    if viewer.group_id:
        ways.append(group.equal(viewer.group_id))
    return Filter.any_of(ways)


def may(viewer: scope.Scope) -> list[FilterReturn]:
    """What the viewer's principals may see; nothing where all of the scope is asked for."""
    labels = visibility.wanted(viewer)
    return [] if labels is None else [Filter.by_property("labels").contains_any(labels)]


def replaced_before(moment: int) -> FilterReturn:
    """The objects of versions that were replaced before then."""
    return Filter.by_property("untilMs").less_than(moment)


def admits(chosen: selection.Selection, *, history: bool = False) -> list[FilterReturn]:
    """`kb.selection.Selection.admits` in the present or in the history, or a little more.

    A wildcard character within a source admits others too. A version of the present that began later than it was
    observed is admitted from then on: objects that began when they were observed have no beginning of their own. The
    graph decides what is shown.
    """
    filters: list[FilterReturn] = []
    observed = Filter.by_property("observedMs")
    if chosen.kinds is not None:
        filters.append(Filter.by_property("kind").contains_any(list(chosen.kinds) or [record.NONE]))
    if chosen.sources is not None:
        source = Filter.by_property("sourceUrn")
        exact = [one for one in chosen.sources if not one.endswith("*")] or [record.NONE]
        ways = [source.contains_any(exact), *(source.like(one) for one in chosen.sources if one.endswith("*"))]
        filters.append(Filter.any_of(ways))
    earliest, latest = chosen.span()
    if chosen.dated:
        filters.append(observed.greater_than(record.UNDATED))
    if earliest is not None:
        filters.append(observed.greater_or_equal(earliest))
    if latest is not None:
        filters.append(observed.less_or_equal(latest))
    filters += [Filter.by_property("labels").contains_any(list(group) or [record.NONE]) for group in chosen.labels]
    moment = chosen.moment()
    if moment is not None:
        begun = Filter.by_property("sinceMs").less_or_equal(moment)
        filters.append(begun if history else Filter.any_of([begun, observed.less_or_equal(moment)]))
        if history:
            filters.append(Filter.by_property("untilMs").greater_than(moment))
    return filters


def among(ids: Collection[str]) -> FilterReturn:
    """The objects with these ids."""
    # What `Filter.by_id()` asks; that would make a UUID of each before it is written as the text that it was.
    return Filter.by_property("_id").contains_any(list(ids))
