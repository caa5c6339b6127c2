"""What a model measured of its own work on an answer, stage by stage: a stage is one network, or one program, of it."""

from __future__ import annotations

import msgspec


class StageMetrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one stage did for an answer since the last time it told of it; zero and empty where it does not know.

    The names are those that clients of the API read, whatever the engine is. Times are milliseconds of any clock.

    * ``num_tokens_in``, ``num_tokens_out``: tokens read and made.
    * ``stage_gen_time_ms``: how long it was at work.
    * ``audio_generated_frames``, ``audio_duration_s``: samples of sound that it made, and how long they sound.
    * ``output_unit_count``: pieces that it handed on. ``output_unit_type`` says of what, ``final_output_type`` what
      comes of it in the end: ``text`` and ``audio`` are what clients know.
    * ``vllm_ttft_ms``: until its first token; ``serving_time_to_first_output_ms``: until the first piece left it, both
      since it was asked. Only the first one of an answer counts.
    * ``vllm_tpot_ms``: mean time for a token after the first.
    * ``vllm_itls_ms``: between one token and the next; ``inter_output_latencies_ms``: between one piece and the next.
    * ``other``: numbers, flags and words under names that are none of these; the newest one holds.
    """

    num_tokens_in: int = 0
    num_tokens_out: int = 0
    stage_gen_time_ms: float = 0
    audio_generated_frames: int = 0
    audio_duration_s: float = 0
    output_unit_count: int = 0
    output_unit_type: str = ""
    final_output_type: str = ""
    vllm_ttft_ms: float = 0
    serving_time_to_first_output_ms: float = 0
    vllm_tpot_ms: float = 0
    vllm_itls_ms: tuple[float, ...] = ()
    inter_output_latencies_ms: tuple[float, ...] = ()
    other: dict[str, object] = {}
