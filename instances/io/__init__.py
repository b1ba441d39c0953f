"""Readers and writers: our own versioned JSON, the published JSON, PipeDream profiles, plans and results."""

from .chain import chain_from_json as chain_from_json
from .chain import chain_to_json as chain_to_json
from .json_file import MAX_FILE_BYTES as MAX_FILE_BYTES
from .json_file import dump_json as dump_json
from .json_file import read_json as read_json
from .json_file import write_bytes_atomically as write_bytes_atomically
from .json_file import write_json as write_json
from .json_file import write_text_atomically as write_text_atomically
from .load import FORMATS as FORMATS
from .load import WRITABLE_FORMATS as WRITABLE_FORMATS
from .load import load as load
from .load import problem_from_text as problem_from_text
from .load import problem_to_text as problem_to_text
from .load import save as save
from .own import placement_from_json as placement_from_json
from .own import placement_to_json as placement_to_json
from .pipedream import ProfileCluster as ProfileCluster
from .pipedream import read_pipedream as read_pipedream
from .published import placement_from_published as placement_from_published
from .published import placement_to_published as placement_to_published
from .published import read_expert_plan as read_expert_plan
from .published import read_published as read_published
from .results import load_plan as load_plan
from .results import load_result as load_result
from .results import plan_from_json as plan_from_json
from .results import result_from_json as result_from_json
