"""One context window a model: another one loads it anew in Ollama."""

from __future__ import annotations

from kb import settings


def test_roles_that_share_a_model_ask_for_one_window() -> None:
    made = settings.Settings(
        extract_model="qwen3",
        extract_num_ctx=8192,
        fast_model="qwen3:latest",
        fast_num_ctx=2048,
        decision_model="library/qwen3",
        decision_num_ctx=16_384,
        vision_model="qwen3-vl:8b",
        vision_num_ctx=4096,
        vision_models=[settings.VisionModel(model="QWEN3:latest", images=4)],
    )
    assert {made.window(name) for name in (made.extract_model, made.fast_model, made.decision_model)} == {16_384}
    assert made.window("qwen3-vl:8b") == 4096
    assert made.window("another") is None


def test_a_role_without_a_window_of_its_own_has_that_of_its_model() -> None:
    made = settings.Settings(extract_model="qwen3", decision_model="qwen3", decision_num_ctx=16_384)
    assert made.window(made.extract_model) == 16_384
