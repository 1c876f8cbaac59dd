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

#define LANES 8
#define BLOCK 4 /* pixels that are scored at a time */
#define COLUMNS (2 * LANES) /* of a factor, that are multiplied at a time */
#define TRIFLE 1e-25f /* what a pixel without any score weighs; see choose.py */
#define NOWHERE 255 /* the place of a number that no gradient reaches */

#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef float half __attribute__((vector_size(LANES / 2 * sizeof(float)), aligned(sizeof(float)), may_alias));
typedef int32_t marks __attribute__((vector_size(LANES * sizeof(int32_t)))); /* what comparing lanes gives */
typedef uint8_t bytes __attribute__((vector_size(LANES)));
typedef int64_t i64;

enum { BLIND, ENERGY, QUADRATIC, INFORMATION, GIVEN };                /* what scores a pixel */
enum { BEST, DRAW, DRAW_LINES, EXPECTATION, EXPECTED_LINES, WHOLE }; /* what becomes of the scored map */

typedef struct {
    i64 kernel[3], stride[3], padding[3], dilation[3];
} window;

typedef struct {
    i64 images, channels, groups;
    i64 size[3], gathered[3], out[3]; /* of the map, of the map that is scored, of the output */
    window look, cells;               /* around every pixel at stride one; in which one pixel stays */
    i64 gathers, smooths, channels_last, scoring, choice, rank, threads;
    i64 whole[3];      /* axes that keep all their lines */
    double power;      /* 1 / temperature */
    const float *x;    /* images */
    const float *factor, *offset, *log_prior; /* [groups, d, rank], [groups, rank], [rank] */
    const float *scores;                      /* [images, groups, gathered], where they are given */
    const float *uniform[3]; /* a number a window, [images, groups, out], or a number a line and axis */
    const float *focus;      /* [groups] */
    float *values;           /* [images, channels, out], in the layout of x */
    int32_t *chosen;         /* [images, groups, out] */
    uint8_t *places;         /* [images, out, channels]: in which place of its window a maximum was; [images, gathered,
                                channels] where maxima are smoothed */
    const float *grad;       /* as values */
    float *grad_x;           /* as x */
} job;

static i64 volume(const i64 size[3]) { return size[0] * size[1] * size[2]; }
static i64 least(i64 a, i64 b) { return a < b ? a : b; }
static i64 most(i64 a, i64 b) { return a > b ? a : b; }

static i64 places_of(const window *w) { return w->kernel[0] * w->kernel[1] * w->kernel[2]; }

INLINE lanes load(const float *p) { return *(const lanes *)p; }
INLINE void store(float *p, lanes v) { *(lanes *)p = v; }

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

INLINE half folded(lanes v) {
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
}

INLINE float total(lanes v) {
    half sum = folded(v);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
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

/* Gather */

static void maximum(float *restrict to, const float *restrict from, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void larger(float *restrict to, const float *a, const float *b, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] = a[i] > b[i] ? a[i] : b[i];
}

static void fill(float *to, float value, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] = value;
}

/* Maximum of shifted lines along one axis: lines are `inner` numbers, and there are `outer` stacks of them. */
static void slide(const float *x, float *y, i64 outer, i64 inner, i64 n, i64 m, i64 k, i64 p, i64 d) {
    for (i64 o = 0; o < outer; o++, x += n * inner, y += m * inner) {
        if (p == 0 && m + d * (k - 1) <= n && k > 1) { /* no padding anywhere: the first two at once */
            larger(y, x, x + d * inner, m * inner);
            for (i64 i = 2; i < k; i++) maximum(y, x + i * d * inner, m * inner);
            continue;
        }
        fill(y, -INFINITY, m * inner);
        for (i64 i = 0; i < k; i++) {
            i64 shift = i * d - p, from = most(0, -shift), to = least(m, n - shift);
            if (to > from) maximum(y + from * inner, x + (from + shift) * inner, (to - from) * inner);
        }
    }
}

