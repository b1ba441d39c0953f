"""A configuration from a framework's own flags or files: Megatron's, torchtitan's or DeepSpeed's.

Everything here is data: sizes are checked, and nothing that is read is run. Each framework has a reader that says the
configuration in our words; what these are checked for stands in `words`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..base.errors import InputError
from ..base.json_file import parse_json, read_text
from .flag_words import WHERE, Given, Said, flattened, is_path, meant, tell_effects, words_of_options
from .flags_deepspeed import read_deepspeed
from .flags_megatron import read_megatron
from .flags_torchtitan import read_torchtitan
from .plan import Configuration
from .problem import TrainingProblem
from .words import configuration_from_words

READERS: Mapping[str, Callable[[TrainingProblem, Given], Said]] = {
    "megatron": read_megatron,
    "torchtitan": read_torchtitan,
    "deepspeed": read_deepspeed,
}
# Beginnings and names of options by which a command line is known as torchtitan's or DeepSpeed's.
SECTIONS = ("parallelism.", "training.", "activation-checkpoint.", "job.", "model.", "metrics.", "compile.")
OF_DEEPSPEED = (
    "deepspeed",
    "deepspeed-config",
    "zero-stage",
    "train-micro-batch-size-per-gpu",
    "zero-optimization",
)
# Options that name a file with more of them.
FILES = {"job.config-file": "torchtitan", "deepspeed-config": "deepspeed"}
REMEDY = 'give a framework\'s flags, as in "--tensor-model-parallel-size 4", or the path of a file with them'
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Read:
    """What a command line says."""

    configuration: Configuration
    framework: str
    """The framework to which the flags belong."""
    understood: Mapping[str, str]
    """Options that decide something, with their words."""
    aside: tuple[str, ...]
    """Names of options that change neither memory nor time: data, logs, learning rates."""
    unknown: tuple[str, ...]
    """Names of options that were not understood."""
    meant: Mapping[str, str]
    """By names of these, the options that somebody may have meant."""
    told: tuple[str, ...] = ()
    """Whole sentences: what contradicts the problem, what was assumed, what is not modelled."""
    hidden_share: float = 1.0
    """Share that the options hide of the data-parallel communication that is usually hidden."""
    optimizer: str | None = None
    """The optimizer that the options name; None: that of the problem."""
    why_not_hidden: str | None = None
    """What keeps the rest from being hidden: a sentence without its end."""

    @property
    def notes(self) -> tuple[str, ...]:
        """All that the user should know, in sentences."""
        names = [name + (f" (perhaps {self.meant[name]})" if name in self.meant else "") for name in self.unknown]
        missed = f"Not understood: {', '.join(names)}."
        return (*self.told, missed) if self.unknown else self.told


def configuration_from_flags(problem: TrainingProblem, text: str) -> Read:
    """The configuration of a command line or of a file.

    Parameters
    ----------
    problem : TrainingProblem
        What is trained on what; what the flags say of it is compared with it.
    text : str
        Flags, the path of a file with flags, of a torchtitan TOML or a DeepSpeed JSON file, or a DeepSpeed file's text.

    Raises
    ------
    InputError
        A flag has a value that it cannot have, or the degrees do not go together: the message names the flag.
    """
    framework, options, prefix = _options(text.strip())
    return read_options(problem, framework, options, prefix)


def read_options(
    problem: TrainingProblem, framework: str, options: Mapping[str, tuple[str, ...]], prefix: str
) -> Read:
    """The configuration of a framework's options by their names with dashes; `prefix` is what messages put before."""
    given = Given(options, prefix=prefix)
    target = problem.replace(framework=framework)
    said = READERS[framework](target, given)
    tell_effects(said, given)
    told = list(said.told)
    if framework != problem.framework:
        told.insert(
            0,
            f"These are flags of {framework}, whose rules count for them; the problem is one of {problem.framework}.",
        )
    try:
        plan = configuration_from_words(target, " ".join(f"{key}={value}" for key, value in said.words.items()))
    except InputError as error:
        names = {f"configuration: {key}": given.shown(name) for key, name in said.names.items()}
        raise InputError(names.get(error.field, error.field), error.problem, error.remedy) from None
    left = given.left()
    aside = tuple(name for name in left if said.is_harmless(name))
    unknown = [name for name in left if name not in aside]
    return Read(
        plan,
        framework,
        given.asked,
        aside,
        tuple(map(given.shown, unknown)),
        meant(given, unknown),
        tuple(told),
        said.hidden_share,
        said.optimizer,
        said.why_not_hidden,
    )


def _options(text: str) -> tuple[str, dict[str, tuple[str, ...]], str]:
    """The framework and the options of a command line or file, and what messages put before their names."""
    if text.startswith("{"):
        return "deepspeed", _json(text, WHERE), ""
    return _of_file(text) if is_path(text) else (*_of_line(text, None), "--")


def _of_line(text: str, file: str | None) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The options of a command line; a file that it names adds its options, and the line's own go before them."""
    options = words_of_options(text)
    if not options:
        raise InputError(WHERE, "holds no flag", REMEDY, file)
    for name, framework in FILES.items():
        paths = options.get(name)
        if paths:
            more = {key: words for key, words in options.items() if key != name}
            return framework, _of_file(paths[0])[1] | more
    if any(name.startswith(SECTIONS) for name in options):
        return "torchtitan", options
    if any(name in OF_DEEPSPEED for name in options):
        return "deepspeed", options
    return "megatron", options


def _of_file(path: str) -> tuple[str, dict[str, tuple[str, ...]], str]:
    """The options of a JSON or TOML file, known by its ending or first character, or of a file with flags."""
    text, ending = read_text(path), os.path.splitext(path)[1].lower()
    first = _COMMENT.sub("", text).lstrip()[:1]
    if ending == ".json" or (ending != ".toml" and first == "{"):
        return "deepspeed", _json(text, path), ""
    if ending != ".toml" and first != "[":
        return *_of_line(_COMMENT.sub("", text), path), "--"
    try:
        return "torchtitan", flattened(tomllib.loads(text)), ""
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError("content", f"is no TOML ({error})", "give a torchtitan file", path) from None


def _json(text: str, file: str) -> dict[str, tuple[str, ...]]:
    data = parse_json(text, file)
    if not isinstance(data, dict):
        raise InputError("content", "is no object", "give a DeepSpeed file", file)
    return flattened(data)
