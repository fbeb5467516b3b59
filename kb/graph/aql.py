"""The AQL of the ArangoDB store, composed once from constants; every value is bound at run time."""

from __future__ import annotations

from kb import visibility

_SEES = visibility.aql()
# What is part of the knowledge of `@moment`: begun by then, and not replaced by then. Null is less than every number:
# what has no time is part of every moment.
_KNOWN = """(@moment == null OR (NOT_NULL(x.sinceMs, x.observedMs) <= @moment
    AND (x.untilMs == null OR x.untilMs > @moment)))"""
# `kb.selection.Selection.admits`.
_SELECTED = f"""{_KNOWN} AND (@kinds == null OR x.kind IN @kinds)
    AND (@sources == null OR x.sourceUrn IN @sources
        OR LENGTH(FOR beginning IN @beginnings FILTER STARTS_WITH(x.sourceUrn, beginning) LIMIT 1 RETURN 1) > 0)
    AND (x.observedMs == null ? @dated == false
        : x.observedMs >= NOT_NULL(@earliest, x.observedMs) AND x.observedMs <= NOT_NULL(@latest, x.observedMs))
    AND (@labels == null OR x.labels == null
        OR LENGTH(FOR asked IN @labels FILTER (asked ANY IN x.labels) == false LIMIT 1 RETURN 1) == 0)"""
_DOCUMENT = """documentId: x.documentId, sourceUrn: x.sourceUrn, kind: x.kind, title: x.title,
    observedMs: x.observedMs, sinceMs: x.sinceMs, untilMs: x.untilMs"""
_ROW = f"""{{source: x.source, edgeType: x.edgeType, target: x.target, structural: x.structural, {_DOCUMENT},
    proof: proof}}"""

COMMITTED = f"""
FOR chunk IN @chunks
  FOR x IN @@nodes
    FILTER chunk IN x.chunkIds[*] AND x.documentId != null AND {_SEES} AND {_SELECTED}
    RETURN DISTINCT chunk
"""
MENTIONED = f"""
FOR chunk IN @chunks
  FOR x IN @@edges
    FILTER chunk IN x.evidenceChunkIds[*] AND {_SEES}
    FOR proof IN x.evidence
      FILTER proof.chunkId == chunk
      RETURN {_ROW}
"""
BRIDGES = f"""
FOR chunk IN @chunks
  FOR x IN @@edges
    FILTER chunk IN x.evidenceChunkIds[*] AND x.structural == true AND {_SEES}
    FOR proof IN x.evidence
      FILTER proof.chunkId == chunk
      RETURN DISTINCT [x.target, proof.chunkId, proof.sentenceId]
"""


# What is read at one node, of whatever owner.
def _at(node: str, end: str, structural: str) -> str:
    return f"""(FOR edge IN @@edges FILTER edge.{end} == {node} AND edge.structural == {structural}
      LIMIT @hub RETURN edge)"""


# One row more per node than is wanted of its chunks tells a hub; a chunk has at most eight proofs of a mention.
LEADS = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FOR row IN (
    FOR x IN {_at("id", "_to", "true")}
      FILTER {_SEES} AND {_SELECTED}
      FOR proof IN x.evidence
        SORT proof.salience DESC, proof.chunkId
        LIMIT @rows
        RETURN [x.target, proof.chunkId, proof.salience])
    RETURN row
"""
# What many documents say is one edge: grouped before it is counted against the limit.
_EDGES = """COLLECT source = x.source, edgeType = x.edgeType, target = x.target
         SORT source, edgeType, target LIMIT @limit RETURN {source, edgeType, target}"""
AROUND = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FOR found IN UNION_DISTINCT(
      (FOR x IN {_at("id", "_from", "false")}
         FILTER (@types == null OR x.edgeType IN @types) AND {_KNOWN}
         FILTER {_SEES}
         {_EDGES}),
      (FOR x IN {_at("id", "_to", "false")}
         FILTER (@types == null OR x.edgeType IN @types) AND {_KNOWN}
         FILTER {_SEES}
         {_EDGES}))
    RETURN {{node: node[0], source: found.source, edgeType: found.edgeType, target: found.target}}
"""
AMONG = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FOR x IN @@edges
    FILTER x._from == id AND x.structural == false AND x.target IN @keys
      AND (@types == null OR x.edgeType IN @types) AND {_KNOWN} AND {_SEES}
    {_EDGES}
