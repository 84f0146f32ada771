"""Models from stable-baselines3 and PyTorch in Rota's queue, and Rota's environments in stable-baselines3.

model = MaskablePPO("MlpPolicy", gymnasium.make("rota/Scheduling-v0", env="classroom")).learn(100_000)
rota.learn.export(model, "mine.safetensors")            # rota sim --policy learned:model=mine.safetensors …
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Optional, Union

__all__ = ["Model", "export", "stable_baselines3_env"]

VERSION = 1
FEATURE_MAX = 32.0
WAIT_SHARES = ("free", "log_queue")
LAYERS_MAX = 16


class BadModel(ValueError):
    """A model that cannot be written as a dense network of Rota's."""


def export(
    model: Any,
    file: Union[str, Path],
    env: Any = None,
    *,
    objective: str = "reward",
    seed: int = 0,
    steps: Optional[int] = None,
) -> None:
    """Writes a dense policy as the model file that `learned:model=FILE` reads.

    `model` is a model of stable-baselines3 or sb3-contrib (PPO, A2C, MaskablePPO, DQN with `MlpPolicy`), or a PyTorch
    `Sequential` of `Linear` layers with `Tanh` or `ReLU` between them. It takes a whole observation of `env` and gives a number
    for each of its rows; or it takes one row and gives one number. `env` is the environment it was trained in, which a model
    of stable-baselines3 knows by itself.

    The queue never holds a GPU idle for a model, so the row of waiting is left out: the first job takes over its numbers.
    """
    layers, activation = _dense(model)
    features, has_wait, name = _about(env if env is not None else _env_of(model))
    inputs, outputs = len(layers[0][0][0]), len(layers[-1][0])
    if inputs != outputs * len(features):
        raise BadModel(
            f"the network takes {inputs} numbers and gives {outputs}; in `{name}` a row has {len(features)} features, "
            f"so {outputs} rows are {outputs * len(features)} numbers"
        )
    if has_wait and outputs > 1:
        layers = _without_wait(layers, features)
    header = {
        "version": VERSION,
        "environment": name,
        "objective": objective,
        "algorithm": type(model).__name__.lower(),
        "seed": seed,
        "steps": int(getattr(model, "num_timesteps", 0) if steps is None else steps),
        "used": {"preempt": False, "pass": True, "estimates": True},
        "features": list(features),
        "low": [-FEATURE_MAX] * len(features),
        "high": [FEATURE_MAX] * len(features),
        "activation": activation,
    }
    Path(file).write_bytes(_safetensors(layers, header))


Rows = list[list[float]]
Layer = tuple[Rows, list[float]]


def _dense(model: Any) -> tuple[list[Layer], str]:
    """The layers of a policy, weights by output, and the bend between them."""
    modules = list(_modules(model))
    layers: list[Layer] = []
    bends = set()
    for position, module in enumerate(modules):
        kind = type(module).__name__
        if kind == "Linear":
            weights, bias = module.weight.detach().cpu(), module.bias
            biases = [0.0] * weights.shape[0] if bias is None else bias.detach().cpu().double().tolist()
            layers.append((weights.double().tolist(), biases))
        elif kind in ("Tanh", "ReLU"):
            if position == len(modules) - 1:
                raise BadModel(f"the last layer of the network is {kind}; it must be Linear")
            bends.add(kind.lower())
        elif kind not in ("Flatten", "FlattenExtractor", "Identity", "Dropout"):
            raise BadModel(f"the network has a layer {kind}; a dense network has Linear layers with Tanh or ReLU between them")
    if not 1 <= len(layers) <= LAYERS_MAX:
        raise BadModel(f"the network has {len(layers)} Linear layers; 1 to {LAYERS_MAX} can be written")
    if len(bends) > 1:
        raise BadModel("the network has both Tanh and ReLU; one of them can be written")
    if len(layers) > 1 and len([module for module in modules if type(module).__name__ in ("Tanh", "ReLU")]) != len(layers) - 1:
        raise BadModel("the network needs one Tanh or ReLU between each two Linear layers")
    for number, (weights, biases) in enumerate(layers):
        if not all(map(math.isfinite, (*biases, *(weight for row in weights for weight in row)))):
            raise BadModel(f"layer {number} holds a value that is no finite number")
    return layers, bends.pop() if bends else "relu"


