// Full Monte Carlo rollouts of one component and their reverse pass, for NVIDIA GPUs. The equations are in rollout.cc.
//
// Compiled for one shape: REAL, M inducing points, D latent dimensions, S samples, W windows a block. A thread is one
// latent dimension of one particle and walks through the whole window; a block holds W windows of one member, so that
// what adds up over samples does so in shared memory, in a fixed order. The triangle W k is taken in place, last rows
// first: row i is the last to need k[i]. (Two particles a thread, which read the triangle once for both, were slower:
// too few threads are left to hide what they wait for.)
//
// The reverse pass recomputes k and a = W k. With da = h lambda v - 2 dsigma a it needs no sum over time of da k^T:
//
//     sum_t da k^T = v kappa^T - 2 W C,   kappa = sum_t h lambda k (per particle),   C = sum_{t, s} dsigma k k^T,
//
// and the gradient of v is W kappa. The caller makes these products; a block returns kappa and C.

constexpr int kPadded = (M + 3) / 4 * 4;              // rows come in fours
constexpr int kBlocks = kPadded / 4;                  // fours of rows
constexpr int kTiles = kBlocks * (kBlocks + 1) / 2;   // 4 x 4 tiles of a triangle
constexpr int kParticles = W * S;
constexpr int kUsed = kParticles * D;
constexpr int kThreads = (kUsed + 31) / 32 * 32;
constexpr int kStride = (kParticles + 3) / 8 * 8 + 4;  // eight rows of particles start in eight different banks
constexpr int kPerThread = (kTiles * D + kThreads - 1) / kThreads;
constexpr int kWide = S % 4 == 0 ? 4 : 1;  // samples of a window read at a time

template <int N>
struct alignas(N * sizeof(REAL)) Pack {
  REAL v[N];
};
using Four = Pack<4>;

template <int N>
__device__ const Pack<N>& pack(const REAL* at) {
  return *reinterpret_cast<const Pack<N>*>(at);
}

// exp(-r2 / 2) from -r2 / (2 ln 2); too small a number is zero.
constexpr double kHalf = -0.72134752044448170368;
__device__ inline float two_to_the(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline double two_to_the(double x) { return exp2(x); }
__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }
__device__ constexpr int tile(int i, int j) { return i * (i + 1) / 2 + j; }

// The particle and latent dimension of this thread. Threads beyond the last stand in for particle 0 and count nowhere.
struct Place {
  int d, p;
  bool used, live;
  long long n, particle;
  __device__ explicit Place(int windows) {
    used = threadIdx.x < kUsed;
    const int me = used ? threadIdx.x : 0;
    d = me / kParticles;
    p = me % kParticles;
    const int window = blockIdx.x * W + p / S;
    live = used && window < windows;
    n = (long long)blockIdx.y * windows + (window < windows ? window : windows - 1);
    particle = n * S + p % S;
  }
};

// Lower triangle in fours of rows: four rows of 4 (i + 1) numbers each, zeros above the diagonal.
__device__ void load_rows(const REAL* whitener, REAL* rows) {
  for (int index = threadIdx.x; index < D * kPadded * kPadded; index += kThreads) {
    const int d = index / (kPadded * kPadded), i = index / kPadded % kPadded, j = index % kPadded;
    if (j / 4 <= i / 4)
      rows[d * 16 * kTiles + 16 * tile(i / 4, 0) + i % 4 * 4 * (i / 4 + 1) + j] =
          i < M && j <= i ? whitener[(d * M + i) * M + j] : REAL(0);
  }
}

// The same by columns: for each four of columns, four columns of kPadded - 4 j numbers each, from row 4 j down.
__device__ constexpr int column_start(int j) { return 16 * (j * kBlocks - j * (j - 1) / 2); }