"""
# The server knows a bound null before it chooses an index: what is given is looked up by the edge index of its end.
PROOFS = f"""
FOR x IN @@edges
  FILTER x.structural == false AND (@source == null OR x._from == CONCAT(@prefix, "/", @source))
    AND (@target == null OR x._to == CONCAT(@prefix, "/", @target))
    AND (@type == null OR x.edgeType == @type) AND {_KNOWN} AND {_SEES}
  FOR proof IN x.evidence
    SORT x.source, x.edgeType, x.target, x.observedMs == null, x.observedMs DESC, proof.chunkId, proof.sentenceId
    LIMIT @limit
    RETURN {_ROW}
"""
# Of relationships by their source: [its _key, [[type, key of the target], ...]]; a source's edges are read once.
PROVEN = f"""
FOR asked IN @sources
  LET source = CONCAT(@prefix, "/", asked[0])
  FOR x IN @@edges
    FILTER x._from == source AND x.structural == false AND [x.edgeType, x.target] IN asked[1] AND {_KNOWN} AND {_SEES}
    COLLECT edgeType = x.edgeType, target = x.target INTO rows = x
    FOR row IN (
      FOR one IN rows
        SORT one.observedMs == null, one.observedMs DESC, one._key
        LIMIT @rows
        FOR proof IN one.evidence
          RETURN {_ROW.replace(": x.", ": one.")})
      RETURN row
"""
OBSERVED = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FOR x IN @@edges
    FILTER x._from == id AND x.structural == false AND x.edgeType IN @types AND {_KNOWN} AND {_SEES}
    RETURN DISTINCT {{source: x.source, edgeType: x.edgeType, target: x.target, observedMs: x.observedMs}}
"""
NAMED = f"""
FOR node IN @@nodes
  FILTER node.name IN @names
  FILTER LENGTH(FOR x IN @@edges FILTER x._to == node._id AND x.structural == true AND {_KNOWN} AND {_SEES}
    LIMIT 1 RETURN 1) > 0
  RETURN [node.name, node.key]
"""
ALIKE = NAMED.replace("node.name", "node.stem")
NODES = f"""
FOR node IN @@nodes
  FILTER node.documentId == null AND node.key != null AND (@type == null OR node.type == @type)
    AND (@text == null OR CONTAINS(LOWER(node.key), @text) OR CONTAINS(node.name, @text))
    AND (@keys == null OR node.key IN @keys)
  LET said = SUM(FOR x IN {_at("node._id", "_to", "true")}
    FILTER {_KNOWN} AND {_SEES}
    RETURN LENGTH(x.evidence))
  FILTER said > 0
  SORT said DESC, node.key
  LIMIT @limit
  LET rows = (
    FOR x IN {_at("node._id", "_to", "true")}
      FILTER {_KNOWN} AND {_SEES}
      FOR proof IN x.evidence
        SORT proof.salience DESC, proof.chunkId
        LIMIT @described
        RETURN {{name: proof.name, description: proof.description, chunkId: proof.chunkId,
          properties: proof.properties, observedMs: x.observedMs, sourceUrn: x.sourceUrn}})
  RETURN {{key: node.key, type: node.type, said: said, rows: rows}}
"""
# Nodes to which a document gives a property whose name is among the fragments: more than are meant.
GIVEN_NODES = f"""
FOR x IN @@edges
  FILTER x.structural == true AND {_KNOWN} AND {_SEES}
  FOR proof IN x.evidence
    FILTER proof.properties != null AND proof.properties != ""
      AND LENGTH(FOR part IN @fragments FILTER CONTAINS(proof.properties, part) LIMIT 1 RETURN 1) > 0
    RETURN DISTINCT x.target
"""
AUDIT = """
FOR x IN @@nodes
  FILTER x.documentId != null AND x._key > @after AND (@chunks == null OR x.chunkIds ANY IN @chunks)
    AND (@documents == null OR x.documentId IN @documents)
  SORT x._key
  LIMIT @limit
  LET mentions = (FOR edge IN @@edges FILTER edge.documentId == x.documentId AND edge.untilMs == x.untilMs
    FOR proof IN edge.evidence
      RETURN {chunk: proof.chunkId, sentence: proof.sentenceId, node: edge.structural ? edge.target : null})
  RETURN {key: x._key, documentId: x.documentId, projectId: x.projectId, groupId: x.groupId, sourceUrn: x.sourceUrn,
    kind: x.kind, title: x.title, observedMs: x.observedMs, sinceMs: x.sinceMs, untilMs: x.untilMs,
    chunkIds: x.chunkIds, mentions: mentions}
"""
REGROUP_NODES = """
FOR x IN @@nodes FILTER x.documentId != null AND x.projectId == @project AND x.groupId != @group
  UPDATE x WITH {groupId: @group} IN @@nodes RETURN NEW.documentId
"""
REGROUP_EDGES = """
FOR x IN @@edges FILTER x.projectId == @project AND x.groupId != @group
  UPDATE x WITH {groupId: @group} IN @@edges
"""
PRESENT = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FILTER LENGTH(FOR x IN @@edges FILTER x._to == id AND x.structural == true AND {_KNOWN} AND {_SEES}
    LIMIT 1 RETURN 1) > 0
  RETURN node[0]
