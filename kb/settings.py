"""The settings of a knowledge base process, read once by `kb.__main__` from `JERVIS_KB_*`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, IPvAnyNetwork, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from crds import modelnames, tools
from crds.values import STORED_BYTES
from kb.vectors import window


class VisionModel(BaseModel):
    """Who looks at `images` or more that have together `bytes` or more."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(min_length=1)
    images: int = Field(default=1, ge=1)
    bytes: int = Field(default=0, ge=0)


class Settings(BaseSettings):
    """Sizes in characters or bytes as named, times in seconds."""

    model_config = SettingsConfigDict(env_prefix="JERVIS_KB_", extra="ignore", frozen=True)

    # A pod is reached on its own address; where that is too wide, set 127.0.0.1.
    host: str = "0.0.0.0"  # noqa: S104 -- see above
    port: int = Field(default=8080, ge=0, le=65535)
    mode: Literal["all", "read", "write"] = "all"
    # Processes that answer on the port, in mode "read"; each takes about the memory of one.
    workers: int = Field(default=1, ge=1, le=64)
    data_dir: Path = Path("/var/lib/jervis/kb")
    # One span per request and per stage, sent as the standard OTEL_ variables say.
    tracing: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    router_url: AnyHttpUrl = AnyHttpUrl("http://jervis-router:11430")
    # Where a token for the router stands; read each time, because the kubelet renews it. Empty: the router wants none.
    router_token_file: str = ""
    weaviate_url: AnyHttpUrl = AnyHttpUrl("http://weaviate:8080")
    weaviate_grpc_port: int = Field(default=50051, ge=1, le=65535)
    # Empty: Weaviate takes anonymous access.
    weaviate_api_key: SecretStr = SecretStr("")
    # How Weaviate keeps the vectors of chunks and of sentences (docs/scaling.md); what is not set is the server's own.
    # Of collections that are there ef can be changed and quantization be switched on; other changes are refused.
    weaviate_index: Literal["hnsw", "flat", "dynamic"] = "hnsw"
    weaviate_sentence_index: Literal["hnsw", "flat"] = "hnsw"
    weaviate_quantization: Literal["", "bq", "pq", "sq", "rq"] = ""
    weaviate_ef: int | None = Field(default=None, ge=1, le=10_000)
    weaviate_ef_construction: int | None = Field(default=None, ge=4, le=10_000)
    weaviate_max_connections: int | None = Field(default=None, ge=4, le=2047)
    # Chunks of a client from which a dynamic index is no longer flat.
    weaviate_dynamic_threshold: int | None = Field(default=None, ge=1)
    weaviate_replicas: int | None = Field(default=None, ge=1, le=100)
    # Keeps installations apart that share one Weaviate.
    index: str = ""
    mongodb_uri: SecretStr = SecretStr("mongodb://mongodb:27017")
    mongodb_database: str = "jervis"

    # Where intents, the extraction queue, kept answers and the turns of documents are: in files of the one process, or
    # in MongoDB, which several processes share. Not set: files in mode "all", mongodb otherwise.
    records: Literal["files", "mongodb", ""] = ""
    # How this process is called where others wait for it; empty is the host's name.
    name: str = Field(default="", max_length=200)
    # Shared records: seconds after which the documents of a process that reports no more are free. It stops itself
    # after three eighths of that; the rest is more than the 60 that a call to a store may last.
    turn_seconds: float = Field(default=120.0, ge=100, le=3600)

    # What one question to the graph may take, waiting for others included; then it is answered with 503 too_long.
    read_seconds: float = Field(default=10.0, gt=0)
    # Empty: the graph is a SQLite file in data_dir.
    arango_url: str = ""
    arango_database: str = "jervis"
    arango_username: str = "root"
    arango_password: SecretStr = SecretStr("")
    # Of collections that are made from now on; of those that are there replication and write concern are changed when
    # their client is written. Not set: the database's own.
    arango_shards: int | None = Field(default=None, ge=1, le=1000)
    arango_replication: int | None = Field(default=None, ge=1, le=10)
    arango_write_concern: int | None = Field(default=None, ge=1, le=10)
    # Requests of this process at once.
    arango_pool: int = Field(default=16, ge=1, le=256)

    extract_model: str = "qwen2.5:7b"
    extract_num_ctx: int | None = Field(default=None, ge=512)
    # For small answers: the type of a document, whether a link may be opened. Empty: the model above, in its window.
    fast_model: str = ""
    fast_num_ctx: int | None = Field(default=None, ge=512)
    # The judging model answers about issues, and texts of no type that it could not judge, by calls of tools instead of
    # one structured answer (decision 0105). It has to be one that calls tools.
    qualify_tools: bool = False
    extract_parallel: int = Field(default=4, ge=1, le=64)
    embed_model: str = "qwen3-embedding:8b"
    # Goes before each question that is embedded, and before no document: what a model that is tuned to instructions
    # expects, as the page of the model says. The chart sets it for the model that it ships.
    embed_query_instruction: str = Field(default="", max_length=1000)
    # Goes before each stored text that is embedded, and before no question ("passage: " for e5). Another prefix makes
    # other vectors, so it has an index of its own, as another model has.
    embed_passage_prefix: str = Field(default="", max_length=200)
    # Tokens that the model reads of a text; a longer one is embedded in pieces (decision 0172). 0: what its server says
    # of it, or 512.
    embed_window: int = Field(default=0, ge=0, le=1_000_000)
    # The embedding model before this one, whose index serves until that of the new one is whole (decision 0071). Empty:
    # there is none, and a change of embed_model begins with an empty index.
    embed_model_before: str = ""
    embed_query_instruction_before: str = Field(default="", max_length=1000)
    embed_passage_prefix_before: str = Field(default="", max_length=200)
    # The index of the model before is dropped when that of the new one serves everywhere; false keeps it up to date
    # until it is asked for (jervis-kb reindex drop).
    reindex_drop: bool = True

    chunk_chars: int = Field(default=4000, ge=200, le=40_000)
    chunk_overlap: int = Field(default=200, ge=0)
    max_chars: int = Field(default=4_000_000, ge=1)
    max_body_bytes: int = Field(default=16 << 20, ge=1024)
    # What JSON bodies that arrive or wait may hold in memory, all together; a quarter is for priorities 0 to 2.
    max_buffered_bytes: int = Field(default=192 << 20, ge=1024)
    max_content_bytes: int = Field(default=STORED_BYTES, ge=1024)
    max_answers: int = Field(default=100_000, ge=0)

    lane_width: int = Field(default=5, ge=1)
    lane_waiting: int = Field(default=200, ge=0)

    queue_limit: int = Field(default=200_000, ge=1)
    queue_client_limit: int = Field(default=50_000, ge=1)
    # What the requests that wait for extraction may hold, of all clients and of one; more gets 429.
    queue_bytes: int = Field(default=4 << 30, ge=1 << 20)
    queue_client_bytes: int = Field(default=1 << 30, ge=1 << 20)
    queue_workers: int = Field(default=2, ge=1, le=64)
    queue_urgent_workers: int = Field(default=2, ge=1, le=64)

    # Empty: all that reach the service may use it. Otherwise a YAML or JSON file of tokens with their scopes.
    tokens_file: str = ""
    # Empty: run tokens are unknown. Otherwise the folder of their keys (contracts.tokens.keyring), read
    # again when it changes.
    run_token_keys: str = ""
    # Where the operator says which runs there are. Empty: a token is good until it expires, also after its run.
    live_runs_url: str = ""
    # The audit record on stderr: of every request to the API, of those alone that change something, or none.
    audit: Literal["all", "writes", "off"] = "all"
    # Requests of one client a second, on average and at once; 0 is no limit.
    client_rate: float = Field(default=0.0, ge=0)
    client_burst: int = Field(default=100, ge=1)

    # A cross-encoder that judges the best candidates of a question once more (/v1/rerank of a backend); empty: none.
    rerank_model: str = ""
    rerank_candidates: int = Field(default=20, ge=2, le=100)
    # Seconds that a question waits for it at most; then it is answered without.
    rerank_seconds: float = Field(default=2.0, gt=0)
    # Characters of each candidate that it reads: a longer text than its window is an error of some servers.
    rerank_chars: int = Field(default=2000, ge=100)

    # The model that chooses the decision agent's tools and writes its answers, and its window; not set: the backend's.
    decision_model: str = "gpt-oss:120b"
    decision_num_ctx: int | None = Field(default=None, ge=512)
    # Pages of one search of the agent, how many of them the vision model looks at, and tokens of what it says of each.
    agent_pages: int = Field(default=3, ge=1, le=20)
    agent_interpreted: int = Field(default=2, ge=1, le=20)
    agent_interpretation_tokens: int = Field(default=1500, ge=100, le=20_000)
    # Servers of the Model Context Protocol whose reading tools the agent has (docs/tools.md): the chart's
    # job.tools.mcpServers, those with readOnly.
    agent_servers: list[tools.Server] = Field(default_factory=list, max_length=20)
    # Passages of one search of the agent, and tokens of what it found: in a decision, in the answer, of a summary, and
    # from how many on a summary is made (seed 004).
    agent_hits: int = Field(default=5, ge=1, le=50)
    agent_context_tokens: int = Field(default=10_000, ge=500, le=200_000)
    agent_answer_tokens: int = Field(default=8_000, ge=500, le=200_000)
    agent_summary_tokens: int = Field(default=5_000, ge=100, le=20_000)
    agent_summarize_tokens: int = Field(default=50_000, ge=1_000)
    # Bounds of one question: rounds, tokens that the model reads and writes, seconds.
    agent_iterations: int = Field(default=10, ge=1, le=50)
    agent_tokens: int = Field(default=200_000, ge=1_000)
    agent_seconds: float = Field(default=600.0, gt=0)
    # Share of a question's words in what was found with which the agent answers at once; 0: the model alone decides.
    agent_enough: float = Field(default=0.0, ge=0, le=1)
    # Questions of this process that agents work on at once; half of them for one client.
    agent_parallel: int = Field(default=200, ge=1, le=10_000)
    # How long a conversation is kept after its last turn, and the events of a stream after the last one.
    agent_days: float = Field(default=7.0, gt=0)
    agent_stream_seconds: float = Field(default=600.0, gt=0)

    # Web pages that may call, by their origins (https://agent.example.com); programs send none and always may.
    origins: list[str] = Field(default_factory=list)
    # Names by which clients call the service, beside addresses, names without a dot and local ones; `*.example.com`.
    allowed_hosts: list[str] = Field(default_factory=list)
    # Seconds that a tool of an agent may take; then the agent is answered that it may try again.
    mcp_seconds: float = Field(default=60.0, gt=0)

    # Empty: files that need Tika are refused.
    tika_url: str = ""
    tika_seconds: float = Field(default=30.0, gt=0)
    max_file_bytes: int = Field(default=32 << 20, ge=1024)
    # Pages of a PDF with fewer characters than `pdf_page_chars` are drawn and looked at by the vision model, at most
    # `pdf_pages` of a file; 0 looks at none. Drawing all of them may take `pdf_seconds` of processor time.
    pdf_pages: int = Field(default=10, ge=0, le=200)
    pdf_page_chars: int = Field(default=100, ge=1, le=10_000)
    pdf_seconds: int = Field(default=20, ge=1, le=300)
    # Images that stand in a mail or a page itself and are looked at, of one document; 0 looks at none.
    inside_images: int = Field(default=10, ge=0, le=50)
    # What is read of a branch's source files: how many, and bytes of one and of all together. Seed 001 has 150, 50,000
    # and 5,000,000, which leaves out most of a project. What is left out is said, in the answer and on the branch.
    code_files: int = Field(default=5_000, ge=0, le=20_000)
    code_file_bytes: int = Field(default=1_000_000, ge=1, le=1_000_000)
    code_total_bytes: int = Field(default=100_000_000, ge=1)
    # Parsing the contents of one request.
    code_seconds: float = Field(default=60.0, gt=0, le=3600)
    # Take ad-hoc queries of Joern, which are programs, for the operator to run.
    code_queries: bool = False
    # Address space of the process that resolves branches and answers about them; what needs more is refused.
    code_memory_bytes: int = Field(default=2 << 30, ge=256 << 20)
    vision_model: str = "qwen3-vl:8b"
    # Of this model and of `vision_models`; not set: the backend's.
    vision_num_ctx: int | None = Field(default=None, ge=512)
    # For many or large images: the first entry whose bounds are reached takes the place of `vision_model`.
    vision_models: list[VisionModel] = Field(default_factory=list, max_length=20)
    # Pages as images (docs/visual.md). The model that makes multi-vectors of pages and questions: served at
    # `visual_url` by vLLM's pooling API, or run here from the weights in `visual_weights`, which needs the extra
    # `visual`. Without a name there is none, and pages are found by their words.
    visual_model: str = ""
    visual_url: str = ""
    visual_token_file: str = ""
    visual_weights: str = ""
    visual_family: Literal["colqwen2.5", "colqwen3", "colpali", "biqwen2.5"] = "colqwen2.5"
    # What a served model is given beside each image, and before each question.
    visual_prompt: str = Field(default="Describe the image.", max_length=1000)
    visual_query_prefix: str = Field(default="", max_length=1000)
    # How a served model cuts an image: pixels of a patch's side (0: not known, and answers have no patch map), patches
    # of an image at most, and the number of the first patch among its vectors.
    visual_patch_pixels: int = Field(default=0, ge=0, le=256)
    visual_patches: int = Field(default=768, ge=1, le=16_384)
    visual_first_patch: int = Field(default=4, ge=0, le=1000)
    # So many vectors of a page become one in the index; all of them are kept beside it.
    visual_pool: int = Field(default=3, ge=1, le=16)
    # How Weaviate keeps multi-vectors; of a collection that is there it cannot be changed.
    visual_encoding: Literal["", "muvera"] = ""
    # Pages of a file that are drawn, the first ones.
    visual_pages: int = Field(default=200, ge=1, le=5000)
    # Candidates of the index for a question, and bytes of vectors that are read to put them in order.
    visual_candidates: int = Field(default=50, ge=1, le=1000)
    visual_rescore_bytes: int = Field(default=16 << 20, ge=0)
    # Vectors of a question at most: the index searches once for each. Of a longer question those that are alike become
    # one.
    visual_vectors: int = Field(default=128, ge=8, le=1024)
    # The share of a question's words on a page from which images of pages with text of their own are not looked at.
    visual_enough: float = Field(default=0.5, ge=0, le=1)
    # Pixels of a drawn page at most, as it is sent to `visual_url`; 0: as it was drawn.
    visual_pixels: int = Field(default=1_400_000, ge=0, le=50_000_000)
    # Seconds for an image, and for a question.
    visual_page_seconds: float = Field(default=120.0, gt=0)
    visual_query_seconds: float = Field(default=5.0, gt=0)
    # Networks that /crawl may read though they are not public, as CIDR.
    crawl_networks: list[IPvAnyNetwork] = Field(default_factory=list)
    # Crawls at once; half of them for one client.
    crawl_parallel: int = Field(default=4, ge=1, le=64)
    crawl_page_bytes: int = Field(default=4 << 20, ge=1024)
    crawl_page_seconds: float = Field(default=20.0, gt=0)
    # Links of a document that its answer names, the first ones; 0 names none.
    links_per_document: int = Field(default=20, ge=0, le=200)

    # Relationships stated by a document's text that are read, the first ones; the answer says how many are left out.
    relationships_per_document: int = Field(default=2000, ge=0, le=20_000)

    # Stored content without a reference that was not used for so long is deleted; 0 keeps it for ever.
    content_keep_days: float = Field(default=180.0, ge=0)
    sweep_interval: float = Field(default=3600.0, gt=0)
    # Versions of a document that were replaced are forgotten after so long, the oldest beyond so many; 0 keeps none.
    history_days: float = Field(default=90.0, ge=0)
    history_versions: int = Field(default=20, ge=0, le=1000)

    session_days: float = Field(default=7.0, gt=0)
    session_entries: int = Field(default=50, ge=1, le=1000)

    alpha: float = Field(default=0.4, ge=0, le=1)
    # Evidence whose best chunks contain less of a question's words is called insufficient; 0 calls none so.
    answer_threshold: float = Field(default=0.0, ge=0, le=1)
    # "resume" finds "résumé" by keyword search; false: only as written. A change has all words made again at the start.
    fold_diacritics: bool = True
    hops: int = Field(default=2, ge=0, le=3)

    # Seconds between two looks for scopes that are to be erased; another process closes them that late.
    erasure_interval: float = Field(default=5.0, gt=0)
    # Seconds between two comparisons of what was changed in graph and vectors, and between two of everything: with no
    # more than the former, everything is compared each time.
    reconcile_interval: float = Field(default=3600.0, gt=0)
    full_reconcile_interval: float = Field(default=604_800.0, gt=0)
    recovery_interval: float = Field(default=30.0, gt=0)
    recovery_patience: float = Field(default=120.0, ge=0)
    shutdown_seconds: float = Field(default=20.0, ge=0)

    @property
    def shared(self) -> bool:
        """Whether other processes write down what they do in the same place."""
        return self.records == "mongodb" or (not self.records and self.mode != "all")

    def window(self, model: str) -> int | None:
        """Tokens of the context window that is asked for with this model, by every role that has it; None: the
        backend's own. Ollama loads a model anew for a request with another window, so it is one, the largest."""
        vision = (self.vision_model, *(one.model for one in self.vision_models))
        roles = [
            (self.extract_model, self.extract_num_ctx),
            (self.fast_model, self.fast_num_ctx),
            (self.decision_model, self.decision_num_ctx),
            *((name, self.vision_num_ctx) for name in vision),
        ]
        wanted = modelnames.normalise(model)
        return max((size for name, size in roles if size and modelnames.normalise(name) == wanted), default=None)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        before = (self.embed_model_before, self.embed_passage_prefix_before)
        if before == (self.embed_model, self.embed_passage_prefix):
            raise ValueError(
                "JERVIS_KB_EMBED_MODEL_BEFORE must be another model than JERVIS_KB_EMBED_MODEL, or have another prefix "
                "in JERVIS_KB_EMBED_PASSAGE_PREFIX_BEFORE than in JERVIS_KB_EMBED_PASSAGE_PREFIX"
            )
        if 0 < self.embed_window < window.LEAST:
            raise ValueError(f"JERVIS_KB_EMBED_WINDOW must be 0, or at least {window.LEAST} tokens")
        if self.chunk_overlap >= self.chunk_chars // 2:
            raise ValueError("JERVIS_KB_CHUNK_OVERLAP must be under half of JERVIS_KB_CHUNK_CHARS")
        if self.max_buffered_bytes - self.max_buffered_bytes // 4 < self.max_body_bytes:
            raise ValueError("JERVIS_KB_MAX_BUFFERED_BYTES must be at least 4/3 of JERVIS_KB_MAX_BODY_BYTES")
        if self.workers > 1 and self.mode != "read":
            raise ValueError(
                f"JERVIS_KB_WORKERS={self.workers} needs JERVIS_KB_MODE=read: the files of mode all are for one "
                "process, and writers scale by pods"
            )
        if self.mode != "all" and self.records == "files":
            raise ValueError(
                f"JERVIS_KB_MODE={self.mode} has several processes, and JERVIS_KB_RECORDS=files is for one; "
                "leave JERVIS_KB_RECORDS empty, or use mode all"
            )
        if self.weaviate_url.port == self.weaviate_grpc_port:
            raise ValueError(
                f"JERVIS_KB_WEAVIATE_GRPC_PORT={self.weaviate_grpc_port} is the port of JERVIS_KB_WEAVIATE_URL: "
                "Weaviate serves gRPC on a port of its own, 50051 unless changed"
            )
        if self.weaviate_index == "flat" and self.weaviate_quantization in ("pq", "sq"):
            raise ValueError("JERVIS_KB_WEAVIATE_INDEX=flat takes JERVIS_KB_WEAVIATE_QUANTIZATION bq or rq, or none")
        if (self.arango_write_concern or 1) > (self.arango_replication or self.arango_write_concern or 1):
            raise ValueError("JERVIS_KB_ARANGO_WRITE_CONCERN must be at most JERVIS_KB_ARANGO_REPLICATION")
        if bool(self.visual_model) != bool(self.visual_url or self.visual_weights):
            raise ValueError("JERVIS_KB_VISUAL_MODEL goes with JERVIS_KB_VISUAL_URL or JERVIS_KB_VISUAL_WEIGHTS")
        if self.visual_url and self.visual_weights:
            raise ValueError("give one of JERVIS_KB_VISUAL_URL and JERVIS_KB_VISUAL_WEIGHTS")
        if self.mode != "all" and not self.arango_url:
            raise ValueError(
                f"JERVIS_KB_MODE={self.mode} needs JERVIS_KB_ARANGO_URL: the embedded graph is a file that only one "
                "process can serve; use mode all, or point both halves at one ArangoDB"
            )
        return self
