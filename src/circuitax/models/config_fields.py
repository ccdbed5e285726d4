"""Single settings of a ``config.json``: read with a type and bounds, or refused in one line."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Config = Mapping[str, Any]

# Sizes beyond which a setting is a mistake, before lists of as many entries are made: of one axis
# of a weight, of layers, and of texts, for which there need be no weight.
LARGEST, DEEPEST, LONGEST = 2**24, 10_000, 2**31 - 1
# A number from here on is a mistake; Python's integers have no end, its floats do.
_MOST = 1e300
_NONE = object()  # no value of a setting, which may be None

# Keys that no forward pass reads: names, training, how it is computed, tokens and generation, heads
# other than the language model's, and lengths of options that are refused where they are on.
_IGNORED = """
_attn_implementation _flash_attn_2_enabled _name_or_path _num_labels activation_dropout
architectures attention_dropout attn_implementation attn_pdrop auto_map bad_words_ids
begin_suppress_tokens bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout
cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dropout dtype
early_stopping embd_pdrop embed_dropout embedding_dropout encoder_no_repeat_ngram_size eos_token_id
exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
gradient_checkpointing hidden_dropout id2label init_std initializer_factor initializer_range
is_decoder is_llama_config label2id layerdrop length_penalty max_length max_new_tokens
max_sequence_length max_window_layers min_length model_type n_ctx n_special name_or_path
no_repeat_ngram_size num_beam_groups num_beams num_labels num_return_sequences
original_max_position_embeddings output_attentions output_hidden_states output_scores pad_token_id
predict_special_tokens prefix pretraining_tp problem_type pruned_heads remove_invalid_values
repetition_penalty resid_dropout resid_pdrop residual_dropout return_dict return_dict_in_generate
scale_attention_softmax_in_fp32 sep_token_id sliding_window_size summary_activation
summary_first_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens
task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k top_p
torch_dtype torchscript transformers.js_config transformers_version typical_p unsloth_fixed
unsloth_version use_bfloat16 use_cache use_return_dict
"""
HARMLESS = frozenset(_IGNORED.split())


class Settings(dict[str, Any]):
    """Settings over defaults, which know what was read of them: no key of a file is silence."""

    def __init__(self, given: Config, defaults: Config | None = None) -> None:
        super().__init__({**(defaults or {}), **given})
        self._unread = set(given)

    def get(self, key: str, default: Any = None) -> Any:
        self._unread.discard(key)
        value = super().get(key, default)
        if isinstance(value, dict) and not isinstance(value, Settings):
            value = self[key] = Settings(value)
        return value

    def __getitem__(self, key: str) -> Any:
        self._unread.discard(key)
        return super().__getitem__(key)

    def unread(self) -> Iterator[tuple[str, Any]]:
        """Keys of the file that were never asked for, and their values; groups are looked into."""
        for key, value in self.items():
            if key in self._unread:
                yield key, value
            elif isinstance(value, Settings):
                yield from value.unread()


def integer(config: Config, key: str, least: int = 0, most: int = LARGEST) -> int:
    """A required whole number between two bounds."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"config key {key!r} is {cut(value)}, must be an integer")
    if not least <= value <= most:
        raise ValueError(f"config key {key!r} is {cut(value)}, must be from {least} to {most}")
    return value


def optional(config: Config, key: str, most: int = LARGEST) -> int | None:
    """A whole number from 0 on, or None where it is absent."""
    return None if config.get(key) is None else integer(config, key, most=most)


def flag(config: Config, key: str, default: bool = True) -> bool:
    """True or false."""
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise ValueError(f"config key {key!r} is {cut(value)}, must be true or false")
    return value


def choice(config: Config, key: str, known: Mapping[Any, T], default: Any = _NONE) -> T:
    """The meaning of a name; required where there is no default."""
    value = config.get(key, default)
    # Not by hash, which lists and objects lack.
    if value not in list(known):
        raise ValueError(
            f"config key {key!r} is {'missing' if value is _NONE else cut(value)}, must be one of "
            f"{sorted(str(name) for name in known)}"
        )
    return known[value]


def bound(config: Config, key: str) -> float | None:
    """A positive number, or None where it is absent."""
    return None if config.get(key) is None else float(number(config, key, None))


def number(config: Config, key: str, default: Any, whole: bool = False) -> Any:
    """A positive number, or the default where it is absent; required when the default is None."""
    value = config.get(key, default)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < _MOST:
        raise ValueError(f"config key {key!r} is {cut(value)}, must be a positive number")
    if whole and value != int(value):
        raise ValueError(f"config key {key!r} is {cut(value)}, must be a whole number")
    return int(value) if whole else float(value)


def cut(value: Any) -> str:
    """The value as text, truncated for a message."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def group(config: Config, key: str) -> Mapping[str, Any]:
    """A group of settings; empty where it is absent."""
    given = config.get(key) or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"config key {key!r} is {cut(given)}, must be a JSON object")
    return given
