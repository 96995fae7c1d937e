// Full Monte Carlo rollouts of one component and their reverse pass, for CPUs.
//
// One step of one sample, with z = [x, u], r2[d][m] = forcing[d][m] + sum_e relevance[e] (Z[d][m][e] - x[e])^2:
//
//     k = exp(-r2 / 2),   a = W k,   Sigma = c - |a|^2,   V = h^2 max(Sigma, 0) + h Q,
//     x' = x + h (A x + drift + a . v) + sqrt(V) epsilon          (per latent dimension d)
//
// W is lower triangular. Samples of one window lie in the lanes of SIMD vectors: what depends on the input alone is read
// once for all of them, and the triangle is walked once. The reverse pass recomputes k and a from the states and keeps
// them for the whole window, so that dW is one product over all steps and samples.
//
// Results depend neither on timing nor on the number of threads: work comes in fixed portions, and partial sums are added
// in their order.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// Bytes of a vector, and how many vectors of samples are taken at a time.
#ifdef __AVX512F__
constexpr int kBytes = 64, kVectors = 2;
#else
constexpr int kBytes = 32, kVectors = 3;
#endif
template <typename T>
struct Lanes {
  static constexpr int width = kBytes / sizeof(T);
  typedef T vec __attribute__((vector_size(kBytes)));
  using bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef bits ivec __attribute__((vector_size(kBytes)));
};
template <typename T>
using Vec = typename Lanes<T>::vec;

template <typename T>
inline Vec<T> all(T value) {
  return value - Vec<T>{};
}

// The sum of all lanes: halves are added until few are left.
template <typename T>
inline T total(Vec<T> v) {
  typedef T half __attribute__((vector_size(kBytes / 2)));
  typedef T quarter __attribute__((vector_size(kBytes / 4)));
  half halves[2];
  std::memcpy(halves, &v, kBytes);
  const half once = halves[0] + halves[1];
  quarter quarters[2];
  std::memcpy(quarters, &once, kBytes / 2);
  const quarter twice = quarters[0] + quarters[1];
  T sum = 0;
  for (int i = 0; i < Lanes<T>::width / 4; ++i) sum += twice[i];
  return sum;
}

template <typename T>
inline Vec<T> root_of(Vec<T> v) {
  T lanes[Lanes<T>::width];
  std::memcpy(lanes, &v, kBytes);
  for (T& lane : lanes) lane = std::sqrt(lane);
  std::memcpy(&v, lanes, kBytes);
  return v;
}

