"""A corpus as two long token arrays on disk, memory-mapped.

Each array is, document after document in name order, the boundary token followed by the document's
tokens. Windows are cut anywhere, so a window may hold the end of one document and the beginning of
the next with the boundary between them; attention is not reset there, so that a model has to learn
it.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from circuitax.data.cache import cache_folder, write_once
from circuitax.data.corpus import Corpus, Document
from circuitax.data.tokenizer import boundary_id, size, tokenizer_digest
from circuitax.data.tokenizer_errors import refused_as

_PIECES_AT_ONCE = 32


class TokenArrays(NamedTuple):
    """Training and validation tokens, read-only maps of files; ``boundary`` is a token id."""

    train: np.ndarray
    validation: np.ndarray
    boundary: int


def corpus_tokens(corpus: Corpus, tokenizer: Tokenizer, folder: Path | None = None) -> TokenArrays:
    """Tokenise once, then map the files; memory is independent of the size of the corpus."""
    folder = folder or cache_folder() / "tokens"
    n_tokens = size(tokenizer)
    dtype = np.dtype("<u2" if n_tokens <= 1 << 16 else "<u4")
    boundary = boundary_id(tokenizer)
    target = folder / f"{corpus.digest[:20]}-{tokenizer_digest(tokenizer)[:20]}"

    def write(new: Path) -> None:
        lengths = {}
        for split in ("train", "validation"):
            with (new / f"{split}.bin").open("wb") as file:
                for ids in _encode(getattr(corpus, split), tokenizer, boundary):
                    file.write(np.asarray(ids, dtype).tobytes())
                lengths[split] = file.tell() // dtype.itemsize
        about = {"corpus": corpus.title, "d_vocab": n_tokens, "dtype": dtype.str, **lengths}
        (new / "about.json").write_text(json.dumps(about, indent=1))

    write_once(target, write)
    return TokenArrays(
        np.memmap(target / "train.bin", dtype, mode="r"),
        np.memmap(target / "validation.bin", dtype, mode="r"),
        boundary,
    )


def _encode(
    documents: Sequence[Document], tokenizer: Tokenizer, boundary: int
) -> Iterator[list[int]]:
    # (first piece of its document?, text), encoded some pieces at a time on all cores.
    stream = ((i == 0, text) for d in documents for i, text in enumerate(d.pieces()))
    while block := list(islice(stream, _PIECES_AT_ONCE)):
        texts = [text for _, text in block]
        with refused_as("the tokenizer cannot encode this corpus"):
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        for (first, _), encoding in zip(block, encoded, strict=True):
            yield [boundary, *encoding.ids] if first else encoding.ids
