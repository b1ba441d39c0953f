"""A packaged language model at another sequence or micro-batch: made anew from its published shapes."""

from __future__ import annotations

from typing import Any

from .base.errors import UsageError, show
from .networks.profile.options import ProfileOptions, option_of
from .networks.profile.packaged import load_packaged_profile, packaged_profile_names
from .networks.profile.profile import Profile

# Options of a profile that ask for another setting.
SETTING = ("sequence", "micro_batch")


def at_setting(profile: Profile, options: ProfileOptions) -> tuple[Profile, tuple[str, ...]]:
    """The profile at the setting that is asked for, and a sentence on how it was made where it had another one."""
    current: dict[str, Any] = {"sequence": profile.source.get("sequence"), "micro_batch": profile.micro_batch}
    asked: dict[str, int] = {name: getattr(options, name) for name in SETTING if getattr(options, name) is not None}
    if all(current[name] == value for name, value in asked.items()):
        return profile, ()
    return _made_anew(profile, options, {**current, **asked}), (_about(profile, asked),)


def _made_anew(profile: Profile, options: ProfileOptions, setting: dict[str, Any]) -> Profile:
    from .physics.hardware import DEVICES
    from .training.known_models import MODELS
    from .training.to_profile import profile_of_model

    name = profile.name
    names = [other for other in packaged_profile_names() if other in MODELS]
    if name not in names or profile != load_packaged_profile(name):
        raise _refusal(profile, options, " and ".join(names))
    model, source = MODELS[name].model, profile.source
    hardware = next(device for key, device in DEVICES.items() if f"analytic: {key}," in source["times"])
    facts = {key: source[key] for key in ("config", "architecture")}
    return profile_of_model(
        model, hardware, facts, batch=setting["micro_batch"], sequence=setting["sequence"], dtype=source["dtype"]
    )


def _about(profile: Profile, asked: dict[str, int]) -> str:
    words = " and ".join(f"{option_of(name)} {value}" for name, value in asked.items())
    return (
        f"{profile.name} was made anew for {words}, from its published shapes, with attention, norms and activations "
        "as fused kernels run and keep them"
    )


def _refusal(profile: Profile, options: ProfileOptions, known: str) -> UsageError:
    """The refusal, which tells what to type instead; that depends on how the profile was made."""
    given = [(name, getattr(options, name)) for name in SETTING if getattr(options, name) is not None]
    option, how = option_of(given[0][0]), str(profile.source.get("how", ""))
    words = " ".join(f"--{'sequence' if name == 'sequence' else 'batch'} {value}" for name, value in given)
    if how == "torch-export" or how.startswith("shapes"):
        samples = f"micro-batch {profile.micro_batch}"
        made = ", ".join(
            [samples, *([f"sequence {profile.source['sequence']}"] if "sequence" in profile.source else [])]
        )
        return UsageError(
            f"{option} is for {known}, and {show(profile.name)} was made for {made}; import it again: "
            f"plan import hf config.json {words} --hardware h100-80gb -o new.profile.json."
        )
    return UsageError(
        f"{option} is for {known}, and {show(profile.name)} holds the amounts of one micro-batch as it "
        f"was measured; measure it again, or drop {option}."
    )