// exp(x) for x <= 0 by 2^n times a polynomial; not-a-number stays what it is, below the smallest normal number it is 0.
inline Vec<float> exponential(Vec<float> x) {
  using I = Lanes<float>::ivec;
  const Vec<float> clamped = x < -87.0f ? all<float>(-87.0f) : x;
  const Vec<float> shifted = clamped * 1.44269504089f + 12582912.0f;  // rounds to the nearest whole number
  const Vec<float> n = shifted - 12582912.0f;
  const Vec<float> r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec<float> p = all<float>(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const I scale = (__builtin_convertvector(n, I) + 127) << 23;
  const Vec<float> result = p * (Vec<float>)scale;
  return x < -87.0f ? all<float>(0.0f) : result;
}

inline Vec<double> exponential(Vec<double> x) {
  using I = Lanes<double>::ivec;
  const Vec<double> clamped = x < -708.0 ? all<double>(-708.0) : x;
  const Vec<double> shifted = clamped * 1.4426950408889634 + 6755399441055744.0;
  const Vec<double> n = shifted - 6755399441055744.0;
  const Vec<double> r = (clamped - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  Vec<double> p = all<double>(1.0 / 6227020800.0);
  const double c[] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                      1.0 / 5040.0,      1.0 / 720.0,      1.0 / 120.0,     1.0 / 24.0,     1.0 / 6.0, 0.5, 1.0, 1.0};
  for (double coefficient : c) p = p * r + coefficient;
  const I scale = ((I)(n + 6755399441055744.0) - (I)all<double>(6755399441055744.0) + 1023) << 52;
  const Vec<double> result = p * (Vec<double>)scale;
  return x < -708.0 ? all<double>(0.0) : result;
}

struct Shape {
  int64_t members, windows, samples, steps, dims, inducing;
};

// All arrays are dense and row-major; `members` is the leading axis of each.
template <typename T>
struct Inputs {
  const T *start, *centres, *relevance, *whitener, *variance, *outputs, *A, *Q, *drift, *forcing, *h, *epsilon;
};
template <typename T>
struct Gradients {
  T *start, *centres, *relevance, *whitener, *variance, *outputs, *A, *Q, *drift, *forcing, *h, *epsilon;
};

// Rows of the triangle that are walked together, so that enough sums are under way at once; W is padded to whole tiles.
constexpr int kRows = 8;
template <int NV>
constexpr int rows_of = NV == 1 ? 8 : 4;

// y[i] = sum_{j <= i} W[i][j] x[j] for NV vectors of lanes.
template <typename T, int NV>
void lower_product(const T* W, int64_t m, const Vec<T>* x, Vec<T>* y) {
  constexpr int R = rows_of<NV>;
  for (int64_t i = 0; i < m; i += R) {
    Vec<T> sum[R][NV] = {};
    const int64_t last = std::min(i + R, m);
    for (int64_t j = 0; j < last; ++j)
      for (int r = 0; r < R; ++r)
        for (int q = 0; q < NV; ++q) sum[r][q] += W[(i + r) * m + j] * x[j * NV + q];
    for (int r = 0; r < R && i + r < m; ++r)
      for (int q = 0; q < NV; ++q) y[(i + r) * NV + q] = sum[r][q];
  }
}

// x[j] = sum_{i >= j} W[i][j] y[i]; `Wt` is W transposed, padded likewise.
template <typename T, int NV>
void upper_product(const T* Wt, int64_t m, const Vec<T>* y, Vec<T>* x) {
  constexpr int R = rows_of<NV>;
  for (int64_t j = 0; j < m; j += R) {
    Vec<T> sum[R][NV] = {};
    for (int64_t i = j; i < m; ++i)
      for (int r = 0; r < R; ++r)
        for (int q = 0; q < NV; ++q) sum[r][q] += Wt[(j + r) * m + i] * y[i * NV + q];
    for (int r = 0; r < R && j + r < m; ++r)
      for (int q = 0; q < NV; ++q) x[(j + r) * NV + q] = sum[r][q];
  }
}

// What the reverse pass keeps of one latent dimension at one step: m x NV vectors each of k, of da and of dr2.
constexpr int kKept = 3;

// G[i][j] += sum over all steps and lanes of da[i] k[j], j <= i.
template <typename T, int NV>
void outer_product(const Vec<T>* kept, int64_t m, int64_t steps, T* G) {
  constexpr int R = 4;
  for (int64_t i = 0; i < m; i += R)
    for (int64_t j = 0; j < std::min(i + R, m); j += R) {
      Vec<T> sum[R][R] = {};
      int64_t rows[R], columns[R];
      for (int r = 0; r < R; ++r) {
        rows[r] = (m + std::min(i + r, m - 1)) * NV;
        columns[r] = std::min(j + r, m - 1) * NV;
      }
      for (int64_t t = 0; t < steps; ++t) {
        const Vec<T>* here = kept + t * kKept * m * NV;
        for (int q = 0; q < NV; ++q)
          for (int r = 0; r < R; ++r)
            for (int c = 0; c < R; ++c) sum[r][c] += here[rows[r] + q] * here[columns[c] + q];
      }
      for (int r = 0; r < R && i + r < m; ++r)
        for (int c = 0; c < R && j + c <= i + r; ++c) G[(i + r) * m + j + c] += total<T>(sum[r][c]);
    }
}

// What one member's parameters look like to the loops: W and its transpose in whole tiles of rows, and the inducing
// inputs in units where k = exp(-forcing / 2 - sum_e (Z[e] - x[e])^2).
template <typename T>
struct Member {
  std::vector<T> W, Wt, centres, units;
  int64_t padded;
  Member(const Shape& s, const Inputs<T>& in, int64_t f) : padded((s.inducing + kRows - 1) / kRows * kRows) {
    const int64_t m = s.inducing, e = s.dims;
    const T *whitener = in.whitener + f * e * m * m, *own = in.centres + f * e * m * e;
    for (int64_t c = 0; c < e; ++c) units.push_back(std::sqrt(in.relevance[f * e + c] * T(0.5)));
    for (int64_t i = 0; i < e * m * e; ++i) centres.push_back(own[i] * units[i % e]);
    W.assign(s.dims * padded * m, 0);
    Wt.assign(s.dims * padded * m, 0);
    for (int64_t d = 0; d < s.dims; ++d)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j <= i; ++j) {
          W[(d * padded + i) * m + j] = whitener[(d * m + i) * m + j];
          Wt[(d * padded + j) * m + i] = whitener[(d * m + i) * m + j];
        }
  }
};

