"""Everything the simulator can be told, as flags (`--num-parallel 2`) or environment (`FAKE_OLLAMA_NUM_PARALLEL=2`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tests.fakes.ollama.protocol import quantity

Bytes = Annotated[int, BeforeValidator(quantity.to_bytes)]


class Release(BaseSettings):
    """What the chart fills from its other values, or leaves to the tests."""

    model_config = SettingsConfigDict(
        env_prefix="FAKE_OLLAMA_", cli_prog_name="python -m tests.fakes.ollama", cli_kebab_case=True, extra="forbid"
    )

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(11434, ge=0, le=65535, description="port to listen on; 0 takes any free one")
    kind: Literal["gpu", "cpu"] = Field("gpu", description="cpu: /api/ps reports size_vram 0")
    vram: Bytes = Field(
        24 * quantity.GIB, description="memory for models, for example 24GiB (of the GPU, or of the machine)"
    )
    num_parallel: int = Field(1, ge=1, description="requests at once per model (OLLAMA_NUM_PARALLEL)")
    max_loaded_models: int = Field(
        3, ge=0, description="models in memory at once (OLLAMA_MAX_LOADED_MODELS); 0: no limit"
    )
    default_window_counts: bool = Field(
        False, description="a request that names none is refused beyond it, as Ollama does; the tests send long prompts"
    )
    unload_seconds: float = Field(0.0, ge=0, description="time until an unloaded model's memory is free again")
    max_queue: int = Field(512, ge=0, description="requests waiting for a model to be loaded (OLLAMA_MAX_QUEUE)")
    keep_alive: str = Field(
        "5m", description="how long an idle model stays loaded; negative: for ever (OLLAMA_KEEP_ALIVE)"
    )
    num_ctx: int = Field(4096, ge=1, description="context length when a request names none (OLLAMA_CONTEXT_LENGTH)")
    embedding_threads: int = Field(1, ge=1, description="threads of the embedding session")
    drain_seconds: float = Field(30.0, ge=0, description="how long running requests may go on after SIGTERM")
    models: str = Field("", description="comma list of model names, or a YAML/JSON file; empty: Jervis's defaults")
    script: str = Field("", description="YAML/JSON file: prompt tag -> answers or faults, used up in order")
    faults: str = Field("", description="YAML/JSON file: list of faults")
    ready_file: str = Field("", description="written when listening: JSON with url and pid")


class Settings(Release):
    """Simulator of Ollama. It is NOT a language model: answers come from rules or from a script."""

    load_seconds_per_gib: float = Field(0.0, ge=0, description="Seconds to load one GiB of a model.")
    tokens_per_second: float = Field(0.0, ge=0, description="Pace of each generation; 0: as fast as the wire.")
    prompt_tokens_per_second: float = Field(0.0, ge=0, description="Pace of reading a prompt; 0: at once.")