__device__ void load_columns(const REAL* whitener, REAL* columns) {
  for (int index = threadIdx.x; index < D * kPadded * kPadded; index += kThreads) {
    const int d = index / (kPadded * kPadded), i = index / kPadded % kPadded, j = index % kPadded, J = j / 4;
    if (i / 4 >= J)
      columns[d * 16 * kTiles + column_start(J) + j % 4 * (kPadded - 4 * J) + i - 4 * J] =
          i < M && j <= i ? whitener[(d * M + i) * M + j] : REAL(0);
  }
}

__device__ void correlations(const REAL* centres, const REAL* relevance, const REAL* forcing, const REAL* x, REAL* k) {
  REAL scale[D];
#pragma unroll
  for (int c = 0; c < D; ++c) scale[c] = REAL(kHalf) * relevance[c];
#pragma unroll
  for (int j = 0; j < kPadded; ++j) {
    if (j >= M) {
      k[j] = 0;
      continue;
    }
    REAL r2 = REAL(kHalf) * forcing[j];
#pragma unroll
    for (int c = 0; c < D; ++c) {
      const REAL gap = centres[j * D + c] - x[c];
      r2 += scale[c] * (gap * gap);
    }
    k[j] = two_to_the(r2);
  }
}

// k becomes a = W k.
__device__ void whiten(const REAL* rows, REAL* k) {
#pragma unroll
  for (int i = kBlocks - 1; i >= 0; --i) {
    REAL sum[4] = {0, 0, 0, 0};
    const REAL* block = rows + 16 * tile(i, 0);
#pragma unroll
    for (int j = 0; j <= i; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const Four w = pack<4>(block + r * 4 * (i + 1) + 4 * j);
#pragma unroll
        for (int q = 0; q < 4; ++q) sum[r] += w.v[q] * k[4 * j + q];
      }
#pragma unroll
    for (int r = 0; r < 4; ++r) k[4 * i + r] = sum[r];
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, RESIDENT)
    forward(const REAL* __restrict__ start, const REAL* __restrict__ centres, const REAL* __restrict__ relevance,
            const REAL* __restrict__ whitener, const REAL* __restrict__ variance, const REAL* __restrict__ outputs,
            const REAL* __restrict__ A, const REAL* __restrict__ Q, const REAL* __restrict__ drift,
            const REAL* __restrict__ forcing, const REAL* __restrict__ h, const REAL* __restrict__ epsilon,
            REAL* __restrict__ states, int windows, int steps) {
  extern __shared__ Four memory[];
  REAL* rows = &memory[0].v[0];               // D x 16 kTiles
  REAL* v = rows + D * 16 * kTiles;           // D x M x kStride
  REAL* Z = v + D * M * kStride;              // D x M x D
  REAL* both = Z + (D * M * D + 3) / 4 * 4;   // 2 x D x kStride: states now and next
  const int f = blockIdx.y;
  const Place at(windows);
  load_rows(whitener + (long long)f * D * M * M, rows);
  for (int i = threadIdx.x; i < D * M * D; i += kThreads) Z[i] = centres[f * D * M * D + i];
  if (at.used) {
    for (int i = 0; i < M; ++i)
      v[(at.d * M + i) * kStride + at.p] = outputs[(at.particle * D + at.d) * M + i];
    both[at.d * kStride + at.p] = start[at.particle * D + at.d];
  }
  REAL scale[D], A_row[D];
#pragma unroll
  for (int c = 0; c < D; ++c) {
    scale[c] = relevance[f * D + c];
    A_row[c] = A[(f * D + at.d) * D + c];
  }
  const REAL prior = variance[f * D + at.d], q = Q[f * D + at.d];
  __syncthreads();
  for (int t = 0; t < steps; ++t) {
    const REAL* now = both + t % 2 * D * kStride;
    REAL* next = both + (t + 1) % 2 * D * kStride;
    REAL k[kPadded], x[D];
#pragma unroll
    for (int c = 0; c < D; ++c) x[c] = now[c * kStride + at.p];
    correlations(Z + at.d * M * D, scale, forcing + ((at.n * steps + t) * D + at.d) * M, x, k);
    whiten(rows + at.d * 16 * kTiles, k);
    const REAL step = h[at.n * steps + t], noise = epsilon[(at.particle * steps + t) * D + at.d];
    REAL value = 0, squares = 0, change = drift[(at.n * steps + t) * D + at.d];
#pragma unroll
    for (int i = 0; i < M; ++i) {
      value += k[i] * v[(at.d * M + i) * kStride + at.p];
      squares += k[i] * k[i];
    }
#pragma unroll
    for (int c = 0; c < D; ++c) change += A_row[c] * x[c];
    const REAL sigma = prior - squares, clipped = sigma < 0 ? REAL(0) : sigma;
    const REAL moved = now[at.d * kStride + at.p] + step * (change + value) +
                       square_root(step * step * clipped + step * q) * noise;
    if (at.used) next[at.d * kStride + at.p] = moved;
    if (at.live) states[(at.particle * steps + t) * D + at.d] = moved;
    __syncthreads();
  }
}

// The same for few particles, where what counts is the time of one step: a warp is one latent dimension of one particle,
// a lane the rows l, l + 32, ... of W, which stay in registers. What comes from memory is fetched kAhead steps ahead.
constexpr int kSlots = (M + 31) / 32;
constexpr int kAhead = 8;

struct Ahead {
  REAL forcing[kAhead][kSlots], drift[kAhead], h[kAhead], epsilon[kAhead];
};

__device__ void fetch(Ahead& to, const REAL* forcing, const REAL* drift, const REAL* h, const REAL* epsilon, int t,
                      int steps) {
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    const int at = t + i < steps ? t + i : steps - 1;
#pragma unroll
    for (int r = 0; r < kSlots; ++r) {
      const int j = threadIdx.x % 32 + 32 * r;
      to.forcing[i][r] = forcing[(long long)at * D * M + (j < M ? j : M - 1)];
    }
    to.drift[i] = drift[(long long)at * D];
    to.h[i] = h[at];
    to.epsilon[i] = epsilon[(long long)at * D];
  }
}