// A group of NV vectors of samples of one window.
template <typename T, int NV>
struct Group {
  const Shape& s;
  const Inputs<T>& in;
  const Member<T>& member;
  int64_t f, n, first, count;  // member, window, first sample, number of samples
  static constexpr int width = Lanes<T>::width;

  int64_t window() const { return f * s.windows + n; }
  int64_t sample(int64_t lane) const { return window() * s.samples + first + lane; }

  // Lanes beyond the last sample repeat it, and count nowhere.
  void gather(const T* from, int64_t stride, int64_t at, Vec<T>* to) const {
    for (int64_t lane = 0; lane < NV * width; ++lane)
      to[lane / width][lane % width] = from[sample(std::min(lane, count - 1)) * stride + at];
  }
  void scatter(const Vec<T>* from, T* to, int64_t stride, int64_t at) const {
    for (int64_t lane = 0; lane < count; ++lane) to[sample(lane) * stride + at] = from[lane / width][lane % width];
  }
  void load_outputs(Vec<T>* v) const {
    for (int64_t i = 0; i < s.dims * s.inducing; ++i) gather(in.outputs, s.dims * s.inducing, i, v + i * NV);
  }

  // States in the units of the member's centres.
  void rescale(const Vec<T>* x, Vec<T>* scaled) const {
    for (int64_t c = 0; c < s.dims; ++c)
      for (int q = 0; q < NV; ++q) scaled[c * NV + q] = member.units[c] * x[c * NV + q];
  }

  // E is the number of latent dimensions where the compiler knows it, else 0.
  template <int E>
  void correlations(const Vec<T>* scaled, int64_t t, int64_t d, Vec<T>* k) const {
    const int64_t m = s.inducing, e = E ? E : s.dims;
    const T* forcing = in.forcing + ((window() * s.steps + t) * e + d) * m;
    const T* centres = member.centres.data() + d * m * e;
    Vec<T> own[E ? E * NV : 1];
    if (E) std::copy(scaled, scaled + E * NV, own);  // into registers
    const Vec<T>* x = E ? own : scaled;
    for (int64_t i = 0; i < m; ++i)
      for (int q = 0; q < NV; ++q) {
        Vec<T> sum = all<T>(T(0.5) * forcing[i]);
        for (int64_t c = 0; c < e; ++c) {
          const Vec<T> gap = centres[i * e + c] - x[c * NV + q];
          sum += gap * gap;
        }
        k[i * NV + q] = exponential(-sum);
      }
  }

  // f = a . v and Sigma of one dimension; leaves k and a behind.
  template <int E>
  void features(const Vec<T>* scaled, const Vec<T>* v, int64_t t, int64_t d, Vec<T>* k, Vec<T>* a, Vec<T>* value,
                Vec<T>* sigma) const {
    const int64_t m = s.inducing;
    correlations<E>(scaled, t, d, k);
    lower_product<T, NV>(member.W.data() + d * member.padded * m, m, k, a);
    for (int q = 0; q < NV; ++q) {
      Vec<T> sum = {}, squares = {};
      for (int64_t i = 0; i < m; ++i) {
        sum += a[i * NV + q] * v[(d * m + i) * NV + q];
        squares += a[i * NV + q] * a[i * NV + q];
      }
      value[q] = sum;
      sigma[q] = in.variance[f * s.dims + d] - squares;
    }
  }

