"""What the token of an identity may do beside its ceiling: which models, and how many tokens a day."""

from __future__ import annotations

from typing import NamedTuple

from crds.modelnames import Names


class Rights(NamedTuple):
    """`models` are those that it may use, None for all; `tokens_per_day` bounds prompts and answers together, None for
    no bound."""

    models: Names | None = None
    tokens_per_day: int | None = None

    def may_use(self, model: str) -> bool:
        """The normalised name of a model, aliases resolved."""
        return self.models is None or self.models.fit(model)
