#include "worker/onednn.h"

#include <omp.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

struct NamedIsa {
  dnnl::cpu_isa isa;
  const char* name;
};

constexpr NamedIsa kIsas[] = {
    {dnnl::cpu_isa::sse41, "sse41"},
    {dnnl::cpu_isa::avx, "avx"},
    {dnnl::cpu_isa::avx2, "avx2"},
    {dnnl::cpu_isa::avx2_vnni, "avx2_vnni"},
    {dnnl::cpu_isa::avx512_core, "avx512_core"},
    {dnnl::cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
    {dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
    {dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx"},
};

absl::StatusOr<dnnl::cpu_isa> IsaOf(const std::string& name) {
  if (name == "sse41") return dnnl::cpu_isa::sse41;
  if (name == "avx2") return dnnl::cpu_isa::avx2;
  if (name == "avx512") return dnnl::cpu_isa::avx512_core;
  return absl::InvalidArgumentError(
      absl::StrCat("instruction set '", name,
                   "' is none of default, sse41, avx2 and avx512"));
}

}  // namespace

absl::Status CapInstructionSet(const std::string& isa) {
  if (isa == "default") return absl::OkStatus();
  const absl::StatusOr<dnnl::cpu_isa> cap = IsaOf(isa);
  if (!cap.ok()) return cap.status();
  // Fails once something has asked for the instruction set; then what is in
  // force may be low enough.
  if (dnnl::set_max_cpu_isa(*cap) == dnnl::status::success)
    return absl::OkStatus();
  const int effective = static_cast<int>(dnnl::get_effective_cpu_isa());
  if ((effective & ~static_cast<int>(*cap)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the instruction set cannot be capped at ", isa,
                   ": this process already uses ", EffectiveInstructionSet()));
}

std::string EffectiveInstructionSet() {
  const dnnl::cpu_isa effective = dnnl::get_effective_cpu_isa();
  for (const NamedIsa& known : kIsas) {
    if (known.isa == effective) return known.name;
  }
  return absl::StrCat("isa-", static_cast<int>(effective));
}

ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads);
}

ThreadScope::~ThreadScope() { omp_set_num_threads(before_); }

dnnl::memory::desc PlainDesc(const dnnl::memory::dims& dims) {
  dnnl::memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * dims[i];
  return {dims, dnnl::memory::data_type::f32, strides};
}

void PointAt(const float* values, dnnl::memory* memory) {
  memory->set_data_handle(const_cast<float*>(values));
}

dnnl::primitive_attr Kernel::Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Kernel::Kernel(const OneDnn& dnnl, const dnnl::primitive_desc_base& made)
    : primitive_(made.get()),
      scratchpad_(made.scratchpad_desc(), dnnl.engine) {}

void Kernel::Run(const OneDnn& dnnl,
                 std::unordered_map<int, dnnl::memory> arguments) const {
  arguments.insert({DNNL_ARG_SCRATCHPAD, scratchpad_});
  primitive_.execute(dnnl.stream, arguments);
}

Reorder::Reorder(const OneDnn& dnnl, const dnnl::memory& from,
                 const dnnl::memory& to)
    : from_(from), to_(to) {
  if (from_ == to_) return;
  kernel_ = Kernel(
      dnnl, dnnl::reorder::primitive_desc(from_, to_, Kernel::Attributes()));
}

Reorder Reorder::Into(const OneDnn& dnnl, const dnnl::memory& from,
                      const dnnl::memory::desc& to) {
  return {dnnl, from,
          from.get_desc() == to ? from : dnnl::memory(to, dnnl.engine)};
}

Reorder Reorder::OutOf(const OneDnn& dnnl, const dnnl::memory::desc& from,
                       const dnnl::memory& to) {
  return {dnnl, to.get_desc() == from ? to : dnnl::memory(from, dnnl.engine),
          to};
}

void Reorder::Run(const OneDnn& dnnl) const {
  if (from_ == to_) return;
  kernel_.Run(dnnl, {{DNNL_ARG_FROM, from_}, {DNNL_ARG_TO, to_}});
}

}  // namespace parapet
