"""A model that this process runs itself, with torch: the extra `visual` (transformers and colpali-engine).

Weights come from a folder, such as one of a mounted volume; nothing is downloaded. The extra is no part of the image.
"""

from __future__ import annotations

import asyncio
import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from kb import errors
from kb.visual import embedder, model

Family = Literal["colqwen2.5", "colqwen3", "colpali", "biqwen2.5"]
_BATCH = 2
# Model and processor in `colpali_engine.models`; the last one has a vector for a page.
_CLASSES: dict[Family, tuple[str, str]] = {
    "colqwen2.5": ("ColQwen2_5", "ColQwen2_5_Processor"),
    "colqwen3": ("ColQwen3", "ColQwen3Processor"),
    "colpali": ("ColPali", "ColPaliProcessor"),
    "biqwen2.5": ("BiQwen2_5", "BiQwen2_5_Processor"),
}


class Local:
    """Implements `embedder.Port` for the weights in `folder`; they are loaded with the first call, by one thread."""

    def __init__(self, name: str, folder: Path, family: Family, *, device: str = "auto") -> None:
        self._name = name
        self._folder = folder
        self._family = family
        self._device = device
        self._loaded: tuple[Any, Any, Any] | None = None
        self._alone = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._name

    async def embed_pages(self, images: Sequence[bytes]) -> list[model.Embedded]:
        found: list[model.Embedded] = []
        for start in range(0, len(images), _BATCH):
            async with self._alone:
                found += await asyncio.to_thread(self._pages, images[start : start + _BATCH])
        return found

    async def embed_query(self, text: str) -> model.Query:
        async with self._alone:
            return await asyncio.to_thread(self._query, text)

    def _load(self) -> tuple[Any, Any, Any]:
        """(torch, model, processor). Raises `kb.errors.Unconfigured`."""
        if self._loaded is None:
            names = _CLASSES[self._family]
            try:
                torch = importlib.import_module("torch")
                models = importlib.import_module("colpali_engine.models")
                kind, processing = (getattr(models, name) for name in names)
            except (ImportError, AttributeError) as error:
                raise errors.Unconfigured(
                    f"visual model {self._name!r} needs the extra `visual` with {' and '.join(names)}: {error}",
                    field="visualWeights",
                    remedy="Install jervis[visual] in the image, or serve the model (visualUrl).",
                ) from error
            device = self._device
            if device == "auto":
                device = "cuda" if torch.cuda.is_available() else "cpu"
            kept = {"local_files_only": True}
            dtype = torch.bfloat16 if device != "cpu" else torch.float32
            try:
                made = kind.from_pretrained(str(self._folder), torch_dtype=dtype, device_map=device, **kept).eval()
                processor = processing.from_pretrained(str(self._folder), **kept)
            except (OSError, ValueError, RuntimeError) as error:
                raise errors.Unconfigured(
                    f"the weights in {self._folder} cannot be loaded: {error}"[:300],
                    field="visualWeights",
                    remedy=f"Mount a folder with the weights of a model of the family {self._family}.",
                ) from error
            self._loaded = torch, made, processor
        return self._loaded

    def _pages(self, images: Sequence[bytes]) -> list[model.Embedded]:
        torch, made, processor = self._load()
        pillow = importlib.import_module("PIL.Image")
        try:
            pictures = [pillow.open(io.BytesIO(one)).convert("RGB") for one in images]
        except (OSError, ValueError) as error:
            raise errors.Invalid(f"an image cannot be read: {error}", field="image") from error
        batch = processor.process_images(pictures).to(made.device)
        with torch.no_grad():
            output = made(**batch).float().cpu().numpy()
        if output.ndim == 2:
            return [model.Embedded(embedder.checked(self._name, one)) for one in output]
        kept = batch["attention_mask"].bool().cpu().numpy()
        seen = processor.get_image_mask(batch).bool().cpu().numpy()
        found = []
        for at, picture in enumerate(pictures):
            columns, rows = processor.get_n_patches(picture.size, **self._merged(made))
            # Where a batch is padded, patches move with what stands before them.
            patches = seen[at][kept[at]].nonzero()[0]
            whole = len(patches) == rows * columns and int(patches[-1] - patches[0]) == len(patches) - 1
            grid = model.Grid(rows, columns, int(patches[0])) if whole else None
            found.append(model.Embedded(embedder.checked(self._name, output[at][kept[at]]), grid))
        return found

    def _merged(self, made: Any) -> dict[str, Any]:
        """How many patches of the vision tower are one token, where the processor wants it said."""
        if self._family == "colpali":
            return {"patch_size": getattr(made, "patch_size", 14)}
        return {"spatial_merge_size": made.spatial_merge_size}

    def _query(self, text: str) -> model.Query:
        torch, made, processor = self._load()
        batch = processor.process_queries([text]).to(made.device)
        with torch.no_grad():
            output = made(**batch).float().cpu().numpy()
        if output.ndim == 2:
            return model.Query(embedder.checked(self._name, output[0]))
        kept = batch["attention_mask"][0].bool().cpu()
        tokens = processor.tokenizer.convert_ids_to_tokens(batch["input_ids"][0].cpu()[kept].tolist())
        return model.Query(embedder.checked(self._name, output[0][kept.numpy()]), tuple(map(str, tokens)))