extern "C" __global__ void __launch_bounds__(32 * D)
    forward_few(const REAL* __restrict__ start, const REAL* __restrict__ centres, const REAL* __restrict__ relevance,
                const REAL* __restrict__ whitener, const REAL* __restrict__ variance, const REAL* __restrict__ outputs,
                const REAL* __restrict__ A, const REAL* __restrict__ Q, const REAL* __restrict__ drift,
                const REAL* __restrict__ forcing, const REAL* __restrict__ h, const REAL* __restrict__ epsilon,
                REAL* __restrict__ states, int windows, int steps) {
  __shared__ Four correlation[D][kSlots * 8];
  __shared__ REAL both[2][D];
  const int f = blockIdx.y, d = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long particle = (long long)f * windows * S + blockIdx.x, n = particle / S;
  REAL w[kSlots][kSlots * 32], v[kSlots], Z[kSlots][D], scale[D], A_row[D];
#pragma unroll
  for (int r = 0; r < kSlots; ++r) {
    const int i = lane + 32 * r;
#pragma unroll
    for (int j = 0; j < kSlots * 32; ++j)
      w[r][j] = i < M && j <= i ? whitener[((long long)(f * D + d) * M + i) * M + j] : REAL(0);
    v[r] = i < M ? outputs[(particle * D + d) * M + i] : REAL(0);
#pragma unroll
    for (int c = 0; c < D; ++c) Z[r][c] = i < M ? centres[((f * D + d) * M + i) * D + c] : REAL(0);
  }
#pragma unroll
  for (int c = 0; c < D; ++c) {
    scale[c] = relevance[f * D + c];
    A_row[c] = A[(f * D + d) * D + c];
  }
  const REAL prior = variance[f * D + d], q = Q[f * D + d];
  if (lane == 0) both[0][d] = start[particle * D + d];
  const REAL *my_forcing = forcing + (n * steps * D + d) * M, *my_drift = drift + n * steps * D + d;
  const REAL *my_h = h + n * steps, *my_epsilon = epsilon + particle * steps * D + d;
  REAL* my_states = states + particle * steps * D + d;
  REAL* k = &correlation[d][0].v[0];
  Ahead now, next;
  fetch(next, my_forcing, my_drift, my_h, my_epsilon, 0, steps);
  __syncthreads();
  for (int base = 0; base < steps; base += kAhead) {
    now = next;
    fetch(next, my_forcing, my_drift, my_h, my_epsilon, base + kAhead, steps);
#pragma unroll
    for (int t = 0; t < kAhead; ++t) {
      REAL x[D];
#pragma unroll
      for (int c = 0; c < D; ++c) x[c] = both[t % 2][c];
#pragma unroll
      for (int r = 0; r < kSlots; ++r) {
        REAL r2 = now.forcing[t][r];
#pragma unroll
        for (int c = 0; c < D; ++c) {
          const REAL gap = Z[r][c] - x[c];
          r2 += scale[c] * (gap * gap);
        }
        k[lane + 32 * r] = two_to_the(REAL(kHalf) * r2);
      }
      __syncwarp();
      REAL value = 0, squares = 0, a[kSlots][4] = {};
#pragma unroll
      for (int j = 0; j < kSlots * 8; ++j) {
        if (4 * j >= M) break;
        const Four four = correlation[d][j];
#pragma unroll
        for (int r = 0; r < kSlots; ++r)
          if (j < 8 * (r + 1))
#pragma unroll
            for (int q = 0; q < 4; ++q) a[r][q] += w[r][4 * j + q] * four.v[q];
      }
#pragma unroll
      for (int r = 0; r < kSlots; ++r) {
        const REAL sum = (a[r][0] + a[r][1]) + (a[r][2] + a[r][3]);
        value += sum * v[r];
        squares += sum * sum;
      }
#pragma unroll
      for (int far = 16; far > 0; far /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, far);
        squares += __shfl_xor_sync(0xffffffffu, squares, far);
      }
      REAL change = now.drift[t], mine = 0;
#pragma unroll
      for (int c = 0; c < D; ++c) {
        change += A_row[c] * x[c];
        if (c == d) mine = x[c];
      }
      const REAL step = now.h[t], sigma = prior - squares, clipped = sigma < 0 ? REAL(0) : sigma;
      mine += step * (change + value) + square_root(step * step * clipped + step * q) * now.epsilon[t];
      if (lane == 0) {
        both[(t + 1) % 2][d] = mine;
        if (base + t < steps) my_states[(long long)(base + t) * D] = mine;
      }
      __syncthreads();
    }
  }
}

