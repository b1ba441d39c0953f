"""A model of transformers and one micro-batch of its inputs, from a configuration alone."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
import transformers

from ..instances.base.errors import InputError, show

# The remedy for models of which a configuration does not say enough.
_BY_HAND = "write a function that returns (model, args, kwargs), and give it to plan import torch"
# Parts of the names of classes whose labels are a number for each token.
_TOKEN_LABELS = """
    CausalLM MaskedLM LMHead ConditionalGeneration Seq2Seq TokenClassification PreTraining
""".split()  # noqa: SIM905
# Parts of the names of classes whose labels are a number for each sample.
_CLASS_LABELS = ("SequenceClassification", "ImageClassification", "AudioClassification")


class HfModel:
    """A model by its configuration and the sizes of a micro-batch; `build` is the function that `capture` calls."""

    def __init__(
        self, content: Mapping[str, Any], *, batch: int, sequence: int | None, dtype: str, training: bool
    ) -> None:
        self.batch, self.sequence, self.dtype, self.training = batch, sequence, dtype, training
        transformers.logging.set_verbosity_error()
        self.config = _config(content)
        self.cls = _class(self.config)
        self.takes = set(inspect.signature(self.cls.forward).parameters)

    @property
    def source(self) -> dict[str, Any]:
        """What the profile says of where it comes from."""
        facts = {
            "transformers": transformers.__version__,
            "architecture": self.cls.__name__,
            "batch": self.batch,
            "sequence": self.sequence,
            "dtype": self.dtype,
        }
        return {key: value for key, value in facts.items() if value is not None}

    def build(self) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        """The model and the arguments of one micro-batch."""
        try:
            model = self.cls._from_config(self.config, dtype=self._number)
        except Exception as error:
            raise _refused(error) from error
        return model, (), self.inputs()

    # ---- one micro-batch -------------------------------------------------------------------------------

    def inputs(self) -> dict[str, Any]:
        """Zeros of the right sizes: no value is looked at."""
        main = getattr(self.cls, "main_input_name", "input_ids")
        makers = {"input_ids": self._tokens, "pixel_values": self._pixels, "input_features": self._features}
        if main not in makers:
            raise InputError("architectures", f"name {self.cls.__name__}, which reads {main}", _BY_HAND)
        inputs = {main: makers[main]()}
        for other in ("input_ids", "pixel_values"):  # a model of text and pictures reads both
            tower = {"input_ids": "text_config", "pixel_values": "vision_config"}[other]
            if other in self.takes and other not in inputs and getattr(self.config, tower, None) is not None:
                inputs[other] = makers[other]()
        if "use_cache" in self.takes:
            inputs["use_cache"] = False
        if self.training:
            return inputs | self._targets()
        # What the decoder reads in inference; in training it reads shifted labels.
        return inputs | ({"decoder_input_ids": self._tokens()} if "decoder_input_ids" in self.takes else {})

    def _tokens(self) -> torch.Tensor:
        most = _first(self.config, ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx"))
        if self.sequence is None:
            raise InputError("--sequence", "is missing: the model reads text", "give the tokens of a sample")
        if isinstance(most, int) and 0 < most < self.sequence:
            raise InputError(
                "--sequence", f"is {self.sequence}, more than the model's {most} positions", f"give at most {most}"
            )
        return torch.zeros(self.batch, self.sequence, dtype=torch.long)

    def _pixels(self) -> torch.Tensor:
        size = _first(self.config, ("image_size",), 224)
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        return torch.zeros(self.batch, _first(self.config, ("num_channels",), 3), height, width, dtype=self._number)

    def _features(self) -> torch.Tensor:
        """Features of sound: frames of a spectrum, whose number the first layers halve."""
        bins, positions = _first(self.config, ("num_mel_bins",)), _first(self.config, ("max_source_positions",))
        if bins is None or positions is None:
            raise InputError("architectures", f"name {self.cls.__name__}, which reads input_features", _BY_HAND)
        return torch.zeros(self.batch, bins, 2 * positions, dtype=self._number)

    @property
    def _number(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    def _targets(self) -> dict[str, Any]:
        """The arguments that make the model return its loss."""
        name = self.cls.__name__
        if "return_loss" in self.takes:
            return {"return_loss": True}
        if "labels" in self.takes and any(part in name for part in _TOKEN_LABELS):
            return {"labels": self._tokens()}
        if "labels" in self.takes and any(part in name for part in _CLASS_LABELS):
            return {"labels": torch.zeros(self.batch, dtype=torch.long)}
        if {"start_positions", "end_positions"} <= self.takes:
            return {key: torch.zeros(self.batch, dtype=torch.long) for key in ("start_positions", "end_positions")}
        raise InputError(
            "architectures",
            f"name {name}, whose loss is unknown",
            f"name a class with a head, such as one for causal language models, give --inference, or {_BY_HAND}",
        )


def _config(content: Mapping[str, Any]) -> Any:
    fields = dict(content)
    model_type = fields.pop("model_type", None)
    if not isinstance(model_type, str):
        raise InputError("model_type", "is missing", "give a model's config.json, which names its type")
    for field in ("auto_map", "transformers_version"):
        fields.pop(field, None)
    try:
        config = transformers.AutoConfig.for_model(model_type, **fields)
    except ValueError as error:
        if "Unrecognized model identifier" not in str(error):
            raise _refused(error) from error
        lacks = f"is {show(model_type)}, which transformers {transformers.__version__} does not have"
        raise InputError("model_type", lacks, _BY_HAND) from error
    except Exception as error:
        raise _refused(error) from error
    config.use_cache = False
    if getattr(config, "is_encoder_decoder", False):
        # Labels are shifted behind a first token, whichever it is.
        for field in ("decoder_start_token_id", "pad_token_id"):
            setattr(config, field, getattr(config, field, None) or 0)
    return config


def _refused(error: Exception) -> InputError:
    text = " ".join(str(error).split())[:200].rstrip(".")
    return InputError("the configuration", f"is refused by transformers ({text})", "correct it")


def _class(config: Any) -> Any:
    names = getattr(config, "architectures", None)
    if not names:
        raise InputError("architectures", "is missing", 'name the model\'s class, such as ["LlamaForCausalLM"]')
    model_class = getattr(transformers, str(names[0]), None)
    if not inspect.isclass(model_class) or not issubclass(model_class, transformers.PreTrainedModel):
        raise InputError(
            "architectures", f"name {show(names[0])}, which transformers {transformers.__version__} lacks", _BY_HAND
        )
    return model_class


def _first(config: Any, fields: tuple[str, ...], usual: Any = None) -> Any:
    """The first of these fields that the configuration, or that of one of its towers, has; else what is usual."""
    parts = (config, getattr(config, "text_config", None), getattr(config, "vision_config", None))
    values = (getattr(part, field, None) for part in parts for field in fields)
    return next((value for value in values if value is not None), usual)
