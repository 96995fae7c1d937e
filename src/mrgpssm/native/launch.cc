// Launches compiled kernels on an NVIDIA GPU, on XLA's stream. Only the driver's library is needed, found at run time.
//
// A kernel takes the pointers of all arguments, then of all results, then whole numbers. Its grid is
// (blocks, members): whatever stands before the last `rank` axes of the first argument is members. Up to `few_members`
// of them, the kernel named with "_few" is launched in its place, on a grid of its own.

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using Stream = struct OpaqueStream*;
using Library = struct OpaqueLibrary*;
using Kernel = struct OpaqueKernel*;
constexpr int kMaxDynamicSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

struct Driver {
  int (*load)(Library*, const char*, void*, void**, unsigned, void*, void**, unsigned) = nullptr;
  int (*find)(Kernel*, Library, const char*) = nullptr;
  int (*set)(int, int, Kernel, int) = nullptr;
  int (*devices)(int*) = nullptr;
  int (*launch)(Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                void**) = nullptr;
  int (*fill)(uint64_t, unsigned char, size_t, Stream) = nullptr;
  bool complete = false;
  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return;
    auto get = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    complete = get(load, "cuLibraryLoadFromFile") && get(find, "cuLibraryGetKernel") &&
               get(set, "cuKernelSetAttribute") && get(devices, "cuDeviceGetCount") && get(launch, "cuLaunchKernel") &&
               get(fill, "cuMemsetD8Async");
  }
};

Driver& driver() {
  static Driver it;
  return it;
}

std::mutex lock;
std::map<std::pair<std::string, std::string>, Kernel> kernels;

Kernel known(const std::string& path, const std::string& name) {
  std::lock_guard<std::mutex> hold(lock);
  auto found = kernels.find({path, name});
  return found == kernels.end() ? nullptr : found->second;
}

ffi::Error launch(Stream stream, ffi::RemainingArgs args, ffi::RemainingRets results, std::string_view path,
                  std::string_view name, int64_t blocks, int64_t threads, int64_t bytes, int64_t few_members,
                  int64_t few_blocks, int64_t few_threads, int64_t rank, ffi::Span<const int64_t> numbers) {
  std::vector<void*> pointers;
  int64_t members = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    auto buffer = args.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) return buffer.error();
    const auto shape = buffer->dimensions();
    if (i == 0)
      for (size_t axis = 0; axis + rank < shape.size(); ++axis) members *= shape[axis];
    pointers.push_back(buffer->untyped_data());
  }
  static const bool poison = std::getenv("MRGPSSM_POISON") != nullptr;  // results start as NaN: tests see unwritten ones
  const bool few = members <= few_members;
  const std::string chosen = std::string(name) + (few ? "_few" : "");
  Kernel kernel = known(std::string(path), chosen);
  if (!kernel) return ffi::Error::Internal("kernel " + chosen + " was not loaded");
  for (size_t i = 0; i < results.size(); ++i) {
    auto buffer = results.get<ffi::AnyBuffer>(i);
    if (!buffer.has_value()) return buffer.error();
    pointers.push_back((*buffer)->untyped_data());
    if (poison) driver().fill(reinterpret_cast<uint64_t>(pointers.back()), 0xff, (*buffer)->size_bytes(), stream);
  }
  std::vector<int> whole(numbers.begin(), numbers.end());
  std::vector<void*> parameters;
  for (auto& pointer : pointers) parameters.push_back(&pointer);
  for (auto& number : whole) parameters.push_back(&number);
  const int status = driver().launch(kernel, few ? few_blocks : blocks, members, 1, few ? few_threads : threads, 1, 1,
                                     few ? 0 : bytes, stream, parameters.data(), nullptr);
  if (status) return ffi::Error::Internal("launching " + chosen + " failed with CUDA status " + std::to_string(status));
  return ffi::Error::Success();
}

}  // namespace

// Loads a kernel from a compiled file and lets it use `bytes` of shared memory; 0, or the driver's status.
extern "C" int mrgpssm_load(const char* path, const char* name, int bytes) {
  if (!driver().complete) return -1;
  if (known(path, name)) return 0;
  Library library;
  Kernel kernel;
  int count = 0;
  if (int status = driver().load(&library, path, nullptr, nullptr, 0, nullptr, nullptr, 0)) return status;
  if (int status = driver().find(&kernel, library, name)) return status;
  if (int status = driver().devices(&count)) return status;
  for (int device = 0; device < count; ++device)
    if (int status = driver().set(kMaxDynamicSharedBytes, bytes, kernel, device)) return status;
  std::lock_guard<std::mutex> hold(lock);
  kernels[{path, name}] = kernel;
  return 0;
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(mrgpssm_launch, launch,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<Stream>>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<std::string_view>("path")
                                  .Attr<std::string_view>("name")
                                  .Attr<int64_t>("blocks")
                                  .Attr<int64_t>("threads")
                                  .Attr<int64_t>("bytes")
                                  .Attr<int64_t>("few_members")
                                  .Attr<int64_t>("few_blocks")
                                  .Attr<int64_t>("few_threads")
                                  .Attr<int64_t>("rank")
                                  .Attr<ffi::Span<const int64_t>>("numbers"),
                              {ffi::Traits::kCmdBufferCompatible});
