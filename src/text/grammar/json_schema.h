// JSON Schema (draft 2020-12) -> grammar of the JSON texts that validate.
//
// Enforced: type (also lists), properties in the order of the schema, required, additionalProperties,
// patternProperties, propertyNames, min/maxProperties where countable, $ref to $defs and elsewhere in the document
// (also recursive), allOf, anyOf, oneOf whose branches exclude each other, enum, const, pattern, format (see
// json_formats.h), min/maxLength, minimum, maximum, exclusive*, multipleOf (whole numbers), prefixItems, items,
// min/maxItems, uniqueItems of short enums. Any other keyword throws Error{unsupported} with its JSON pointer;
// annotations are passed over. Narrower than the schema, never wider: properties that are not declared appear only
// where additionalProperties says so or nothing is declared; a schema without `type` takes the types its keywords speak
// of; numbers have at most 18 digits; keys and strings with a pattern are escaped only where JSON demands it.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/grammar/grammar.h"

namespace tenon::text::grammar {

// python: True, False and None. gemma: strings as they are, between marks; keys without them. elements: M<KEY>value
// M</KEY> for members, M<item> for items, M a mark; values that are neither stand as they are, strings without quotes.
enum class Notation { json, python, gemma, elements };

struct JsonOptions {
  // False: nothing between tokens. True: a space, or a line break and up to 16 blanks.
  bool whitespace = true;
  Notation notation = Notation::json;
  Grammar::Id mark = Grammar::kUndefined;  // gemma's around strings, that of elements
  std::vector<std::string_view> never;     // texts that no string may hold: marks that end what is around it
};

// Throws Error{invalid_argument|unsupported} with the JSON pointer.
Grammar json_schema_grammar(const Json& schema, const JsonOptions& options = {});
// Any JSON object.
Grammar json_object_grammar(const JsonOptions& options = {});

// Adds a schema to a larger grammar. `where` begins the pointers in messages.
Grammar::Id add_json_schema(Grammar& grammar, const Json& schema, const JsonOptions& options, std::string_view where);

// An object whose members are written in a form of their own: the arguments of a call.
struct MembersForm {
  Grammar::Id begin, between, end;  // around all members and between two
  // `text`: the value is bare text.
  std::function<Grammar::Id(Grammar::Id name, Grammar::Id value, bool text)> member;
  std::function<bool(std::string_view name)> is_text;  // none: no value is
  bool null_is_text = true;  // where a bare text may be null, that word is one; else a value of its own
};
Grammar::Id add_members(Grammar& grammar, const Json& schema, const MembersForm& form, const JsonOptions& options,
                        std::string_view where);

}  // namespace tenon::text::grammar