def _modules(model: Any) -> Iterable[Any]:
    """The modules that a policy applies in order."""
    policy = getattr(model, "policy", model)
    if hasattr(policy, "action_net") and hasattr(policy, "mlp_extractor"):
        extractor = getattr(policy, "features_extractor", None)
        if type(extractor).__name__ != "FlattenExtractor":
            raise BadModel(f"the policy sees observations through {type(extractor).__name__}; a dense policy flattens them")
        return [*_leaves(policy.mlp_extractor.policy_net), *_leaves(policy.action_net)]
    if hasattr(policy, "q_net"):
        return list(_leaves(policy.q_net.q_net))
    if hasattr(policy, "named_modules"):
        return list(_leaves(policy))
    raise BadModel(f"{type(model).__name__} is no model of stable-baselines3 and no PyTorch module")


def _leaves(module: Any) -> Iterable[Any]:
    children = list(module.children())
    if not children:
        yield module
        return
    if type(module).__name__ != "Sequential":
        raise BadModel(f"{type(module).__name__}: only a Sequential says in which order its layers are applied")
    for child in children:
        yield from _leaves(child)


def _env_of(model: Any) -> Any:
    env = model.get_env() if hasattr(model, "get_env") else None
    if env is None:
        raise BadModel("name the environment that the model was trained in: export(model, file, env)")
    return env


def _about(env: Any) -> tuple[tuple[str, ...], bool, str]:
    """The features of an environment's rows, whether its first row is waiting, and its name."""
    while not hasattr(env, "rota_name"):
        if hasattr(env, "envs"):
            env = env.envs[0]
        elif hasattr(env, "venv"):
            env = env.venv
        elif hasattr(env, "env"):
            env = env.env
        else:
            raise BadModel(f"{type(env).__name__} is none of Rota's environments")
    return tuple(env.features), bool(env.has_wait), str(env.rota_name)


def _without_wait(layers: list[Layer], features: Sequence[str]) -> list[Layer]:
    """The same network without the row of waiting. What that row says of the cluster, the row of the first job says too."""
    count = len(features)
    weights, biases = layers[0]
    first: Rows = []
    for row in weights:
        kept = row[count:]
        for place, feature in enumerate(features):
            if feature in WAIT_SHARES:
                kept[place] += row[place]
        first.append(kept)
    layers = [(first, biases), *layers[1:]]
    weights, biases = layers[-1]
    return [*layers[:-1], (weights[1:], biases[1:])]


def _safetensors(layers: list[Layer], header: dict[str, Any]) -> bytes:
    tensors: dict[str, Any] = {"__metadata__": {"rota": json.dumps(header)}}
    data = b""
    for number, (weights, biases) in enumerate(layers):
        flat = [weight for row in weights for weight in row]
        for name, shape, values in (
            ("weight", [len(weights), len(weights[0])], flat),
            ("bias", [len(biases)], biases),
        ):
            packed = struct.pack(f"<{len(values)}f", *values)
            tensors[f"score.{number}.{name}"] = {
                "dtype": "F32",
                "shape": shape,
                "data_offsets": [len(data), len(data) + len(packed)],
            }
            data += packed
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


class Model:
    """A model file, scored by Rota itself: `predict(observation, action_masks=…)` as models of stable-baselines3 have it."""

    def __init__(self, file: Union[str, Path], env: Any) -> None:
        from ._native import Scorer

        while not hasattr(env, "rota_vector"):
            env = env.env
        self._scorer = Scorer(str(file), env.rota_vector)
        self._first = 1 if env.has_wait else 0

    def predict(self, observation: Any, action_masks: Any = None, deterministic: bool = True) -> tuple[Any, None]:
        """The legal row with the highest score; waiting only where no job is legal."""
        import numpy

        rows = numpy.ascontiguousarray(observation, dtype=numpy.float32)
        scores = self._scorer.scores(rows[self._first :])
        if action_masks is not None:
            scores = numpy.where(action_masks[self._first :], scores, -numpy.inf)
        if numpy.isneginf(scores).all():
            return numpy.int64(0), None
        return numpy.int64(int(scores.argmax()) + self._first), None


def stable_baselines3_env(env: str = "classroom", num_envs: int = 16, seed: int = 0, **settings: Any) -> Any:
    """`rota.VecEnv` as a vector environment of stable-baselines3: many environments at the cost of one call a step."""
    from ._stable_baselines3 import StableVecEnv

    return StableVecEnv(env, num_envs, seed, settings)