"""
EDGES = f"""
FOR x IN @@edges
  FILTER x.structural == false AND {_SEES}
  COLLECT source = x.source, edgeType = x.edgeType, target = x.target INTO rows = x.evidenceChunkIds
  SORT source, edgeType, target
  LIMIT @limit
  RETURN {{source, edgeType, target, chunks: UNIQUE(FLATTEN(rows))}}
"""
COUNTS = f"""
LET documents = (FOR x IN @@nodes FILTER x.documentId != null AND {_SEES} RETURN LENGTH(x.chunkIds))
LET mentions = (FOR x IN @@edges FILTER x.structural == true AND {_SEES}
  RETURN {{node: x.target, n: LENGTH(x.evidence)}})
LET edges = (FOR x IN @@edges FILTER x.structural == false AND {_SEES}
  RETURN DISTINCT [x.source, x.edgeType, x.target])
RETURN {{documents: LENGTH(documents), chunks: SUM(documents), nodes: UNIQUE(mentions[*].node),
  mentions: SUM(mentions[*].n), edges: edges}}
"""
# The other way round than `_SEES`: documents of which the owner sees what is written in the given scope.
NAMING = """
FOR x IN @@edges
  FILTER x._to == @target AND x.structural == true AND x.documentId > @after
  FILTER (@project == "" AND @group == "") OR (@project != "" AND x.projectId == @project)
    OR (@group != "" AND x.groupId == @group)
  COLLECT documentId = x.documentId INTO rows = KEEP(x, "sourceUrn", "kind", "title", "observedMs",
    "sinceMs", "untilMs", "projectId", "groupId")
  SORT documentId
  LIMIT @limit
  RETURN MERGE(rows[0], {documentId})
"""
DOCUMENTS = """
FOR x IN @@nodes
  FILTER x.kind == @kind AND x.projectId == @project AND x.documentId != null
    AND (@project != "" OR x.groupId == @group) AND STARTS_WITH(x.sourceUrn, @beginning)
  RETURN {documentId: x.documentId, sourceUrn: x.sourceUrn, kind: x.kind, title: x.title, observedMs: x.observedMs,
    sinceMs: x.sinceMs, untilMs: x.untilMs}
