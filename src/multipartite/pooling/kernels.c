/* Pooling in one pass: gather, score and choose, image by image, while an image lies in the cache.
 *
 * The same arithmetic as the torch operations of gather.py, choose.py and instance_ranking.py, which are its oracle and
 * take over wherever this cannot be used. Maps have three spatial axes here, of which the first ones may be of length 1.
 * Inside, the channels of a pixel lie side by side; maps of the other layout are turned on their way in and out.
 */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __AVX__
#include <immintrin.h>
#endif

#define LANES 8
#define BLOCK 4 /* pixels whose squares are summed at a time */
#ifdef __AVX512F__ /* products, where there is most to compute, have vectors and registers of their own */
#define WIDE 16
#define PIXELS 8 /* that are multiplied at a time */
#else
#define WIDE LANES
#define PIXELS 4
#endif
#define COLUMNS (2 * WIDE) /* of a factor, that are multiplied at a time */
#define TRIFLE 1e-25f /* what a pixel without any score weighs; see choose.py */
#define BITS ((marks){1, 2, 4, 8, 16, 32, 64, 128})
#define PLACES 256 /* more than a window has */
#define NOWHERE 255 /* the place of a number that no gradient reaches */

#define LINE 64 /* bytes that a cache takes at a time */
#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef float wide __attribute__((vector_size(WIDE * sizeof(float)), aligned(sizeof(float)), may_alias));
#if WIDE > LANES
typedef double doubles __attribute__((vector_size(WIDE * sizeof(float))));
#endif
typedef float half __attribute__((vector_size(LANES / 2 * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int32_t marks __attribute__((vector_size(LANES * sizeof(int32_t)))); /* what comparing lanes gives */
typedef uint8_t bytes __attribute__((vector_size(LANES)));
typedef int64_t i64;

enum { BLIND, ENERGY, QUADRATIC, INFORMATION, GIVEN };                /* what scores a pixel */
enum { BEST, DRAW, DRAW_LINES, EXPECTATION, EXPECTED_LINES, WHOLE, MARKED }; /* what becomes of the scored map */

typedef struct {
    i64 kernel[3], stride[3], padding[3], dilation[3];
} window;

typedef struct {
    i64 images, channels, groups;
    i64 size[3], gathered[3], out[3]; /* of the map, of the map that is scored, of the output */
    window look, cells;               /* around every pixel at stride one; in which one pixel stays */
    i64 gathers, smooths, channels_last, grad_last, scoring, choice, rank, threads;
    i64 whole[3];      /* axes that keep all their lines */
    double power;      /* 1 / temperature */
    const float *x;    /* images */
    const float *factor, *offset, *log_prior; /* [groups, d, rank], [groups, rank], [rank] */
    const float *scores;                      /* [images, groups, gathered], where they are given */
    const float *uniform[3]; /* a number a window, [images, groups, out], or a number a line and axis */
    const float *focus;      /* [groups] */
    float *values;           /* [images, channels, out], in the layout of x */
    int32_t *chosen;         /* [images, groups, out]; given where pixels are MARKED */
    uint8_t *places;         /* [images, out, channels]: in which place of its window a maximum was; where all maxima have a
                                gradient the `winners` of every image */
    const float *grad;       /* as values, channels last or not */
    float *grad_x;           /* as x */
} job;

static i64 volume(const i64 size[3]) { return size[0] * size[1] * size[2]; }
static i64 least(i64 a, i64 b) { return a < b ? a : b; }
static i64 most(i64 a, i64 b) { return a > b ? a : b; }

static i64 places_of(const window *w) { return w->kernel[0] * w->kernel[1] * w->kernel[2]; }

INLINE lanes load(const float *p) { return *(const lanes *)p; }
INLINE void store(float *p, lanes v) { *(lanes *)p = v; }
INLINE wide load_wide(const float *p) { return *(const wide *)p; }
INLINE void store_wide(float *p, wide v) { *(wide *)p = v; }

/* Channels are worked on a vector at a time, the last of which may overlap the one before: every step writes what does
 * not depend on what it wrote before. Where there are fewer channels than lanes, it works on as many as there are. */
#define EACH_VECTOR(count, step, ...)                                                        \
    do {                                                                                     \
        i64 c_ = 0, count_ = (count);                                                        \
        if (count_ < LANES) step(__VA_ARGS__, 0, count_);                                    \
        for (; c_ + LANES <= count_; c_ += LANES) step(__VA_ARGS__, c_, LANES);              \
        if (c_ < count_ && count_ >= LANES) step(__VA_ARGS__, count_ - LANES, LANES);        \
    } while (0)

/* The same step, compiled for windows of the usual numbers of places: short loops are unrolled then. */
#define FOR_USUAL(count, step, ...)            \
    do {                                       \
        if ((count) == 4)                      \
            step(__VA_ARGS__, 4);              \
        else if ((count) == 9)                 \
            step(__VA_ARGS__, 9);              \
        else                                   \
            step(__VA_ARGS__, (count));        \
    } while (0)

INLINE lanes load_some(const float *p, i64 n) {
    if (n == LANES) return load(p);
    lanes v = {0};
    for (i64 i = 0; i < n; i++) v[i] = p[i];
    return v;
}

INLINE void store_some(float *p, lanes v, i64 n) {
    if (n == LANES)
        store(p, v);
    else
        for (i64 i = 0; i < n; i++) p[i] = v[i];
}

INLINE void store_bytes(uint8_t *p, marks v, i64 n) {
    bytes narrow = __builtin_convertvector(v, bytes);
    memcpy(p, &narrow, n);
}

INLINE lanes either(marks where, lanes a, lanes b) {
    return (lanes)(((marks)a & where) | ((marks)b & ~where));
}

/* The larger of two numbers, the second of equals. */
INLINE lanes higher(lanes a, lanes b) {
#ifdef __AVX__
    return (lanes)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return either(a > b, a, b);
#endif
}

INLINE half folded(lanes v) {
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}

INLINE float total(lanes v) {
    half sum = folded(v);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* A vector of the sums of both halves, where there are two. */
INLINE lanes narrowed(wide v) {
#if WIDE == LANES
    return v;
#else
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
#endif
}

/* Totals of four vectors at once. */
INLINE half totals(lanes a, lanes b, lanes c, lanes d) {
    half A = folded(a), B = folded(b), C = folded(c), D = folded(d);
    half AB = __builtin_shufflevector(A, B, 0, 4, 2, 6) + __builtin_shufflevector(A, B, 1, 5, 3, 7);
    half CD = __builtin_shufflevector(C, D, 0, 4, 2, 6) + __builtin_shufflevector(C, D, 1, 5, 3, 7);
    return __builtin_shufflevector(AB, CD, 0, 1, 4, 5) + __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* Layout */

/* Transpose four by four numbers. */
INLINE void turn_few(const float *from, float *to, i64 rows, i64 columns) {
    half a = *(const half *)from, b = *(const half *)(from + columns);
    half c = *(const half *)(from + 2 * columns), d = *(const half *)(from + 3 * columns);
    half ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), AB = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    half cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(half *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(half *)(to + rows) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(half *)(to + 2 * rows) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(half *)(to + 3 * rows) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* Transpose [rows, columns], block by block. */
static void turn(const float *restrict from, float *restrict to, i64 rows, i64 columns) {
    for (i64 c0 = 0; c0 < columns; c0 += 16)
        for (i64 r0 = 0; r0 < rows; r0 += 4) {
            i64 r1 = least(rows, r0 + 4), c1 = least(columns, c0 + 16), c = c0;
            for (; r1 == r0 + 4 && c + 4 <= c1; c += 4) turn_few(from + r0 * columns + c, to + c * rows + r0, rows, columns);
            for (; c < c1; c++)
                for (i64 r = r0; r < r1; r++) to[c * rows + r] = from[r * columns + c];
        }
}

/* Whether any number is NaN or infinite: then torch's operations are to do the work. */
static int is_strange(const float *x, i64 n) {
    lanes sum[4] = {{0}, {0}, {0}, {0}};
    i64 i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int u = 0; u < 4; u++) sum[u] += load(x + i + u * LANES) * 0.0f;
    float rest = total((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < n; i++) rest += x[i] * 0.0f;
    return !(rest == 0.0f);
}

/* Have n numbers brought into the cache that will be written soon: while one write waits for memory, all after it do. Too
 * many are more than the processor can ask for at a time. */
static void ask_for(const float *to, i64 n) {
    for (i64 i = 0; i < n && n <= 4096; i += LINE / (i64)sizeof(float)) __builtin_prefetch(to + i, 1);
}

/* Gather */

static void fill(float *to, float value, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] = value;
}

/* A bit a lane. */
INLINE uint8_t packed(marks where) {
#if defined(__AVX__)
    return (uint8_t)_mm256_movemask_ps((__m256)where);
#else
    marks bits = where & BITS;
    uint8_t found = 0;
    for (int i = 0; i < LANES; i++) found |= (uint8_t)bits[i];
    return found;
#endif
}

/* All lanes of those whose bit is set, of the eight bits of a word from the one at `first` on. */
INLINE marks unpacked(uint32_t word, int first) {
    marks all = {word, word, word, word, word, word, word, word}, bits = BITS << first;
    return (all & bits) == bits;
}

INLINE void contend_vector(float *to, const float *const *rows, uint8_t *bits, i64 gap, i64 i, i64 at, i64 k) {
    lanes best = load(rows[0] + at);
    for (i64 r = 1; r < k; r++) {
        lanes row = load(rows[r] + at);
        if (bits) bits[(r - 1) * gap + i / LANES] = (uint8_t)(packed(row > best) >> (i - at));
        best = higher(row, best);
    }
    store(to + at, best);
}

/* The same for as many whole wide vectors as there are, whose comparison is sixteen bits at once; how far that comes. */
INLINE i64 contend_wide(float *to, const float *const *rows, uint8_t *bits, i64 gap, i64 n, i64 k) {
    i64 i = 0;
#if WIDE > LANES
    for (; i + WIDE <= n; i += WIDE) {
        __m512 best = _mm512_loadu_ps(rows[0] + i);
        for (i64 r = 1; r < k; r++) {
            __m512 row = _mm512_loadu_ps(rows[r] + i);
            uint16_t beats = _mm512_cmp_ps_mask(row, best, _CMP_GT_OQ);
            if (bits) memcpy(bits + (r - 1) * gap + i / 8, &beats, sizeof beats);
            best = _mm512_max_ps(row, best);
        }
        _mm512_storeu_ps(to + i, best);
    }
#else
    (void)to, (void)rows, (void)bits, (void)gap, (void)n, (void)k;
#endif
    return i;
}

/* The largest of k rows; with `bits`, which are `gap` apart, whether a row beats all before it, for every row but the first. */
INLINE void contend_some(float *to, const float *const *given, uint8_t *bits, i64 gap, i64 n, i64 k) {
    const float *rows[PLACES]; /* for all that is known, writing numbers might change what is given */
    for (i64 r = 0; r < k; r++) rows[r] = given[r];
    i64 i = contend_wide(to, rows, bits, gap, n, k);
    for (; i + LANES <= n; i += LANES) contend_vector(to, rows, bits, gap, i, i, k);
    if (i < n && n >= LANES) contend_vector(to, rows, bits, gap, i, n - LANES, k); /* overlaps the one before */
    for (i64 c = 0; c < n && n < LANES; c++) {
        float best = rows[0][c];
        for (i64 r = 1; r < k; r++) {
            int beats = rows[r][c] > best;
            uint8_t *here = bits + (r - 1) * gap;
            if (bits) *here = (uint8_t)((c ? *here : 0) | beats << c);
            best = beats ? rows[r][c] : best;
        }
        to[c] = best;
    }
}

static void contend(float *to, const float *const *rows, uint8_t *bits, i64 gap, i64 n, i64 k) {
    if (k == 1)
        memcpy(to, rows[0], n * sizeof(float));
    else if (k == 2 && bits)
        contend_some(to, rows, bits, gap, n, 2);
    else if (k == 2)
        contend_some(to, rows, 0, 0, n, 2);
    else if (k == 3 && bits)
        contend_some(to, rows, bits, gap, n, 3);
    else if (k == 3)
        contend_some(to, rows, 0, 0, n, 3);
    else
        contend_some(to, rows, bits, gap, n, k);
}

/* Maxima are found along one axis after the other. Where a gradient is to be sent back, every place of a window along an
 * axis but the first has a bit a number: whether it is larger than all before it, so that the last of those that have it
 * is where the maximum was first found. They lie row by row of the gathered map, in whole bytes. */
typedef struct {
    i64 bytes;       /* of a row */
    i64 gap[3];      /* from one place along an axis to the next */
    uint8_t *bits[3];
} winners;

static winners winners_of(const job *j, uint8_t *bits) {
    const i64 *n = j->size, *m = j->gathered;
    winners w = {.bytes = (m[2] * j->channels + 7) / 8};
    const i64 rows[3] = {m[0] * m[1], n[0] * m[1], n[0] * n[1]};
    for (int axis = 2; axis >= 0; axis--) {
        w.gap[axis] = rows[axis] * w.bytes;
        w.bits[axis] = bits;
        if (bits) bits += (j->look.kernel[axis] - 1) * w.gap[axis];
    }
    return w;
}

/* Whether every maximum of the gathered map may have a gradient, and not the chosen ones alone. */
static int is_dense(const job *j) { return j->smooths || j->choice == WHOLE; }

/* Bytes that the winners of an image take. */
static i64 winners_size(const job *j) {
    winners w = winners_of(j, 0);
    i64 size = 0;
    for (int axis = 0; axis < 3; axis++) size += (j->look.kernel[axis] - 1) * w.gap[axis];
    return size;
}

INLINE uint8_t *bits_at(const winners *w, int axis, i64 row) {
    return w->bits[axis] ? w->bits[axis] + row * w->bytes : 0;
}

/* Pixels that the windows of a row reach over, those beyond its ends included; whether there are any. */
static i64 reach(const job *j) { return j->gathered[2] + (j->look.kernel[2] - 1) * j->look.dilation[2]; }
static int juts(const job *j) { return j->look.padding[2] > 0 || reach(j) > j->size[2]; }

/* Maxima along a row of pixels; `line` has room for as many pixels as the windows reach over. */
static void gather_along(const job *j, const float *x, float *y, float *line, uint8_t *bits, i64 gap) {
    i64 C = j->channels, n = j->gathered[2] * C, k = j->look.kernel[2], step = j->look.dilation[2] * C;
    if (juts(j)) {
        i64 before = j->look.padding[2], inside = least(j->size[2], reach(j) - before);
        fill(line, -INFINITY, reach(j) * C);
        memcpy(line + before * C, x, inside * C * sizeof(float));
        x = line;
    }
    const float *rows[PLACES];
    for (i64 i = 0; i < k; i++) rows[i] = x + i * step;
    contend(y, rows, bits, gap, n, k);
}

/* Rows that are made as they are needed lie in a ring of so many. Row `at` of it. */
INLINE i64 in_ring(i64 at, i64 rows) { return at < rows ? at : at % rows; }

/* Maxima across rows, of the places of a window that begins at the row `first`; rows are `step` numbers apart. */
static void gather_across(const job *j, int axis, const float *x, i64 ring, i64 first, i64 step, float *y, uint8_t *bits,
                          i64 gap, i64 bytes) {
    i64 n = j->gathered[2] * j->channels, found = 0;
    const float *rows[PLACES];
    uint8_t *later = bits;
    for (i64 i = 0; i < j->look.kernel[axis]; i++) {
        i64 at = first + i * j->look.dilation[axis];
        int inside = at >= 0 && at < j->size[axis];
        if (bits && i && !(inside && found)) memset(bits + (i - 1) * gap, inside ? 255 : 0, bytes); /* padding, or the first */
        if (inside && !found) later = bits ? bits + i * gap : 0;
        if (inside) rows[found++] = x + in_ring(at, ring) * step;
    }
    if (found)
        contend(y, rows, later, gap, n, found);
    else
        fill(y, -INFINITY, n);
}

/* Pixels beside one of a line of n, reflected at the ends. */
INLINE i64 before(i64 i, i64 n) { return i > 0 ? i - 1 : least(1, n - 1); }
INLINE i64 after(i64 i, i64 n) { return i < n - 1 ? i + 1 : most(0, n - 2); }

static void soften(const float *a, float wa, const float *b, const float *c, float wc, float *restrict to, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] = wa * a[i] + 0.5f * b[i] + wc * c[i];
}

/* Row r of n, each `inner` numbers, smoothed across with the weights 1, 2, 1, reflected at the ends; or, of what is sent
 * back by that, what reaches the row. Weights are never zero, which would make NaN of infinity. */
static void smooth_row(const float *x, i64 ring, i64 r, i64 n, i64 inner, float *to, int back) {
    i64 a = before(r, n), b = after(r, n);
    float wa = back && a == 0 ? 0.5f : 0.25f, wb = back && b == n - 1 ? 0.5f : 0.25f;
    if (back && a == b) wa = wb = (wa > wb ? wa : wb) / 2; /* an end: half of what its only neighbour sends, twice */
    if (n == 1)
        memcpy(to, x, inner * sizeof(float));
    else
        soften(x + in_ring(a, ring) * inner, wa, x + in_ring(r, ring) * inner, x + in_ring(b, ring) * inner, wb, to, inner);
}

/* All rows: those that are far from the ends at once. */
static void smooth_lines(const float *x, float *to, i64 n, i64 inner, int back) {
    i64 ends = least(back ? 2 : 1, (n + 1) / 2); /* rows at either end whose weights are others */
    for (i64 r = 0; r < n; r++)
        if (r < ends || r >= n - ends) smooth_row(x, n, r, n, inner, to + r * inner, back);
    const float *row = x + ends * inner;
    if (n > 2 * ends) soften(row - inner, 0.25f, row, row + inner, 0.25f, to + ends * inner, (n - 2 * ends) * inner);
}

/* Lines across which a window reaches along an axis. */
static i64 span_of(const job *j, int axis) { return (j->look.kernel[axis] - 1) * j->look.dilation[axis] + 1; }

static int is_deep(const job *j) { return j->size[0] > 1 || j->look.kernel[0] > 1; }

/* Rows, and planes where there are several, are handed on to the next step while they lie in the cache, in rings. */
typedef struct {
    i64 row, plane;           /* numbers of the gathered map */
    float *line, *wide;       /* a row as far as windows reach; rows of maxima along them */
    float *one, *softened;    /* two rows; three rows that are smoothed along */
    float *tall, *flat;       /* planes of maxima along rows and across them; three planes that are smoothed within */
} rings;

static i64 rings_size(const job *j) {
    i64 row = j->gathered[2] * j->channels, planes = is_deep(j) ? span_of(j, 0) + 3 : 0;
    return reach(j) * j->channels + (span_of(j, 1) + 5) * row + planes * j->gathered[1] * row;
}

static rings rings_in(const job *j, float *room) {
    i64 row = j->gathered[2] * j->channels;
    rings s = {.row = row, .plane = j->gathered[1] * row, .line = room};
    s.wide = s.line + reach(j) * j->channels;
    s.one = s.wide + span_of(j, 1) * row;
    s.softened = s.one + 2 * row;
    s.tall = s.softened + 3 * row;
    s.flat = s.tall + span_of(j, 0) * s.plane;
    return s;
}

/* Row r of the maxima along and across the rows of plane z; rows before `ready` have been looked along. */
static void gather_row(const job *j, const rings *s, const winners *w, const float *x, i64 z, i64 r, i64 *ready, float *to) {
    i64 first = r - j->look.padding[1], n = j->size[1], ring = span_of(j, 1);
    for (; *ready < least(n, first + ring); ++*ready) {
        i64 at = z * n + *ready;
        float *wide = s->wide + *ready % ring * s->row;
        gather_along(j, x + at * j->size[2] * j->channels, wide, s->line, bits_at(w, 2, at), w->gap[2]);
    }
    gather_across(j, 1, s->wide, ring, first, s->row, to, bits_at(w, 1, z * j->gathered[1] + r), w->gap[1], w->bytes);
}

/* The gathered map of an image, smoothed or not, in `y`; who won, where that is asked for. */
static void gather(const job *j, const float *x, float *y, float *room, uint8_t *bits) {
    const i64 *n = j->size, *m = j->gathered;
    i64 planes = 0, ring = span_of(j, 0), ready = 0;
    int deep = is_deep(j), soft = !!j->smooths;
    rings s = rings_in(j, room);
    winners w = winners_of(j, bits);
    for (i64 z = 0; z < m[0]; z++) {
        i64 first = z - j->look.padding[0];
        for (; deep && planes < least(n[0], first + ring); planes++, ready = 0)
            for (i64 r = 0; r < m[1]; r++)
                gather_row(j, &s, &w, x, planes, r, &ready, s.tall + planes % ring * s.plane + r * s.row);
        float *smoothed = deep && soft ? s.flat + z % 3 * s.plane : y + z * s.plane;
        for (i64 r = 0; r < m[1] + soft; r++) {
            float *to = soft ? s.one + r % 2 * s.row : smoothed + r * s.row;
            if (r < m[1] && deep)
                gather_across(j, 0, s.tall + r * s.row, ring, first, s.plane, to, bits_at(&w, 0, z * m[1] + r), w.gap[0],
                              w.bytes);
            else if (r < m[1])
                gather_row(j, &s, &w, x, 0, r, &ready, to);
            if (!soft || !r) continue;
            i64 q = r - 1; /* a row that was written just now is read shifted, for which the processor would wait */
            smooth_lines(s.one + q % 2 * s.row, s.softened + q % 3 * s.row, m[2], j->channels, 0);
            if (q) smooth_row(s.softened, 3, q - 1, m[1], s.row, smoothed + (q - 1) * s.row, 0);
            if (r == m[1]) smooth_row(s.softened, 3, q, m[1], s.row, smoothed + q * s.row, 0);
        }
        if (!deep || !soft) continue;
        if (z) smooth_row(s.flat, 3, z - 1, m[0], s.plane, y + (z - 1) * s.plane, 0);
        if (z == m[0] - 1) smooth_row(s.flat, 3, z, m[0], s.plane, y + z * s.plane, 0);
    }
}

/* What a smoothed pixel is a mean of: flat indices into a map of `size`, of the places near[axis] along every axis (the
 * one itself, and those beside it where the axis of the smoothed map is longer than 1), and weights; how many, 27 at most. */
static int around(const i64 smoothed[3], const i64 size[3], const i64 near[3][3], i64 *pixels, float *weights) {
    int count = 1;
    pixels[0] = 0, weights[0] = 1;
    for (int axis = 0; axis < 3; axis++) {
        int many = smoothed[axis] > 1 ? 3 : 1;
        for (int k = many - 1; k >= 0; k--) /* the first third is read until the last */
            for (int c = 0; c < count; c++) {
                pixels[k * count + c] = pixels[c] * size[axis] + near[axis][k];
                weights[k * count + c] = many == 1 ? weights[c] : weights[c] * (k ? 0.25f : 0.5f);
            }
        count *= many;
    }
    return count;
}

/* Score */

/* PIXELS times COLUMNS of a factor [d, COLUMNS], whose rows before `first` are zero, plus an offset. */
INLINE void product(const float *const x[PIXELS], const float *factor, const float *offset, i64 first, i64 d,
                    wide sum[PIXELS][2]) {
    for (int p = 0; p < PIXELS; p++)
        for (int v = 0; v < 2; v++) sum[p][v] = load_wide(offset + v * WIDE);
    for (i64 c = first; c < d; c++) {
        wide one = load_wide(factor + c * COLUMNS), two = load_wide(factor + c * COLUMNS + WIDE);
        for (int p = 0; p < PIXELS; p++) {
            sum[p][0] += x[p][c] * one;
            sum[p][1] += x[p][c] * two;
        }
    }
}

/* Sums of squares of n channels of BLOCK pixels. */
static void squares(const float *const x[BLOCK], i64 n, float to[BLOCK]) {
    lanes sum[BLOCK] = {{0}, {0}, {0}, {0}};
    i64 i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int p = 0; p < BLOCK; p++) sum[p] += load(x[p] + i) * load(x[p] + i);
    half found = totals(sum[0], sum[1], sum[2], sum[3]);
    for (; i < n; i++)
        for (int p = 0; p < BLOCK; p++) found[p] += x[p][i] * x[p][i];
    *(half *)to = found;
}

/* exp of numbers that are not positive, to about one part in ten million (Cephes' polynomial) */
static void exponential(float *v, i64 n) {
    for (i64 i = 0; i < n; i++) {
        float x = v[i] < -87.0f ? -87.0f : v[i];
        float k = floorf(x * 1.44269504088896341f + 0.5f);
        float r = x - k * 0.693359375f + k * 2.12194440e-4f;
        float p = 1.9875691500e-4f;
        p = p * r + 1.3981999507e-3f;
        p = p * r + 8.3334519073e-3f;
        p = p * r + 4.1665795894e-2f;
        p = p * r + 1.6666665459e-1f;
        p = p * r + 5.0000001201e-1f;
        p = p * r * r + r + 1.0f;
        union { int32_t i; float f; } scale = {((int32_t)k + 127) << 23};
        v[i] = p * scale.f;
    }
}

/* Divergence of the posterior from the prior, of the log likelihoods h; `work` holds as many numbers. */
static float divergence(const float *h, const float *log_prior, i64 n, float *work) {
    float highest = -INFINITY, sum = 0, weighted = 0;
    for (i64 i = 0; i < n; i++) {
        work[i] = h[i] + log_prior[i];
        highest = work[i] > highest ? work[i] : highest;
    }
    for (i64 i = 0; i < n; i++) work[i] -= highest;
    exponential(work, n);
    for (i64 i = 0; i < n; i++) {
        sum += work[i];
        weighted += work[i] * h[i];
    }
    float score = weighted / sum - highest - logf(sum);
    return score > 0 ? score : 0;
}

typedef struct {
    i64 width;                          /* columns of the factor, a multiple of COLUMNS */
    float *factor, *offset, *log_prior; /* [groups, width / COLUMNS, d, COLUMNS], [groups, width], [width] */
    i64 *first;                         /* [groups, width / COLUMNS]: the first row that is not zero */
    float *beyond;                      /* [groups, 2, d + LANES]: the columns beyond the eighth, where they are few */
    float *paired;                      /* [groups, d / 2, LANES, 2]: the first eight, two channels side by side */
} fold;

static int is_slim(const job *j) {
    return j->scoring == QUADRATIC && j->rank <= LANES + 2 && j->channels / j->groups >= LANES;
}

/* Whether the channels of a slim factor are multiplied two at a time. */
static int pairs_up(i64 d) { return WIDE > LANES && d % 2 == 0; }

/* Where `count` pixels lie, from the one at p on; beyond the end it is the last. */
INLINE void rows_of(const float *y, i64 p, i64 pixels, i64 C, const float **rows, int count) {
    for (int b = 0; b < count; b++) rows[b] = y + least(p + b, pixels - 1) * C;
}

/* Twice BLOCK pixels times eight columns. */
INLINE void times_eight(const float *const x[2 * BLOCK], const float *factor, i64 d, lanes sum[2 * BLOCK]) {
    for (int p = 0; p < 2 * BLOCK; p++) sum[p] = (lanes){0};
    for (i64 c = 0; c < d; c++) {
        lanes one = load(factor + c * COLUMNS);
        for (int p = 0; p < 2 * BLOCK; p++) sum[p] += x[p][c] * one;
    }
}

/* The same with `paired` columns: a wide vector has room for two channels. */
INLINE void times_eight_paired(const float *const x[2 * BLOCK], const float *paired, i64 d, lanes sum[2 * BLOCK]) {
#if WIDE > LANES
    wide both[2 * BLOCK];
    for (int p = 0; p < 2 * BLOCK; p++) both[p] = (wide){0};
    for (i64 c = 0; c < d; c += 2) {
        wide one = load_wide(paired + c * LANES);
        for (int p = 0; p < 2 * BLOCK; p++) {
            double two;
            memcpy(&two, x[p] + c, sizeof two);
            both[p] += (wide)(doubles){two, two, two, two, two, two, two, two} * one;
        }
    }
    for (int p = 0; p < 2 * BLOCK; p++)
        sum[p] = __builtin_shufflevector(both[p], both[p], 0, 2, 4, 6, 8, 10, 12, 14) +
                 __builtin_shufflevector(both[p], both[p], 1, 3, 5, 7, 9, 11, 13, 15);
#else
    (void)x, (void)paired, (void)d, (void)sum;
#endif
}

/* Sums of squares for a factor of ten columns at the most, nine as ten classes have: eight are a vector, and those beyond
 * are products of rows. Twice BLOCK pixels. */
INLINE void score_slim(const float *const x[2 * BLOCK], const float *factor, const float *paired, const float *beyond,
                       i64 columns, i64 d, float to[2 * BLOCK]) {
    lanes sum[2 * BLOCK];
    if (pairs_up(d))
        times_eight_paired(x, paired, d, sum);
    else
        times_eight(x, factor, d, sum);
    for (int p = 0; p < 2 * BLOCK; p++) sum[p] *= sum[p];
    half one = totals(sum[0], sum[1], sum[2], sum[3]), two = totals(sum[4], sum[5], sum[6], sum[7]);
    for (i64 k = 8; k < columns; k++, beyond += d + LANES) {
        i64 c = 0;
        for (int p = 0; p < 2 * BLOCK; p++) sum[p] = load(beyond + d) * load(x[p] + d - LANES); /* the last channels */
        for (; c + LANES <= d; c += LANES)
            for (int p = 0; p < 2 * BLOCK; p++) sum[p] += load(beyond + c) * load(x[p] + c);
        half three = totals(sum[0], sum[1], sum[2], sum[3]), four = totals(sum[4], sum[5], sum[6], sum[7]);
        one += three * three, two += four * four;
    }
    *(half *)to = one;
    *(half *)(to + BLOCK) = two;
}

/* Scores [groups, pixels] of the map y [pixels, channels]; `work` holds (PIXELS + 1) * width numbers. */
static void score(const job *j, const fold *f, const float *y, float *scores, float *work) {
    i64 pixels = volume(j->gathered), C = j->channels, d = C / j->groups, blocks = f->width / COLUMNS;
    const float *rows[2 * BLOCK];
    wide sum[PIXELS][2];
    float found[2 * BLOCK];
    for (i64 g = 0; g < j->groups; g++) {
        const float *part = y + g * d, *factor = f->factor + g * d * f->width, *offset = f->offset + g * f->width;
        const i64 *first = f->first + g * blocks;
        float *to = scores + g * pixels;
        if (j->scoring == ENERGY)
            for (i64 p = 0; p < pixels; p += BLOCK) {
                rows_of(part, p, pixels, C, rows, BLOCK);
                squares(rows, d, found);
                for (int b = 0; b < BLOCK && p + b < pixels; b++) to[p + b] = found[b];
            }
        else if (j->scoring == QUADRATIC && is_slim(j))
            for (i64 p = 0; p < pixels; p += 2 * BLOCK) {
                rows_of(part, p, pixels, C, rows, 2 * BLOCK);
                score_slim(rows, factor, f->paired + g * d * LANES, f->beyond + g * 2 * (d + LANES), j->rank, d, found);
                for (int b = 0; b < 2 * BLOCK && p + b < pixels; b++) to[p + b] = found[b];
            }
        else if (j->scoring == QUADRATIC)
            for (i64 k = 0; k < blocks; k++) /* the columns stay in the cache while the pixels pass */
                for (i64 p = 0; p < pixels; p += PIXELS) {
                    lanes squared[PIXELS];
                    rows_of(part, p, pixels, C, rows, PIXELS);
                    product(rows, factor + k * d * COLUMNS, offset + k * COLUMNS, first[k], d, sum);
                    for (int b = 0; b < PIXELS; b++) squared[b] = narrowed(sum[b][0] * sum[b][0] + sum[b][1] * sum[b][1]);
                    for (int b = 0; b < PIXELS; b += 4)
                        *(half *)(found + b) = totals(squared[b], squared[b + 1], squared[b + 2], squared[b + 3]);
                    for (int b = 0; b < PIXELS && p + b < pixels; b++) to[p + b] = k ? to[p + b] + found[b] : found[b];
                }
        else
            for (i64 p = 0; p < pixels; p += PIXELS) {
                rows_of(part, p, pixels, C, rows, PIXELS);
                for (i64 k = 0; k < blocks; k++) {
                    product(rows, factor + k * d * COLUMNS, offset + k * COLUMNS, first[k], d, sum);
                    for (int b = 0; b < PIXELS; b++)
                        for (int v = 0; v < 2; v++) store_wide(work + b * f->width + k * COLUMNS + v * WIDE, sum[b][v]);
                }
                for (int b = 0; b < PIXELS && p + b < pixels; b++)
                    to[p + b] = divergence(work + b * f->width, f->log_prior, f->width, work + PIXELS * f->width);
            }
    }
}

/* Lay the columns of the factor out block by block. */
static int make_fold(const job *j, fold *f) {
    i64 G = j->groups, d = j->channels / G, r = j->rank, blocks = (r + COLUMNS - 1) / COLUMNS;
    f->width = blocks * COLUMNS;
    i64 numbers = G * d * f->width + (G + 1) * f->width + G * 2 * (d + LANES) + G * d * LANES;
    f->first = calloc(1, G * blocks * sizeof(i64) + numbers * sizeof(float));
    if (!f->first) return 0;
    f->factor = (float *)(f->first + G * blocks);
    f->offset = f->factor + G * d * f->width;
    f->log_prior = f->offset + G * f->width;
    f->beyond = f->log_prior + f->width;
    f->paired = f->beyond + G * 2 * (d + LANES);
    for (i64 i = 0; is_slim(j) && pairs_up(d) && i < G * d; i++)
        for (i64 k = 0; k < least(LANES, r); k++) f->paired[i / 2 * 2 * LANES + 2 * k + i % 2] = j->factor[i * r + k];
    for (i64 i = 0; is_slim(j) && i < G * d; i++)
        for (i64 k = 8; k < r; k++) { /* channels that fill no vector come once more at the end, the others there as zero */
            float *row = f->beyond + (i / d * 2 + k - 8) * (d + LANES), value = j->factor[i * r + k];
            i64 c = i % d;
            row[c < d / LANES * LANES ? c : c + LANES] = value;
        }
    for (i64 g = 0; g < G; g++)
        for (i64 k = 0; k < blocks; k++) {
            float *block = f->factor + (g * blocks + k) * d * COLUMNS;
            i64 columns = least(COLUMNS, r - k * COLUMNS), first = d;
            for (i64 i = d - 1; i >= 0; i--) {
                memcpy(block + i * COLUMNS, j->factor + (g * d + i) * r + k * COLUMNS, columns * sizeof(float));
                for (i64 c = 0; c < columns; c++)
                    if (block[i * COLUMNS + c] != 0) first = i;
            }
            f->first[g * blocks + k] = first;
        }
    for (i64 i = 0; j->offset && i < G; i++) memcpy(f->offset + i * f->width, j->offset + i * r, r * sizeof(float));
    for (i64 i = 0; j->log_prior && i < f->width; i++) f->log_prior[i] = i < r ? j->log_prior[i] : -1e30f;
    return 1;
}

/* Choose */

/* Flat distance of every place of a window from its first. */
static void measure(const window *w, const i64 size[3], i64 *offsets) {
    for (i64 a = 0; a < w->kernel[0]; a++)
        for (i64 b = 0; b < w->kernel[1]; b++)
            for (i64 c = 0; c < w->kernel[2]; c++)
                *offsets++ = (a * w->dilation[0] * size[1] + b * w->dilation[1]) * size[2] + c * w->dilation[2];
}

INLINE void step_from(i64 first, const i64 *offsets, i64 *pixels, int32_t *which, i64 places) {
    for (i64 i = 0; i < places; i++) {
        pixels[i] = first + offsets[i];
        which[i] = (int32_t)i;
    }
}

/* Flat pixels, of a map of `size`, of a window that begins at z, y, x, and which of its places they are; how many. */
INLINE i64 look_at(const window *w, const i64 size[3], const i64 *offsets, i64 z, i64 y, i64 x, i64 *pixels,
                   int32_t *which) {
    const i64 *k = w->kernel, *d = w->dilation;
    i64 first = (z * size[1] + y) * size[2] + x, places = k[0] * k[1] * k[2], count = 0;
    int inside = z >= 0 && y >= 0 && x >= 0 && z + (k[0] - 1) * d[0] < size[0] && y + (k[1] - 1) * d[1] < size[1] &&
                 x + (k[2] - 1) * d[2] < size[2];
    if (inside) {
        FOR_USUAL(places, step_from, first, offsets, pixels, which);
        return places;
    }
    int32_t place = 0;
    for (i64 a = 0; a < k[0]; a++)
        for (i64 b = 0; b < k[1]; b++)
            for (i64 c = 0; c < k[2]; c++, place++) {
                i64 p = z + a * d[0], q = y + b * d[1], r = x + c * d[2];
                if (p < 0 || p >= size[0] || q < 0 || q >= size[1] || r < 0 || r >= size[2]) continue;
                which[count] = place;
                pixels[count++] = (p * size[1] + q) * size[2] + r;
            }
    return count;
}

/* The same for the window of the output z, y, x. */
INLINE i64 look_at_output(const window *w, const i64 size[3], const i64 *offsets, i64 z, i64 y, i64 x, i64 *pixels,
                          int32_t *which) {
    const i64 *s = w->stride, *p = w->padding;
    return look_at(w, size, offsets, z * s[0] - p[0], y * s[1] - p[1], x * s[2] - p[2], pixels, which);
}

/* Weights of pixels, as in choose.py: score^(1/temperature) and a trifle; 1 where no score is looked at. */
INLINE void weigh(const job *j, const float *scores, float scale, const i64 *pixels, i64 count, float *weights) {
    if (j->scoring == BLIND) {
        for (i64 k = 0; k < count; k++) weights[k] = 1;
    } else if (j->power == 1.0) {
        for (i64 k = 0; k < count; k++) weights[k] = scores[pixels[k]] * scale + TRIFLE;
    } else {
        float highest = FLT_MIN;
        for (i64 k = 0; k < count; k++) highest = scores[pixels[k]] > highest ? scores[pixels[k]] : highest;
        for (i64 k = 0; k < count; k++) weights[k] = powf(scores[pixels[k]] / highest, (float)j->power) + TRIFLE;
    }
}

/* 1, or what makes sums of scores neither too large nor so small that a trifle would count; -1 where they are strange */
static float scale_of(const float *scores, i64 n) {
    float highest = 0;
    if (is_strange(scores, n)) return -1;
    for (i64 i = 0; i < n; i++) highest = scores[i] > highest ? scores[i] : highest;
    return highest == 0 || (highest > 1e-10f && highest < 1e30f) ? 1 : 1 / highest;
}

/* F of the density of lines along an axis; see choose.line_shares. */
static void shares(const job *j, const float *scores, int axis, float focus, double *F) {
    const i64 *n = j->gathered;
    i64 length = n[axis], rows = n[0] * n[1];
    double sum = 0;
    for (i64 i = 0; i < length; i++) F[i] = 0;
    if (j->scoring != BLIND && focus > 0) {
        float highest = FLT_MIN;
        for (i64 i = 0; i < rows * n[2]; i++) highest = scores[i] > highest ? scores[i] : highest;
        double unit = 1.0 / highest; /* a sum of scores may be too large */
        for (i64 r = 0; r < rows; r++, scores += n[2]) {
            double line = 0;
            if (axis == 2)
                for (i64 x = 0; x < n[2]; x++) F[x] += scores[x] * unit;
            else
                for (i64 x = 0; x < n[2]; x++) line += scores[x] * unit;
            if (axis < 2) F[axis ? r % n[1] : r / n[1]] += line;
        }
        for (i64 i = 0; i < length; i++) sum += F[i];
    }
    double before = 0;
    for (i64 i = 0; i < length; i++) {
        double share = sum > 0 ? F[i] / sum : 1.0 / length;
        before += (1.0 - focus) / length + focus * share;
        F[i] = before;
    }
    for (i64 i = 0; i < length; i++) F[i] /= before;
}

/* One line a stratum along an axis: sorted. */
static void draw_lines(const job *j, const float *scores, int axis, float focus, const float *uniform, double *F,
                       i64 *lines) {
    i64 n = j->gathered[axis], m = j->out[axis], i = 0;
    if (j->whole[axis]) {
        for (i64 k = 0; k < m; k++) lines[k] = k;
        return;
    }
    shares(j, scores, axis, focus, F);
    for (i64 k = 0; k < m; k++) {
        double mark = ((float)k + uniform[k]) / (float)m;
        while (i < n - 1 && F[i] <= mark) i++;
        lines[k] = i;
    }
}

/* Which of the pixels of a cell stays: the first of the best, or the first whose running sum reaches a random mark. */
INLINE void choose_one(const job *j, const float *scores, float scale, const i64 *pixels, float *weights, float uniform,
                       int32_t *chosen, i64 count) {
    i64 best = 0;
    if (j->choice == BEST) {
        for (i64 k = 1; scores && k < count; k++)
            if (scores[pixels[k]] > scores[pixels[best]]) best = k;
    } else {
        weigh(j, scores, scale, pixels, count, weights);
        for (i64 k = 1; k < count; k++) weights[k] += weights[k - 1];
        float mark = (1 - uniform) * weights[count - 1];
        for (i64 k = 0; k < count - 1; k++) best += weights[k] < mark;
    }
    *chosen = (int32_t)pixels[best];
}

/* Which pixel of the scored map every output takes, [out], for a group. */
static void choose(const job *j, const float *scores, float scale, i64 image, i64 g, int32_t *chosen,
                   const i64 *offsets, i64 *pixels, int32_t *which, float *weights, double *F) {
    const i64 *o = j->out, *n = j->gathered;
    if (j->choice == DRAW_LINES) {
        i64 *lines[3] = {pixels, pixels + o[0], pixels + o[0] + o[1]};
        for (int axis = 0; axis < 3; axis++) {
            const float *uniform = j->uniform[axis];
            if (uniform) uniform += (image * j->groups + g) * o[axis];
            draw_lines(j, scores, axis, j->focus[g], uniform, F, lines[axis]);
        }
        for (i64 z = 0, i = 0; z < o[0]; z++)
            for (i64 y = 0; y < o[1]; y++)
                for (i64 x = 0; x < o[2]; x++, i++)
                    chosen[i] = (int32_t)((lines[0][z] * n[1] + lines[1][y]) * n[2] + lines[2][x]);
        return;
    }
    const float *uniform = j->uniform[0] ? j->uniform[0] + (image * j->groups + g) * volume(o) : 0;
    for (i64 z = 0, i = 0; z < o[0]; z++)
        for (i64 y = 0; y < o[1]; y++)
            for (i64 x = 0; x < o[2]; x++, i++) {
                i64 count = look_at_output(&j->cells, n, offsets, z, y, x, pixels, which);
                FOR_USUAL(count, choose_one, j, scores, scale, pixels, weights, uniform ? uniform[i] : 0, chosen + i);
            }
}

/* Values */

/* n channels of a maximum, and in which of the places it was: the first that holds it. */
INLINE void find(const float *x, const i64 *pixels, const int32_t *which, i64 count, const float *row, float *to,
                 uint8_t *places, i64 c, i64 n) {
    lanes highest = load_some(row + c, n);
    marks from = {0};
    for (i64 k = count - 1; k >= 0; k--) {
        marks here = load_some(x + pixels[k] + c, n) == highest;
        from = (from & ~here) | (here & which[k]);
    }
    store_some(to + c, highest, n);
    store_bytes(places + c, from, n);
}

INLINE void find_all(const float *x, i64 C, i64 d, const i64 *pixels, const int32_t *which, const float *row, float *to,
                     uint8_t *places, i64 count) {
    i64 at[PLACES];
    int32_t place[PLACES];
    for (i64 k = 0; k < count; k++) at[k] = pixels[k] * C, place[k] = which[k];
    EACH_VECTOR(d, find, x, at, place, count, row, to, places);
}

/* The numbers of the chosen pixels, and where each maximum came from. */
static void take(const job *j, const float *x, const float *y, const int32_t *chosen, float *values, uint8_t *places,
                 const i64 *offsets, i64 *pixels, int32_t *which) {
    i64 C = j->channels, d = C / j->groups, outs = volume(j->out);
    const window *w = &j->look;
    const i64 *n = j->gathered, *p = w->padding;
    int32_t depth = (int32_t)(n[1] * n[2]), width = (int32_t)n[2];
    for (i64 i = 0; i < outs; i++)
        for (i64 g = 0; g < j->groups; g++) {
            int32_t at = chosen[g * outs + i], row = at / width;
            const float *from = y + at * C + g * d;
            float *to = values + i * C + g * d;
            if (!places) {
                memcpy(to, from, d * sizeof(float));
                continue;
            }
            int32_t plane = at / depth;
            i64 count = look_at(w, j->size, offsets, plane - p[0], row - plane * n[1] - p[1], at - row * width - p[2],
                                pixels, which);
            if (count) {
                FOR_USUAL(count, find_all, x + g * d, C, d, pixels, which, from, to, places + i * C + g * d);
            } else { /* nothing but padding */
                memcpy(to, from, d * sizeof(float));
                memset(places + i * C + g * d, NOWHERE, d);
            }
        }
}

static void add(float *restrict to, const float *restrict from, float weight, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] += weight * from[i];
}

/* n channels of a weighted mean. */
INLINE void blend(const float *y, const i64 *pixels, const float *weights, i64 count, float *to, i64 c, i64 n) {
    lanes mean = weights[0] * load_some(y + pixels[0] + c, n);
    for (i64 k = 1; k < count; k++) mean += weights[k] * load_some(y + pixels[k] + c, n);
    store_some(to + c, mean, n);
}

INLINE void expect_one(const job *j, const float *y, i64 C, i64 d, const float *scores, float scale, const i64 *pixels,
                       float *to, i64 count) {
    i64 at[PLACES]; /* of the usual windows they stay in registers */
    float weights[PLACES], sum = 0;
    weigh(j, scores, scale, pixels, count, weights);
    for (i64 k = 0; k < count; k++) sum += weights[k];
    sum = 1 / sum;
    for (i64 k = 0; k < count; k++) {
        weights[k] *= sum;
        at[k] = pixels[k] * C;
    }
    EACH_VECTOR(d, blend, y, at, weights, count, to);
}

/* Mean of every cell, weighted by the scores. */
static void expect(const job *j, const float *y, const float *scores, float scale, float *values, const i64 *offsets,
                   i64 *pixels, int32_t *which) {
    i64 C = j->channels, d = C / j->groups, n = volume(j->gathered);
    const i64 *o = j->out;
    for (i64 z = 0, i = 0; z < o[0]; z++)
        for (i64 r = 0; r < o[1]; r++)
            for (i64 x = 0; x < o[2]; x++, i++) {
                for (i64 g = 0; g < j->groups; g++) {
                    i64 count = look_at_output(&j->cells, j->gathered, offsets, z, r, x, pixels, which);
                    float *to = values + i * C + g * d;
                    FOR_USUAL(count, expect_one, j, y + g * d, C, d, scores + g * n, scale, pixels, to);
                }
            }
}

/* R x along one axis, with R[k, i] = m |[F_(i-1), F_i] cut with [k/m, (k+1)/m]|, for `count` of C channels. */
static void mix(const float *x, float *y, const double *F, i64 outer, i64 n, i64 m, i64 pixels, i64 C, i64 count,
                i64 *lines, float *weights) {
    i64 line = pixels * C, first = 0; /* the first line that reaches into the stratum */
    for (i64 k = 0; k < m; k++) {
        i64 found = 0;
        while (first < n - 1 && F[first] * m <= k) first++;
        for (i64 i = first; i < n; i++) {
            double low = i ? F[i - 1] * m : 0, high = F[i] * m;
            if (low >= k + 1) break;
            lines[found] = i * line;
            weights[found++] = (float)((high < k + 1 ? high : k + 1) - (low > k ? low : k));
        }
        for (i64 o = 0; o < outer; o++) {
            const float *from = x + o * n * line;
            float *to = y + (o * m + k) * line;
            if (count == C)
                EACH_VECTOR(line, blend, from, lines, weights, found, to);
            else
                for (i64 p = 0; p < pixels; p++)
                    EACH_VECTOR(count, blend, from + p * C, lines, weights, found, to + p * C);
        }
    }
}

/* What lines keep on average; `spare` holds two maps. */
static void expect_lines(const job *j, const float *y, const float *scores, float *values, float *spare, i64 *lines,
                         float *weights, double *F) {
    i64 C = j->channels, d = C / j->groups, n = volume(j->gathered), *whole = (i64 *)j->whole;
    int last = whole[2] ? (whole[1] ? (whole[0] ? -1 : 0) : 1) : 2;
    if (last < 0) {
        memcpy(values, y, n * C * sizeof(float));
        return;
    }
    for (i64 g = 0; g < j->groups; g++) {
        i64 size[3] = {j->gathered[0], j->gathered[1], j->gathered[2]};
        const float *from = y + g * d;
        for (int axis = 0; axis < 3; axis++) {
            if (whole[axis]) continue;
            i64 outer = 1, pixels = 1, m = j->out[axis];
            for (int a = 0; a < 3; a++) *(a < axis ? &outer : &pixels) *= a == axis ? 1 : size[a];
            float *to = (axis == last ? values : spare + (axis % 2) * n * C) + g * d;
            shares(j, scores + g * n, axis, j->focus[g], F);
            mix(from, to, F, outer, size[axis], m, pixels, C, d, lines, weights);
            size[axis] = m;
            from = to;
        }
    }
}

/* One image after the other */

typedef struct {
    float *turned, *map, *spare, *scores, *work, *weights, *values;
    i64 *pixels, *look, *cells; /* pixels of a window, or lines; distances of the places of both windows */
    int32_t *which;             /* places of the pixels of a window */
    double *F;
} desk;

/* Of some memory, the next piece; pieces begin where a line of the cache does. Without memory they are counted. */
static void *piece(char *memory, i64 *used, i64 bytes) {
    i64 at = *used;
    *used += (bytes + LINE - 1) / LINE * LINE;
    return memory ? memory + at : 0;
}

/* Lay out in `memory` one image and all that is made on the way; how much it takes. */
static i64 lay_out(const job *j, const fold *f, desk *t, char *memory) {
    i64 C = j->channels, m = volume(j->gathered), o = volume(j->out), f4 = sizeof(float), used = 0;
    i64 lines = 0, look = places_of(&j->look), cells = places_of(&j->cells), places = most(look, cells);
    for (int a = 0; a < 3; a++) lines += j->out[a] + j->gathered[a];
    t->pixels = piece(memory, &used, (places + lines) * sizeof(i64));
    t->look = piece(memory, &used, look * sizeof(i64));
    t->cells = piece(memory, &used, cells * sizeof(i64));
    t->F = piece(memory, &used, lines * sizeof(double));
    t->turned = piece(memory, &used, volume(j->size) * C * f4);
    t->map = piece(memory, &used, m * C * f4);
    t->spare = piece(memory, &used, most(rings_size(j), most(2 * m, o) * C) * f4);
    t->scores = piece(memory, &used, m * j->groups * f4);
    t->work = piece(memory, &used, (f ? (PIXELS + 1) * f->width : 0) * f4);
    t->weights = piece(memory, &used, (places + lines) * f4);
    t->which = piece(memory, &used, places * sizeof(int32_t));
    t->values = piece(memory, &used, o * C * f4);
    return used;
}

/* Room for one image; a thread keeps what it once had. */
static int make_desk(const job *j, const fold *f, desk *t) {
    static _Thread_local struct {
        char *memory;
        i64 size;
    } room;
    i64 size = lay_out(j, f, t, 0);
    if (size > room.size) {
        free(room.memory);
        room.memory = aligned_alloc(LINE, size);
        room.size = room.memory ? size : 0;
    }
    if (!room.memory) return 0;
    lay_out(j, f, t, room.memory);
    measure(&j->look, j->size, t->look);
    measure(&j->cells, j->gathered, t->cells);
    return 1;
}

/* Pool an image; 0 where its numbers are for torch to deal with. */
static int pool_image(const job *j, const fold *f, desk *t, i64 image) {
    i64 C = j->channels, n = volume(j->size), m = volume(j->gathered), o = volume(j->out);
    const float *x = j->x + image * n * C;
    if (!j->channels_last) {
        turn(x, t->turned, C, n);
        x = t->turned;
    }
    if (is_strange(x, n * C)) return 0;
    float *values = j->channels_last ? j->values + image * o * C : t->values;
    const float *y = x;
    if (j->gathers) {
        float *map = j->choice == WHOLE ? values : t->map;
        gather(j, x, map, t->spare, is_dense(j) && j->places ? j->places + image * winners_size(j) : 0);
        y = map;
    }
    ask_for(values, o * C);
    const float *scores = t->scores;
    float scale = 1;
    if (j->scoring == GIVEN)
        scores = j->scores + image * j->groups * m;
    else if (j->scoring != BLIND)
        score(j, f, y, t->scores, t->work);
    if (j->scoring != BLIND && (scale = scale_of(scores, m * j->groups)) < 0) return 0;

    if (j->choice == EXPECTATION) {
        expect(j, y, scores, scale, values, t->cells, t->pixels, t->which);
    } else if (j->choice == EXPECTED_LINES) {
        expect_lines(j, y, scores, values, t->spare, t->pixels, t->weights, t->F);
    } else if (j->choice != WHOLE) {
        int32_t *chosen = j->chosen + image * j->groups * o;
        for (i64 g = 0; j->choice != MARKED && g < j->groups; g++)
            choose(j, j->scoring == BLIND ? 0 : scores + g * m, scale, image, g, chosen + g * o, t->cells, t->pixels,
                   t->which, t->weights, t->F);
        uint8_t *places = j->places && !j->smooths ? j->places + image * o * C : 0;
        take(j, x, y, chosen, values, places, t->look, t->pixels, t->which);
    }
    if (!j->channels_last) turn(values, j->values + image * o * C, o, C);
    return 1;
}

/* Add a vector to the places of a window, every number of it to its own. */
INLINE void send_few(float *here, const i64 *steps, i64 K, const uint8_t *places, lanes from) {
    bytes narrow;
    memcpy(&narrow, places, sizeof narrow);
    marks where = __builtin_convertvector(narrow, marks);
    for (i64 k = 0; k < K; k++)
        store(here + steps[k], load(here + steps[k]) + (lanes)((marks)from & (where == (int32_t)k)));
}

/* Add d numbers to a window, every one to the place that it came from. */
INLINE void send(float *here, const i64 *steps, i64 K, int few, const uint8_t *places, const float *from, i64 d) {
    i64 c = 0;
    for (; few && c + LANES <= d; c += LANES) send_few(here + c, steps, K, places + c, load(from + c));
    for (; c < d; c++) /* of single channels, some are negative and out of reach */
        if (places[c] != NOWHERE) here[steps[places[c]] + c] += from[c];
}

/* Which numbers a place of k has won, of as many as a word has bits: those that no later place has taken. */
INLINE uint32_t won_by(const uint8_t *bits, i64 gap, i64 place, i64 k, size_t bytes) {
    uint32_t won = ~0u, word = 0;
    for (i64 i = most(place, 1); i < k; i++) {
        memcpy(&word, bits + (i - 1) * gap, bytes);
        won &= i == place ? word : ~word;
    }
    return won;
}

INLINE void credit_vector(float *to, const float *grad, marks won, int put) {
    lanes value = (lanes)((marks)load(grad) & won);
    if (!put) value += load(to);
    store(to, value);
}

/* Add to n numbers, or put there, the gradient that one of k places has won. */
INLINE void credit_some(float *to, const float *grad, const uint8_t *bits, i64 gap, i64 n, i64 place, i64 k, int put) {
    i64 i = 0;
    for (; i + 32 <= n; i += 32) {
        uint32_t won = won_by(bits + i / 8, gap, place, k, 4);
#if WIDE > LANES
        for (int v = 0; v < 32; v += WIDE) {
            __m512 value = _mm512_maskz_loadu_ps((__mmask16)(won >> v), grad + i + v);
            if (!put) value = _mm512_add_ps(value, _mm512_loadu_ps(to + i + v));
            _mm512_storeu_ps(to + i + v, value);
        }
#else
        for (int v = 0; v < 32; v += LANES) credit_vector(to + i + v, grad + i + v, unpacked(won, v), put);
#endif
    }
    for (; i + LANES <= n; i += LANES)
        credit_vector(to + i, grad + i, unpacked(won_by(bits + i / 8, gap, place, k, 1), 0), put);
    if (i < n && n >= LANES) { /* the last vector overlaps the one before, to which nothing is added twice */
        i64 at = n - LANES;
        uint32_t won = won_by(bits + at / 8, gap, place, k, 2) >> at % 8 & (put ? 255u : 255u << (i - at));
        credit_vector(to + at, grad + at, unpacked(won, 0), put);
        return;
    }
    for (; i < n; i++) to[i] = (put ? 0 : to[i]) + (won_by(bits, gap, place, k, 1) >> i & 1 ? grad[i] : 0);
}

static void credit(float *to, const float *grad, const uint8_t *bits, i64 gap, i64 n, i64 place, i64 k, int put) {
    switch (k > 3 ? -1 : k * 6 + place * 2 + put) { /* the usual ones are compiled each for itself */
        case 12: credit_some(to, grad, bits, gap, n, 0, 2, 0); break;
        case 13: credit_some(to, grad, bits, gap, n, 0, 2, 1); break;
        case 14: credit_some(to, grad, bits, gap, n, 1, 2, 0); break;
        case 15: credit_some(to, grad, bits, gap, n, 1, 2, 1); break;
        case 18: credit_some(to, grad, bits, gap, n, 0, 3, 0); break;
        case 19: credit_some(to, grad, bits, gap, n, 0, 3, 1); break;
        case 20: credit_some(to, grad, bits, gap, n, 1, 3, 0); break;
        case 22: credit_some(to, grad, bits, gap, n, 2, 3, 0); break;
        default: credit_some(to, grad, bits, gap, n, place, k, put);
    }
}

/* What maxima across rows send back to the row `at`; their gradients are `step` numbers apart, their bits `bytes`. */
static void credit_across(const job *j, int axis, const float *grad, i64 ring, i64 at, i64 step, const uint8_t *bits, i64 gap,
                          i64 bytes, float *to) {
    i64 n = j->gathered[2] * j->channels, k = j->look.kernel[axis];
    int put = 1;
    for (i64 i = 0; i < k; i++) {
        i64 r = at + j->look.padding[axis] - i * j->look.dilation[axis];
        if (r < 0 || r >= j->gathered[axis]) continue;
        credit(to, grad + in_ring(r, ring) * step, bits + r * bytes, gap, n, i, k, put);
        put = 0;
    }
    if (put) memset(to, 0, n * sizeof(float));
}

/* What maxima along a row send back to it; `line` as in gather_along. */
static void credit_along(const job *j, const float *grad, const uint8_t *bits, i64 gap, float *line, float *to) {
    i64 C = j->channels, n = j->gathered[2] * C, k = j->look.kernel[2], all = juts(j) ? reach(j) : j->size[2];
    float *sum = juts(j) ? line : to;
    memset(sum + n, 0, (all * C - n) * sizeof(float));
    for (i64 i = 0; i < k; i++) credit(sum + i * j->look.dilation[2] * C, grad, bits, gap, n, i, k, i == 0);
    if (!juts(j)) return;
    i64 before = j->look.padding[2], inside = least(j->size[2], reach(j) - before);
    memcpy(to, line + before * C, inside * C * sizeof(float));
    memset(to + inside * C, 0, (j->size[2] - inside) * C * sizeof(float));
}

/* Row r of n of a plane whose smoothing, if there was any, is sent back; the rows that the next one needs are made ahead,
 * as in gather. */
static void send_row(const job *j, const rings *s, const float *plane, i64 r, float *to) {
    i64 n = j->gathered[1];
    if (!j->smooths) {
        memcpy(to, plane + r * s->row, s->row * sizeof(float));
        return;
    }
    for (i64 q = r ? r + 1 : 0; q < least(n, r + 2); q++) smooth_row(plane, n, q, n, s->row, s->one + q % 2 * s->row, 1);
    smooth_lines(s->one + r % 2 * s->row, to, j->gathered[2], j->channels, 1);
}

/* Send the gradient of a gathered map, or of the numbers that were chosen of it, back to where its maxima came from. */
static void send_back_dense(const job *j, desk *t, i64 image, const float *grad, float *to) {
    i64 C = j->channels, d = C / j->groups, o = volume(j->out), rows = span_of(j, 1), ring = span_of(j, 0), planes = 0;
    const i64 *n = j->size, *m = j->gathered, *p = j->look.padding;
    int whole = j->choice == WHOLE;
    const int32_t *chosen = whole ? 0 : j->chosen + image * j->groups * o;
    const float *map = whole ? grad : t->map;
    int deep = is_deep(j);
    rings s = rings_in(j, t->spare);
    winners w = winners_of(j, j->places + image * winners_size(j));
    if (!whole) memset(t->map, 0, volume(m) * C * sizeof(float));
    for (i64 g = 0; !whole && g < j->groups; g++)
        for (i64 i = 0; i < o; i++) add(t->map + chosen[g * o + i] * C + g * d, grad + i * C + g * d, 1, d);
    for (i64 z = 0; z < n[0]; z++) {
        for (; deep && planes < least(m[0], z + p[0] + 1); planes++) {
            const float *plane = j->smooths ? s.flat : map + planes * s.plane;
            if (j->smooths) smooth_row(map, m[0], planes, m[0], s.plane, s.flat, 1);
            for (i64 r = 0; r < m[1]; r++) send_row(j, &s, plane, r, s.tall + planes % ring * s.plane + r * s.row);
        }
        for (i64 r = 0, ready = 0; r < n[1]; r++) {
            for (; ready < least(m[1], r + p[1] + 1); ready++) {
                float *row = s.wide + ready % rows * s.row;
                if (deep)
                    credit_across(j, 0, s.tall + ready * s.row, ring, z, s.plane, bits_at(&w, 0, ready), w.gap[0],
                                  m[1] * w.bytes, row);
                else
                    send_row(j, &s, map, ready, row);
            }
            i64 at = z * n[1] + r;
            if (at + 1 < n[0] * n[1]) ask_for(to + (at + 1) * n[2] * C, n[2] * C);
            credit_across(j, 1, s.wide, rows, r, s.row, bits_at(&w, 1, z * m[1]), w.gap[1], w.bytes, s.softened);
            credit_along(j, s.softened, bits_at(&w, 2, at), w.gap[2], s.line, to + at * n[2] * C);
        }
    }
}

/* Send the gradient of the chosen numbers back to where they came from. */
static void send_back(const job *j, desk *t, i64 image) {
    i64 C = j->channels, d = C / j->groups, n = volume(j->size), o = volume(j->out);
    const i64 *map = j->gathered, *size = j->size, *out = j->out;
    const window *w = &j->look;
    const float *grad = j->grad + image * o * C;
    float *to = j->grad_x + image * n * C;
    if (!j->grad_last) {
        turn(grad, t->values, C, o);
        grad = t->values;
    }
    if (!j->channels_last) to = t->turned;
    i64 K = places_of(w), few = K <= 4; /* so that it pays to write a vector to every place of a window */
    for (int a = 0; a < 3; a++) few = few && !w->padding[a] && map[a] + (w->kernel[a] - 1) * w->dilation[a] <= size[a];
    i64 steps[256] = {0}; /* how far a place is from the first, in numbers */
    for (i64 k = 0; j->places && k < K; k++) steps[k] = t->look[k] * C;
    if (is_dense(j))
        send_back_dense(j, t, image, grad, to);
    else
        memset(to, 0, n * C * sizeof(float));
    for (i64 i = 0; !is_dense(j) && i < o; i++)
        for (i64 g = 0; g < j->groups; g++) {
            const float *from = grad + i * C + g * d;
            i64 z, y, x;
            if (j->chosen) {
                int32_t at = j->chosen[(image * j->groups + g) * o + i], depth = (int32_t)(map[1] * map[2]);
                z = at / depth, y = at % depth / (int32_t)map[2], x = at % (int32_t)map[2];
            } else {
                z = i / (out[1] * out[2]) * w->stride[0];
                y = i / out[2] % out[1] * w->stride[1];
                x = i % out[2] * w->stride[2];
            }
            if (j->places) z -= w->padding[0], y -= w->padding[1], x -= w->padding[2];
            float *here = to + ((z * size[1] + y) * size[2] + x) * C + g * d;
            if (!j->places) {
                add(here, from, 1, d);
                continue;
            }
            send(here, steps, K, few && j->chosen, j->places + (image * o + i) * C + g * d, from, d);
        }
    if (!j->channels_last) turn(to, j->grad_x + image * n * C, n, C);
}

/* n channels of a window: in each the first place whose running sum of positive numbers reaches a random mark. */
INLINE void draw(const float *x, const i64 *pixels, const int32_t *which, i64 count, const float *uniform, float *to,
                 uint8_t *places, i64 c, i64 n) {
    const lanes zero = {0};
    lanes sum = zero, passed = zero, value = zero;
    for (i64 k = 0; k < count; k++) {
        lanes row = load_some(x + pixels[k] + c, n);
        sum += either(row > zero, row, zero) + TRIFLE;
    }
    lanes mark = (1 - load_some(uniform + c, n)) * sum;
    marks found = {0}, from = {0};
    for (i64 k = 0; k < count; k++) {
        lanes row = load_some(x + pixels[k] + c, n), a = either(row > zero, row, zero);
        passed += a + TRIFLE;
        marks here = (passed >= mark) & ~found, lost = row < zero;
        found |= here;
        value = either(here, a, value);
        from = (from & ~here) | (here & (which[k] | (lost & NOWHERE)));
    }
    store_some(to + c, value, n);
    if (places) store_bytes(places + c, from, n);
}

/* n channels of the expectation of that, the mean of the positive numbers weighted by themselves. */
INLINE void mean(const float *x, const i64 *pixels, i64 count, float *to, i64 c, i64 n) {
    const lanes zero = {0};
    lanes sum = zero, squared = zero;
    for (i64 k = 0; k < count; k++) {
        lanes row = load_some(x + pixels[k] + c, n), a = either(row > zero, row, zero);
        sum += a;
        squared += a * a;
    }
    store_some(to + c, squared / either(sum > FLT_MIN, sum, zero + FLT_MIN), n);
}

INLINE void pool_window(const float *x, i64 C, i64 *pixels, const int32_t *which, const float *uniform, float *to,
                        uint8_t *places, i64 count) {
    for (i64 k = 0; k < count; k++) pixels[k] *= C;
    if (uniform)
        EACH_VECTOR(C, draw, x, pixels, which, count, uniform, to, places);
    else
        EACH_VECTOR(C, mean, x, pixels, count, to);
}

/* Zeiler and Fergus: of every window and channel, one place with p = a / sum(a), or the expectation of that. */
static int pool_channels(const job *j, desk *t, i64 image) {
    i64 C = j->channels, n = volume(j->size), o = volume(j->out);
    const float *x = j->x + image * n * C, *uniform = j->uniform[0] ? j->uniform[0] + image * o * C : 0;
    float *values = j->channels_last ? j->values + image * o * C : t->values;
    if (!j->channels_last) {
        turn(x, t->turned, C, n);
        x = t->turned;
        if (uniform) {
            turn(uniform, t->spare, C, o);
            uniform = t->spare;
        }
    }
    if (is_strange(x, n * C)) return 0;
    for (i64 z = 0, i = 0; z < j->out[0]; z++)
        for (i64 r = 0; r < j->out[1]; r++)
            for (i64 q = 0; q < j->out[2]; q++, i++) {
                i64 count = look_at_output(&j->look, j->size, t->look, z, r, q, t->pixels, t->which);
                uint8_t *places = j->places ? j->places + (image * o + i) * C : 0;
                const float *numbers = uniform ? uniform + i * C : 0;
                FOR_USUAL(count, pool_window, x, C, t->pixels, t->which, numbers, values + i * C, places);
            }
    if (!j->channels_last) turn(values, j->values + image * o * C, o, C);
    return 1;
}

enum { POOL, BACK, CHANNELS };

/* 1 where all went well, 0 where torch's operations are to do it instead. */
int multipartite_run(const job *j, int what) {
    fold f = {0};
    int begun = what != POOL || make_fold(j, &f), well = begun; /* every thread has a `well` of its own, which is 1 first */
#pragma omp parallel num_threads((int)j->threads) if (j->threads > 1) reduction(&& : well)
    {
        desk t;
        int ready = begun && make_desk(j, what == POOL ? &f : 0, &t);
#pragma omp for schedule(static)
        for (i64 i = 0; i < j->images; i++) {
            if (!ready || !well)
                well = 0;
            else if (what == BACK)
                send_back(j, &t, i);
            else
                well = what == POOL ? pool_image(j, &f, &t, i) : pool_channels(j, &t, i);
        }
    }
    free(f.first);
    return well;
}

/* What this was compiled from, so that nobody calls what was compiled from something else. */
const char *multipartite_digest(void) { return DIGEST; }

/* Statistics */

#define ROWS 128 /* pixels whose products are summed at a time */

typedef struct {
    i64 images, channels, groups, classes;
    i64 size[3], gathered[3]; /* of the map, and of the map that is learned from */
    window look;              /* around every pixel at stride one */
    i64 gathers, smooths, channels_last, first, step, threads;
    const float *x;                 /* images */
    const i64 *labels;              /* [images] */
    double kept;                    /* share of what was seen before that still counts */
    double *count, *mean, *scatter; /* [classes], [classes, channels], [groups, d, d] */
} lesson;

/* Add rows z [rows, width]. */
static void add_rows(const float *z, i64 rows, i64 width, float *sum) {
    for (i64 c = 0; c < width; c += COLUMNS) {
        wide one = load_wide(sum + c), two = load_wide(sum + c + WIDE);
        for (i64 r = 0; r < rows; r++) {
            one += load_wide(z + r * width + c);
            two += load_wide(z + r * width + c + WIDE);
        }
        store_wide(sum + c, one);
        store_wide(sum + c + WIDE, two);
    }
}

/* What a thread needs to learn from images. */
typedef struct {
    float *gram, *z, *sum, *near, *turned; /* [d, width], [ROWS, width], [width], [width]; an image in the other layout, or 0 */
    i64 *pixels, *offsets;
    int32_t *which;
    i64 shifts[27]; /* how far the windows are, in numbers, whose maxima are smoothed to one; their weights; how many */
    float weights[27];
    int windows;
} notebook;

static int make_notebook(const lesson *s, i64 d, i64 width, int turns, notebook *b) {
    i64 places = places_of(&s->look), numbers = (d + 4 + ROWS + 2) * width + (turns ? volume(s->size) * s->channels : 0);
    b->pixels = calloc(1, 2 * places * sizeof(i64) + places * sizeof(int32_t) + numbers * sizeof(float));
    if (!b->pixels) return 0;
    b->offsets = b->pixels + places;
    b->which = (int32_t *)(b->offsets + places);
    b->gram = (float *)(b->which + places);
    b->z = b->gram + (d + 4) * width;
    b->sum = b->z + ROWS * width;
    b->near = b->sum + width;
    b->turned = turns ? b->near + width : 0;
    measure(&s->look, s->size, b->offsets);
    const i64 beside[3][3] = {{0, -1, 1}, {0, -1, 1}, {0, -1, 1}};
    b->windows = around(s->gathered, s->size, beside, b->shifts, b->weights);
    for (int k = 0; k < b->windows; k++) b->shifts[k] *= s->channels;
    return 1;
}

/* n channels of the maximum of a window about an origin; NaN where one of them is not finite, which a maximum may hide. */
INLINE void read_some(const float *x, const i64 *pixels, i64 count, const float *origin, float *row, i64 c, i64 n) {
    lanes most = load_some(x + pixels[0] + c, n), odd = most * 0.0f;
    for (i64 k = 1; k < count; k++) {
        lanes value = load_some(x + pixels[k] + c, n);
        most = either(value > most, value, most);
        odd += value * 0.0f;
    }
    store_some(row + c, most - load_some(origin + c, n) + odd, n);
}

INLINE void read_row(const float *x, i64 C, i64 d, i64 *pixels, const float *origin, float *row, i64 count) {
    for (i64 k = 0; k < count; k++) pixels[k] *= C;
    EACH_VECTOR(d, read_some, x, pixels, count, origin, row);
}

/* d channels, from the one at `first` on, of pixel `at` of the gathered map, about an origin. */
static void read_gathered(const lesson *s, notebook *b, const float *x, i64 at, i64 first, i64 d, const float *origin,
                          float *row) {
    i64 n = volume(s->size), count = 1;
    b->pixels[0] = at;
    if (s->gathers) {
        const i64 *m = s->gathered, *p = s->look.padding;
        i64 line = (int32_t)at / (int32_t)m[2], plane = (int32_t)line / (int32_t)m[1];
        count = look_at(&s->look, s->size, b->offsets, plane - p[0], line - plane * m[1] - p[1], at - line * m[2] - p[2],
                        b->pixels, b->which);
    }
    if (!count) {
        row[0] = NAN;
    } else if (s->channels_last) {
        FOR_USUAL(count, read_row, x + first, s->channels, d, b->pixels, origin, row);
    } else {
        for (i64 c = 0; c < d; c++, x += n) {
            const float *from = x + first * n;
            float most = from[b->pixels[0]], odd = most * 0.0f;
            for (i64 k = 1; k < count; k++) {
                float value = from[b->pixels[k]];
                most = value > most ? value : most;
                odd += value * 0.0f;
            }
            row[c] = most - origin[c] + odd;
        }
    }
}

/* n channels of a mean of maxima, each of the same window shifted, about an origin; NaN as above. */
INLINE void read_smoothed(const float *x, const i64 *pixels, i64 count, const i64 *shifts, const float *weights, i64 windows,
                          const float *origin, float *row, i64 c, i64 n) {
    lanes sum = -load_some(origin + c, n), odd = {0};
    for (i64 s = 0; s < windows; s++) {
        const float *from = x + shifts[s] + c;
        lanes most = load_some(from + pixels[0], n);
        odd += most * 0.0f;
        for (i64 k = 1; k < count; k++) {
            lanes value = load_some(from + pixels[k], n);
            most = either(value > most, value, most);
            odd += value * 0.0f;
        }
        sum += weights[s] * most;
    }
    store_some(row + c, sum + odd, n);
}

INLINE void read_smoothed_row(const float *x, i64 C, i64 d, i64 *pixels, const i64 *shifts, const float *weights,
                              i64 windows, const float *origin, float *row, i64 count) {
    for (i64 k = 0; k < count; k++) pixels[k] *= C;
    EACH_VECTOR(d, read_smoothed, x, pixels, count, shifts, weights, windows, origin, row);
}

/* What the middle and the two beside it weigh where smoothed, and at the ends of a line, where they are reflected. */
static const float TAPS[3][3] = {{0.5f, 0.5f, 0}, {0.25f, 0.5f, 0.25f}, {0, 0.5f, 0.5f}};

/* n channels of the weighted mean of the maxima of nine windows of k by k pixels, the first of which begins at x; lines are
 * `line` numbers long. A pixel is read once, and looked at along its line before across. */
INLINE void read_square(const float *x, i64 C, i64 line, const float *high, const float *wide, const float *origin,
                        float *row, i64 k, i64 c, i64 n) {
    lanes along[5][3], sum = -load_some(origin + c, n), odd = {0};
    for (i64 a = 0; a < k + 2; a++) {
        lanes pixels[5];
        for (i64 b = 0; b < k + 2; b++) {
            pixels[b] = load_some(x + a * line + b * C + c, n);
            odd += pixels[b] * 0.0f;
        }
        for (i64 b = 0; b < 3; b++) {
            along[a][b] = pixels[b];
            for (i64 i = 1; i < k; i++) along[a][b] = higher(pixels[b + i], along[a][b]);
        }
    }
    for (i64 a = 0; a < 3; a++)
        for (i64 b = 0; b < 3; b++) {
            lanes most = along[a][b];
            for (i64 i = 1; i < k; i++) most = higher(along[a + i][b], most);
            sum += high[a] * wide[b] * most;
        }
    store_some(row + c, sum + odd, n);
}

/* How many pixels a square window has along a side, where it is one of two or three pixels of a plane, with no padding. */
static i64 side_of(const lesson *s) {
    const i64 *k = s->look.kernel, *d = s->look.dilation, *n = s->size, *m = s->gathered;
    int flat = s->channels_last && s->size[0] == 1 && k[0] == 1 && k[1] == k[2] && (k[1] == 2 || k[1] == 3);
    for (int a = 1; a < 3; a++) flat = flat && d[a] == 1 && m[a] > 2 && !s->look.padding[a] && m[a] + k[a] - 1 <= n[a];
    return flat ? k[1] : 0;
}

/* The same of the map that is learned from. */
static void read_pixel(const lesson *s, notebook *b, const float *x, i64 at, i64 first, i64 d, const float *origin,
                       float *row) {
    const i64 *n = s->gathered, *p = s->look.padding;
    if (!s->smooths) {
        read_gathered(s, b, x, at, first, d, origin, row);
        return;
    }
    int32_t line = (int32_t)at / (int32_t)n[2], plane = line / (int32_t)n[1];
    const i64 here[3] = {plane, line - plane * n[1], at - line * n[2]};
    i64 side = side_of(s);
    if (side) {
        i64 C = s->channels, line = s->size[2] * C, from[3], end[3];
        for (int a = 1; a < 3; a++) {
            from[a] = most(0, least(here[a] - 1, n[a] - 3));
            end[a] = here[a] - from[a]; /* which of the three is the middle */
        }
        const float *high = TAPS[end[1]], *wide = TAPS[end[2]];
        x += first + from[1] * line + from[2] * C;
        if (side == 2)
            EACH_VECTOR(d, read_square, x, C, line, high, wide, origin, row, 2);
        else
            EACH_VECTOR(d, read_square, x, C, line, high, wide, origin, row, 3);
        return;
    }
    int inside = s->channels_last; /* whether the windows around are the one here shifted, all of them in the map */
    for (int a = 0; a < 3; a++) {
        i64 reach = n[a] > 1, from = here[a] - p[a], to = from + (s->look.kernel[a] - 1) * s->look.dilation[a];
        inside = inside && here[a] >= reach && here[a] < n[a] - reach && from >= reach && to < s->size[a] - reach;
    }
    if (inside) {
        i64 places = look_at(&s->look, s->size, b->offsets, here[0] - p[0], here[1] - p[1], here[2] - p[2], b->pixels,
                             b->which);
        FOR_USUAL(places, read_smoothed_row, x + first, s->channels, d, b->pixels, b->shifts, b->weights, b->windows, origin,
                  row);
        return;
    }
    i64 near[3][3], pixels[27];
    float weights[27];
    for (int a = 0; a < 3; a++) near[a][0] = here[a], near[a][1] = before(here[a], n[a]), near[a][2] = after(here[a], n[a]);
    int count = around(n, n, near, pixels, weights);
    fill(row, 0, d);
    for (int k = 0; k < count; k++) {
        read_gathered(s, b, x, pixels[k], first, d, origin, b->near);
        add(row, b->near, weights[k], d);
    }
}

/* Add the products of rows z [rows, width] to the upper triangle of a Gram matrix [d, width], tile by tile. */
static void add_products(const float *z, i64 rows, i64 d, i64 width, float *gram) {
    for (i64 r = 0; r < d; r += 4)
        for (i64 c = r / COLUMNS * COLUMNS; c < width; c += COLUMNS) {
            wide sum[4][2];
            for (int k = 0; k < 4; k++)
                for (int v = 0; v < 2; v++) sum[k][v] = load_wide(gram + (r + k) * width + c + v * WIDE);
            for (const float *row = z; row < z + rows * width; row += width) {
                wide one = load_wide(row + c), two = load_wide(row + c + WIDE);
                for (int k = 0; k < 4; k++) {
                    sum[k][0] += row[r + k] * one;
                    sum[k][1] += row[r + k] * two;
                }
            }
            for (int k = 0; k < 4; k++)
                for (int v = 0; v < 2; v++) store_wide(gram + (r + k) * width + c + v * WIDE, sum[k][v]);
        }
}

/* Sums [channels] and products [groups, d, d] of every `step`-th pixel of an image, about an origin; whether all of them
 * can be learned from. */
static int sum_up(const lesson *s, notebook *b, i64 image, const float *origin, i64 width, double *sums, double *products) {
    i64 C = s->channels, d = C / s->groups, pixels = volume(s->gathered);
    const float *x = s->x + image * volume(s->size) * C;
    float strange = 0;
    if (b->turned) {
        turn(x, b->turned, C, volume(s->size));
        x = b->turned;
    }
    for (i64 g = 0; g < s->groups; g++) {
        memset(b->gram, 0, (d + 4) * width * sizeof(float));
        memset(b->sum, 0, width * sizeof(float));
        for (i64 p = s->first; p < pixels;) {
            i64 rows = 0;
            for (; rows < ROWS && p < pixels; rows++, p += s->step)
                read_pixel(s, b, x, p, g * d, d, origin + g * d, b->z + rows * width);
            add_rows(b->z, rows, width, b->sum);
            add_products(b->z, rows, d, width, b->gram);
        }
        for (i64 c = 0; c < d; c++) {
            sums[g * d + c] += b->sum[c];
            strange += b->sum[c] * 0.0f;
        }
        for (i64 r = 0; r < d; r++)
            for (i64 c = r; c < d; c++) products[(g * d + r) * d + c] += b->gram[r * width + c];
    }
    return strange == 0.0f;
}

/* Let a batch, of which sums and products about origins are known, join what was seen before, which counts for a share
 * `kept` of what it did (Chan, Golub and LeVeque 1983); nothing changes where a number is not finite, and 0 says so. */
static int join(const lesson *s, const float *origin, const double *number, double *sums, double *products) {
    i64 C = s->channels, G = s->groups, d = C / G;
    double *delta = malloc(2 * C * sizeof(double)), check = 0;
    if (!delta) return 0;
    double *new = delta + C;
    for (i64 j = 0; j < s->classes; j++) {
        double before = s->count[j] * s->kept;
        if (number[j] == 0) continue;
        for (i64 c = 0; c < C; c++) {
            delta[c] = sums[j * C + c] / number[j];
            new[c] = before > 0 ? origin[j * C + c] + delta[c] - s->mean[j * C + c] : 0;
        }
        double share = before * number[j] / (before + number[j]);
        for (i64 i = 0; i < C; i++) {
            double a = number[j] * delta[i], b = share * new[i];
            for (i64 c = i % d, k = i - c; c < d; c++) products[i * d + c] += b * new[k + c] - a * delta[k + c];
        }
    }
    for (i64 i = 0; i < C; i++)
        for (i64 c = i % d; c < d; c++) check += products[i * d + c] * 0.0;
    free(delta);
    if (!(check == 0.0)) return 0;
    for (i64 j = 0; j < s->classes; j++) {
        double before = s->count[j] * s->kept, share = number[j] > 0 ? number[j] / (before + number[j]) : 0;
        s->count[j] = before + number[j];
        for (i64 c = 0; c < C && number[j] > 0; c++) {
            double mean = origin[j * C + c] + sums[j * C + c] / number[j], *to = s->mean + j * C + c;
            *to += share * (mean - *to);
        }
    }
    for (i64 i = 0; i < C; i++)
        for (i64 c = 0, k = i - i % d; c < d; c++) { /* the lower triangle is the upper one */
            double found = c < i % d ? products[(k + c) * d + i % d] : products[i * d + c];
            s->scatter[i * d + c] = s->scatter[i * d + c] * s->kept + found;
        }
    return 1;
}

/* Learn from every `step`-th pixel of a batch; 0 where torch's operations are to do it instead. */
int multipartite_learn(const lesson *s) {
    i64 C = s->channels, G = s->groups, d = C / G, width = (d + COLUMNS - 1) / COLUMNS * COLUMNS, c = s->classes;
    i64 numbers = c * C + C * d, rows = (volume(s->gathered) - s->first + s->step - 1) / s->step;
    double *found = calloc(s->threads * numbers + c, sizeof(double)), *number = found ? found + s->threads * numbers : 0;
    float *origin = calloc((c + 1) * C, sizeof(float)), *none = origin ? origin + c * C : 0;
    notebook first = {0};
    int well = found && origin && make_notebook(s, d, width, 0, &first);
    i64 reads = (s->gathers ? places_of(&s->look) : 1) * (s->smooths ? 9 : 1);
    lesson own = *s; /* where more pixels would be read from afar than there are, an image is turned first */
    own.channels_last = s->channels_last || rows * reads > volume(s->size);
    for (i64 i = 0; well && i < c * C; i++) origin[i] = (float)s->mean[i];
    for (i64 i = 0; well && i < s->images; i++) {
        i64 j = s->labels[i], at = s->first + rows / 2 * s->step;
        for (i64 g = 0; g < G && !(number[j] + s->count[j] > 0); g++) /* a class that was not seen before: a glance at it */
            read_pixel(s, &first, s->x + i * volume(s->size) * C, at, g * d, d, none, origin + j * C + g * d);
        number[j] += rows;
    }
    free(first.pixels);
    int begun = well;
#pragma omp parallel num_threads((int)s->threads) if (s->threads > 1) reduction(&& : well)
    {
        notebook b = {0};
        well = begun && make_notebook(s, d, width, own.channels_last && !s->channels_last, &b);
#ifdef _OPENMP
        double *mine = found + omp_get_thread_num() * numbers;
#else
        double *mine = found;
#endif
#pragma omp for schedule(static)
        for (i64 i = 0; i < s->images; i++)
            if (well) {
                i64 j = s->labels[i];
                well = sum_up(&own, &b, i, origin + j * C, width, mine + j * C, mine + c * C);
            }
        free(b.pixels);
    }
    for (i64 t = 1; well && t < s->threads; t++)
        for (i64 i = 0; i < numbers; i++) found[i] += found[t * numbers + i];
    well = well && join(s, origin, number, found, found + c * C);
    free(found);
    free(origin);
    return well;
}
