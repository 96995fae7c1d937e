// L L^T = K + jitter I, and L^-1, of many small matrices: one block each, one launch for all.
//
// The jitter is the first of base, 10 base, 100 base, ... at which every pivot is positive and finite; where even the
// last one fails, everything is not-a-number, for the caller to report. Compiled for REAL and M.

constexpr int kThreads = 128;
constexpr int kRow = M + 1;

__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }

// The lower factor in place; false at a pivot that is not positive and finite. All threads get the same answer.
__device__ bool factorise(REAL* L) {
  for (int j = 0; j < M; ++j) {
    const REAL pivot = L[j * kRow + j];
    if (!(pivot > 0) || isinf(pivot)) return false;
    const REAL root = square_root(pivot);
    __syncthreads();
    for (int i = j + threadIdx.x; i < M; i += kThreads) L[i * kRow + j] = i == j ? root : L[i * kRow + j] / root;
    __syncthreads();
    for (int i = j + 1 + threadIdx.x / 32; i < M; i += kThreads / 32)
      for (int k = j + 1 + threadIdx.x % 32; k <= i; k += 32) L[i * kRow + k] -= L[i * kRow + j] * L[k * kRow + j];
    __syncthreads();
  }
  return true;
}

// Column by column, one thread each, by substitution.
__device__ void invert(const REAL* L, REAL* inverse) {
  for (int j = threadIdx.x; j < M; j += kThreads) {
    for (int i = 0; i < j; ++i) inverse[i * kRow + j] = 0;
    for (int i = j; i < M; ++i) {
      REAL sum = i == j;
      for (int k = j; k < i; ++k) sum -= L[i * kRow + k] * inverse[k * kRow + j];
      inverse[i * kRow + j] = sum / L[i * kRow + i];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    factor(const REAL* __restrict__ matrices, const REAL* __restrict__ bounds, REAL* __restrict__ roots,
           REAL* __restrict__ inverses, REAL* __restrict__ jitters) {
  extern __shared__ REAL memory[];
  REAL *L = memory, *inverse = memory + M * kRow;
  const REAL* matrix = matrices + (long long)blockIdx.y * M * M;
  REAL jitter = bounds[2 * blockIdx.y];
  const REAL most = bounds[2 * blockIdx.y + 1];
  bool done = false;
  while (true) {
    for (int index = threadIdx.x; index < M * M; index += kThreads)
      L[index / M * kRow + index % M] = matrix[index] + (index / M == index % M ? jitter : REAL(0));
    __syncthreads();
    done = factorise(L);
    if (done || !(jitter < most / 2)) break;
    jitter *= 10;
    __syncthreads();
  }
  if (done) invert(L, inverse);
  __syncthreads();
  const REAL nothing = REAL(0) / REAL(0);
  for (int index = threadIdx.x; index < M * M; index += kThreads) {
    const int i = index / M, j = index % M;
    const long long to = (long long)blockIdx.y * M * M + index;
    roots[to] = done ? (j <= i ? L[i * kRow + j] : REAL(0)) : nothing;
    inverses[to] = done ? inverse[i * kRow + j] : nothing;
  }
  if (threadIdx.x == 0) jitters[blockIdx.y] = jitter;
}