"""
FENCE = "FOR x IN @@fences FILTER x._key == @key RETURN x.fence"
PUT_FENCE = 'INSERT @row INTO @@fences OPTIONS {overwriteMode: "replace"}'
DROP_FENCES = "FOR x IN @@fences FILTER x.fence < @before REMOVE x IN @@fences RETURN OLD._key"
LISTED = f"""
FOR x IN @@nodes
  FILTER x.documentId != null AND x.documentId > @after AND (@kind == null OR x.kind == @kind)
    AND STARTS_WITH(x.sourceUrn, @beginning) AND {_SEES}
  SORT x.documentId
  LIMIT @limit
  RETURN {{documentId: x.documentId, sourceUrn: x.sourceUrn, kind: x.kind, title: x.title, observedMs: x.observedMs,
    projectId: x.projectId, groupId: x.groupId, shared: @everything, chunks: LENGTH(x.chunkIds)}}
"""
REPLACED = f"""
FOR x IN @@nodes
  FILTER x.documentId IN @documents AND x.untilMs != null AND {_SEES}
  SORT x.documentId, x.untilMs DESC
  RETURN {{{_DOCUMENT}}}
"""
VERSIONS = """
FOR x IN @@nodes
  FILTER x.documentId == @id
  SORT x.untilMs DESC
  RETURN x
"""
# Versions that were replaced before `@before` (null: all), of one document or of all.
EXPIRED = """
FOR x IN @@nodes
  FILTER x.documentId != null AND (@id == null OR x.documentId == @id) AND (@before == null OR x.untilMs < @before)
  RETURN {key: x._key, documentId: x.documentId, untilMs: x.untilMs}
"""
# The mentions and relationships of a document, with the types of the entities that it mentions.
EDGES_OF = """
FOR x IN @@edges
  FILTER x.documentId == @id
  LET types = (FOR node IN @@nodes FILTER x.structural AND node._id == x._to RETURN node.type)
  RETURN MERGE(x, {targetType: types[0]})
"""
DOCUMENT_OF = "FOR x IN @@nodes FILTER x._key == @key RETURN x"
PUT_DOCUMENT = 'INSERT @row INTO @@nodes OPTIONS {overwriteMode: "replace"}'
PUT_ENTITIES = 'FOR row IN @rows INSERT row INTO @@nodes OPTIONS {overwriteMode: "ignore"}'
PUT_EDGES = 'FOR row IN @rows INSERT row INTO @@edges OPTIONS {overwriteMode: "replace"}'
DROP_EDGES = """
FOR x IN @@edges FILTER x.documentId == @id AND x.untilMs == @until REMOVE x IN @@edges RETURN OLD._to
"""
DROP_DOCUMENT = "FOR x IN @@nodes FILTER x._key == @key REMOVE x IN @@nodes RETURN OLD._key"
# Entities among the candidates that nothing mentions any more. The edge index on `_to` answers the inner query.
DROP_LONELY = """
FOR x IN @@nodes
  FILTER x._id IN @candidates AND x.documentId == null
  FILTER LENGTH(FOR edge IN @@edges FILTER edge._to == x._id AND edge.structural == true LIMIT 1 RETURN 1) == 0
  REMOVE x IN @@nodes
"""


VERSION = 2
"""Of what this module expects of a client's collections; 1 had no record of it and no versions."""
SCHEMA = "$schema"
SCHEMA_OF = "FOR x IN @@nodes FILTER x._key == @key RETURN x.version"
ANYTHING = "FOR x IN @@nodes FILTER x._key != @key LIMIT 1 RETURN 1"


def indexes(nodes: str, edges: str) -> list[tuple[str, list[str]]]:
    """Which fields of which collection are indexed beside `_key`, `_from` and `_to`."""
    return [
        (nodes, ["chunkIds[*]"]),
        (nodes, ["name"]),
        (nodes, ["stem"]),
        (nodes, ["documentId"]),
        (nodes, ["kind", "projectId", "sourceUrn"]),
        (edges, ["evidenceChunkIds[*]"]),
        (edges, ["documentId"]),
        (edges, ["_from", "structural", "projectId"]),
        (edges, ["_to", "structural", "projectId"]),
    ]
