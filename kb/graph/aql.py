"""The AQL of the ArangoDB store, composed once from constants; every value is bound at run time."""

from __future__ import annotations

# `kb.visibility.sees` for a row `x` of a client's own collections; `@everything` is set for the global ones.
_SEES = """(@everything OR (x.projectId == "" AND x.groupId == "")
    OR (@project != "" AND x.projectId == @project) OR (@group != "" AND x.groupId == @group))"""
_KINDS = "(@kinds == null OR x.kind IN @kinds)"
_ROW = """{source: x.source, edgeType: x.edgeType, target: x.target, structural: x.structural, documentId: x.documentId,
    sourceUrn: x.sourceUrn, kind: x.kind, title: x.title, proof: proof}"""

COMMITTED = f"""
FOR chunk IN @chunks
  FOR x IN @@nodes
    FILTER chunk IN x.chunkIds[*] AND x.documentId != null AND {_SEES} AND {_KINDS}
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
AROUND = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node)
  FOR found IN UNION(
      (FOR x IN @@edges FILTER x._from == id AND x.structural == false AND {_SEES}
         SORT x.edgeType, x.target LIMIT @limit RETURN x),
      (FOR x IN @@edges FILTER x._to == id AND x.structural == false AND {_SEES}
         SORT x.edgeType, x.source LIMIT @limit RETURN x))
    RETURN DISTINCT {{source: found.source, edgeType: found.edgeType, target: found.target}}
"""
ELSEWHERE = f"""
FOR node IN @nodes
  LET id = CONCAT(@prefix, "/", node[1])
  FOR row IN (
    FOR x IN @@edges
      FILTER x._to == id AND x.structural == true AND {_SEES} AND {_KINDS}
      FOR proof IN x.evidence
        FILTER proof.chunkId NOT IN @chunks
        SORT proof.chunkId, proof.sentenceId
        LIMIT @limit
        RETURN {_ROW})
    RETURN row
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
        (edges, ["evidenceChunkIds[*]"]),
        (edges, ["documentId"]),
        (edges, ["_from", "structural", "projectId"]),
        (edges, ["_to", "structural", "projectId"]),
    ]