// Sums over the block's particles of weight k_i k_j for four rows i and four columns j, which lie kBlocks apart: so
// neighbouring threads read neighbouring rows.
__device__ void add_tile(const REAL* left, const REAL* right, const REAL* weight, REAL* sum) {
  for (int p = 0; p < kParticles; p += 4) {
    Four l[4], r[4];
    const Four w = pack<4>(weight + p);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      l[i] = pack<4>(left + i * kBlocks * kStride + p);
      r[i] = pack<4>(right + i * kBlocks * kStride + p);
#pragma unroll
      for (int q = 0; q < 4; ++q) l[i].v[q] *= w.v[q];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int q = 0; q < 4; ++q) sum[4 * i + j] += l[i].v[q] * r[j].v[q];
  }
}

// Tile number `index` of all D triangles: its latent dimension, its first row and its first column.
struct Tile {
  int d, i, j;
  __device__ explicit Tile(int index) {
    d = index / kTiles;
    const int rest = index % kTiles;
    i = 0;
    while (tile(i + 1, 0) <= rest) ++i;
    j = rest - tile(i, 0);
  }
};

// One number per particle, summed over the block for one latent dimension: by thread `d`, in order.
__device__ REAL summed(REAL* row, REAL mine, const Place& at) {
  __syncthreads();
  if (at.used) row[at.d * kStride + at.p] = mine;
  __syncthreads();
  REAL sum = 0;
  if (threadIdx.x < D)
    for (int p = 0; p < kParticles; ++p) sum += row[threadIdx.x * kStride + p];
  return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads, RESIDENT)
    backward(const REAL* __restrict__ start, const REAL* __restrict__ centres, const REAL* __restrict__ relevance,
             const REAL* __restrict__ whitener, const REAL* __restrict__ variance, const REAL* __restrict__ outputs,
             const REAL* __restrict__ A, const REAL* __restrict__ Q, const REAL* __restrict__ drift,
             const REAL* __restrict__ forcing, const REAL* __restrict__ h, const REAL* __restrict__ epsilon,
             const REAL* __restrict__ states, const REAL* __restrict__ cotangent,
             // per particle and per window
             REAL* __restrict__ dstart, REAL* __restrict__ kappa, REAL* __restrict__ depsilon,
             REAL* __restrict__ ddrift, REAL* __restrict__ dforcing, REAL* __restrict__ dh,
             // per block
             REAL* __restrict__ moments, REAL* __restrict__ slopes, REAL* __restrict__ curves,
             REAL* __restrict__ dvariance, REAL* __restrict__ dA, REAL* __restrict__ dQ, int windows, int steps) {
  extern __shared__ Four memory[];
  REAL* rows = &memory[0].v[0];             // D x 16 kTiles
  REAL* columns = rows + D * 16 * kTiles;   // D x 16 kTiles
  REAL* v = columns + D * 16 * kTiles;      // D x kPadded x kStride
  REAL* K = v + D * kPadded * kStride;      // D x kPadded x kStride: k, then the gradient of r2, of all particles
  REAL* X = K + D * kPadded * kStride;      // D x kStride
  REAL* weight = X + D * kStride;           // D x kStride: dsigma
  REAL* pulls = weight + D * kStride;       // D x kStride: h lambda
  REAL* rates = pulls + D * kStride;        // D x kStride: the gradient of h
  REAL* back = rates + D * kStride;         // D x D x kStride: from dimension d to the state's c
  REAL* Z = back + D * D * kStride;         // D x M x D
  const int f = blockIdx.y, block = f * gridDim.x + blockIdx.x;
  const Place at(windows);
  load_rows(whitener + (long long)f * D * M * M, rows);
  load_columns(whitener + (long long)f * D * M * M, columns);
  for (int i = threadIdx.x; i < D * M * D; i += kThreads) Z[i] = centres[f * D * M * D + i];
  for (int i = threadIdx.x; i < D * kPadded * kStride; i += kThreads) v[i] = K[i] = 0;
  for (int i = threadIdx.x; i < (4 + D) * D * kStride; i += kThreads) X[i] = 0;
  __syncthreads();
  REAL *own = K + at.d * kPadded * kStride + at.p, *mine = v + at.d * kPadded * kStride + at.p;
  if (at.live)
    for (int i = 0; i < M; ++i) mine[i * kStride] = outputs[(at.particle * D + at.d) * M + i];
  REAL scale[D], A_row[D], A_sum[D] = {};
#pragma unroll
  for (int c = 0; c < D; ++c) {
    scale[c] = relevance[f * D + c];
    A_row[c] = A[(f * D + at.d) * D + c];
  }
  const REAL prior = variance[f * D + at.d], q = Q[f * D + at.d];
  REAL lambda = 0, Q_sum = 0, prior_sum = 0, kappas[M] = {}, C[kPerThread][16] = {};
  REAL slope[D] = {}, curve[D] = {};
  // In the sums over samples a thread is one inducing point of one dimension, and one of `kGroups` groups of windows.
  constexpr int kGroups = kThreads / (D * M) > 0 ? (kThreads / (D * M) < W ? kThreads / (D * M) : W) : 1;
  __syncthreads();
  for (int t = steps - 1; t >= 0; --t) {
    const long long row = (at.n * steps + t) * D + at.d, place = (at.particle * steps + t) * D + at.d;
    REAL x[D], a[kPadded];
#pragma unroll
    for (int c = 0; c < D; ++c)
      x[c] = t > 0 ? states[(at.particle * steps + t - 1) * D + c] : start[at.particle * D + c];
    correlations(Z + at.d * M * D, scale, forcing + row * M, x, a);
    if (at.used) {
#pragma unroll
      for (int j = 0; j < M; ++j) own[j * kStride] = at.live ? a[j] : REAL(0);
    }
    whiten(rows + at.d * 16 * kTiles, a);
    const REAL step = h[at.n * steps + t], noise = epsilon[place];
    lambda = at.live ? lambda + cotangent[place] : REAL(0);
    REAL value = 0, squares = 0, change = drift[row];
#pragma unroll
    for (int i = 0; i < M; ++i) {
      value += a[i] * mine[i * kStride];
      squares += a[i] * a[i];
    }
    const REAL sigma = prior - squares, clipped = sigma < 0 ? REAL(0) : sigma;
    const REAL root = square_root(step * step * clipped + step * q), dspread = REAL(0.5) * lambda * noise / root;
    const REAL dsigma = sigma < 0 ? REAL(0) : dspread * (step * step), pull = step * lambda;
#pragma unroll
    for (int c = 0; c < D; ++c) {
      change += A_row[c] * x[c];
      A_sum[c] += pull * x[c];
    }
    Q_sum += dspread * step;
    prior_sum += dsigma;
    if (at.live) depsilon[place] = lambda * root;
    if (at.used) {
#pragma unroll
      for (int c = 0; c < D; ++c)
        if (c == at.d) X[c * kStride + at.p] = x[c];
      weight[at.d * kStride + at.p] = dsigma;
      pulls[at.d * kStride + at.p] = pull;
      rates[at.d * kStride + at.p] = lambda * (change + value) + dspread * (2 * step * clipped + q);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kPerThread; ++r)
      if (threadIdx.x + r * kThreads < kTiles * D) {
        const Tile to(threadIdx.x + r * kThreads);
        const REAL* k = K + to.d * kPadded * kStride;
        add_tile(k + to.i * kStride, k + to.j * kStride, weight + to.d * kStride, C[r]);
      }
    __syncthreads();
    REAL before[D];
#pragma unroll
    for (int c = 0; c < D; ++c) before[c] = pull * A_row[c];
#pragma unroll
    for (int i = 0; i < M; ++i) a[i] = pull * mine[i * kStride] - 2 * dsigma * a[i];
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      REAL sum[4] = {};
      const REAL* four = columns + at.d * 16 * kTiles + column_start(j);
#pragma unroll
      for (int i = j; i < kBlocks; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const Four w = pack<4>(four + c * (kPadded - 4 * j) + 4 * (i - j));
#pragma unroll
          for (int q = 0; q < 4; ++q) sum[c] += w.v[q] * a[4 * i + q];
        }
#pragma unroll
      for (int r = 0; r < 4; ++r)
        if (4 * j + r < M) {
          const REAL k = own[(4 * j + r) * kStride], dr2 = REAL(-0.5) * sum[r] * k;
          kappas[4 * j + r] += pull * k;
#pragma unroll
          for (int c = 0; c < D; ++c)
            before[c] -= 2 * scale[c] * dr2 * (Z[(at.d * M + 4 * j + r) * D + c] - x[c]);
          if (at.used) own[(4 * j + r) * kStride] = dr2;
        }
    }
    if (at.used) {
#pragma unroll
      for (int c = 0; c < D; ++c) back[(at.d * D + c) * kStride + at.p] = before[c];
    }
    __syncthreads();
    for (int c = 0; c < D; ++c) lambda += back[(c * D + at.d) * kStride + at.p];
    for (int item = threadIdx.x, first = 1; item < D * M * kGroups; item += kThreads, first = 0) {
      const int group = item / (D * M), d = item / M % D, j = item % M;
      const REAL* from = K + (d * kPadded + j) * kStride;
      REAL moved[D] = {}, bent[D] = {};
      for (int w = group; w < W; w += kGroups) {
        REAL sum = 0;
        for (int s = 0; s < S; s += kWide) {
          const Pack<kWide> dr2 = pack<kWide>(from + w * S + s);
#pragma unroll
          for (int q = 0; q < kWide; ++q) sum += dr2.v[q];
#pragma unroll
          for (int c = 0; c < D; ++c) {
            const Pack<kWide> state = pack<kWide>(X + c * kStride + w * S + s);
#pragma unroll
            for (int q = 0; q < kWide; ++q) {
              const REAL gap = Z[(d * M + j) * D + c] - state.v[q], moment = dr2.v[q] * gap;
              moved[c] += moment;
              bent[c] += moment * gap;
            }
          }
        }
        const int window = blockIdx.x * W + w;
        if (window < windows)
          dforcing[((((long long)f * windows + window) * steps + t) * D + d) * M + j] = sum;
      }
      // With more items than threads only the first can be kept in registers; the rest goes to memory of its own.
      REAL* to = slopes + (((long long)block * kGroups + group) * D * M + d * M + j) * D;
      REAL* and_to = curves + (((long long)block * kGroups + group) * D * M + d * M + j) * D;
#pragma unroll
      for (int c = 0; c < D; ++c)
        if (first) {
          slope[c] += moved[c];
          curve[c] += bent[c];
        } else {
          to[c] = (t == steps - 1 ? REAL(0) : to[c]) + moved[c];
          and_to[c] = (t == steps - 1 ? REAL(0) : and_to[c]) + bent[c];
        }
    }
    for (int item = threadIdx.x; item < W * (D + 1); item += kThreads) {
      const int w = item / (D + 1), d = item % (D + 1), window = blockIdx.x * W + w;
      REAL sum = 0;
      for (int s = 0; s < S; ++s)
        if (d < D)
          sum += pulls[d * kStride + w * S + s];
        else
          for (int c = 0; c < D; ++c) sum += rates[c * kStride + w * S + s];
      if (window >= windows) continue;
      const long long to = ((long long)f * windows + window) * steps + t;
      if (d < D)
        ddrift[to * D + d] = sum;
      else
        dh[to] = sum;
    }
    __syncthreads();
  }
  if (at.live) {
    dstart[at.particle * D + at.d] = lambda;
#pragma unroll
    for (int j = 0; j < M; ++j) kappa[(at.particle * D + at.d) * M + j] = kappas[j];
  }
