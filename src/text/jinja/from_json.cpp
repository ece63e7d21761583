#include "text/jinja/from_json.h"

namespace tenon::text::jinja {

Value from_json(Meter& meter, const Json& json, int depth) {
  if (depth > kMaxNesting) raise("JSON is nested more than {} deep", kMaxNesting);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::of(json.get<bool>()).set_content(true);
    case Json::value_t::number_integer:
      return Value::of(static_cast<Integer>(json.get<int64_t>())).set_content(true);
    case Json::value_t::number_unsigned:
      return Value::of(static_cast<Integer>(json.get<uint64_t>())).set_content(true);
    case Json::value_t::number_float:
      return Value::of(json.get<double>()).set_content(true);
    case Json::value_t::string:
      return make_string(meter, json.get_ref<const std::string&>(), true);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(meter, item, depth + 1));
      return make_list(meter, std::move(items), true);
    }
    case Json::value_t::object: {
      Ref<Dict> dict = make<Dict>(meter);
      for (const auto& [key, value] : json.items())
        dict->set(make_string(meter, key, true), from_json(meter, value, depth + 1));
      return to_value(dict, true);
    }
    default:
      return Value::none().set_content(true);
  }
}

}  // namespace tenon::text::jinja