  template <int E>
  void forward(T* states) const {
    const int64_t m = s.inducing, e = E ? E : s.dims;
    std::vector<Vec<T>> v(e * m * NV), x(e * NV), scaled(e * NV), next(e * NV), k(m * NV), a(m * NV);
    load_outputs(v.data());
    for (int64_t d = 0; d < e; ++d) gather(in.start, e, d, &x[d * NV]);
    for (int64_t t = 0; t < s.steps; ++t) {
      const T h = in.h[window() * s.steps + t];
      rescale(x.data(), scaled.data());
      for (int64_t d = 0; d < e; ++d) {
        Vec<T> value[NV], sigma[NV], noise[NV];
        features<E>(scaled.data(), v.data(), t, d, k.data(), a.data(), value, sigma);
        gather(in.epsilon, s.steps * e, t * e + d, noise);
        for (int q = 0; q < NV; ++q) {
          Vec<T> drift = value[q] + in.drift[(window() * s.steps + t) * e + d];
          for (int64_t c = 0; c < e; ++c) drift += in.A[(f * e + d) * e + c] * x[c * NV + q];
          const Vec<T> spread = h * h * (sigma[q] < 0 ? all<T>(0) : sigma[q]) + h * in.Q[f * e + d];
          next[d * NV + q] = x[d * NV + q] + h * drift + root_of<T>(spread) * noise[q];
        }
      }
      x = next;
      for (int64_t d = 0; d < e; ++d) scatter(&x[d * NV], states, s.steps * e, t * e + d);
    }
  }

  // `sums` are one member's gradients that add up over windows; `own` those that belong to windows or samples alone.
  template <int E>
  void backward(const T* states, const T* cotangent, const Gradients<T>& sums, const Gradients<T>& own,
                std::vector<Vec<T>>& kept) const {
    const int64_t m = s.inducing, e = E ? E : s.dims;
    std::vector<Vec<T>> v(e * m * NV), dv(e * m * NV), path(s.steps * e * NV), scaled(e * NV), adjoint(e * NV), before;
    std::vector<Vec<T>> a(m * NV), dk(m * NV), squares(e), dA(e * e), dQ(e), dvariance(e);
    kept.resize(e * s.steps * kKept * m * NV);
    load_outputs(v.data());
    Vec<T> live[NV];
    for (int64_t lane = 0; lane < NV * width; ++lane) live[lane / width][lane % width] = lane < count ? T(1) : T(0);
    for (int64_t t = s.steps - 1; t >= 0; --t) {
      const int64_t place = window() * s.steps + t;
      const T h = in.h[place];
      Vec<T>* x = &path[t * e * NV];
      for (int64_t d = 0; d < e; ++d) {
        Vec<T> g[NV];
        gather(cotangent, s.steps * e, t * e + d, g);
        for (int q = 0; q < NV; ++q) adjoint[d * NV + q] += g[q] * live[q];
        if (t > 0)
          gather(states, s.steps * e, (t - 1) * e + d, x + d * NV);
        else
          gather(in.start, e, d, x + d * NV);
      }
      rescale(x, scaled.data());
      before = adjoint;
      Vec<T> dh = {};
      for (int64_t d = 0; d < e; ++d) {
        Vec<T> value[NV], sigma[NV], noise[NV], dsigma[NV], pull[NV], ddrift = {};
        Vec<T>*k = &kept[(d * s.steps + t) * kKept * m * NV], *da = k + m * NV, *dr2 = da + m * NV;
        features<E>(scaled.data(), v.data(), t, d, k, a.data(), value, sigma);
        gather(in.epsilon, s.steps * e, t * e + d, noise);
        const T Q = in.Q[f * e + d], constant = in.drift[place * e + d];
        for (int q = 0; q < NV; ++q) {
          const Vec<T> lambda = adjoint[d * NV + q], clipped = sigma[q] < 0 ? all<T>(0) : sigma[q];
          const Vec<T> root = root_of<T>(h * h * clipped + h * Q);
          const Vec<T> dspread = T(0.5) * lambda * noise[q] / root;
          dsigma[q] = sigma[q] < 0 ? all<T>(0) : dspread * (h * h);
          pull[q] = h * lambda;
          Vec<T> drift = value[q] + constant;
          for (int64_t c = 0; c < e; ++c) {
            drift += in.A[(f * e + d) * e + c] * x[c * NV + q];
            before[c * NV + q] += in.A[(f * e + d) * e + c] * pull[q];
            dA[d * e + c] += pull[q] * x[c * NV + q];
          }
          dh += lambda * drift + dspread * (T(2) * h * clipped + Q);
          dQ[d] += dspread * h;
          dvariance[d] += dsigma[q];
          ddrift += pull[q];
          noise[q] = lambda * root;
        }
        scatter(noise, own.epsilon, s.steps * e, t * e + d);
        own.drift[place * e + d] += total<T>(ddrift);
        for (int64_t i = 0; i < m; ++i)
          for (int q = 0; q < NV; ++q) {
            const int64_t at = i * NV + q, both = (d * m + i) * NV + q;
            da[at] = pull[q] * v[both] - T(2) * dsigma[q] * a[at];
            dv[both] += pull[q] * a[at];
          }
        upper_product<T, NV>(member.Wt.data() + d * member.padded * m, m, da, dk.data());
        for (int64_t i = 0; i < m * NV; ++i) dr2[i] = T(-0.5) * dk[i] * k[i];
        pull_back<E>(x, dr2, d, own.forcing + (place * e + d) * m, before.data(), squares.data());
      }
      adjoint = before;
      own.h[place] += total<T>(dh);
    }
    for (int64_t d = 0; d < e; ++d) {
      scatter(&adjoint[d * NV], own.start, e, d);
      const Vec<T>* own_kept = &kept[d * s.steps * kKept * m * NV];
      outer_product<T, NV>(own_kept, m, s.steps, sums.whitener + d * m * m);
      moments<E>(path.data(), own_kept, d, sums.centres + d * m * e);
    }
    for (int64_t i = 0; i < e * m; ++i) scatter(&dv[i * NV], own.outputs, e * m, i);
    add_totals(squares, sums.relevance);
    add_totals(dA, sums.A);
    add_totals(dQ, sums.Q);
    add_totals(dvariance, sums.variance);
  }

