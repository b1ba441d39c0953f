"""What goes wrong, in one sentence that names the place and the remedy."""

from __future__ import annotations

from collections.abc import Mapping


class PipeplanError(Exception):
    """Base of every error that a user can cause and mend."""


class InputError(PipeplanError):
    """Bad input: `field` says where, `problem` what, `remedy` how to mend it; `file` is added by the reader.

    The message is one sentence: ``FILE: FIELD PROBLEM; REMEDY.``
    """

    def __init__(self, field: str, problem: str, remedy: str, file: str | None = None) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        self.file = file
        super().__init__(field, problem, remedy, file)

    def __str__(self) -> str:
        place = f"{self.file}: {self.field}" if self.file else self.field
        return f"{place} {self.problem}; {self.remedy}."

    def in_file(self, file: str, field_names: Mapping[str, str] | None = None) -> InputError:
        """The same error with the file's name, and with our field names replaced by the file's own."""
        head, dot, last = self.field.rpartition(".")
        renamed = (field_names or {}).get(last, last)
        return InputError(head + dot + renamed, self.problem, self.remedy, file)


class UsageError(PipeplanError):
    """A combination of options that makes no sense; the message lists those that do."""
