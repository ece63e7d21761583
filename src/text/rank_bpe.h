// BPE given by ranks of byte strings (tiktoken, tekken) instead of a list of merges.
#pragma once
#include "text/bpe.h"

namespace tenon::text {

// Two neighbours join when their bytes together are a token, least id first: the same as a merge for every way to cut a
// token into two tokens, with the token's id as its rank. A piece that is a token is taken whole.
std::unique_ptr<TokenModel> make_rank_bpe(const std::shared_ptr<const Vocabulary>& vocabulary);

}  // namespace tenon::text