/* The gathered map of an image, in `y`; `spare` is as large as the image and its gathered map. */
static void gather(const job *j, const float *x, float *y, float *spare) {
    i64 C = j->channels;
    const i64 *n = j->size, *m = j->gathered;
    const window *w = &j->look;
    int deep = n[0] > 1 || w->kernel[0] > 1, high = deep || n[1] > 1 || w->kernel[1] > 1;
    float *wide = high ? spare : y, *tall = deep ? spare + n[0] * n[1] * m[2] * C : y;
    slide(x, wide, n[0] * n[1], C, n[2], m[2], w->kernel[2], w->padding[2], w->dilation[2]);
    if (high) slide(wide, tall, n[0], m[2] * C, n[1], m[1], w->kernel[1], w->padding[1], w->dilation[1]);
    if (deep) slide(tall, y, 1, m[1] * m[2] * C, n[0], m[0], w->kernel[0], w->padding[0], w->dilation[0]);
}

/* Pixels beside one of a line of n, reflected at the ends. */
INLINE i64 before(i64 i, i64 n) { return i > 0 ? i - 1 : least(1, n - 1); }
INLINE i64 after(i64 i, i64 n) { return i < n - 1 ? i + 1 : most(0, n - 2); }

static void soften(const float *a, float wa, const float *b, const float *c, float wc, float *restrict to, i64 n) {
    for (i64 i = 0; i < n; i++) to[i] = wa * a[i] + 0.5f * b[i] + wc * c[i];
}

/* Lines, each `inner` numbers, smoothed with the weights 1, 2, 1, reflected at the ends; or what is sent back by that. */
static void smooth_lines(const float *x, float *to, i64 n, i64 inner, int back) {
    const float *end = x + (n - 1) * inner;
    float mirrored = back && n > 2 ? 0 : 0.25f; /* nothing is sent to what is beyond the ends */
    if (n == 1) {
        memcpy(to, x, inner * sizeof(float));
        return;
    }
    soften(x + inner, mirrored, x, x + inner, 0.25f, to, inner);
    if (n > 2) soften(x, 0.25f, x + inner, x + 2 * inner, 0.25f, to + inner, (n - 2) * inner);
    soften(end - inner, 0.25f, end, end - inner, mirrored, to + (n - 1) * inner, inner);
    if (!back || n == 2) return;
    for (i64 i = 0; i < inner; i++) { /* the ends count half in what is beside them, and a quarter is there */
        to[inner + i] += 0.25f * x[i];
        to[(n - 2) * inner + i] += 0.25f * end[i];
    }
}