#pragma unroll
  for (int r = 0; r < kPerThread; ++r)
    if (threadIdx.x + r * kThreads < kTiles * D) {
      const Tile to(threadIdx.x + r * kThreads);
      REAL* matrix = moments + ((long long)block * D + to.d) * M * M;
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int row = to.i + i * kBlocks, column = to.j + j * kBlocks;
          if (row < M && column < M) matrix[row * M + column] = matrix[column * M + row] = C[r][4 * i + j];
        }
    }
  if (threadIdx.x < D * M * kGroups)
#pragma unroll
    for (int c = 0; c < D; ++c) {
      slopes[((long long)block * kGroups * D * M + threadIdx.x) * D + c] = slope[c];
      curves[((long long)block * kGroups * D * M + threadIdx.x) * D + c] = curve[c];
    }
  REAL sum = summed(weight, prior_sum, at);
  if (threadIdx.x < D) dvariance[block * D + threadIdx.x] = sum;
  sum = summed(weight, Q_sum, at);
  if (threadIdx.x < D) dQ[block * D + threadIdx.x] = sum;
#pragma unroll
  for (int c = 0; c < D; ++c) {
    sum = summed(weight, A_sum[c], at);
    if (threadIdx.x < D) dA[(block * D + threadIdx.x) * D + c] = sum;
  }
}
