#include "backend/device.h"

#include "backend/cpu/isa.h"
#include "base/error.h"

namespace tenon::backend {

extern const Device& cpu_device;
extern const Device& reference_device;

const Device& device_named(std::string_view name) {
  cpu::isa();  // an unknown TENON_ISA is said here, before anything runs
  for (const Device* d : {&cpu_device, &reference_device})
    if (name == d->name()) return *d;
  fail(ErrorCode::invalid_argument, "unknown device '{}' (devices of this build: cpu, reference)", printable(name));
}

}  // namespace tenon::backend