/* A map smoothed along every axis, in `y`; `spare` holds two maps. */
static void smooth(const i64 size[3], i64 C, const float *x, float *y, float *spare, int back) {
    int last = size[0] > 1 ? 0 : size[1] > 1 ? 1 : 2;
    for (int axis = 2; axis >= last; axis--) {
        i64 n = size[axis], inner = C, outer = 1;
        for (int a = 0; a < 3; a++)
            if (a != axis) *(a < axis ? &outer : &inner) *= size[a];
        float *to = axis == last ? y : spare + axis % 2 * volume(size) * C;
        for (i64 o = 0; o < outer; o++) smooth_lines(x + o * n * inner, to + o * n * inner, n, inner, back);
        x = to;
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

/* BLOCK pixels times COLUMNS of a factor [d, COLUMNS], whose rows before `first` are zero, plus an offset. */
INLINE void product(const float *const x[BLOCK], const float *factor, const float *offset, i64 first, i64 d,
                    lanes sum[BLOCK][2]) {
    for (int p = 0; p < BLOCK; p++)
        for (int v = 0; v < 2; v++) sum[p][v] = load(offset + v * LANES);
    for (i64 c = first; c < d; c++) {
        lanes one = load(factor + c * COLUMNS), two = load(factor + c * COLUMNS + LANES);
        for (int p = 0; p < BLOCK; p++) {
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
} fold;

static int is_slim(const job *j) {
    return j->scoring == QUADRATIC && (j->rank == 9 || j->rank == 10) && j->channels / j->groups >= LANES;
}

INLINE void rows_of(const float *y, i64 p, i64 pixels, i64 C, const float *rows[BLOCK]) {
    for (int b = 0; b < BLOCK; b++) rows[b] = y + least(p + b, pixels - 1) * C;
}

/* Sums of squares for a factor of nine or ten columns, as ten classes have: eight are a vector, and those beyond are
 * products of rows. Twice BLOCK pixels. */
INLINE void score_slim(const float *const x[2 * BLOCK], const float *factor, const float *beyond, i64 columns, i64 d,
                       float to[2 * BLOCK]) {
    lanes sum[2 * BLOCK];
    for (int p = 0; p < 2 * BLOCK; p++) sum[p] = (lanes){0};
    for (i64 c = 0; c < d; c++) {
        lanes one = load(factor + c * COLUMNS);
        for (int p = 0; p < 2 * BLOCK; p++) sum[p] += x[p][c] * one;
    }
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

/* Scores [groups, pixels] of the map y [pixels, channels]; `work` holds (BLOCK + 1) * width numbers. */
static void score(const job *j, const fold *f, const float *y, float *scores, float *work) {
    i64 pixels = volume(j->gathered), C = j->channels, d = C / j->groups, blocks = f->width / COLUMNS;
    const float *rows[2 * BLOCK];
    lanes sum[BLOCK][2];
    float found[2 * BLOCK];
    for (i64 g = 0; g < j->groups; g++) {
        const float *part = y + g * d, *factor = f->factor + g * d * f->width, *offset = f->offset + g * f->width;
        const i64 *first = f->first + g * blocks;
        float *to = scores + g * pixels;
        if (j->scoring == ENERGY)
            for (i64 p = 0; p < pixels; p += BLOCK) {
                rows_of(part, p, pixels, C, rows);
                squares(rows, d, found);
                for (int b = 0; b < BLOCK && p + b < pixels; b++) to[p + b] = found[b];
            }
        else if (j->scoring == QUADRATIC && is_slim(j))
            for (i64 p = 0; p < pixels; p += 2 * BLOCK) {
                rows_of(part, p, pixels, C, rows);
                rows_of(part, p + BLOCK, pixels, C, rows + BLOCK);
                score_slim(rows, factor, f->beyond + g * 2 * (d + LANES), j->rank, d, found);
                for (int b = 0; b < 2 * BLOCK && p + b < pixels; b++) to[p + b] = found[b];
            }
        else if (j->scoring == QUADRATIC)
            for (i64 k = 0; k < blocks; k++) /* the columns stay in the cache while the pixels pass */
                for (i64 p = 0; p < pixels; p += BLOCK) {
                    rows_of(part, p, pixels, C, rows);
                    product(rows, factor + k * d * COLUMNS, offset + k * COLUMNS, first[k], d, sum);
                    for (int b = 0; b < BLOCK; b++) sum[b][0] = sum[b][0] * sum[b][0] + sum[b][1] * sum[b][1];
                    *(half *)found = totals(sum[0][0], sum[1][0], sum[2][0], sum[3][0]);
                    for (int b = 0; b < BLOCK && p + b < pixels; b++) to[p + b] = k ? to[p + b] + found[b] : found[b];
                }
        else
            for (i64 p = 0; p < pixels; p += BLOCK) {
                rows_of(part, p, pixels, C, rows);
                for (i64 k = 0; k < blocks; k++) {
                    product(rows, factor + k * d * COLUMNS, offset + k * COLUMNS, first[k], d, sum);
                    for (int b = 0; b < BLOCK; b++)
                        for (int v = 0; v < 2; v++) store(work + b * f->width + k * COLUMNS + v * LANES, sum[b][v]);
                }
                for (int b = 0; b < BLOCK && p + b < pixels; b++)
                    to[p + b] = divergence(work + b * f->width, f->log_prior, f->width, work + BLOCK * f->width);
            }
    }
}

/* Lay the columns of the factor out block by block. */
static int make_fold(const job *j, fold *f) {
    i64 G = j->groups, d = j->channels / G, r = j->rank, blocks = (r + COLUMNS - 1) / COLUMNS;
    f->width = blocks * COLUMNS;
    i64 numbers = G * d * f->width + (G + 1) * f->width + G * 2 * (d + LANES);
    f->first = calloc(1, G * blocks * sizeof(i64) + numbers * sizeof(float));
    if (!f->first) return 0;
    f->factor = (float *)(f->first + G * blocks);
    f->offset = f->factor + G * d * f->width;
    f->log_prior = f->offset + G * f->width;
    f->beyond = f->log_prior + f->width;
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

INLINE void find_all(const float *x, i64 C, i64 d, i64 *pixels, const int32_t *which, const float *row, float *to,
                     uint8_t *places, i64 count) {
    for (i64 k = 0; k < count; k++) pixels[k] *= C;
    EACH_VECTOR(d, find, x, pixels, which, count, row, to, places);
}

typedef struct {
    i64 first, count, pixel; /* of a row of the gathered map: where it begins, how many they are, what is under the first */
} span;

/* The pixels of a row of the gathered map whose windows have the place a, b, c inside the map. */
static span span_of(const job *j, i64 z, i64 y, i64 a, i64 b, i64 c) {
    const window *w = &j->look;
    const i64 *n = j->size, *d = w->dilation, *p = w->padding;
    i64 plane = z + a * d[0] - p[0], row = y + b * d[1] - p[1], shift = c * d[2] - p[2];
    i64 first = most(0, -shift), count = least(j->gathered[2], n[2] - shift) - first;
    if (plane < 0 || plane >= n[0] || row < 0 || row >= n[1]) count = 0;
    return (span){first, most(0, count), (plane * n[1] + row) * n[2] + first + shift};
}

/* Every place of the windows around the pixels of a row, the last first. */
#define EACH_PLACE(w, place)                                                                            \
    for (i64 a = (w)->kernel[0] - 1, place = places_of(w) - 1; a >= 0; a--)                             \
        for (i64 b = (w)->kernel[1] - 1; b >= 0; b--)                                                   \
            for (i64 c = (w)->kernel[2] - 1; c >= 0; c--, place--)

static void mark(const float *restrict x, const float *restrict y, uint8_t *restrict places, uint8_t place, i64 n) {
    for (i64 i = 0; i < n; i++) places[i] = x[i] == y[i] ? place : places[i];
}

/* Where every maximum of the gathered map y came from: the first place that holds it. */
static void trace(const job *j, const float *x, const float *y, uint8_t *places) {
    i64 C = j->channels, row = j->gathered[2] * C;
    memset(places, NOWHERE, volume(j->gathered) * C);
    for (i64 z = 0; z < j->gathered[0]; z++)
        for (i64 r = 0; r < j->gathered[1]; r++, y += row, places += row)
            EACH_PLACE(&j->look, place) {
                span s = span_of(j, z, r, a, b, c);
                mark(x + s.pixel * C, y + s.first * C, places + s.first * C, (uint8_t)place, s.count * C);
            }
}

static void send_some(float *restrict to, const float *restrict grad, const uint8_t *restrict places, uint8_t place,
                      i64 n) {
    for (i64 i = 0; i < n; i++) to[i] += places[i] == place ? grad[i] : 0.0f;
}

/* Send the gradient of all maxima back to where they came from. */
static void untrace(const job *j, const float *grad, const uint8_t *places, float *to) {
    i64 C = j->channels, row = j->gathered[2] * C;
    for (i64 z = 0; z < j->gathered[0]; z++)
        for (i64 r = 0; r < j->gathered[1]; r++, grad += row, places += row)
            EACH_PLACE(&j->look, place) {
                span s = span_of(j, z, r, a, b, c);
                i64 first = s.first * C;
                send_some(to + s.pixel * C, grad + first, places + first, (uint8_t)place, s.count * C);
            }
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

INLINE void expect_one(const job *j, const float *y, i64 C, i64 d, const float *scores, float scale, i64 *pixels,
                       float *weights, float *to, i64 count) {
    weigh(j, scores, scale, pixels, count, weights);
    float sum = 0;
    for (i64 k = 0; k < count; k++) sum += weights[k];
    sum = 1 / sum;
    for (i64 k = 0; k < count; k++) {
        weights[k] *= sum;
        pixels[k] *= C;
    }
    EACH_VECTOR(d, blend, y, pixels, weights, count, to);
}

/* Mean of every cell, weighted by the scores. */
static void expect(const job *j, const float *y, const float *scores, float scale, float *values, const i64 *offsets,
                   i64 *pixels, int32_t *which, float *weights) {
    i64 C = j->channels, d = C / j->groups, n = volume(j->gathered);
    const i64 *o = j->out;
    for (i64 z = 0, i = 0; z < o[0]; z++)
        for (i64 r = 0; r < o[1]; r++)
            for (i64 x = 0; x < o[2]; x++, i++) {
                for (i64 g = 0; g < j->groups; g++) {
                    i64 count = look_at_output(&j->cells, j->gathered, offsets, z, r, x, pixels, which);
                    float *to = values + i * C + g * d;
                    FOR_USUAL(count, expect_one, j, y + g * d, C, d, scores + g * n, scale, pixels, weights, to);
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
    float *turned, *map, *raw, *spare, *scores, *work, *weights, *values; /* `raw`: the map before it is smoothed */
    i64 *pixels, *look, *cells; /* pixels of a window, or lines; distances of the places of both windows */
    int32_t *which;             /* places of the pixels of a window */
    double *F;
} desk;

/* Room for one image and all that is made on the way; a thread keeps what it once had. */
static int make_desk(const job *j, const fold *f, desk *t) {
    static _Thread_local struct {
        char *memory;
        i64 size;
    } room;
    i64 C = j->channels, n = volume(j->size), m = volume(j->gathered), o = volume(j->out);
    i64 lines = 0, look = places_of(&j->look), cells = places_of(&j->cells), places = most(look, cells);
    for (int a = 0; a < 3; a++) lines += j->out[a] + j->gathered[a];
    i64 rows = j->size[0] * j->size[1] * j->gathered[2] + j->size[0] * j->gathered[1] * j->gathered[2];
    i64 spare = most(most(rows, 2 * m), o) * C, width = f ? (BLOCK + 1) * f->width : 0;
    i64 raw = j->smooths ? m * C : 0, size = (places + lines + look + cells) * sizeof(i64) + lines * sizeof(double) +
               (n * C + m * C + raw + spare + m * j->groups + width + 2 * places + lines + o * C) * sizeof(float);
    if (size > room.size) {
        free(room.memory);
        room.memory = malloc(size);
        room.size = room.memory ? size : 0;
    }
    char *p = room.memory;
    if (!p) return 0;
    t->pixels = (i64 *)p, p += (places + lines) * sizeof(i64);
    t->look = (i64 *)p, p += look * sizeof(i64);
    t->cells = (i64 *)p, p += cells * sizeof(i64);
    t->F = (double *)p, p += lines * sizeof(double);
    t->turned = (float *)p, p += n * C * sizeof(float);
    t->map = (float *)p, p += m * C * sizeof(float);
    t->raw = (float *)p, p += raw * sizeof(float);
    t->spare = (float *)p, p += spare * sizeof(float);
    t->scores = (float *)p, p += m * j->groups * sizeof(float);
    t->work = (float *)p, p += width * sizeof(float);
    t->weights = (float *)p, p += (places + lines) * sizeof(float);
    t->which = (int32_t *)p, p += places * sizeof(int32_t);
    t->values = (float *)p;
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
        gather(j, x, j->smooths ? t->raw : map, t->spare);
        if (j->smooths) smooth(j->gathered, C, t->raw, map, t->spare, 0);
        y = map;
    }
    const float *scores = t->scores;
    float scale = 1;
    if (j->scoring == GIVEN)
        scores = j->scores + image * j->groups * m;
    else if (j->scoring != BLIND)
        score(j, f, y, t->scores, t->work);
    if (j->scoring != BLIND && (scale = scale_of(scores, m * j->groups)) < 0) return 0;

    if (j->choice == EXPECTATION) {
        expect(j, y, scores, scale, values, t->cells, t->pixels, t->which, t->weights);
    } else if (j->choice == EXPECTED_LINES) {
        expect_lines(j, y, scores, values, t->spare, t->pixels, t->weights, t->F);
    } else if (j->choice != WHOLE) {
        int32_t *chosen = j->chosen + image * j->groups * o;
        for (i64 g = 0; g < j->groups; g++)
            choose(j, j->scoring == BLIND ? 0 : scores + g * m, scale, image, g, chosen + g * o, t->cells, t->pixels,
                   t->which, t->weights, t->F);
        uint8_t *places = j->places ? j->places + image * (j->smooths ? m : o) * C : 0;
        take(j, x, y, chosen, values, j->smooths ? 0 : places, t->look, t->pixels, t->which);
        if (j->smooths && places) trace(j, x, t->raw, places);
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

/* Send the gradient of the chosen numbers of a smoothed map back to where its maxima came from. */
static void send_back_smoothed(const job *j, desk *t, i64 image, const float *grad, float *to) {
    i64 C = j->channels, d = C / j->groups, m = volume(j->gathered), o = volume(j->out);
    const int32_t *chosen = j->chosen + image * j->groups * o;
    memset(t->map, 0, m * C * sizeof(float));
    for (i64 g = 0; g < j->groups; g++)
        for (i64 i = 0; i < o; i++) add(t->map + chosen[g * o + i] * C + g * d, grad + i * C + g * d, 1, d);
    smooth(j->gathered, C, t->map, t->raw, t->spare, 1);
    untrace(j, t->raw, j->places + image * m * C, to);
}

/* Send the gradient of the chosen numbers back to where they came from. */
static void send_back(const job *j, desk *t, i64 image) {
    i64 C = j->channels, d = C / j->groups, n = volume(j->size), o = volume(j->out);
    const i64 *map = j->gathered, *size = j->size, *out = j->out;
    const window *w = &j->look;
    const float *grad = j->grad + image * o * C;
    float *to = j->grad_x + image * n * C;
    if (!j->channels_last) {
        turn(grad, t->values, C, o);
        grad = t->values, to = t->turned;
    }
    i64 K = places_of(w), few = K <= 4; /* so that it pays to write a vector to every place of a window */
    for (int a = 0; a < 3; a++) few = few && !w->padding[a] && map[a] + (w->kernel[a] - 1) * w->dilation[a] <= size[a];
    i64 steps[256] = {0}; /* how far a place is from the first, in numbers */
    for (i64 k = 0; j->places && k < K; k++) steps[k] = t->look[k] * C;
    memset(to, 0, n * C * sizeof(float));
    if (j->smooths)
        send_back_smoothed(j, t, image, grad, to);
    else for (i64 i = 0; i < o; i++)
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
        lanes one = load(sum + c), two = load(sum + c + LANES);
        for (i64 r = 0; r < rows; r++) {
            one += load(z + r * width + c);
            two += load(z + r * width + c + LANES);
        }
        store(sum + c, one);
        store(sum + c + LANES, two);
    }
}

/* What a thread needs to learn from images. */
typedef struct {
    float *gram, *z, *sum, *near; /* [d, width], [ROWS, width], [width], [width] */
    i64 *pixels, *offsets;
    int32_t *which;
    i64 shifts[27]; /* how far the windows are, in numbers, whose maxima are smoothed to one; their weights; how many */
    float weights[27];
    int windows;
} notebook;

static int make_notebook(const lesson *s, i64 d, i64 width, notebook *b) {
    i64 places = places_of(&s->look), numbers = (d + 4 + ROWS + 2) * width;
    b->pixels = calloc(1, 2 * places * sizeof(i64) + places * sizeof(int32_t) + numbers * sizeof(float));
    if (!b->pixels) return 0;
    b->offsets = b->pixels + places;
    b->which = (int32_t *)(b->offsets + places);
    b->gram = (float *)(b->which + places);
    b->z = b->gram + (d + 4) * width;
    b->sum = b->z + ROWS * width;
    b->near = b->sum + width;
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
            lanes sum[4][2];
            for (int k = 0; k < 4; k++)
                for (int v = 0; v < 2; v++) sum[k][v] = load(gram + (r + k) * width + c + v * LANES);
            for (const float *row = z; row < z + rows * width; row += width) {
                lanes one = load(row + c), two = load(row + c + LANES);
                for (int k = 0; k < 4; k++) {
                    sum[k][0] += row[r + k] * one;
                    sum[k][1] += row[r + k] * two;
                }
            }
            for (int k = 0; k < 4; k++)
                for (int v = 0; v < 2; v++) store(gram + (r + k) * width + c + v * LANES, sum[k][v]);
        }
}

/* Sums [channels] and products [groups, d, d] of every `step`-th pixel of an image, about an origin; whether all of them
 * can be learned from. */
static int sum_up(const lesson *s, notebook *b, i64 image, const float *origin, i64 width, double *sums, double *products) {
    i64 C = s->channels, d = C / s->groups, pixels = volume(s->gathered);
    const float *x = s->x + image * volume(s->size) * C;
    float strange = 0;
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
    int well = found && origin && make_notebook(s, d, width, &first);
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
        well = begun && make_notebook(s, d, width, &b);
#ifdef _OPENMP
        double *mine = found + omp_get_thread_num() * numbers;
#else
        double *mine = found;
#endif
#pragma omp for schedule(static)
        for (i64 i = 0; i < s->images; i++)
            if (well) {
                i64 j = s->labels[i];
                well = sum_up(s, &b, i, origin + j * C, width, mine + j * C, mine + c * C);
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
