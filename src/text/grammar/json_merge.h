// The keywords of a JSON schema with $ref and allOf resolved: what one value has to satisfy all at once.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/grammar/json_numbers.h"
#include "text/grammar/meter.h"

namespace tenon::text::grammar {

// A schema and where it is, for messages. Points into a document that outlives it.
struct SchemaAt {
  const Json* schema;
  std::string pointer;
};

enum JsonType : uint32_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kNumber = 8,  // that are not whole, too; never without kInteger
  kString = 16,
  kArray = 32,
  kObject = 64,
  kEveryType = kNull | kBoolean | kInteger | kNumber | kString | kArray | kObject,
};

struct MergedSchema {
  // additionalProperties speaks of the properties beside it only, items of prefixItems: one facet per schema object.
  struct ObjectFacet {
    std::vector<std::pair<std::string, SchemaAt>> properties, patterns;
    std::optional<SchemaAt> additional;
  };
  struct ArrayFacet {
    std::vector<SchemaAt> prefix;
    std::optional<SchemaAt> items;
  };
  struct Group {  // anyOf or oneOf
    std::vector<SchemaAt> ways;
    bool exclusive;
    std::string pointer;
  };

  uint32_t types = kEveryType;
  uint32_t implied = 0;  // types that keywords speak of
  bool typed = false;
  bool impossible = false;
  std::string pointer;
  std::optional<std::vector<Json>> values;  // enum, const
  std::vector<ObjectFacet> objects;
  std::vector<std::string> required;
  std::vector<SchemaAt> names;  // propertyNames
  uint64_t min_properties = 0, max_properties = ~uint64_t{0};
  std::vector<ArrayFacet> arrays;
  uint64_t min_items = 0, max_items = ~uint64_t{0};
  bool unique = false;
  std::vector<std::pair<std::string, std::string>> patterns;  // regular expression, pointer
  std::vector<std::string> formats;
  uint64_t min_length = 0, max_length = ~uint64_t{0};
  NumberRange range;
  std::vector<Group> groups;

  bool plain() const;  // nothing but groups
};

class SchemaDocument {
 public:
  // `root` must outlive the document.
  SchemaDocument(const Json& root, std::string_view where, Meter& meter) : root_(root), where_(where), meter_(meter) {}
  MergedSchema merge(const SchemaAt& at) const;
  void merge_into(MergedSchema& m, const SchemaAt& at, int depth = 0) const;
  SchemaAt root() const { return {&root_, where_}; }
  // The target of a schema that is nothing but a $ref; nullopt: it is more.
  std::optional<SchemaAt> pure_reference(const SchemaAt& at) const;

 private:
  SchemaAt resolve(const std::string& reference, const std::string& pointer) const;
  void keyword(MergedSchema& m, const std::string& key, const Json& value, const SchemaAt& at, int depth) const;

  const Json& root_;
  std::string where_;
  Meter& meter_;
};

bool same_value(const Json& a, const Json& b);  // as JSON Schema compares: 1 is 1.0, the order of keys is nothing
std::string pointer_to(const std::string& pointer, std::string_view key);
bool is_annotation(std::string_view keyword);

}  // namespace tenon::text::grammar