  static void add_totals(const std::vector<Vec<T>>& from, T* to) {
    for (size_t i = 0; i < from.size(); ++i) to[i] += total<T>(from[i]);
  }

  // From dr2 to the state, to the input's part of r2, and to the relevances.
  template <int E>
  void pull_back(const Vec<T>* x, const Vec<T>* dr2, int64_t d, T* dforcing, Vec<T>* before, Vec<T>* squares) const {
    const int64_t m = s.inducing, e = E ? E : s.dims;
    const T *centres = in.centres + (f * e + d) * m * e, *relevance = in.relevance + f * e;
    std::vector<Vec<T>> more(E ? 0 : e * (NV + 1));
    Vec<T> few[E ? E * (NV + 1) : 1] = {}, own[E ? E * NV : 1];
    if (E) std::copy(x, x + E * NV, own);  // into registers
    Vec<T>*slopes = E ? few : more.data(), *curves = slopes + e * NV;
    for (int64_t i = 0; i < m; ++i) {
      Vec<T> sum = {};
      for (int q = 0; q < NV; ++q) {
        sum += dr2[i * NV + q];
        for (int64_t c = 0; c < e; ++c) {
          const Vec<T> gap = centres[i * e + c] - (E ? own : x)[c * NV + q], slope = dr2[i * NV + q] * gap;
          slopes[c * NV + q] += slope;
          curves[c] += slope * gap;
        }
      }
      dforcing[i] += total<T>(sum);
    }
    for (int64_t c = 0; c < e; ++c) {
      for (int q = 0; q < NV; ++q) before[c * NV + q] -= T(2) * relevance[c] * slopes[c * NV + q];
      squares[c] += curves[c];
    }
  }

  // dcentres[i][c] += sum over all steps and lanes of dr2 (Z - x); `run_backward` scales it in the end.
  template <int E>
  void moments(const Vec<T>* path, const Vec<T>* kept, int64_t d, T* dcentres) const {
    const int64_t m = s.inducing, e = E ? E : s.dims;
    const T* centres = in.centres + (f * e + d) * m * e;
    constexpr int R = 4;
    for (int64_t i = 0; i < m; i += R)
      for (int64_t c = 0; c < e; ++c) {
        Vec<T> sum[R] = {};
        T own[R];
        int64_t rows[R];
        for (int r = 0; r < R; ++r) {
          const int64_t row = std::min(i + r, m - 1);
          own[r] = centres[row * e + c];
          rows[r] = (2 * m + row) * NV;
        }
        for (int64_t t = 0; t < s.steps; ++t)
          for (int q = 0; q < NV; ++q) {
            const Vec<T> x = path[(t * e + c) * NV + q];
            for (int r = 0; r < R; ++r) sum[r] += kept[t * kKept * m * NV + rows[r] + q] * (own[r] - x);
          }
        for (int r = 0; r < R && i + r < m; ++r) dcentres[(i + r) * e + c] += total<T>(sum[r]);
      }
  }
};

