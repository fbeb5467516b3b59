"""The AQL of the ArangoDB store, composed once from constants; every value is bound at run time."""

from __future__ import annotations

# `kb.visibility.sees` for a row `x` of a client's own collections; `@everything` is set for the global ones.
_SEES = """(@everything OR (x.projectId == "" AND x.groupId == "")
    OR (@project != "" AND x.projectId == @project) OR (@group != "" AND x.groupId == @group))"""
# `kb.selection.Selection.admits`.
_SELECTED = """(@kinds == null OR x.kind IN @kinds)
    AND (@sources == null OR x.sourceUrn IN @sources
        OR LENGTH(FOR beginning IN @beginnings FILTER STARTS_WITH(x.sourceUrn, beginning) LIMIT 1 RETURN 1) > 0)
    AND (x.observedMs == null ? @dated == false
        : x.observedMs >= NOT_NULL(@earliest, x.observedMs) AND x.observedMs <= NOT_NULL(@latest, x.observedMs))"""
# Null is less than every number: what has no time is part of every moment.
_KNOWN = "(@latest == null OR x.observedMs == null OR x.observedMs <= @latest)"
_ROW = """{source: x.source, edgeType: x.edgeType, target: x.target, structural: x.structural, documentId: x.documentId,
    sourceUrn: x.sourceUrn, kind: x.kind, title: x.title, observedMs: x.observedMs, proof: proof}"""

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
# One row more per node than is wanted of its chunks tells a hub; a chunk has at most eight proofs of a mention.
LEADS = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FOR row IN (
    FOR x IN @@edges
      FILTER x._to == id AND x.structural == true AND {_SEES} AND {_SELECTED}
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
      (FOR x IN @@edges
         FILTER x._from == id AND x.structural == false AND (@types == null OR x.edgeType IN @types) AND {_KNOWN}
         FILTER {_SEES}
         {_EDGES}),
      (FOR x IN @@edges
         FILTER x._to == id AND x.structural == false AND (@types == null OR x.edgeType IN @types) AND {_KNOWN}
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
    AND (@type == null OR x.edgeType == @type) AND {_SEES}
  FOR proof IN x.evidence
    SORT x.source, x.edgeType, x.target, x.observedMs == null, x.observedMs DESC, proof.chunkId, proof.sentenceId
    LIMIT @limit
    RETURN {_ROW}
"""
NAMED = f"""
FOR node IN @@nodes
  FILTER node.name IN @names
  FILTER LENGTH(FOR x IN @@edges FILTER x._to == node._id AND x.structural == true AND {_SEES} LIMIT 1 RETURN 1) > 0
  RETURN [node.name, node.key]
"""
NODES = f"""
FOR node IN @@nodes
  FILTER node.documentId == null AND node.key != null AND (@type == null OR node.type == @type)
    AND (@text == null OR CONTAINS(LOWER(node.key), @text) OR CONTAINS(node.name, @text))
    AND (@keys == null OR node.key IN @keys)
  LET rows = (
    FOR x IN @@edges
      FILTER x._to == node._id AND x.structural == true AND {_SEES}
      FOR proof IN x.evidence
        SORT proof.salience DESC, proof.chunkId
        RETURN {{name: proof.name, description: proof.description, chunkId: proof.chunkId}})
  FILTER LENGTH(rows) > 0
  SORT LENGTH(rows) DESC, node.key
  LIMIT @limit
  RETURN {{key: node.key, type: node.type, rows: rows}}
"""
AUDIT = """
FOR x IN @@nodes
  FILTER x.documentId != null AND x._key > @after AND (@chunks == null OR x.chunkIds ANY IN @chunks)
  SORT x._key
  LIMIT @limit
  LET mentions = (FOR edge IN @@edges FILTER edge.documentId == x.documentId
    FOR proof IN edge.evidence
      RETURN {chunk: proof.chunkId, sentence: proof.sentenceId, node: edge.structural ? edge.target : null})
  RETURN {key: x._key, documentId: x.documentId, projectId: x.projectId, groupId: x.groupId, sourceUrn: x.sourceUrn,
    kind: x.kind, title: x.title, observedMs: x.observedMs, chunkIds: x.chunkIds, mentions: mentions}
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
  FILTER LENGTH(FOR x IN @@edges FILTER x._to == id AND x.structural == true AND {_SEES} LIMIT 1 RETURN 1) > 0
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
    "projectId", "groupId")
  SORT documentId
  LIMIT @limit
  RETURN MERGE(rows[0], {documentId})
"""
DOCUMENTS = """
FOR x IN @@nodes
  FILTER x.kind == @kind AND x.projectId == @project AND x.documentId != null
    AND (@project != "" OR x.groupId == @group) AND STARTS_WITH(x.sourceUrn, @beginning)
  RETURN {documentId: x.documentId, sourceUrn: x.sourceUrn, kind: x.kind, title: x.title, observedMs: x.observedMs}
"""
PUT_DOCUMENT = 'INSERT @row INTO @@nodes OPTIONS {overwriteMode: "replace"}'
PUT_ENTITIES = 'FOR row IN @rows INSERT row INTO @@nodes OPTIONS {overwriteMode: "ignore"}'
PUT_EDGES = 'FOR row IN @rows INSERT row INTO @@edges OPTIONS {overwriteMode: "replace"}'
DROP_EDGES = "FOR x IN @@edges FILTER x.documentId == @id REMOVE x IN @@edges RETURN OLD._to"
DROP_DOCUMENT = "FOR x IN @@nodes FILTER x._key == @key REMOVE x IN @@nodes RETURN OLD._key"
# Entities among the candidates that nothing mentions any more. The edge index on `_to` answers the inner query.
DROP_LONELY = """
FOR x IN @@nodes
  FILTER x._id IN @candidates AND x.documentId == null
  FILTER LENGTH(FOR edge IN @@edges FILTER edge._to == x._id AND edge.structural == true LIMIT 1 RETURN 1) == 0
  REMOVE x IN @@nodes
"""


def indexes(nodes: str, edges: str) -> list[tuple[str, list[str]]]:
    """Which fields of which collection are indexed beside `_key`, `_from` and `_to`."""
    return [
        (nodes, ["chunkIds[*]"]),
        (nodes, ["name"]),
        (nodes, ["kind", "projectId", "sourceUrn"]),
        (edges, ["evidenceChunkIds[*]"]),
        (edges, ["documentId"]),
        (edges, ["_from", "structural", "projectId"]),
        (edges, ["_to", "structural", "projectId"]),
    ]
