// The compiler's -fsanitize=bounds,alignment,... calls these functions where the code would do
// something undefined. Each gets a record that begins with the place in the source.
#include <cstdint>
#include <string>

#include "block.h"
#include "report.h"

namespace {

struct Record {
  const char* file;
  uint32_t line;
  uint32_t column;
};

void on_undefined(const char* what, const Record* record) {
  using namespace cuda_emulator;
  const std::string file = record->file;
  const std::string text =
      format("%s (%s:%u)", what, file.substr(file.rfind('/') + 1).c_str(), record->line);
  if (block.running()) fail(text);
  fail_host(text);
}

}  // namespace

#define HANDLER(name, what) \
  void __ubsan_handle_##name(const Record* record) { on_undefined(what, record); }

extern "C" {

HANDLER(out_of_bounds, "out of bounds: index outside an array of fixed size")
HANDLER(type_mismatch_v1, "misaligned: pointer not aligned for its type")
HANDLER(add_overflow, "signed integer overflow in an addition")
HANDLER(sub_overflow, "signed integer overflow in a subtraction")
HANDLER(mul_overflow, "signed integer overflow in a multiplication")
HANDLER(negate_overflow, "signed integer overflow in a negation")
HANDLER(divrem_overflow, "integer division by zero, or overflow in one")
HANDLER(shift_out_of_bounds, "shift by more bits than the type has")
}