// Up to `kVectors` vectors of samples at a time, from `first` on; `act` gets them and their latent dimensions (see `E`).
template <typename T, typename Act>
void with_group(const Shape& s, const Inputs<T>& in, const Member<T>& member, int64_t window, int64_t first, Act act) {
  constexpr int width = Lanes<T>::width;
  const int64_t f = window / s.windows, n = window % s.windows, count = std::min(s.samples - first, int64_t(kVectors * width));
  const auto with_dims = [&](const auto& group) {
    switch (s.dims) {
      case 2: return act(group, std::integral_constant<int, 2>{});
      case 4: return act(group, std::integral_constant<int, 4>{});
      case 6: return act(group, std::integral_constant<int, 6>{});
      default: return act(group, std::integral_constant<int, 0>{});
    }
  };
  if (count > 2 * width)
    with_dims(Group<T, kVectors>{s, in, member, f, n, first, count});
  else if (count > width)
    with_dims(Group<T, 2>{s, in, member, f, n, first, count});
  else
    with_dims(Group<T, 1>{s, in, member, f, n, first, count});
}

// Work cut into portions that XLA's own threads and the caller take one by one; `act` gets a portion and its items.
// The caller takes what nobody has begun, so that it never waits for a thread that waits for it.
constexpr int64_t kPortions = 32;

struct Work {
  std::function<void(int64_t)> act;
  int64_t portions;
  std::atomic<int64_t> next{0}, done{0};
  void take() {
    for (int64_t i = next++; i < portions; i = next++) {
      act(i);
      ++done;
    }
  }
};

template <typename Act>
void in_parallel(ffi::ThreadPool& pool, int64_t items, Act act) {
  const int64_t portions = std::min(items, kPortions);
  auto work = std::make_shared<Work>();
  work->act = [=](int64_t i) { act(i, items * i / portions, items * (i + 1) / portions); };
  work->portions = portions;
  for (int64_t i = 1; i < std::min(portions, pool.num_threads()); ++i) pool.Schedule([work] { work->take(); });
  work->take();
  while (work->done < portions) std::this_thread::yield();
}

template <typename T>
void run_forward(ffi::ThreadPool& pool, const Shape& s, const Inputs<T>& in, T* states) {
  std::vector<Member<T>> members;
  for (int64_t f = 0; f < s.members; ++f) members.emplace_back(s, in, f);
  const int64_t most = kVectors * Lanes<T>::width, groups = (s.samples + most - 1) / most;
  in_parallel(pool, s.members * s.windows * groups, [&](int64_t, int64_t from, int64_t to) {
    for (int64_t item = from; item < to; ++item) {
      const int64_t window = item / groups;
      with_group<T>(s, in, members[window / s.windows], window, item % groups * most,
                    [&](const auto& group, auto dims) { group.template forward<dims>(states); });
    }
  });
}

template <typename T>
void run_backward(ffi::ThreadPool& pool, const Shape& s, const Inputs<T>& in, const T* states, const T* cotangent, const Gradients<T>& out) {
  const int64_t e = s.dims, m = s.inducing, windows = s.members * s.windows;
  const int64_t sizes[] = {e * m * e, e, e * m * m, e, e * e, e};  // centres, relevance, whitener, variance, A, Q
  int64_t offsets[7] = {0};
  for (int i = 0; i < 6; ++i) offsets[i + 1] = offsets[i] + sizes[i];
  std::memset(out.drift, 0, sizeof(T) * windows * s.steps * e);
  std::memset(out.forcing, 0, sizeof(T) * windows * s.steps * e * m);
  std::memset(out.h, 0, sizeof(T) * windows * s.steps);
  std::vector<Member<T>> members;
  for (int64_t f = 0; f < s.members; ++f) members.emplace_back(s, in, f);
  // One set of sums per member and portion that touches it; added up in the order of portions.
  std::vector<std::vector<std::pair<int64_t, std::vector<T>>>> partial(kPortions);
  in_parallel(pool, windows, [&](int64_t portion, int64_t from, int64_t to) {
    thread_local std::vector<Vec<T>> kept;  // it is large: the next step finds it again
    for (int64_t item = from; item < to; ++item) {
      const int64_t f = item / s.windows;
      auto& mine = partial[portion];
      if (mine.empty() || mine.back().first != f) mine.emplace_back(f, std::vector<T>(offsets[6], 0));
      T* base = mine.back().second.data();
      Gradients<T> sums{};
      sums.centres = base + offsets[0];
      sums.relevance = base + offsets[1];
      sums.whitener = base + offsets[2];
      sums.variance = base + offsets[3];
      sums.A = base + offsets[4];
      sums.Q = base + offsets[5];
      for (int64_t first = 0; first < s.samples; first += kVectors * Lanes<T>::width)
        with_group<T>(s, in, members[f], item, first,
                      [&](const auto& group, auto dims) { group.template backward<dims>(states, cotangent, sums, out, kept); });
    }
  });
  T* targets[] = {out.centres, out.relevance, out.whitener, out.variance, out.A, out.Q};
  for (int i = 0; i < 6; ++i) std::memset(targets[i], 0, sizeof(T) * s.members * sizes[i]);
  for (auto& portion : partial)
    for (auto& [f, values] : portion)
      for (int i = 0; i < 6; ++i)
        for (int64_t j = 0; j < sizes[i]; ++j) targets[i][f * sizes[i] + j] += values[offsets[i] + j];
  // moments are sum dr2 (Z - x): the centres' gradient is 2 relevance times that.
  for (int64_t f = 0; f < s.members; ++f)
    for (int64_t i = 0; i < e * m; ++i)
      for (int64_t c = 0; c < e; ++c) out.centres[(f * e * m + i) * e + c] *= T(2) * in.relevance[f * e + c];
}

