// Just enough of CUDA to run kernels.cu on a CPU: every thread of a CTA is a fiber, CTAs run one after another. Warp and
// block operations are barriers at which fibers wait for each other; in between, fibers run in random turns.
#include <setjmp.h>
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#define EMULATED
#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) alignas(n)
#define SHARED extern
using std::max;
using std::min;
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, blockDim, gridDim;

struct Barrier { unsigned waiting = 0, phase = 0; std::vector<unsigned> sleepers; };
struct Warp { Barrier barrier; uint64_t values[2][32]; };
struct Fiber { jmp_buf at; bool begun = false, done = false; };
static std::vector<Fiber> fibers;
static std::vector<char*> stacks;
static std::vector<unsigned> ready;  // fibers that can go on
static std::vector<Warp> warps;
static Barrier block;
static jmp_buf scheduler;
static unsigned current;
static const size_t STACK = 64 * 1024;
static uint64_t turn = 88172645463325252ull;

static void leave() {
  if (!_setjmp(fibers[current].at)) _longjmp(scheduler, 1);
  threadIdx.x = current;
}
static void yield() { ready.push_back(current); leave(); }
static void meet(Barrier& barrier, unsigned size) {
  if (++barrier.waiting == size) {
    barrier.waiting = 0;
    barrier.phase++;
    ready.insert(ready.end(), barrier.sleepers.begin(), barrier.sleepers.end());
    barrier.sleepers.clear();
  } else {
    barrier.sleepers.push_back(current);
    leave();
  }
}
// All lanes of the warp hand in a value; a lane cannot be two exchanges ahead, so two buffers are enough.
static const uint64_t* exchange(uint64_t value) {
  Warp& warp = warps[current / 32];
  uint64_t* const values = warp.values[warp.barrier.phase & 1];
  values[current % 32] = value;
  meet(warp.barrier, 32);
  return values;
}
template <class T> static T shuffled(T value, unsigned lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  T result;
  std::memcpy(&result, exchange(bits) + lane % 32, sizeof(T));
  return result;
}
template <class T> static T __shfl_sync(unsigned, T value, unsigned lane) { return shuffled(value, lane); }
template <class T> static T __shfl_xor_sync(unsigned, T value, unsigned mask) { return shuffled(value, (current % 32) ^ mask); }
static unsigned __ballot_sync(unsigned, bool value) {
  const uint64_t* values = exchange(value);
  unsigned bits = 0;
  for (int lane = 0; lane < 32; lane++) bits |= unsigned(values[lane] & 1) << lane;
  return bits;
}
static void __syncwarp() { exchange(0); }
static void __syncthreads() { meet(block, blockDim.x); }
static void __threadfence_block() {}
static void __nanosleep(unsigned) { yield(); }
static unsigned __popc(unsigned x) { return __builtin_popcount(x); }
static unsigned __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static unsigned __ffs(unsigned x) { return __builtin_ffs(x); }
static float __uint_as_float(unsigned x) { float f; std::memcpy(&f, &x, 4); return f; }
static unsigned __float_as_uint(float f) { unsigned x; std::memcpy(&x, &f, 4); return x; }
template <class T> static T __ldg(const T* p) { return *p; }
template <class T> static T __ldcg(const T* p) { return *p; }
template <class T> static T __ldcs(const T* p) { return *p; }
template <class T> static T atomicAdd(T* p, T value) { const T old = *p; *p += value; return old; }
template <class T> static T atomicExch(T* p, T value) { const T old = *p; *p = value; return old; }
static unsigned atomicCAS(unsigned* p, unsigned expected, unsigned value) {
  const unsigned old = *p;
  if (old == expected) *p = value;
  return old;
}
static void copy16(void* to, const void* from) { std::memcpy(to, from, 16); }
static void copies_issued() {}
template <int> static void wait_copies() {}
static void to_L2(const void*) {}
// A thread may be interrupted right after it read a dual variable: this is where an update would be lost without claims.
static float load_in_cta(const float* p) { const float v = *p; yield(); return v; }
static void store_in_cta(float* p, float v) { yield(); *p = v; }

#include KERNELS

alignas(16) uint2 staged_all[NT / 32 * 2 * STAGED];
alignas(16) float hot_W[4096 * 32];
alignas(16) unsigned long long best_all[4 * 1024];

static void (*entry)(void**);
static void** entry_arguments;
static void fiber() { entry(entry_arguments); fibers[current].done = true; _longjmp(scheduler, 1); }

template <auto kernel, class... A, size_t... I> static void call(void (*)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*(std::remove_const_t<A>*)arguments[I]...);
}
template <auto kernel, class... A> static void unpacked(void** arguments, void (*k)(A...)) { call<kernel>(k, arguments, std::index_sequence_for<A...>()); }
template <auto kernel> static void entry_of(void** arguments) { unpacked<kernel>(arguments, kernel); }

static void begin(unsigned t) {  // setcontext only to get onto the new stack; later switches need no system call
  static ucontext_t fresh;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = stacks[t];
  fresh.uc_stack.ss_size = STACK;
  fresh.uc_link = nullptr;
  makecontext(&fresh, fiber, 0);
  setcontext(&fresh);
}
static void run_block() {
  const unsigned n = blockDim.x;
  fibers.assign(n, Fiber());
  warps.assign(n / 32, Warp());
  block = Barrier();
  while (stacks.size() < n) stacks.push_back((char*)std::malloc(STACK));
  ready.clear();
  for (unsigned t = 0; t < n; t++) ready.push_back(t);
  while (!ready.empty()) {
    turn ^= turn << 13; turn ^= turn >> 7; turn ^= turn << 17;
    const size_t pick = turn % ready.size();
    current = ready[pick];
    ready[pick] = ready.back();
    ready.pop_back();
    threadIdx.x = current;
    if (!_setjmp(scheduler)) {
      if (fibers[current].begun) _longjmp(fibers[current].at, 1);
      fibers[current].begun = true;
      begin(current);
    }
  }
  for (const Fiber& f : fibers) if (!f.done) std::abort();  // a deadlock
}

extern "C" int launch(const char* name, unsigned grid_x, unsigned grid_y, unsigned threads, void** arguments) {
  entry = nullptr;
#define KERNEL(k) if (!std::strcmp(name, #k)) entry = entry_of<k>;
  KERNEL(build_rows) KERNEL(fill) KERNEL(set_positives) KERNEL(seed_lists) KERNEL(steps) KERNEL(look) KERNEL(make_lists)
  KERNEL(norms) KERNEL(weights_of_duals) KERNEL(prune_count) KERNEL(prune_fill) KERNEL(spread) KERNEL(scores) KERNEL(merge_top)
  if (!entry) return 1;
  entry_arguments = arguments;
  blockDim = {threads, 1, 1};
  gridDim = {grid_x, grid_y, 1};
  for (unsigned y = 0; y < grid_y; y++)
    for (unsigned x = 0; x < grid_x; x++) { blockIdx = {x, y, 0}; run_block(); }
  return 0;
}
