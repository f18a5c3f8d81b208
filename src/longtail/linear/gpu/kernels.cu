// One-vs-rest linear classifiers by dual coordinate descent: the kernels of longtail/linear/gpu.
//
// For each label, with y = +1 or -1 and c = C * (label weight, if positive) * (point weight):
//
//   primal   min_w  |w|^2 / 2 + sum_i c_i loss(y_i w.x_i)
//   dual     max_a  sum_i f_i(a_i) - |w|^2 / 2,   w = sum_i a_i y_i x_i      (linear/kernels.py has f and the steps)
//
// Layout. Labels stand in groups of 32, most frequent first. W is [group][feature][32], the dual variables are
// [group][point][32]: a warp reads one feature, or one point, of 32 labels as 128 neighbouring bytes. The sign bit of a
// dual variable is set for negatives (-0.0f is a negative at zero), so y needs no memory of its own. Features are
// numbered by falling frequency; a row holds (byte offset into W, value) in this order, padded to 4 entries by zeros.
// The bias weight of a label is held outside W.
//
// A chain is LB neighbouring labels of one group (32 / LB chains per group). One CTA works on a chain; each of its warps
// takes its own points: lane = (label l = lane % LB, slice s = lane / LB), slice s has entries s, s + PER, ... of a row.
//
// Compiled by NVRTC with -D: LOSS (0 squared hinge, 1 hinge, 2 logistic), LB (4, 8, 16 or 32), NT (threads of `steps`).

typedef unsigned int u32;
typedef unsigned long long u64;

#define PER (32 / LB)
#define LANES (LB == 32 ? 0xffffffffu : ((1u << (LB & 31)) - 1u))
#define ALL 0xffffffffu
#define N_WARPS (NT / 32)
#define IN_FLIGHT 8     // weights that a lane loads before it uses the first
#define STAGED 256      // entries of a row that are copied to shared memory ahead of its visit
#define CLAIMS 1024     // slots in which warps claim points
#define FREE ALL
#define LOOK_THREADS 1024
#define MATTERS 0.02f   // logistic: a point stays in the lists if a / c is above this for some label

struct __align__(16) Row { u32 start; u32 len; float norm; float weight; };  // norm = |x|^2 with the bias