template <typename B>
int64_t leading(const B& buffer, size_t rank) {
  int64_t product = 1;
  for (size_t i = 0; i + rank < buffer.dimensions().size(); ++i) product *= buffer.dimensions()[i];
  return product;
}

template <typename B>
Shape shape_of(const B& epsilon, const B& whitener) {
  const auto d = epsilon.dimensions();
  const size_t r = d.size();
  return {leading(epsilon, 4), d[r - 4], d[r - 3], d[r - 2], d[r - 1], whitener.dimensions().back()};
}

template <ffi::DataType D>
using In = ffi::Buffer<D>;

// Twelve inputs in the order of `Inputs`; the reverse pass also gets the states and their cotangent.
template <ffi::DataType D>
ffi::ErrorOr<const ffi::NativeType<D>*> argument(ffi::RemainingArgs args, size_t index) {
  auto buffer = args.get<In<D>>(index);
  if (!buffer.has_value()) return ffi::Unexpected(buffer.error());
  return buffer->typed_data();
}

template <ffi::DataType D, typename T>
ffi::Error collect(ffi::RemainingArgs args, size_t count, const T** pointers) {
  for (size_t i = 0; i < count; ++i) {
    auto pointer = argument<D>(args, i);
    if (!pointer.has_value()) return pointer.error();
    pointers[i] = *pointer;
  }
  return ffi::Error::Success();
}

template <typename T>
Inputs<T> inputs_from(const T** p) {
  return {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]};
}

template <ffi::DataType D>
ffi::Error forward(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::Result<In<D>> states) {
  using T = ffi::NativeType<D>;
  const T* p[12];
  if (auto error = collect<D, T>(args, 12, p); error.failure()) return error;
  run_forward<T>(pool, shape_of(*args.get<In<D>>(11), *args.get<In<D>>(3)), inputs_from<T>(p), states->typed_data());
  return ffi::Error::Success();
}

template <ffi::DataType D>
ffi::Error backward(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets results) {
  using T = ffi::NativeType<D>;
  const T* p[14];
  if (auto error = collect<D, T>(args, 14, p); error.failure()) return error;
  T* r[12];
  for (size_t i = 0; i < 12; ++i) {
    auto buffer = results.get<In<D>>(i);
    if (!buffer.has_value()) return buffer.error();
    r[i] = (*buffer)->typed_data();
  }
  const Gradients<T> out{r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11]};
  run_backward<T>(pool, shape_of(*args.get<In<D>>(11), *args.get<In<D>>(3)), inputs_from<T>(p), p[12], p[13], out);
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(mrgpssm_forward_float32, forward<ffi::F32>,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().Ret<ffi::Buffer<ffi::F32>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(mrgpssm_forward_float64, forward<ffi::F64>,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().Ret<ffi::Buffer<ffi::F64>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(mrgpssm_backward_float32, backward<ffi::F32>,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(mrgpssm_backward_float64, backward<ffi::F64>,
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets());
