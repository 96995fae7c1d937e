// L L^T = K + jitter I, and L^-1, of many small matrices, for CPUs; what `factor.cu` does on a GPU.
//
// It asks no thread pool for help. The library's batched Cholesky does, from within a thread of that pool: two of them at
// once, and on a machine of two cores each waits for work that only the other's thread could do (seen with jaxlib 0.10).

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// The lower factor in place, row by row; false at a pivot that is not positive and finite.
template <typename T>
bool factorise(T* L, int64_t m) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      T sum = L[i * m + j];
      for (int64_t k = 0; k < j; ++k) sum -= L[i * m + k] * L[j * m + k];
      if (j < i) {
        L[i * m + j] = sum / L[j * m + j];
      } else {
        if (!(sum > 0) || std::isinf(sum)) return false;
        L[i * m + i] = std::sqrt(sum);
      }
    }
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = i + 1; j < m; ++j) L[i * m + j] = 0;
  return true;
}

// Rows of L^-1 from the first to the last: row i is (e_i - sum_{k < i} L_ik row k) / L_ii.
template <typename T>
void invert(const T* L, int64_t m, T* inverse) {
  for (int64_t i = 0; i < m; ++i) {
    T* row = inverse + i * m;
    for (int64_t j = 0; j < m; ++j) row[j] = i == j;
    for (int64_t k = 0; k < i; ++k)
      for (int64_t j = 0; j <= k; ++j) row[j] -= L[i * m + k] * inverse[k * m + j];
    for (int64_t j = 0; j <= i; ++j) row[j] /= L[i * m + i];
  }
}

template <ffi::DataType D>
ffi::Error factor(ffi::Buffer<D> matrices, ffi::Buffer<D> bounds, ffi::Result<ffi::Buffer<D>> roots,
                  ffi::Result<ffi::Buffer<D>> inverses, ffi::Result<ffi::Buffer<D>> jitters) {
  using T = ffi::NativeType<D>;
  const int64_t m = matrices.dimensions().back(), count = m ? matrices.element_count() / (m * m) : 0;
  for (int64_t index = 0; index < count; ++index) {
    const T* matrix = matrices.typed_data() + index * m * m;
    T *root = roots->typed_data() + index * m * m, *inverse = inverses->typed_data() + index * m * m;
    T jitter = bounds.typed_data()[2 * index];
    const T most = bounds.typed_data()[2 * index + 1];
    bool done = false;
    while (true) {
      for (int64_t i = 0; i < m * m; ++i) root[i] = matrix[i] + (i / m == i % m ? jitter : T(0));
      done = factorise(root, m);
      if (done || !(jitter < most / 2)) break;
      jitter *= 10;
    }
    if (done) {
      invert(root, m, inverse);
    } else {
      for (int64_t i = 0; i < m * m; ++i) root[i] = inverse[i] = std::numeric_limits<T>::quiet_NaN();
    }
    jitters->typed_data()[index] = jitter;
  }
  return ffi::Error::Success();
}

}  // namespace

#define MRGPSSM_FACTOR(name, type)                                 \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, factor<type>,                \
                                ffi::Ffi::Bind()                   \
                                    .Arg<ffi::Buffer<type>>()      \
                                    .Arg<ffi::Buffer<type>>()      \
                                    .Ret<ffi::Buffer<type>>()      \
                                    .Ret<ffi::Buffer<type>>()      \
                                    .Ret<ffi::Buffer<type>>())

MRGPSSM_FACTOR(mrgpssm_factor_float32, ffi::F32);
MRGPSSM_FACTOR(mrgpssm_factor_float64, ffi::F64);