#ifndef EMULATED  // instructions without a C++ name; tests compile this file for a CPU and bring their own
__device__ __forceinline__ void copy16(void* to, const void* from) {
  const u32 address = (u32)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(address), "l"(from) : "memory");
}
__device__ __forceinline__ void copies_issued() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int n> __device__ __forceinline__ void wait_copies() { asm volatile("cp.async.wait_group %0;\n" ::"n"(n) : "memory"); }
__device__ __forceinline__ void to_L2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
__device__ __forceinline__ float load_in_cta(const float* p) {
  float v;
  asm volatile("ld.relaxed.cta.global.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_in_cta(float* p, float v) {
  asm volatile("st.relaxed.cta.global.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
}
#define SHARED extern __shared__ __align__(16)
#endif

// ---------------------------------------------------------------- losses

// The new dual variable of a point, for the slack 1 - y w.x.
__device__ __forceinline__ float stepped(float a, float slack, float c, float norm) {
#if LOSS == 0
  const float d = .5f / c;
  return fmaxf(a + (slack - d * a) / (norm + d), 0.f);
#elif LOSS == 1
  return fminf(fmaxf(a + slack / fmaxf(norm, 1e-30f), 0.f), c);
#else
  const float small = expf(-fabsf(1.f - slack)), target = c * (slack > 1.f ? 1.f : small) / (1.f + small);
  return a + (target - a) / (1.f + .25f * c * norm);
#endif
}

__device__ __forceinline__ float loss_of(float slack, float c) {
#if LOSS == 0
  const float h = fmaxf(slack, 0.f);
  return c * h * h;
#elif LOSS == 1
  return c * fmaxf(slack, 0.f);
#else
  const float margin = 1.f - slack;
  return c * (log1pf(expf(-fabsf(margin))) + fmaxf(-margin, 0.f));
#endif
}

__device__ __forceinline__ float dual_of(float a, float c) {
#if LOSS == 0
  return a - .25f * a * a / c;
#elif LOSS == 1
  return a;
#else
  const float share = fminf(fmaxf(a / c, 1e-30f), 1.f - 6e-8f);
  return -c * (share * logf(share) + (1.f - share) * log1pf(-share));
#endif
}

__device__ __forceinline__ bool unsettled(float a, float slack, float c, float eps) {
#if LOSS == 2
  return a > MATTERS * c;
#else
  return a > 0.f || slack > eps;
#endif
}

// ---------------------------------------------------------------- order of a pass

__device__ __forceinline__ u32 mix(u32 x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
  return x;
}

// Place k of a random permutation of 0..n-1: a bijection of 2^bits numbers, walked on until it lands below n.
__device__ __forceinline__ u32 permuted(u32 k, u32 n, u32 seed) {
  if (n <= 1) return 0;
  const u32 bits = 32 - __clz(n - 1), mask = bits == 32 ? ALL : (1u << bits) - 1, half = (bits + 1) / 2;
  const u32 a = mix(seed) | 1, b = mix(seed + 0x9e3779b9u), c = mix(seed ^ 0x85ebca6bu) | 1, d = mix(seed + 77u) | 1;
  u32 x = k;
  do {
    x = (x * a + b) & mask; x ^= x >> half;
    x = (x * c + (b >> 7)) & mask; x ^= x >> half;
    x = (x * d) & mask; x ^= x >> half;
  } while (x >= n);
  return x;
}

// A pass visits n points and returns to the positives of its chain up to 16 times on the way (linear/kernels.py: sweep).
struct Plan { u32 n, segment, per, places, seed; };

__device__ __forceinline__ Plan plan(u32 n, u32 n_positives, u32 seed) {
  const u32 returns = n_positives ? min(16u, n / (4 * n_positives + 1)) : 0;
  const u32 segment = (n + returns) / (returns + 1), per = segment + n_positives;
  return Plan{n, segment, per, returns * per + (n > returns * segment ? n - returns * segment : 0), seed};
}

// The point at place k; n_points if there is none. `again` is set for a return.
__device__ __forceinline__ u32 point_at(u32 k, const Plan& p, const u32* list, const u32* positives, u32 n_positives, u32 n_points, bool& again) {
  again = false;
  if (k >= p.places) return n_points;
  const u32 part = k / p.per, offset = k - part * p.per;
  if (offset < p.segment) {
    const u32 place = part * p.segment + offset;
    if (place >= p.n) return n_points;
    const u32 i = permuted(place, p.n, p.seed);
    return list ? __ldcg(list + i) : i;
  }
  again = true;
  return positives[permuted(offset - p.segment, n_positives, p.seed + part + 1)];
}

// ---------------------------------------------------------------- steps

// Passes over the points of each chain in `chains`: all points first if `full`, then up to `max_passes` over its list,
// until the gap on that list is at most `goal`. `warps_of` its chain work at the same time, each on its own point: W is read
// from L2 and changed by atomic adds (PASSCoDe-Atomic, Hsieh et al., ICML 2015), so that W = sum a y x stays true up to
// rounding. A warp claims a point before it reads its dual variable and frees it after it wrote the new one: no update
// can be lost. With one warp the steps are those of plain coordinate descent, in a fixed order, bit for bit.
extern "C" __global__ void __launch_bounds__(NT, 2) steps(
    const uint2* __restrict__ entries, const Row* __restrict__ rows, const u32 n_points, const u32 n_features,
    const float bias, float* W_all, float* dual_all, float* bias_weights, float* squares,
    const float* __restrict__ live_all, const float* __restrict__ positive_costs, const float cost,
    const u32* __restrict__ chains, const u32* __restrict__ positive_ptr, const u32* __restrict__ positive_all,
    u32* lists, u32* list_sizes, u32* list_sides, const int full, const int max_passes, const float goal,
    const u32 seed, const u32 first_chain, const u32* __restrict__ warps_of, u64* visits) {
  SHARED uint2 staged_all[];  // [warp][2][STAGED]
  __shared__ u32 claims[CLAIMS];
  __shared__ float shared_bias[LB];
  __shared__ float parts[3][N_WARPS][LB];
  __shared__ u32 kept, stop;
  const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, l = lane % LB, s = lane / LB;
  uint2* const staged = staged_all + warp * 2 * STAGED;
  const u32 n_warps = warps_of[blockIdx.x];
  const u32 chain = chains[blockIdx.x], group = chain / PER, column = (chain % PER) * LB + l, label = group * 32 + column;
  char* const W = (char*)(W_all + (size_t)group * n_features * 32 + column);
  float* const duals = dual_all + (size_t)group * n_points * 32 + column;
  const u32* const positives = positive_all + positive_ptr[chain];
  const u32 n_positives = positive_ptr[chain + 1] - positive_ptr[chain];
  const bool live = live_all[label] > 0.f;
  const float positive_cost = positive_costs[label];
  float square = squares[label];
  for (u32 t = tid; t < CLAIMS; t += NT) claims[t] = FREE;
  if (tid < LB) shared_bias[tid] = bias_weights[label];
  bool is_full = full != 0;
  u32 n = is_full ? n_points : list_sizes[chain], side = list_sides[chain], visited = 0;
  int inner = 0;
  for (u32 pass = 0; n > 0; pass++) {
    const u32* const list = lists + ((size_t)chain * 2 + side) * n_points;
    u32* const next = lists + ((size_t)chain * 2 + (side ^ 1)) * n_points;
    const Plan p = plan(n, n_positives, mix(seed + 1000003u * pass + (is_full ? 0u : 7919u * (first_chain + chain))));
    float loss = 0.f, dual = 0.f, growth = 0.f;  // growth: what this warp's steps add to |w|^2
    __syncthreads();
    if (tid == 0) kept = 0;
    __syncthreads();
    if (warp < n_warps) for (u32 j0 = 0; warp + n_warps * j0 < p.places; j0 += 32) {  // 32 places of this warp at a time
      bool again;
      const u32 mine = point_at(warp + n_warps * (j0 + lane), p, is_full ? nullptr : list, positives, n_positives, n_points, again);
      const u32 returns = __ballot_sync(ALL, again);
      const Row row = rows[mine];  // rows[n_points] is empty
      if (mine < n_points) to_L2(dual_all + ((size_t)group * n_points + mine) * 32 + (chain % PER) * LB);
      auto stage = [&](u32 t) {
        const u32 start = __shfl_sync(ALL, row.start, t), m = min(__shfl_sync(ALL, row.len, t), (u32)STAGED);
        for (u32 e = lane * 2; e < m; e += 64) copy16(staged + (t & 1) * STAGED + e, entries + start + e);
      };
      stage(0);
      copies_issued();
#pragma unroll 1
      for (u32 t = 0; t < 32; t++) {
        __syncwarp();
        if (t < 31) stage(t + 1);
        copies_issued();
        const u32 i = __shfl_sync(ALL, mine, t);
        if (i >= n_points) continue;
        const u32 start = __shfl_sync(ALL, row.start, t), len = __shfl_sync(ALL, row.len, t), m = min(len, (u32)STAGED);
        const float norm = __shfl_sync(ALL, row.norm, t), weight = __shfl_sync(ALL, row.weight, t);
        if (n_warps > 1) {
          if (lane == 0) while (atomicCAS(&claims[i % CLAIMS], FREE, warp) != FREE) __nanosleep(32);
          __syncwarp();
          __threadfence_block();
        }
        const float raw = load_in_cta(duals + (size_t)i * 32);
        wait_copies<1>();
        __syncwarp();
        const uint2* const x = staged + (t & 1) * STAGED;
        float z0 = 0.f, z1 = 0.f;
#pragma unroll 1
        for (u32 e0 = s; e0 < m; e0 += PER * IN_FLIGHT) {
          float w[IN_FLIGHT];
#pragma unroll
          for (int j = 0; j < IN_FLIGHT; j++) {
            w[j] = 0.f;
            if (e0 + j * PER < m) w[j] = __ldcg((const float*)(W + x[e0 + j * PER].x));
          }
#pragma unroll
          for (int j = 0; j < IN_FLIGHT; j++) if (e0 + j * PER < m) {
            const float v = __uint_as_float(x[e0 + j * PER].y);
            if (j & 1) z1 = fmaf(v, w[j], z1); else z0 = fmaf(v, w[j], z0);
          }
        }
#pragma unroll 4
        for (u32 e = STAGED + s; e < len; e += PER) {
          const uint2 q = __ldg(entries + start + e);
          z0 = fmaf(__uint_as_float(q.y), __ldcg((const float*)(W + q.x)), z0);
        }
        __syncwarp();
        float z = z0 + z1;
#pragma unroll
        for (int o = 16; o >= LB; o >>= 1) z += __shfl_xor_sync(ALL, z, o);
        z = fmaf(bias, *(volatile float*)&shared_bias[l], z);
        z = __shfl_sync(ALL, z, l);  // slices may have read different bias weights: slice 0 decides
        const bool negative = __float_as_uint(raw) >> 31;
        const float y = negative ? -1.f : 1.f, a = fabsf(raw), c = (negative ? cost : positive_cost) * weight;
        const float slack = 1.f - y * z, new_a = live ? stepped(a, slack, c, norm) : a, change = y * (new_a - a);
        if (change != 0.f) {
          if (s == 0) {
            atomicAdd(&shared_bias[l], bias * change);
            store_in_cta(duals + (size_t)i * 32, negative ? -new_a : new_a);
          }
#pragma unroll 4
          for (u32 e = s; e < m; e += PER) atomicAdd((float*)(W + x[e].x), __uint_as_float(x[e].y) * change);
          for (u32 e = STAGED + s; e < len; e += PER) {
            const uint2 q = __ldg(entries + start + e);
            atomicAdd((float*)(W + q.x), __uint_as_float(q.y) * change);
          }
        }
        __threadfence_block();
        __syncwarp();
        if (n_warps > 1 && lane == 0) atomicExch(&claims[i % CLAIMS], FREE);
        const bool first = !((returns >> t) & 1);  // returns would count positives twice
        if (first) { loss += loss_of(slack, c); dual += dual_of(new_a, c); }
        growth = fmaf(change, fmaf(change, norm, 2.f * z), growth);
        const u32 held = __ballot_sync(ALL, live && unsettled(new_a, 0.f, c, 0.f)) & LANES;
        if (lane == 0) { if (held && first) next[atomicAdd(&kept, 1u)] = i; visited++; }
      }
      wait_copies<0>();
      __syncwarp();
    }
    if (s == 0) { parts[0][warp][l] = loss; parts[1][warp][l] = dual; parts[2][warp][l] = growth; }
    __syncthreads();
    n = kept;
    side ^= 1;
    loss = dual = 0.f;
    for (int v = 0; v < N_WARPS; v++) { loss += parts[0][v][l]; dual += parts[1][v][l]; square += parts[2][v][l]; }
    const float primal = .5f * square + loss;
    float gap = live ? (primal - dual + .5f * square) / fmaxf(primal, 1e-12f) : 0.f;
#pragma unroll
    for (int o = LB / 2; o > 0; o >>= 1) gap = fmaxf(gap, __shfl_xor_sync(ALL, gap, o));
    if (!is_full) inner++;
    if (tid == 0) stop = (!is_full && gap <= goal) || inner >= max_passes;
    __syncthreads();
    is_full = false;
    if (stop) break;
  }
  __syncthreads();
  if (tid < LB) { bias_weights[label] = shared_bias[tid]; squares[label] = square; }
  if (lane == 0 && visited) atomicAdd(visits, (u64)visited);
  if (tid == 0) { list_sizes[chain] = n; list_sides[chain] = side; }
}

// ---------------------------------------------------------------- a look at all points

// Loss and dual value of every label of `groups` at a standstill, as sums [part of the points][place in groups][2][32],
// and one bit per label and point in masks [place in groups][point]: unsettled. The `hot` most frequent features are read
// from shared memory; hot_counts has the number of them in each row.
extern "C" __global__ void __launch_bounds__(LOOK_THREADS, 1) look(
    const uint2* __restrict__ entries, const Row* __restrict__ rows, const u32* __restrict__ hot_counts,
    const u32 n_points, const u32 n_features, const float bias, const float* __restrict__ W_all,
    const float* __restrict__ dual_all, const float* __restrict__ bias_weights, const float* __restrict__ live_all,
    const float* __restrict__ positive_costs, const float cost, const u32* __restrict__ groups, const u32 hot,
    const u32 points_per_cta, const float eps, double* sums, u32* masks) {
  SHARED float hot_W[];  // [hot][32]
  __shared__ float parts[2][LOOK_THREADS / 32][32];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, group = groups[blockIdx.y], label = group * 32 + lane;
  const float4* const source = (const float4*)(W_all + (size_t)group * n_features * 32);
  for (u32 t = threadIdx.x; t < hot * 8; t += LOOK_THREADS) ((float4*)hot_W)[t] = __ldg(source + t);
  __syncthreads();
  const char* const W = (const char*)(W_all + (size_t)group * n_features * 32 + lane);
  const char* const H = (const char*)(hot_W + lane);
  const float* const duals = dual_all + (size_t)group * n_points * 32 + lane;
  const bool live = live_all[label] > 0.f;
  const float positive_cost = positive_costs[label], z_bias = bias * bias_weights[label];
  float loss = 0.f, dual = 0.f;
  const u32 last = min((blockIdx.x + 1) * points_per_cta, n_points);
  for (u32 base = blockIdx.x * points_per_cta + warp * 32; base < last; base += LOOK_THREADS) {
    const Row mine = rows[min(base + lane, n_points)];
    const u32 my_hot = base + lane < n_points ? hot_counts[base + lane] : 0u;
    const u32 count = min(32u, last - base);
    u32 mask = 0;
    for (u32 j = 0; j < count; j++) {
      const u32 start = __shfl_sync(ALL, mine.start, j), len = __shfl_sync(ALL, mine.len, j);
      const u32 n_hot = __shfl_sync(ALL, my_hot, j);
      const float weight = __shfl_sync(ALL, mine.weight, j);
      const float raw = __ldcs(duals + (size_t)(base + j) * 32);
      const uint4* const q = (const uint4*)(entries + start);  // two entries each; rows are padded to four
      const u32 end = ((len + 3) >> 2) << 1, end_hot = (n_hot >> 2) << 1;
      float z0 = 0.f, z1 = 0.f, z2 = 0.f, z3 = 0.f;
      u32 t = 0;
#pragma unroll 2
      for (; t < end_hot; t += 2) {
        const uint4 p = __ldg(q + t), r = __ldg(q + t + 1);
        z0 = fmaf(__uint_as_float(p.y), *(const float*)(H + p.x), z0); z1 = fmaf(__uint_as_float(p.w), *(const float*)(H + p.z), z1);
        z2 = fmaf(__uint_as_float(r.y), *(const float*)(H + r.x), z2); z3 = fmaf(__uint_as_float(r.w), *(const float*)(H + r.z), z3);
      }
#pragma unroll 2
      for (; t < end; t += 2) {
        const uint4 p = __ldg(q + t), r = __ldg(q + t + 1);
        z0 = fmaf(__uint_as_float(p.y), *(const float*)(W + p.x), z0); z1 = fmaf(__uint_as_float(p.w), *(const float*)(W + p.z), z1);
        z2 = fmaf(__uint_as_float(r.y), *(const float*)(W + r.x), z2); z3 = fmaf(__uint_as_float(r.w), *(const float*)(W + r.z), z3);
      }
      const float z = (z0 + z1) + (z2 + z3) + z_bias;
      const bool negative = __float_as_uint(raw) >> 31;
      const float a = fabsf(raw), c = (negative ? cost : positive_cost) * weight, slack = negative ? 1.f + z : 1.f - z;
      loss += loss_of(slack, c);
      dual += dual_of(a, c);
      const u32 bits = __ballot_sync(ALL, live && unsettled(a, slack, c, eps));
      if (lane == j) mask = bits;
    }
    if (lane < count) masks[(size_t)blockIdx.y * n_points + base + lane] = mask;
  }
  parts[0][warp][lane] = loss;
  parts[1][warp][lane] = dual;
  __syncthreads();
  if (warp < 2) {
    double total = 0;
    for (int v = 0; v < LOOK_THREADS / 32; v++) total += parts[warp][v][lane];
    sums[(((size_t)blockIdx.x * gridDim.y + blockIdx.y) * 2 + warp) * 32 + lane] = total;
  }
}

// The points whose bits are set for a chain, in order, as its list. One CTA of 256 threads per place in groups and chain.
extern "C" __global__ void __launch_bounds__(256) make_lists(
    const u32* __restrict__ masks, const u32* __restrict__ groups, const u32 n_points, u32* lists, u32* list_sizes,
    u32* list_sides) {
  __shared__ u32 counts[8];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, within = blockIdx.x;
  const u32 chain = groups[blockIdx.y] * PER + within;
  const u32* const mask = masks + (size_t)blockIdx.y * n_points;
  u32* const list = lists + (size_t)chain * 2 * n_points;
  u32 filled = 0;
  for (u32 base = 0; base < n_points; base += 256) {
    const u32 i = base + threadIdx.x;
    const bool has = i < n_points && ((mask[i] >> (within * LB)) & LANES);
    const u32 bits = __ballot_sync(ALL, has);
    if (lane == 0) counts[warp] = __popc(bits);
    __syncthreads();
    u32 before = filled;
    for (u32 v = 0; v < 8; v++) { if (v < warp) before += counts[v]; filled += counts[v]; }
    if (has) list[before + __popc(bits & ((1u << lane) - 1))] = i;
    __syncthreads();
  }
  if (threadIdx.x == 0) { list_sizes[chain] = filled; list_sides[chain] = 0; }
}

// |w|^2 per label without the bias weight, or |w - v|^2 where `V` [place in groups][feature][32] is given, as
// sums [part of the features][place in groups][32].
extern "C" __global__ void __launch_bounds__(256) norms(
    const float* __restrict__ W_all, const float* __restrict__ V_all, const u32 n_features,
    const u32* __restrict__ groups, const u32 features_per_cta, double* sums) {
  __shared__ double parts[8][32];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const float* const W = W_all + (size_t)groups[blockIdx.y] * n_features * 32 + lane;
  const float* const V = V_all ? V_all + (size_t)blockIdx.y * n_features * 32 + lane : nullptr;
  const u32 last = min((blockIdx.x + 1) * features_per_cta, n_features);
  double total = 0;
  float part = 0.f;
  u32 counted = 0;
  for (u32 f = blockIdx.x * features_per_cta + warp; f < last; f += 8) {
    const float d = W[(size_t)f * 32] - (V ? V[(size_t)f * 32] : 0.f);
    part = fmaf(d, d, part);
    if (++counted % 64 == 0) { total += part; part = 0.f; }  // float32 sums stay short
  }
  parts[warp][lane] = total + part;
  __syncthreads();
  if (warp == 0) {
    for (int v = 1; v < 8; v++) parts[0][lane] += parts[v][lane];
    sums[((size_t)blockIdx.x * gridDim.y + blockIdx.y) * 32 + lane] = parts[0][lane];
  }
}

// W = sum a y x from the dual variables, into V [place in groups][feature][32] and V_bias [place in groups][32], which
// are zero. Lane = label. With one warp per group (blockDim 32, gridDim.x 1) the order of the sums is fixed.
extern "C" __global__ void weights_of_duals(
    const uint2* __restrict__ entries, const Row* __restrict__ rows, const u32 n_points, const u32 n_features,
    const float bias, const float* __restrict__ dual_all, const u32* __restrict__ groups, const u32 points_per_warp,
    float* V_all, float* V_bias) {
  const u32 lane = threadIdx.x & 31, warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  char* const V = (char*)(V_all + (size_t)blockIdx.y * n_features * 32 + lane);
  const float* const duals = dual_all + (size_t)groups[blockIdx.y] * n_points * 32 + lane;
  const u32 first = min(warp * points_per_warp, n_points), last = min(first + points_per_warp, n_points);
  float total = 0.f;
  for (u32 i = first; i < last; i++) {
    const float ay = duals[(size_t)i * 32];
    if (!__ballot_sync(ALL, ay != 0.f)) continue;
    const Row row = rows[i];
    total += ay;
    if (ay != 0.f)
      for (u32 e = 0; e < row.len; e++) {
        const uint2 q = __ldg(entries + row.start + e);
        atomicAdd((float*)(V + q.x), __uint_as_float(q.y) * ay);
      }
    __syncwarp();
  }
  if (total != 0.f) atomicAdd(V_bias + blockIdx.y * 32 + lane, bias * total);
}

// ---------------------------------------------------------------- start and end of a wave

// W = w0 and duals = -a0 in every label, as if all points were negatives; zero where w0 and a0 are null.
extern "C" __global__ void fill(
    float* W, float* duals, const float* __restrict__ w0, const float* __restrict__ a0, const u64 n_weights,
    const u64 n_duals, const u32 n_features, const u32 n_points) {
  const u64 step = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  for (u64 t = first; t < n_weights / 4; t += step) {
    const float w = w0 ? w0[(t / 8) % n_features] : 0.f;
    ((float4*)W)[t] = make_float4(w, w, w, w);
  }
  for (u64 t = first; t < n_duals / 4; t += step) {
    const float a = a0 ? -a0[(t / 8) % n_points] : -0.f;
    ((float4*)duals)[t] = make_float4(a, a, a, a);
  }
}

// Dual variables of positives become +0, and what they held as negatives is taken out of W. One warp per label.
extern "C" __global__ void set_positives(
    const uint2* __restrict__ entries, const Row* __restrict__ rows, const u32 n_points, const u32 n_features,
    const float bias, float* W_all, float* dual_all, float* bias_weights, const float* __restrict__ a0,
    const u32* __restrict__ label_ptr, const u32* __restrict__ label_points, const u32 n_labels) {
  const u32 label = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (label >= n_labels) return;
  const u32 group = label >> 5, column = label & 31;
  char* const W = (char*)(W_all + (size_t)group * n_features * 32 + column);
  float* const duals = dual_all + (size_t)group * n_points * 32 + column;
  float total = 0.f;
  for (u32 q = label_ptr[label]; q < label_ptr[label + 1]; q++) {
    const u32 i = label_points[q];
    const float a = a0 ? a0[i] : 0.f;
    if (a > 0.f) {
      const Row row = rows[i];
      for (u32 e = lane; e < row.len; e += 32) {
        const uint2 p = entries[row.start + e];
        *(float*)(W + p.x) += a * __uint_as_float(p.y);
      }
      total += a;
    }
    if (lane == 0) duals[(size_t)i * 32] = 0.f;
    __syncwarp();
  }
  if (lane == 0) bias_weights[label] += bias * total;
}

// First lists of a start from a0: its support (`support`, all i with a0[i] > 0), then the other positives of the chain.
extern "C" __global__ void seed_lists(
    const u32* __restrict__ support, const u32 n_support, const float* __restrict__ a0,
    const u32* __restrict__ positive_ptr, const u32* __restrict__ positives, const u32 n_points, u32* lists,
    u32* list_sizes, u32* list_sides) {
  const u32 chain = blockIdx.x, lane = threadIdx.x;  // one warp
  u32* const list = lists + (size_t)chain * 2 * n_points;
  for (u32 t = lane; t < n_support; t += 32) list[t] = support[t];
  u32 filled = n_support;
  for (u32 base = positive_ptr[chain]; base < positive_ptr[chain + 1]; base += 32) {
    const u32 i = base + lane < positive_ptr[chain + 1] ? positives[base + lane] : n_points;
    const bool has = i < n_points && !(a0[i] > 0.f);
    const u32 bits = __ballot_sync(ALL, has);
    if (has) list[filled + __popc(bits & ((1u << lane) - 1))] = i;
    filled += __popc(bits);
  }
  if (lane == 0) { list_sizes[chain] = filled; list_sides[chain] = 0; }
}

// How many labels have a weight of at least `threshold` for each feature. One warp per feature of the data; ranks maps it
// to its number here.
extern "C" __global__ void __launch_bounds__(256) prune_count(
    const float* __restrict__ W, const u32 n_features, const u32 n_labels, const u32* __restrict__ ranks,
    const float threshold, u32* counts) {
  const u32 feature = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (feature >= n_features) return;
  const float* const w = W + (size_t)ranks[feature] * 32 + lane;
  u32 count = 0;
#pragma unroll 4
  for (u32 base = 0; base < n_labels; base += 32) {
    const float v = w[(size_t)base * n_features];
    count += __popc(__ballot_sync(ALL, base + lane < n_labels && fabsf(v) >= threshold && v != 0.f));
  }
  if (lane == 0) counts[feature] = count;
}

// The weights themselves, by feature and within a feature in the order of `columns`: the labels' places here.
extern "C" __global__ void __launch_bounds__(256) prune_fill(
    const float* __restrict__ W, const u32 n_features, const u32 n_labels, const u32* __restrict__ ranks,
    const u32* __restrict__ columns, const u32* __restrict__ ids, const float threshold,
    const u64* __restrict__ starts, u32* indices, float* values) {
  const u32 feature = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (feature >= n_features) return;
  const float* const w = W + (size_t)ranks[feature] * 32;
  u64 at = starts[feature];
  for (u32 base = 0; base < n_labels; base += 32) {
    const u32 t = base + lane, column = t < n_labels ? columns[t] : 0u;
    const float v = t < n_labels ? w[(size_t)(column >> 5) * n_features * 32 + (column & 31)] : 0.f;
    const bool has = fabsf(v) >= threshold && v != 0.f;
    const u32 bits = __ballot_sync(ALL, has);
    if (has) { const u64 to = at + __popc(bits & ((1u << lane) - 1)); indices[to] = ids[t]; values[to] = v; }
    at += __popc(bits);
  }
}

// ---------------------------------------------------------------- data and prediction

// Rows in the order of the solver, from CSR arrays whose features are numbered by falling frequency and sorted.
extern "C" __global__ void build_rows(
    const u64* __restrict__ indptr, const u32* __restrict__ indices, const float* __restrict__ values,
    const u32* __restrict__ order, const u32* __restrict__ starts, const float* __restrict__ weights, uint2* entries,
    Row* rows, u32* hot_counts, const u32 n_points, const float bias, const u32 hot) {
  const u32 i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (i > n_points) return;
  if (i == n_points) {
    if (lane == 0) rows[i] = Row{0u, 0u, 1.f, 1.f};
    return;
  }
  const u64 from = indptr[order[i]];
  const u32 len = (u32)(indptr[order[i] + 1] - from), to = starts[i];
  float norm = 0.f;
  u32 n_hot = 0;
  for (u32 e = lane; e < ((len + 3) & ~3u); e += 32) {
    const float v = e < len ? values[from + e] : 0.f;
    const u32 f = e < len ? indices[from + e] : 0u;
    entries[to + e] = make_uint2(f * 128u, __float_as_uint(v));
    norm = fmaf(v, v, norm);
    n_hot += e < len && f < hot;
  }
  __syncwarp();
#pragma unroll
  for (int o = 16; o; o >>= 1) { norm += __shfl_xor_sync(ALL, norm, o); n_hot += __shfl_xor_sync(ALL, n_hot, o); }
  if (lane == 0) { rows[i] = Row{to, len, fmaf(bias, bias, norm), weights ? weights[order[i]] : 1.f}; hot_counts[i] = n_hot; }
}

// Dense weights [group][feature][32] of the labels first .. first + 32 groups, from CSR arrays by feature; W is zero.
extern "C" __global__ void spread(
    const u64* __restrict__ indptr, const u32* __restrict__ indices, const float* __restrict__ values,
    const u32 n_features, const u32 first, const u32 n_labels, float* W) {
  const u32 feature = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (feature >= n_features) return;
  for (u64 q = indptr[feature] + lane; q < indptr[feature + 1]; q += 32) {
    const u32 label = indices[q] - first;  // wraps around for labels below `first`
    if (label < n_labels) W[((size_t)(label >> 5) * n_features + feature) * 32 + (label & 31)] = values[q];
  }
}

// Scores [point][n_labels] of CSR rows against these dense weights. Lane = label.
extern "C" __global__ void __launch_bounds__(256) scores(
    const u64* __restrict__ indptr, const u32* __restrict__ indices, const float* __restrict__ values, const u32 first,
    const u32 n_points, const u32 n_features, const float* __restrict__ W_all, const float* __restrict__ intercepts,
    const u32 n_labels, const u32 points_per_warp, float* out) {
  const u32 lane = threadIdx.x & 31, label = blockIdx.y * 32 + lane;
  const float* const W = W_all + (size_t)blockIdx.y * n_features * 32 + lane;
  const float intercept = label < n_labels ? intercepts[label] : 0.f;
  const u32 from = ((blockIdx.x * blockDim.x + threadIdx.x) >> 5) * points_per_warp;
  for (u32 i = from; i < min(from + points_per_warp, n_points); i++) {
    const u64 start = indptr[first + i], end = indptr[first + i + 1];
    float z0 = 0.f, z1 = 0.f;
    u64 e = start;
#pragma unroll 4
    for (; e + 2 <= end; e += 2) {
      z0 = fmaf(__ldg(values + e), W[(size_t)__ldg(indices + e) * 32], z0);
      z1 = fmaf(__ldg(values + e + 1), W[(size_t)__ldg(indices + e + 1) * 32], z1);
    }
    if (e < end) z0 = fmaf(__ldg(values + e), W[(size_t)__ldg(indices + e) * 32], z0);
    if (label < n_labels) out[(size_t)i * n_labels + label] = z0 + z1 + intercept;
  }
}

// Merge scores [point][n_labels] of the labels first .. into the k best so far: keys [point][k], best first. A key orders
// by falling score, then by rising label: (monotone bits of the score) << 32 | ~label; 0 is none. One warp per point.
extern "C" __global__ void __launch_bounds__(128) merge_top(
    const float* __restrict__ scores, const u32 n_points, const u32 n_labels, const u32 first, const u32 k, u64* keys) {
  SHARED u64 best_all[];  // [warp][k]
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = blockIdx.x * 4 + warp;
  if (i >= n_points) return;
  u64* const best = best_all + warp * k;
  for (u32 t = lane; t < k; t += 32) best[t] = keys[(size_t)i * k + t];
  __syncwarp();
  u64 worst = best[k - 1];
  for (u32 base = 0; base < n_labels; base += 32) {
    u64 key = 0;
    if (base + lane < n_labels) {
      const float score = scores[(size_t)i * n_labels + base + lane];
      const u32 bits = __float_as_uint(score);
      if (score > -__uint_as_float(0x7f800000u)) key = (u64)(bits >> 31 ? ~bits : bits | 0x80000000u) << 32 | (u32)~(first + base + lane);
    }
    u32 better = __ballot_sync(ALL, key > worst);
    while (better) {
      const u32 from = __ffs(better) - 1;
      better &= better - 1;
      const u64 candidate = __shfl_sync(ALL, key, from);
      if (candidate <= worst) continue;  // since the ballot, others came in before it
      u32 place = 0;  // how many are better
      for (u32 t = lane; t < k; t += 32) place += best[t] > candidate;
#pragma unroll
      for (int o = 16; o; o >>= 1) place += __shfl_xor_sync(ALL, place, o);
      __syncwarp();  // all have read `best`
      for (u32 end = k - 1; end > place; end = end > 32 ? end - 32 : 0) {  // shift [place, end) by one, from the back
        const bool moves = end >= lane + 1 && end - lane - 1 >= place;
        const u64 v = moves ? best[end - lane - 1] : 0;
        __syncwarp();
        if (moves) best[end - lane] = v;
        __syncwarp();
      }
      if (lane == 0) best[place] = candidate;
      __syncwarp();
      worst = best[k - 1];
      __syncwarp();
    }
  }
  for (u32 t = lane; t < k; t += 32) keys[(size_t)i * k + t] = best[t];
}
