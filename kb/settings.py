"""The settings of a knowledge base process, read once by `kb.__main__` from `JERVIS_KB_*`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    SecretStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from codegraph.extract import budget
from contracts import browsers
from crds import modelnames, tools
from crds.values import STORED_BYTES
from kb.vectors import window

HostPattern = Annotated[str, Field(pattern=browsers.NAME)]
Origin = Annotated[str, Field(pattern=browsers.ORIGIN)]
Network = Annotated[
    IPvAnyNetwork, WithJsonSchema({"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]{1,3}$"}, mode="validation")
]


class VisionModel(BaseModel):
    """Who looks at `images` or more that have together `bytes` or more."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    model: str = Field(min_length=1)
    """Name of the model."""
    images: int = Field(default=1, ge=1)
    """At least so many images."""
    bytes: int = Field(default=0, ge=0)
    """At least so many bytes together."""


class Release(BaseSettings):
    """What the release itself sets: the chart fills these from its other values."""

    model_config = SettingsConfigDict(
        env_prefix="JERVIS_KB_", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    host: str = "0.0.0.0"  # noqa: S104 -- see above
    """A pod is reached on its own address; where that is too wide, set 127.0.0.1."""
    port: int = Field(default=8080, ge=0, le=65535)
    mode: Literal["all", "read", "write"] = "all"
    workers: int = Field(default=1, ge=1, le=64)
    """Processes that answer on the port, in mode "read"; each takes about the memory of one."""
    data_dir: Path = Path("/var/lib/jervis/kb")
    """Folder of the files of the process."""

    router_url: AnyHttpUrl = AnyHttpUrl("http://jervis-router:11430")
    router_token_file: str = ""
    """Where a token for the router stands; read each time, because the kubelet renews it. Empty: the router wants
    none."""
    weaviate_url: AnyHttpUrl = AnyHttpUrl("http://weaviate:8080")
    weaviate_grpc_port: int = Field(default=50051, ge=1, le=65535)
    weaviate_api_key: SecretStr = SecretStr("")
    """Empty: Weaviate takes anonymous access."""
    mongodb_uri: SecretStr = SecretStr("mongodb://mongodb:27017")
    mongodb_database: str = "jervis"

    records: Literal["files", "mongodb", ""] = ""
    """Where intents, the extraction queue, kept answers and the turns of documents are: in files of the one process, or
    in MongoDB, which several processes share. Not set: files in mode "all", mongodb otherwise."""
    name: str = Field(default="", max_length=200)
    """How this process is called where others wait for it; empty is the host's name."""
    arango_url: str = ""
    """Empty: the graph is a SQLite file in data_dir."""
    arango_database: str = "jervis"
    arango_username: str = "root"
    arango_password: SecretStr = SecretStr("")

    extract_model: str = "qwen2.5:7b"
    """Model that reads documents."""
    extract_num_ctx: int | None = Field(default=None, ge=512)
    fast_model: str = ""
    """For small answers: the type of a document, whether a link may be opened. Empty: the model above, in its
    window."""
    fast_num_ctx: int | None = Field(default=None, ge=512)
    embed_model: str = "qwen3-embedding:8b"
    embed_query_instruction: str = Field(default="", max_length=1000)
    """Goes before each question that is embedded, and before no document: what a model that is tuned to instructions
    expects, as the page of the model says. The chart sets it for the model that it ships."""
    embed_passage_prefix: str = Field(default="", max_length=200)
    """Goes before each stored text that is embedded, and before no question ("passage: " for e5). Another prefix makes
    other vectors, so it has an index of its own, as another model has."""
    embed_window: int = Field(default=0, ge=0, le=1_000_000)
    """Tokens that the model reads of a text; a longer one is embedded in pieces (decision 0172). 0: what its server
    says of it, or 512."""
    embed_model_before: str = ""
    """The embedding model before this one, whose index serves until that of the new one is whole (decision 0071).
    Empty: there is none, and a change of embed_model begins with an empty index."""
    embed_query_instruction_before: str = Field(default="", max_length=1000)
    embed_passage_prefix_before: str = Field(default="", max_length=200)

    tokens_file: str = ""
    """Empty: all that reach the service may use it. Otherwise a YAML or JSON file of tokens with their scopes."""
    run_token_keys: str = ""
    """Empty: run tokens are unknown. Otherwise the folder of their keys (contracts.tokens.keyring), read again when it
    changes."""
    live_runs_url: str = ""
    """Where the operator says which runs there are. Empty: a token is good until it expires, also after its run."""

    rerank_model: str = ""
    """A cross-encoder that judges the best candidates of a question once more (/v1/rerank of a backend); empty:
    none."""

    decision_model: str = "gpt-oss:120b"
    """The model that chooses the decision agent's tools and writes its answers."""
    decision_num_ctx: int | None = Field(default=None, ge=512)
    """Its window; not set: the backend's."""
    agent_servers: tools.Servers = ()
    """Servers of the Model Context Protocol whose reading tools the agent has (docs/tools.md): the chart's
    job.tools.mcpServers."""

    tika_url: str = ""
    """Empty: files that need Tika are refused."""
    code_queries: bool = False
    """Take ad-hoc queries of Joern, which are programs, for the operator to run."""
    vision_model: str = "qwen3-vl:8b"
    """Model that looks at images."""
    vision_num_ctx: int | None = Field(default=None, ge=512)
    """Of this model and of `vision_models`; not set: the backend's."""

    # No values of the chart: tests set them in order to be fast.
    erasure_interval: float = Field(default=5.0, gt=0)
    """Seconds between looks for scopes that are to be erased."""
    recovery_interval: float = Field(default=30.0, gt=0)
    """Seconds between looks for unfinished ingests."""
    recovery_patience: float = Field(default=120.0, ge=0)
    """Seconds until an unfinished ingest is taken up."""


class Settings(Release):
    """What the chart offers as `kb.settings`, by the same names in camel case and with these texts."""

    tracing: bool = False
    """OpenTelemetry spans of requests and their stages. Say where to with kb.extraEnv, for example
    OTEL_EXPORTER_OTLP_ENDPOINT."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least important line that is logged."""
    weaviate_index: Literal["hnsw", "flat", "dynamic"] = "hnsw"
    """Vector index of chunks; dynamic needs ASYNC_INDEXING of Weaviate. Cannot be changed later."""
    weaviate_sentence_index: Literal["hnsw", "flat"] = "hnsw"
    """Vector index of sentences: in memory, or on the disk. Cannot be changed later."""
    weaviate_quantization: Literal["", "bq", "pq", "sq", "rq"] = ""
    """Compression of the vectors of chunks in memory; can be switched on later, with hnsw."""
    weaviate_ef: int | None = Field(default=None, ge=1, le=10_000)
    """Candidates that a search of the index keeps; can be changed later. Not set: Weaviate's own."""
    weaviate_ef_construction: int | None = Field(default=None, ge=4, le=10_000)
    """The same while the index is built. Cannot be changed later. Not set: Weaviate's own."""
    weaviate_max_connections: int | None = Field(default=None, ge=4, le=2047)
    """Edges of an object in the index. Cannot be changed later. Not set: Weaviate's own."""
    weaviate_dynamic_threshold: int | None = Field(default=None, ge=1)
    """Chunks of a client from which a dynamic index is no longer flat."""
    weaviate_replicas: int | None = Field(default=None, ge=1, le=100)
    """Copies of each client's data in a cluster of Weaviate. Cannot be changed later."""
    index: str = ""
    """Any text; keeps installations apart that share one Weaviate."""
    turn_seconds: float = Field(default=120.0, ge=100, le=3600)
    """Shared records: seconds after which the documents of a process that reports no more are free. It stops itself
    after three eighths of that; the rest is more than the 60 that a call to a store may last."""

    read_seconds: float = Field(default=10.0, gt=0)
    """Seconds that one question to the graph may take, waiting for others included; then it is answered with 503
    too_long."""
    arango_shards: int | None = Field(default=None, ge=1, le=1000)
    """Shards of the collections of clients that are new. Not set: ArangoDB's own."""
    arango_replication: int | None = Field(default=None, ge=1, le=10)
    """Copies of each shard; of collections that are there it is changed when their client is written."""
    arango_write_concern: int | None = Field(default=None, ge=1, le=10)
    """Copies that a write waits for, at most arangoReplication; it is changed as that is."""
    qualify_tools: bool = False
    """The judging model answers about issues by calls of tools instead of one structured answer. It has to be a model
    that calls tools; an issue costs as many calls and 1.6 times the tokens, and fields of it that only a model can read
    are left out."""
    reindex_drop: bool = True
    """The index of models.embeddingBefore goes when the new one serves everywhere; otherwise both are kept up to date
    until `jervis-kb reindex drop`."""

    chunk_chars: int = Field(default=4000, ge=200, le=40_000)
    """Characters of a chunk."""
    chunk_overlap: int = Field(default=200, ge=0)
    """Characters that neighbours share."""
    max_chars: int = Field(default=4_000_000, ge=1)
    """Characters of the largest document."""
    max_body_bytes: int = Field(default=16 << 20, ge=1024)
    """Bytes of the largest request body."""
    max_buffered_bytes: int = Field(default=192 << 20, ge=1024)
    """Bytes that JSON bodies that arrive or wait may hold in memory, all together, at least 4/3 of maxBodyBytes; a
    quarter is for priorities 0 to 2."""
    max_content_bytes: int = Field(default=STORED_BYTES, ge=1024)
    """Bytes of the largest content kept by reference."""

    lane_width: int = Field(default=5, ge=1)
    """Writers at the same time per lane; calls that wait for models have two lanes of their own."""

    queue_limit: int = Field(default=200_000, ge=1)
    """Documents that may wait for extraction."""
    queue_client_limit: int = Field(default=50_000, ge=1)
    """Documents of one client that may wait for extraction."""
    queue_bytes: int = Field(default=4 << 30, ge=1 << 20)
    """Bytes of the requests that wait for extraction, of all clients; more get 429."""
    queue_client_bytes: int = Field(default=1 << 30, ge=1 << 20)
    """Bytes of the requests of one client that wait for extraction; more get 429."""
    queue_workers: int = Field(default=2, ge=1, le=64)
    """Documents that are extracted at the same time, of any priority."""
    audit: Literal["all", "writes", "off"] = "all"
    """The audit record on stderr: of every request to the API, of those alone that change something, or none."""
    client_rate: float = Field(default=0.0, ge=0)
    """Requests of one client a second on average; 0 is no limit."""
    client_burst: int = Field(default=100, ge=1)
    """Requests of one client at once, where there is a rate."""
    rerank_seconds: float = Field(default=2.0, gt=0)
    """Seconds that a question waits for the reranker at most; then it is answered without."""
    rerank_chars: int = Field(default=2000, ge=100)
    """Characters of each candidate that the reranker reads: a longer text than its window is an error of some
    servers."""
    agent_interpreted: int = Field(default=2, ge=1, le=20)
    """Pages of a search that the vision model looks at for the decision agent."""
    agent_hits: int = Field(default=5, ge=1, le=50)
    """Passages that one search of the decision agent finds."""
    agent_iterations: int = Field(default=10, ge=1, le=50)
    """Rounds of one question to the decision agent."""
    agent_tokens: int = Field(default=200_000, ge=1_000)
    """Tokens that the model reads and writes for one question, after which the decision agent answers."""
    agent_seconds: float = Field(default=600.0, gt=0)
    """Seconds of one question to the decision agent."""
    agent_enough: float = Field(default=0.0, ge=0, le=1)
    """Share of a question's words in what was found with which the decision agent answers at once; 0: its model
    decides."""
    agent_parallel: int = Field(default=200, ge=1, le=10_000)
    """Questions that decision agents of one process work on at once; one client has half of them."""
    agent_days: float = Field(default=7.0, gt=0)
    """Days that a conversation with the decision agent is kept after its last turn."""

    origins: list[Origin] = Field(default_factory=list)
    """Web pages of other origins that may call, as in https://agent.example.com, and read answers (CORS); programs
    always may."""
    allowed_hosts: list[HostPattern] = Field(default_factory=list, json_schema_extra={"uniqueItems": True})
    """Further names that clients may call the knowledge base by, such as that of a Gateway; kb.ingress.host needs no
    entry. *.example.com for all below one, * for any. Needed where kb.tokens has none."""
    max_file_bytes: int = Field(default=32 << 20, ge=1024)
    """Bytes of the largest file or image that is taken."""
    pdf_pages: int = Field(default=10, ge=0, le=200)
    """Pages with little text of one PDF that are drawn and shown to models.vision; 0 shows none."""
    pdf_page_chars: int = Field(default=100, ge=1, le=10_000)
    """Characters from which a page of a PDF is read by its text alone."""
    inside_images: int = Field(default=10, ge=0, le=50)
    """Images that stand in one mail or page itself and are shown to models.vision; 0 shows none."""
    code_files: int = Field(default=budget.DEFAULT.files, ge=0, le=20_000)
    """Source files of a branch that are read, the first ones by path; 0 reads no code."""
    code_file_bytes: int = Field(default=budget.DEFAULT.file_bytes, ge=1, le=1_000_000)
    """Bytes of the largest source file that is read."""
    code_total_bytes: int = Field(default=budget.DEFAULT.total_bytes, ge=1)
    """Bytes of all source files of a branch together that are read."""
    code_seconds: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that parsing the contents of one request may take."""
    code_memory_bytes: int = Field(default=2 << 30, ge=256 << 20)
    """Address space of the process that resolves branches of code and answers about them; a branch that needs more is
    refused."""
    vision_models: list[VisionModel] = Field(default_factory=list, max_length=20)
    """Models for many or large images: the first entry whose `images` and `bytes` are reached takes the place of
    `models.vision`."""
    visual_model: str = ""
    """Model that makes multi-vectors of pages and questions; empty is none, and pages are found by their words
    (docs/visual.md)."""
    visual_url: str = Field(default="", pattern=r"^(https?://.+)?$")
    """Server that runs visualModel by the pooling API of vLLM. With networkPolicy.enabled, open the way to it in
    networkPolicy.kbEgress."""
    visual_token_file: str = ""
    """File with the bearer token of that server, which kb.extraVolumes bring."""
    visual_weights: str = ""
    """Folder with weights that kb.extraVolumes bring, in the place of visualUrl; the image needs the extra `visual`."""
    visual_family: Literal["colqwen2.5", "colqwen3", "colpali", "biqwen2.5"] = "colqwen2.5"
    """What the weights are."""
    visual_prompt: str = Field(default="Describe the image.", max_length=1000)
    """Text beside each image for a served model."""
    visual_query_prefix: str = Field(default="", max_length=1000)
    """Text before each question for a served model."""
    visual_patch_pixels: int = Field(default=0, ge=0, le=256)
    """Pixels of the side of a patch of a served model: 28 of ColQwen2.5, 32 of ColQwen3. 0: answers have no patch
    map."""
    visual_patches: int = Field(default=768, ge=1, le=16_384)
    """Patches that a served model makes of an image at most."""
    visual_first_patch: int = Field(default=4, ge=0, le=1000)
    """Vectors of an image before that of its first patch."""
    visual_encoding: Literal["", "muvera"] = ""
    """How Weaviate keeps multi-vectors: each in its index, or a page as one vector (muvera). It cannot be changed
    later."""
    visual_pages: int = Field(default=200, ge=1, le=5000)
    """Pages of a file that are stored as images, the first ones."""
    visual_pixels: int = Field(default=1_400_000, ge=0, le=50_000_000)
    """Pixels of a drawn page at most, as it is sent to visualUrl; 0: as it was drawn."""
    crawl_networks: list[Network] = Field(default_factory=list)
    """Networks that a crawl may read though they are not public, as CIDR."""
    crawl_parallel: int = Field(default=4, ge=1, le=64)
    """Crawls at once; half of them for one client."""
    links_per_document: int = Field(default=20, ge=0, le=200)
    """Links of a mail, an issue, a page or a commit that become tasks of their own, the first ones; 0 makes no such
    tasks."""

    content_keep_days: float = Field(default=180.0, ge=0)
    """Days that stored content which nothing refers to is kept after its last use; longer than any schedule. 0 is for
    ever."""
    history_days: float = Field(default=90.0, ge=0)
    """Days that a version of a document is kept for asOf after it was replaced; 0 keeps none."""
    history_versions: int = Field(default=20, ge=0, le=1000)
    """Versions that are kept of one document at most; 0 keeps none."""

    session_days: float = Field(default=7.0, gt=0)
    """Days that an entry of the session memory is kept."""

    alpha: float = Field(default=0.4, ge=0, le=1)
    """Weight of vectors against words in the search, 0 to 1."""
    answer_threshold: float = Field(default=0.0, ge=0, le=1)
    """Evidence whose best chunks contain less of a question's words is called insufficient; 0 calls none so."""
    fold_diacritics: bool = True
    """Keyword search finds words whatever their diacritics ("resume" finds "résumé"). A change has the words of all
    chunks made again at the start."""
    hops: int = Field(default=2, ge=0, le=3)
    """Hops of the expansion of a search along the graph."""

    reconcile_interval: float = Field(default=3600.0, gt=0)
    """Seconds between comparisons, with repair, of what was changed in graph and vectors."""
    full_reconcile_interval: float = Field(default=604_800.0, gt=0)
    """Seconds between comparisons of everything in graph and vectors. With no more than reconcileInterval, everything
    is compared each time."""
    shutdown_seconds: float = Field(default=20.0, ge=0)
    """Seconds that running requests may go on after SIGTERM."""

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
