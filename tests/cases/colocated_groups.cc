#include "tests/cases/colocated_groups.h"

#include <algorithm>
#include <cctype>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace mimo {

std::string ColocatedCase::EdgeText(int dim) const {
  return absl::StrCat("vision{dp:", source.first, ",tp:", source.second, "}[S(", dim,
                      "),I] -> language{dp:", destination.first, ",tp:", destination.second, "}[S(",
                      dim, "),I]");
}

std::vector<ColocatedCase> ColocatedCases() {
  std::ifstream file("tests/cases/colocated_groups.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  std::vector<ColocatedCase> cases;
  for (const nlohmann::json& c : json.at("cases")) {
    const auto sizes = [&](const char* side) {
      return std::make_pair(c.at(side).at("dp").get<int64_t>(), c.at(side).at("tp").get<int64_t>());
    };
    cases.push_back({c.at("name"), sizes("source"), sizes("destination"), c.at("gather_groups"),
                     c.at("batch"), c.at("source_rows"), c.at("destination_rows")});
  }
  return cases;
}

std::string ColocatedCaseName(const ::testing::TestParamInfo<ColocatedCase>& info) {
  std::string name = info.param.name;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

}  // namespace mimo
