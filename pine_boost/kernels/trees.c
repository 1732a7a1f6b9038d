/* Tree ensembles over binned inputs: leaves, native margins, classes with early exit, and membership in a region;
 * at the end walks over states, sums over leaves and the products of the least squares.
 *
 * Plain C99 without Python headers; numpy_twin.py computes the same numbers bit for bit. Compile
 * without fast-math and with -ffp-contract=off: every sum here is part of a proof.
 *
 * Inputs are binned first: the bin of a value is the number of thresholds of its feature that lie
 * below it by the library's own comparison, so that splits compare 16-bit integers. A feature has
 * one column of bins for every way in which its splits treat NaN and zero; column 0 is always 0.
 *
 * A node is one 64-bit word:
 *   bits  0..15  rank: bins above it go right; for a category split the number of its set
 *   bits 16..38  column
 *   bit  39      category split: the bin is a state, and the states in the set go left
 *   bits 40..63  distance to the left child, the right one follows it; 0 at a leaf
 * A leaf reads column 0 and stays where it is, so that rows may walk a tree in step.
 *
 * Trees without category splits and long distances are walked in shorter nodes, quick_t and brief_t. Where paths are
 * long for what their splits read, the leaves of LANES trees are looked up together instead, see leaf_masks.py.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64
#define LANES 8
#define SURE_LEVELS 8
#define MORE_LEVELS 4
#define GROUP 64
#define MOST_PARTS 504 /* of a block: as many as LANES masks of 64 leaves have splits */
#define MANY 512
#define FEW_EDGES 12
#define STACK_COLUMNS 1024
#define STACK_SUMS 64
#define TOP_BIN 65535

#ifdef __GNUC__
#define PREFETCH(place) __builtin_prefetch(place)
#define LOWEST_BIT(word) __builtin_ctzll(word)
#else
#define PREFETCH(place) ((void)0)
#define LOWEST_BIT(word) lowest_bit(word)
static inline int lowest_bit(uint64_t word)
{
    int position = 0;
    while (!(word >> position & 1)) position++;
    return position;
}
#endif

#define REFUSED (-2)
#define NO_MEMORY (-3)
#define UNKNOWN_STATE (-4)

enum { EXACT_CODES, TRUNCATED_CODES, KNOWN_CODES };
enum { IDENTITY, SIGMOID_FLOAT32, SOFTMAX_FLOAT32, EXP_FLOAT32, SIGMOID, SOFTMAX, EXP };

/* A node without its category bit; at a leaf the rank is its number in the tree. */
typedef struct {
    uint16_t rank, step;
    uint32_t column;
} quick_t;

/* The same for few columns and small trees, in the order of visits: single rows wait for the cache more than for splits. */
typedef struct {
    uint16_t rank;
    uint8_t step, column;
} brief_t;

/* A block of trees and one of the columns that they read: what it rules out is in a line of LANES masks, the same for
 * all bins that no split of the block tells apart. */
typedef struct {
    uint32_t column, first_bin, first_line;
} part_t;

typedef struct {
    int64_t n_features, n_outputs, n_trees, n_sources, n_columns;
    /* how a raw value is read */
    int64_t is_float32, is_closed, refuses_missing, refuses_infinite, has_missing_value;
    int64_t code_rule;
    double zero, missing_value; /* zero: negative where no value counts as 0 */
    const int32_t *source_feature, *source_edge, *source_column, *source_code;
    const int32_t *source_other, *source_missing, *source_known; /* known: -1 at numeric sources */
    const double *edge;
    const int32_t *code, *code_state;
    const int32_t *column_base, *column_nan, *column_zero; /* zero: -1 where 0 is compared */
    /* trees */
    const uint64_t *node;
    const int32_t *root, *depth, *tree_set; /* tree_set: -1 in trees without category splits */
    const int32_t *set_word;
    const uint64_t *word;
    const int32_t *leaf_of_node, *leaf_offset, *tree_output;
    const quick_t *quick;
    const int32_t *quick_tree; /* whether a tree has quick nodes */
    /* the library's own sum and decision */
    int64_t sums_float32, native_width, link, n_cuts, wins_ties, intercept_last;
    double divisor, slope;
    const void *native_value, *native_intercept;
    const double *cuts;
    /* exits */
    int64_t n_stages, n_sets, width, n_exits;
    const int32_t *order, *fresh_offset, *fresh_source, *stage, *stage_set;
    const double *value, *intercept, *low, *high, *gap;
    /* walks of one row: the depth of the deepest tree with quick nodes; by place in the order, roots among the brief
     * nodes, or the quick ones where these are null, and first leaves, -1 at trees without */
    int64_t row_depth;
    const brief_t *brief;
    const int32_t *row_root, *row_leaf;
    /* in the order of fresh_source: feature, first edge, number of edges, first column, and one past the last; no column
     * where sources tell more apart than numbers and NaN */
    const int32_t *row_source;
    /* leaves by masks, see leaf_masks.py; null where paths are walked */
    const uint64_t *mask, *all_leaves;
    const part_t *part;
    const int32_t *block_part;
    const uint8_t *line_of_bin;
} scorer_t;

typedef struct {
    const void *data;
    int64_t is_float32, row_stride, column_stride, is_raw, n_rows;
} table_t;

/* A region: in every group of terms the sum of the costs is at most the limit of the group. A term looks up
 * the bins of two columns; group 0 also adds the cost of the leaf in every tree. */
typedef struct {
    int64_t n_terms, n_groups, has_trees;
    const int32_t *first, *second, *width, *group_end;
    const int64_t *offset, *cost, *limit, *leaf_cost;
} region_t;

static inline double cell(const table_t *table, int64_t row, int64_t feature)
{
    int64_t place = row * table->row_stride + feature * table->column_stride;
    return table->is_float32 ? (double)((const float *)table->data)[place] : ((const double *)table->data)[place];
}

/* Whether the library would raise on this row. */
static int is_refused(const scorer_t *s, const table_t *table, int64_t row)
{
    if (!table->is_raw || !(s->refuses_missing || s->refuses_infinite)) return 0;
    for (int64_t feature = 0; feature < s->n_features; feature++) {
        double x = cell(table, row, feature);
        if (x != x) {
            if (s->refuses_missing) return 1;
        } else if (s->refuses_infinite && fabs(x) > 3.4028234663852886e38) {
            return 1;
        }
    }
    return 0;
}

/* How many thresholds a value passes. Compilers make of "? half : 0" a branch that is mispredicted half of the time. */
static inline int64_t count_passed(const double *edge, int64_t n, double x, int is_closed)
{
    const double *first = edge;
    if (n == 0) return 0;
    while (n > 1) {
        int64_t half = n >> 1;
        first += half & -(int64_t)(is_closed ? first[half - 1] <= x : first[half - 1] < x);
        n -= half;
    }
    return (first - edge) + (is_closed ? *first <= x : *first < x);
}

/* How many of more than FEW_EDGES thresholds each value passes; the rows search in step. */
static void search_rows(const scorer_t *s, const double *edge, int64_t n, const double *x, int64_t count,
                        int32_t *passed)
{
    memset(passed, 0, (size_t)count * sizeof *passed);
    while (n > 1) {
        int32_t half = (int32_t)(n >> 1);
        const double *last = edge + half - 1;
        if (s->is_closed)
            for (int64_t j = 0; j < count; j++) passed[j] += last[passed[j]] <= x[j] ? half : 0;
        else
            for (int64_t j = 0; j < count; j++) passed[j] += last[passed[j]] < x[j] ? half : 0;
        n -= half;
    }
    if (s->is_closed)
        for (int64_t j = 0; j < count; j++) passed[j] += edge[passed[j]] <= x[j];
    else
        for (int64_t j = 0; j < count; j++) passed[j] += edge[passed[j]] < x[j];
}

/* State of a category: x is NaN or a number as the comparison sees it. */
static int32_t category_state(const scorer_t *s, int64_t source, double x)
{
    double code = -1.0;
    if (x != x) return s->source_missing[source];
    if (s->code_rule == EXACT_CODES) {
        if (x >= 0.0 && x < 16777216.0) code = floor(x);
    } else if (s->code_rule == TRUNCATED_CODES) {
        if (x > -1.0 && x < 2147483648.0) code = floor(x < 0.0 ? 0.0 : x);
    } else if (x >= 0.0 && x == floor(x) && x < (double)s->source_known[source]) {
        code = x;
    } else {
        return s->source_missing[source];
    }
    if (code >= 0.0) {
        int64_t low = s->source_code[source], high = s->source_code[source + 1];
        int32_t wanted = (int32_t)code;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (s->code[middle] < wanted) low = middle + 1; else high = middle;
        }
        if (low < s->source_code[source + 1] && s->code[low] == wanted) return s->code_state[low];
    }
    return s->source_other[source];
}

/* A cell as the comparison of the library sees it. */
static inline double read_cell(const scorer_t *s, const table_t *table, int64_t row, int64_t feature)
{
    double x = cell(table, row, feature);
    if (table->is_raw && s->has_missing_value && (float)x == (float)s->missing_value) x = NAN;
    if (s->is_float32) x = (double)(float)x;
    if (fabs(x) <= s->zero) x = 0.0;
    return x;
}

/* The bin of a value in one column, given how many thresholds it passes. */
static inline uint16_t column_bin(const scorer_t *s, int64_t column, int64_t passed, double x)
{
    int64_t own = passed - s->column_base[column];
    own = own < 0 ? 0 : own > TOP_BIN ? TOP_BIN : own;
    if (s->column_zero[column] >= 0 && x == 0.0) own = s->column_zero[column];
    if (x != x) own = s->column_nan[column];
    return (uint16_t)own;
}

/* Fill the columns of one source for one row. */
static inline void bin_row(const scorer_t *s, int64_t source, const table_t *table, int64_t row, uint16_t *bins)
{
    double x = read_cell(s, table, row, s->source_feature[source]);
    int64_t begin = s->source_column[source], end = s->source_column[source + 1];
    if (s->source_known[source] >= 0) {
        bins[begin] = (uint16_t)category_state(s, source, x);
        return;
    }
    const double *edge = s->edge + s->source_edge[source];
    int64_t n_edges = s->source_edge[source + 1] - s->source_edge[source];
    int64_t passed = s->is_closed ? count_passed(edge, n_edges, x, 1) : count_passed(edge, n_edges, x, 0);
    for (int64_t column = begin; column < end; column++) bins[column] = column_bin(s, column, passed, x);
}

/* Fill the columns that some trees of the order are the first to need, for a single row. */
static void bin_fresh(const scorer_t *s, const table_t *table, int64_t first, int64_t last, uint16_t *bins)
{
    int64_t is_float32 = table->is_float32, rounds = s->is_float32 && !is_float32;
    int64_t is_hidden = table->is_raw && s->has_missing_value; /* a number may stand for NaN */
    for (int64_t i = first; i < last; i++) {
        const int32_t *source = s->row_source + 5 * i;
        double x = is_float32 ? ((const float *)table->data)[source[0]] : ((const double *)table->data)[source[0]];
        if (source[3] == source[4] || x != x || is_hidden) {
            bin_row(s, s->fresh_source[i], table, 0, bins);
            continue;
        }
        if (rounds) x = (double)(float)x;
        if (fabs(x) <= s->zero) x = 0.0;
        const double *edge = s->edge + source[1];
        int64_t n = source[2];
        uint16_t passed = (uint16_t)(s->is_closed ? count_passed(edge, n, x, 1) : count_passed(edge, n, x, 0));
        for (int64_t column = source[3]; column < source[4]; column++) bins[column] = passed;
    }
}

/* Fill the columns of one source for some rows of a block: bins[slot * n_columns + column]. */
static void bin_rows(const scorer_t *s, int64_t source, const table_t *table, int64_t first_row,
                     const uint8_t *slots, int64_t count, uint16_t *bins)
{
    double x[BLOCK];
    int32_t passed[BLOCK];
    int64_t feature = s->source_feature[source];
    int64_t begin = s->source_column[source], end = s->source_column[source + 1];
    int64_t stride = table->row_stride, begin_place = first_row * stride + feature * table->column_stride;
    if (table->is_float32) {
        const float *from = (const float *)table->data + begin_place;
        for (int64_t j = 0; j < count; j++) x[j] = (double)from[slots[j] * stride];
    } else {
        const double *from = (const double *)table->data + begin_place;
        for (int64_t j = 0; j < count; j++) x[j] = from[slots[j] * stride];
    }
    if (table->is_raw && s->has_missing_value)
        for (int64_t j = 0; j < count; j++) x[j] = (float)x[j] == (float)s->missing_value ? NAN : x[j];
    if (s->is_float32 && !table->is_float32)
        for (int64_t j = 0; j < count; j++) x[j] = (double)(float)x[j];
    if (s->zero >= 0.0)
        for (int64_t j = 0; j < count; j++) x[j] = fabs(x[j]) <= s->zero ? 0.0 : x[j];
    if (s->source_known[source] >= 0) {
        for (int64_t j = 0; j < count; j++)
            bins[slots[j] * s->n_columns + begin] = (uint16_t)category_state(s, source, x[j]);
        return;
    }
    const double *edge = s->edge + s->source_edge[source];
    int64_t n_edges = s->source_edge[source + 1] - s->source_edge[source];
    int is_plain = 1; /* no NaN, no zero that counts as missing */
    if (n_edges <= FEW_EDGES) {
        memset(passed, 0, sizeof passed);
        for (int64_t e = 0; e < n_edges; e++) {
            double limit = edge[e];
            if (s->is_closed)
                for (int64_t j = 0; j < count; j++) passed[j] += limit <= x[j];
            else
                for (int64_t j = 0; j < count; j++) passed[j] += limit < x[j];
        }
    } else {
        search_rows(s, edge, n_edges, x, count, passed);
    }
    for (int64_t j = 0; j < count; j++) is_plain &= x[j] == x[j];
    for (int64_t column = begin; column < end; column++) {
        uint16_t *own = bins + column;
        if (is_plain && s->column_zero[column] < 0 && n_edges <= TOP_BIN)
            for (int64_t j = 0; j < count; j++) own[slots[j] * s->n_columns] = (uint16_t)passed[j];
        else
            for (int64_t j = 0; j < count; j++) own[slots[j] * s->n_columns] = column_bin(s, column, passed[j], x[j]);
    }
}

static inline int goes_right(const scorer_t *s, int64_t first_set, uint64_t node, uint16_t bin)
{
    if (node >> 39 & 1) {
        const uint64_t *words = s->word + s->set_word[first_set + (int64_t)(node & 0xFFFF)];
        return !(words[bin >> 6] >> (bin & 63) & 1);
    }
    return bin > (uint16_t)node;
}

#define COLUMN(node) ((int64_t)((node) >> 16 & 0x7FFFFF))

/* The leaf of one row in one tree. */
static inline int32_t walk(const scorer_t *s, int64_t tree, const uint16_t *bins)
{
    const uint64_t *place = s->node + s->root[tree];
    uint64_t node;
    if (s->tree_set[tree] >= 0) {
        while ((node = *place) >> 40)
            place += (node >> 40) + (uint64_t)goes_right(s, s->tree_set[tree], node, bins[COLUMN(node)]);
    } else {
        while ((node = *place) >> 40)
            place += (node >> 40) + (bins[COLUMN(node)] > (uint16_t)node);
    }
    return s->leaf_of_node[place - s->node];
}

/* A look whether a path has ended costs a mispredicted branch, so the first SURE_LEVELS are walked without. */
#define NEXT_STEP(node, bins) ((node)->step + (uint32_t)((bins)[(node)->column] > (node)->rank))

/* The leaves of the rows of a block in one tree, eight rows in step. */
static void walk_rows(const scorer_t *s, int64_t tree, const uint16_t *bins, const uint8_t *slots, int64_t count,
                      int32_t *leaves)
{
    const quick_t *root = s->quick + s->root[tree];
    int64_t j = 0, depth = s->depth[tree], sure = depth < SURE_LEVELS ? depth : SURE_LEVELS;
    if (s->quick_tree[tree]) {
        for (; j + 3 <= count; j += LANES) {
            const quick_t *place[LANES];
            const uint16_t *own[LANES];
            for (int lane = 0; lane < LANES; lane++) {
                place[lane] = root;
                own[lane] = bins + slots[j + lane < count ? j + lane : j] * s->n_columns;
            }
            for (int64_t level = 0; level < sure; level++)
                for (int lane = 0; lane < LANES; lane++) place[lane] += NEXT_STEP(place[lane], own[lane]);
            for (uint32_t moved = depth > sure; moved;) {
                moved = 0;
                for (int level = 0; level < 2; level++)
                    for (int lane = 0; lane < LANES; lane++) place[lane] += NEXT_STEP(place[lane], own[lane]);
                for (int lane = 0; lane < LANES; lane++) moved |= place[lane]->step;
            }
            for (int lane = 0; lane < LANES && j + lane < count; lane++)
                leaves[j + lane] = s->leaf_offset[tree] + place[lane]->rank;
        }
    }
    for (; j < count; j++) leaves[j] = walk(s, tree, bins + slots[j] * s->n_columns);
}

/* The leaves of one row in up to GROUP trees that follow each other in the order of visits: LANES of them in step, then
 * those whose path goes on. Not static: inlined, the places run out of registers. */
#define WALK_TREES(NAME, NODE)                                                                                         \
    void NAME(const NODE *nodes, const int32_t *root, int64_t count, int64_t depth, const uint16_t *bins,              \
              int32_t *numbers)                                                                                        \
    {                                                                                                                  \
        uint32_t place[GROUP + LANES], open[GROUP + LANES];                                                            \
        int64_t n_open = 0, sure = depth < SURE_LEVELS ? depth : SURE_LEVELS;                                          \
        for (int64_t i = 0; i < count; i += LANES) {                                                                   \
            uint64_t own[LANES];                                                                                       \
            for (int lane = 0; lane < LANES; lane++) own[lane] = (uint64_t)root[i + lane];                             \
            for (int64_t level = 0; level < sure; level++)                                                             \
                for (int lane = 0; lane < LANES; lane++) own[lane] += NEXT_STEP(nodes + own[lane], bins);              \
            for (int lane = 0; lane < LANES; lane++) place[i + lane] = (uint32_t)own[lane];                            \
        }                                                                                                              \
        for (int64_t i = 0; i < count && depth > sure; i++) {                                                          \
            open[n_open] = (uint32_t)i;                                                                                \
            n_open += nodes[place[i]].step > 0;                                                                        \
        }                                                                                                              \
        while (n_open) {                                                                                               \
            int64_t n_kept = 0;                                                                                        \
            for (int lane = 0; lane < LANES; lane++) open[n_open + lane] = open[0];                                    \
            for (int64_t i = 0; i < n_open; i += LANES) {                                                              \
                uint64_t own[LANES];                                                                                   \
                for (int lane = 0; lane < LANES; lane++) own[lane] = place[open[i + lane]];                            \
                for (int level = 0; level < MORE_LEVELS; level++)                                                      \
                    for (int lane = 0; lane < LANES; lane++) own[lane] += NEXT_STEP(nodes + own[lane], bins);          \
                for (int lane = 0; lane < LANES; lane++) place[open[i + lane]] = (uint32_t)own[lane];                  \
            }                                                                                                          \
            for (int64_t i = 0; i < n_open; i++) {                                                                     \
                uint32_t tree = open[i];                                                                               \
                open[n_kept] = tree;                                                                                   \
                n_kept += nodes[place[tree]].step > 0;                                                                 \
            }                                                                                                          \
            n_open = n_kept;                                                                                           \
        }                                                                                                              \
        for (int64_t i = 0; i < count; i++) numbers[i] = nodes[place[i]].rank;                                         \
    }

WALK_TREES(pine_walk_quick, quick_t)
WALK_TREES(pine_walk_brief, brief_t)

static inline void walk_trees(const scorer_t *s, int64_t first, int64_t count, const uint16_t *bins, int32_t *leaves)
{
    const int32_t *leaf = s->row_leaf + first;
    if (s->brief) { /* all trees have them */
        pine_walk_brief(s->brief, s->row_root + first, count, s->row_depth, bins, leaves);
        for (int64_t i = 0; i < count; i++) leaves[i] += leaf[i];
        return;
    }
    pine_walk_quick(s->quick, s->row_root + first, count, s->row_depth, bins, leaves);
    for (int64_t i = 0; i < count; i++) leaves[i] = leaf[i] < 0 ? walk(s, s->order[first + i], bins) : leaf[i] + leaves[i];
}

/* The leaves of one row in the trees of some blocks. All lines are asked for before the first is read: in large forests
 * rows wait for the memory. */
static inline void mask_trees(const scorer_t *s, int64_t first_block, int64_t end_block, const uint16_t *bins,
                              int32_t *leaves)
{
    const uint64_t *line[GROUP / LANES * MOST_PARTS];
    int64_t first = s->block_part[first_block], n_parts = s->block_part[end_block] - first, i = 0;
    for (int64_t j = 0; j < n_parts; j++) {
        const part_t *part = s->part + first + j;
        uint32_t number = part->first_line + s->line_of_bin[part->first_bin + bins[part->column]];
        line[j] = s->mask + LANES * (uint64_t)number;
        PREFETCH(line[j]);
    }
    for (int64_t block = first_block; block < end_block; block++, leaves += LANES) {
        uint64_t left[LANES];
        memcpy(left, s->all_leaves + block * LANES, sizeof left);
        for (int64_t end = s->block_part[block + 1] - first; i < end; i++)
            for (int lane = 0; lane < LANES; lane++) left[lane] &= line[i][lane];
        for (int lane = 0; lane < LANES; lane++)
            leaves[lane] = s->row_leaf[block * LANES + lane] + LOWEST_BIT(left[lane]);
    }
}

/* Fill the masks of a scorer, whose bits are all set. In the lines of bins that go right a split rules out the leaves
 * below its left child, in the others those below the right one. Columns are read as another, in which NaN goes right and
 * has the last line, where NaN goes left; part_of_column is scratch. */
void pine_fill_masks(const scorer_t *s, const int32_t *read_as, int64_t n_nodes, int32_t *part_of_column,
                     uint64_t *mask, uint64_t *all_leaves)
{
    for (int64_t place = 0; place < s->n_trees; place++) {
        int64_t tree = s->order[place], block = place / LANES, root = s->root[tree];
        int64_t end = tree + 1 < s->n_trees ? s->root[tree + 1] : n_nodes;
        uint64_t below[2 * 64]; /* each node */
        for (int32_t i = s->block_part[block]; i < s->block_part[block + 1]; i++)
            part_of_column[s->part[i].column] = i;
        for (int64_t i = end - root - 1; i >= 0; i--) {
            uint64_t node = s->node[root + i], step = node >> 40;
            if (!step) {
                below[i] = (uint64_t)1 << (s->leaf_of_node[root + i] - s->leaf_offset[tree]);
                continue;
            }
            uint64_t left = below[i + (int64_t)step], right = below[i + (int64_t)step + 1];
            int64_t column = COLUMN(node), is_category = node >> 39 & 1;
            const part_t *part = s->part + part_of_column[read_as[column]];
            uint32_t line = part->first_line, last = part[1].first_line, begin = line;
            uint32_t left_again = last - (column != part->column);
            if (!is_category) begin += s->line_of_bin[part->first_bin + (uint16_t)node + 1];
            for (uint32_t j = line; j < last; j++) {
                int is_right = j >= begin && j < left_again;
                if (is_category) is_right = goes_right(s, s->tree_set[tree], node, (uint16_t)(j - line));
                mask[(uint64_t)j * LANES + (uint64_t)(place % LANES)] &= ~(is_right ? left : right);
            }
            below[i] = left | right;
        }
        all_leaves[place] = below[0];
    }
}

/* Add the leaf of a tree to the sums of a row in the library's own type. */
static inline void add_native(const scorer_t *s, int64_t tree, int32_t leaf, void *sums)
{
    int64_t width = s->native_width, output = s->tree_output[tree];
    int64_t first = output < 0 ? 0 : output, count = width > 1 ? width : 1;
    if (s->sums_float32) {
        const float *value = (const float *)s->native_value + leaf * width;
        for (int64_t k = 0; k < count; k++) ((float *)sums)[first + k] += value[k];
    } else {
        const double *value = (const double *)s->native_value + leaf * width;
        for (int64_t k = 0; k < count; k++) ((double *)sums)[first + k] += value[k];
    }
}

static inline void start_native(const scorer_t *s, void *sums)
{
    size_t size = (size_t)s->n_outputs * (s->sums_float32 ? sizeof(float) : sizeof(double));
    if (s->intercept_last)
        memset(sums, 0, size);
    else
        memcpy(sums, s->native_intercept, size);
}

static inline double native_sum(const scorer_t *s, const void *sums, int64_t output)
{
    if (s->sums_float32) return (double)((const float *)sums)[output];
    double sum = ((const double *)sums)[output];
    return s->intercept_last ? sum + ((const double *)s->native_intercept)[output] : sum; /* CatBoost */
}

typedef float expf_t(float);
typedef double exp_t(double);
static expf_t *library_expf = expf;
static exp_t *library_exp = exp;

/* Compilers for Windows link an exp of their own, which differs in the last bit from the one that libraries call. */
void pine_use_exponentials(expf_t *single, exp_t *twice)
{
    library_expf = single;
    library_exp = twice;
}

/* Margins to what the library's decision reads, in the same operations and types. */
static void apply_link(const scorer_t *s, int64_t link, double *score)
{
    int64_t n = s->n_outputs;
    if (s->divisor != 1.0)
        for (int64_t k = 0; k < n; k++) score[k] /= s->divisor;
    switch (link) {
    case SIGMOID_FLOAT32: /* XGBoost, common/math.h */
        for (int64_t k = 0; k < n; k++) {
            float denominator = library_expf(fminf(-(float)score[k], 88.7f)) + 1.0f + 1e-16f;
            score[k] = (double)(1.0f / denominator);
        }
        break;
    case SOFTMAX_FLOAT32: { /* XGBoost, common/math.h: float32 terms, their sum in float64 */
        float largest = (float)score[0];
        double total = 0.0;
        for (int64_t k = 1; k < n; k++) largest = fmaxf((float)score[k], largest);
        for (int64_t k = 0; k < n; k++) {
            float term = library_expf((float)score[k] - largest);
            score[k] = (double)term;
            total += (double)term;
        }
        for (int64_t k = 0; k < n; k++) score[k] = (double)((float)score[k] / (float)total);
        break;
    }
    case EXP_FLOAT32:
        for (int64_t k = 0; k < n; k++) score[k] = (double)library_expf((float)score[k]);
        break;
    case SIGMOID: /* LightGBM, and scipy's expit with slope 1 */
        for (int64_t k = 0; k < n; k++) score[k] = 1.0 / (1.0 + library_exp(-s->slope * score[k]));
        break;
    case SOFTMAX: { /* LightGBM, utils/common.h */
        double largest = score[0], total = 0.0;
        for (int64_t k = 1; k < n; k++) largest = score[k] > largest ? score[k] : largest;
        for (int64_t k = 0; k < n; k++) {
            score[k] = library_exp(score[k] - largest);
            total += score[k];
        }
        for (int64_t k = 0; k < n; k++) score[k] /= total;
        break;
    }
    case EXP:
        for (int64_t k = 0; k < n; k++) score[k] = library_exp(score[k]);
        break;
    default:
        break;
    }
}

/* The class of the library's own sums; score is scratch for n_outputs numbers. */
static int32_t decide(const scorer_t *s, const void *sums, double *score)
{
    for (int64_t k = 0; k < s->n_outputs; k++) score[k] = native_sum(s, sums, k);
    apply_link(s, s->link, score);
    if (s->n_cuts) {
        int32_t above = 0;
        for (int64_t c = 0; c < s->n_cuts; c++)
            above += s->wins_ties ? score[0] >= s->cuts[c] : score[0] > s->cuts[c];
        return above;
    }
    int32_t best = 0;
    for (int64_t k = 1; k < s->n_outputs; k++)
        if (score[k] > score[best]) best = (int32_t)k;
    return best;
}

/* The class that no completion of the sums can change; -1 while there is none. */
static inline int32_t exit_class(const scorer_t *s, int64_t stage, const double *sums)
{
    const double *margin = sums + s->stage_set[stage] * s->n_outputs;
    if (s->n_exits) {
        const double *low = s->low + stage * s->n_exits, *high = s->high + stage * s->n_exits;
        int32_t above = 0;
        for (int64_t c = 0; c < s->n_exits; c++) {
            if (margin[0] > high[c]) above++;
            else if (!(margin[0] < low[c])) return -1;
        }
        return above;
    }
    if (!s->gap) return -1;
    int64_t n = s->n_outputs, best = 0;
    for (int64_t k = 1; k < n; k++)
        if (margin[k] > margin[best]) best = k;
    const double *gap = s->gap + (stage * n + best) * n;
    for (int64_t k = 0; k < n; k++)
        if (k != best && !(margin[best] - margin[k] > gap[k])) return -1;
    return (int32_t)best;
}

static inline void add_leaf(const scorer_t *s, int64_t tree, int32_t leaf, int64_t first_set, double *restrict sums)
{
    int64_t width = s->width, output = s->tree_output[tree], first = output < 0 ? 0 : output;
    const double *value = s->value + leaf * s->n_sets * width;
    if (s->n_outputs == 1) { /* side by side in vector registers */
        for (int64_t set = first_set; set < s->n_sets; set++) sums[set] += value[set];
        return;
    }
    value += first_set * width;
    for (int64_t set = first_set; set < s->n_sets; set++)
        for (int64_t k = 0; k < width; k++) sums[set * s->n_outputs + first + k] += *value++;
}

static inline void start_sums(const scorer_t *s, double *sums)
{
    memcpy(sums, s->intercept, (size_t)(s->n_sets * s->n_outputs) * sizeof(double));
}

/* How many trees are walked at once: as far as the next stage, and in the end many, whether or not stages end among
 * them. */
static inline int64_t group_size(int64_t n_due, int64_t n_walked)
{
    int64_t size = n_due > 2 * n_walked ? n_due : 2 * n_walked;
    return size < GROUP ? (size + LANES - 1) / LANES * LANES : GROUP;
}

/* The class of one row, the only one of a table; without a table its bins are there. met counts the trees seen. */
static inline int32_t score_row(const scorer_t *s, const table_t *table, uint16_t *bins, double *sums, double *native,
                                int32_t *met)
{
    int32_t leaves[GROUP];
    int64_t stage = 0;
    start_sums(s, sums);
    for (int64_t place = 0, count; place < s->n_trees; place += count) {
        int64_t j = 0;
        count = group_size(s->stage[stage] - place, place);
        if (count > s->n_trees - place) count = s->n_trees - place;
        if (table) bin_fresh(s, table, s->fresh_offset[place], s->fresh_offset[place + count], bins);
        if (s->mask)
            mask_trees(s, place / LANES, (place + count + LANES - 1) / LANES, bins, leaves);
        else
            walk_trees(s, place, count, bins, leaves);
        while (j < count) {
            int64_t end = s->stage[stage] - place < count ? s->stage[stage] - place : count;
            if (s->n_sets * s->n_outputs == 1) {
                double sum = sums[0]; /* in a register: for all the compiler knows, sums[0] is a leaf value */
                for (; j < end; j++) sum += s->value[leaves[j]];
                sums[0] = sum;
            } else if (s->n_sets * s->width == 1)
                for (; j < end; j++) sums[s->tree_output[s->order[place + j]]] += s->value[leaves[j]];
            else
                for (; j < end; j++) add_leaf(s, s->order[place + j], leaves[j], s->stage_set[stage], sums);
            if (place + j == s->stage[stage]) {
                int32_t found = exit_class(s, stage++, sums);
                *met = (int32_t)(place + j);
                if (found >= 0) return found;
            }
        }
    }
    start_native(s, native);
    for (int64_t tree = 0; tree < s->n_trees; tree++) add_native(s, tree, walk(s, tree, bins), native);
    return decide(s, native, sums);
}

/* The class of one row of contiguous numbers; REFUSED where the library raises. */
int32_t pine_score_row(const scorer_t *s, const void *row, int32_t is_float32)
{
    table_t table = {row, is_float32, s->n_features, 1, 1, 1};
    int32_t met;
    if (is_refused(s, &table, 0)) return REFUSED;
    if (s->n_columns <= STACK_COLUMNS && (s->n_sets + 1) * s->n_outputs <= STACK_SUMS) {
        uint16_t bins[STACK_COLUMNS];
        double sums[STACK_SUMS], native[STACK_SUMS];
        bins[0] = 0;
        return score_row(s, &table, bins, sums, native, &met);
    }
    size_t n_sums = (size_t)((s->n_sets + 2) * s->n_outputs);
    double *sums = malloc(n_sums * sizeof(double) + (size_t)s->n_columns * sizeof(uint16_t));
    if (!sums) return NO_MEMORY;
    uint16_t *bins = (uint16_t *)(sums + n_sums);
    bins[0] = 0;
    int32_t found = score_row(s, &table, bins, sums, sums + (s->n_sets + 1) * s->n_outputs, &met);
    free(sums);
    return found;
}

typedef struct {
    uint16_t *bins;
    double *sums, *native;
    int32_t leaves[BLOCK];
    uint8_t slots[BLOCK];
} scratch_t;

static int allocate(const scorer_t *s, scratch_t *scratch)
{
    size_t n_sums = (size_t)((s->n_sets > 0 ? s->n_sets : 1) * s->n_outputs);
    scratch->bins = malloc((size_t)s->n_columns * BLOCK * sizeof(uint16_t));
    scratch->sums = malloc(BLOCK * n_sums * sizeof(double));
    scratch->native = malloc((size_t)(BLOCK + 1) * (size_t)s->n_outputs * sizeof(double));
    if (!scratch->bins || !scratch->sums || !scratch->native) {
        free(scratch->bins), free(scratch->sums), free(scratch->native);
        return 0;
    }
    for (int64_t slot = 0; slot < BLOCK; slot++) scratch->bins[slot * s->n_columns] = 0;
    return 1;
}

static void release(scratch_t *scratch)
{
    free(scratch->bins), free(scratch->sums), free(scratch->native);
}

static void score_block(const scorer_t *s, const table_t *table, int64_t first, int64_t count, scratch_t *scratch,
                        int32_t *classes, int32_t *met)
{
    uint8_t *slots = scratch->slots;
    double *sums = scratch->sums;
    int64_t n_sums = s->n_sets * s->n_outputs, n_left = 0, place = 0;
    for (int64_t j = 0; j < count; j++) {
        if (is_refused(s, table, first + j)) {
            classes[j] = REFUSED;
            if (met) met[j] = 0;
            continue;
        }
        slots[n_left++] = (uint8_t)j;
        start_sums(s, sums + j * n_sums);
    }
    for (int64_t stage = 0; stage < s->n_stages && n_left; stage++) {
        int64_t end = s->stage[stage], first_set = s->stage_set[stage];
        for (; place < end; place++) {
            int64_t tree = s->order[place];
            for (int64_t i = s->fresh_offset[place]; i < s->fresh_offset[place + 1]; i++)
                bin_rows(s, s->fresh_source[i], table, first, slots, n_left, scratch->bins);
            walk_rows(s, tree, scratch->bins, slots, n_left, scratch->leaves);
            if (n_sums == 1)
                for (int64_t j = 0; j < n_left; j++) sums[slots[j]] += s->value[scratch->leaves[j]];
            else
                for (int64_t j = 0; j < n_left; j++)
                    add_leaf(s, tree, scratch->leaves[j], first_set, sums + slots[j] * n_sums);
        }
        int64_t kept = 0;
        for (int64_t j = 0; j < n_left; j++) {
            int64_t slot = slots[j];
            int32_t found = exit_class(s, stage, sums + slot * n_sums);
            if (found < 0) {
                slots[kept++] = (uint8_t)slot;
                continue;
            }
            classes[slot] = found;
            if (met) met[slot] = (int32_t)end;
        }
        n_left = kept;
    }
    for (int64_t j = 0; j < n_left; j++) {
        int64_t slot = slots[j];
        start_native(s, scratch->native);
        for (int64_t tree = 0; tree < s->n_trees; tree++)
            add_native(s, tree, walk(s, tree, scratch->bins + slot * s->n_columns), scratch->native);
        classes[slot] = decide(s, scratch->native, scratch->native + s->n_outputs);
        if (met) met[slot] = (int32_t)s->n_trees;
    }
}

static void bin_all(const scorer_t *s, const table_t *table, int64_t first, int64_t count, scratch_t *scratch)
{
    for (int64_t j = 0; j < count; j++) scratch->slots[j] = (uint8_t)j;
    for (int64_t source = 0; source < s->n_sources; source++)
        bin_rows(s, source, table, first, scratch->slots, count, scratch->bins);
}

/* The same by masks: there a row takes no less time in a block than alone, but for its bins. */
static void score_rows(const scorer_t *s, const table_t *table, int64_t first, int64_t count, scratch_t *scratch,
                       int32_t *classes, int32_t *met)
{
    bin_all(s, table, first, count, scratch);
    for (int64_t j = 0; j < count; j++) {
        int32_t seen = 0;
        uint16_t *bins = scratch->bins + j * s->n_columns;
        classes[j] = REFUSED;
        if (!is_refused(s, table, first + j)) classes[j] = score_row(s, 0, bins, scratch->sums, scratch->native, &seen);
        if (met) met[j] = seen;
    }
}

/* Classes of the rows begin..end; met (may be null) counts the trees that each row has seen. */
int32_t pine_score(const scorer_t *s, const table_t *table, int64_t begin, int64_t end, int32_t *classes, int32_t *met)
{
    scratch_t scratch;
    if (!allocate(s, &scratch)) return NO_MEMORY;
    for (int64_t first = begin; first < end; first += BLOCK) {
        int64_t count = end - first < BLOCK ? end - first : BLOCK;
        (s->mask ? score_rows : score_block)(s, table, first, count, &scratch, classes + first, met ? met + first : 0);
    }
    release(&scratch);
    return 0;
}

/* Leaf numbers of the rows begin..end in all trees, (n_rows, n_trees). */
int32_t pine_leaves(const scorer_t *s, const table_t *table, int64_t begin, int64_t end, int32_t *leaves)
{
    scratch_t scratch;
    if (!allocate(s, &scratch)) return NO_MEMORY;
    for (int64_t first = begin; first < end; first += BLOCK) {
        int64_t count = end - first < BLOCK ? end - first : BLOCK;
        bin_all(s, table, first, count, &scratch);
        for (int64_t tree = 0; tree < s->n_trees; tree++) {
            walk_rows(s, tree, scratch.bins, scratch.slots, count, scratch.leaves);
            for (int64_t j = 0; j < count; j++) leaves[(first + j) * s->n_trees + tree] = scratch.leaves[j];
        }
    }
    release(&scratch);
    return 0;
}

/* Whether the rows begin..end lie in a region, and the sums of group 0; either may be null. */
int32_t pine_region(const scorer_t *s, const region_t *region, const table_t *table, int64_t begin, int64_t end,
                    uint8_t *inside, int64_t *scores)
{
    scratch_t scratch;
    int64_t sums[BLOCK];
    uint8_t kept[BLOCK];
    if (!allocate(s, &scratch)) return NO_MEMORY;
    for (int64_t first = begin; first < end; first += BLOCK) {
        int64_t count = end - first < BLOCK ? end - first : BLOCK, term = 0;
        bin_all(s, table, first, count, &scratch);
        memset(kept, 1, sizeof kept);
        for (int64_t group = 0; group < region->n_groups; group++) {
            memset(sums, 0, sizeof sums);
            for (; term < region->group_end[group]; term++) {
                const uint16_t *one = scratch.bins + region->first[term], *other = scratch.bins + region->second[term];
                const int64_t *cost = region->cost + region->offset[term], width = region->width[term];
                for (int64_t j = 0; j < count; j++)
                    sums[j] += cost[one[j * s->n_columns] * width + other[j * s->n_columns]];
            }
            if (group == 0 && region->has_trees)
                for (int64_t tree = 0; tree < s->n_trees; tree++) {
                    walk_rows(s, tree, scratch.bins, scratch.slots, count, scratch.leaves);
                    for (int64_t j = 0; j < count; j++) sums[j] += region->leaf_cost[scratch.leaves[j]];
                }
            if (group == 0 && scores) memcpy(scores + first, sums, (size_t)count * sizeof *sums);
            for (int64_t j = 0; j < count; j++) kept[j] &= sums[j] <= region->limit[group];
        }
        if (inside) memcpy(inside + first, kept, (size_t)count);
    }
    release(&scratch);
    return 0;
}

/* The library's own sums of the rows begin..end, widened to float64, (n_rows, n_outputs);
 * divided and linked unless link is -1. Returns 1 where the library would refuse a row. */
int32_t pine_margins(const scorer_t *s, const table_t *table, int64_t begin, int64_t end, int32_t link,
                     double *margins)
{
    scratch_t scratch;
    int64_t n = s->n_outputs, size = n * (int64_t)(s->sums_float32 ? sizeof(float) : sizeof(double));
    int32_t refused = 0;
    if (!allocate(s, &scratch)) return NO_MEMORY;
    for (int64_t first = begin; first < end; first += BLOCK) {
        int64_t count = end - first < BLOCK ? end - first : BLOCK;
        char *sums = (char *)scratch.native;
        bin_all(s, table, first, count, &scratch);
        for (int64_t j = 0; j < count; j++) {
            refused |= is_refused(s, table, first + j);
            start_native(s, sums + j * size);
        }
        for (int64_t tree = 0; tree < s->n_trees; tree++) {
            walk_rows(s, tree, scratch.bins, scratch.slots, count, scratch.leaves);
            if (n == 1 && s->sums_float32)
                for (int64_t j = 0; j < count; j++)
                    ((float *)sums)[j] += ((const float *)s->native_value)[scratch.leaves[j]];
            else
                for (int64_t j = 0; j < count; j++) add_native(s, tree, scratch.leaves[j], sums + j * size);
        }
        for (int64_t j = 0; j < count; j++) {
            double *score = margins + (first + j) * n;
            for (int64_t k = 0; k < n; k++) score[k] = native_sum(s, sums + j * size, k);
            if (link >= 0) apply_link(s, link, score);
        }
    }
    release(&scratch);
    return refused;
}

/* A node of a tree over states: states up to rank go left, from first_special on the side is looked up. */
typedef struct {
    int32_t feature, rank, left, right, first_special, leaf;
    int64_t special; /* place of state 0 among the sides */
} state_node_t;

/* Leaf numbers of rows of states in all trees, (n_rows, n_trees). Nodes and features are in range, a leaf is its own
 * child; UNKNOWN_STATE where a state has no side. */
int32_t pine_walk_states(const state_node_t *nodes, const int32_t *root, int64_t n_trees, int64_t depth,
                         const uint8_t *side, int64_t n_sides, const int32_t *states, int64_t n_rows,
                         int64_t n_features, int32_t *leaves)
{
    int32_t found[MANY * LANES]; /* rows of some trees at a time: their nodes stay in the cache */
    for (int64_t first = 0; first < n_rows; first += MANY) {
        int64_t count = first + MANY < n_rows ? MANY : n_rows - first;
        const int32_t *begin = states + first * n_features;
        for (int64_t tree = 0; tree < n_trees; tree++) {
            for (int64_t row = 0; row < count; row += LANES) {
                int32_t place[LANES];
                const int32_t *own[LANES];
                for (int lane = 0; lane < LANES; lane++) {
                    place[lane] = root[tree];
                    own[lane] = begin + (row + lane < count ? row + lane : row) * n_features;
                }
                for (int64_t level = 0; level < depth; level++) {
                    int32_t moved = 0;
                    for (int lane = 0; lane < LANES; lane++) {
                        const state_node_t *node = nodes + place[lane];
                        int32_t state = own[lane][node->feature], next;
                        next = state <= node->rank ? node->left : node->right;
                        if (state >= node->first_special) {
                            int64_t looked_up = node->special + state;
                            if (looked_up < 0 || looked_up >= n_sides) return UNKNOWN_STATE;
                            next = side[looked_up] ? node->left : node->right;
                        }
                        moved |= next ^ place[lane];
                        place[lane] = next;
                    }
                    if (!moved) break;
                }
                for (int lane = 0; lane < LANES && row + lane < count; lane++)
                    found[(row + lane) * LANES + tree % LANES] = nodes[place[lane]].leaf;
            }
            if ((tree + 1) % LANES == 0 || tree + 1 == n_trees)
                for (int64_t row = 0; row < count; row++)
                    memcpy(leaves + (first + row) * n_trees + tree / LANES * LANES, found + row * LANES,
                           (size_t)(tree % LANES + 1) * sizeof *found);
        }
    }
    return 0;
}

/* Add the values of the leaves, tree by tree; output is null where a leaf has a value for every output. */
void pine_sum_leaves(const int32_t *leaves, int64_t n_rows, int64_t n_trees, const double *value,
                     const int32_t *output, int64_t n_outputs, double *sums)
{
    int64_t row = 0;
    if (n_outputs == 1)
        for (; row + LANES <= n_rows; row += LANES) {
            double own[LANES];
            for (int lane = 0; lane < LANES; lane++) own[lane] = sums[row + lane];
            for (int64_t tree = 0; tree < n_trees; tree++)
                for (int lane = 0; lane < LANES; lane++) own[lane] += value[leaves[(row + lane) * n_trees + tree]];
            for (int lane = 0; lane < LANES; lane++) sums[row + lane] = own[lane];
        }
    for (; row < n_rows; row++)
        for (int64_t tree = 0; tree < n_trees; tree++) {
            int64_t leaf = leaves[row * n_trees + tree];
            if (output)
                sums[row * n_outputs + output[tree]] += value[leaf];
            else
                for (int64_t k = 0; k < n_outputs; k++) sums[row * n_outputs + k] += value[leaf * n_outputs + k];
        }
}

/* A sparse matrix by rows: row r has sign[r] in its columns from start[2r], -sign[r] in those from start[2r + 1]. */
typedef struct {
    const int32_t *start, *column;
    const int8_t *sign;
} signed_t;

/* The products of up to LANES rows with a vector, side by side, each summed from left to right. */
static void row_products(const signed_t *m, const int32_t *rows, int64_t count, const double *vector, double *products)
{
    for (int lane = 0; lane < LANES; lane++) products[lane] = 0.0;
    for (int run = 0; run < 2; run++) {
        const int32_t *column[LANES];
        int64_t length[LANES], common = INT64_MAX;
        for (int64_t lane = 0; lane < LANES; lane++) {
            const int32_t *start = m->start + 2 * rows[lane < count ? lane : 0] + run;
            column[lane] = m->column + start[0];
            length[lane] = start[1] - start[0];
            common = length[lane] < common ? length[lane] : common;
        }
        for (int64_t k = 0; k < common; k++)
            for (int lane = 0; lane < LANES; lane++) products[lane] += vector[column[lane][k]];
        for (int64_t lane = 0; lane < LANES; lane++) {
            for (int64_t k = common; k < length[lane]; k++) products[lane] += vector[column[lane][k]];
            products[lane] = -products[lane]; /* what follows counts the other way */
        }
    }
    for (int64_t lane = 0; lane < count; lane++)
        if (m->sign[rows[lane]] < 0) products[lane] = -products[lane];
}

/* products = A vector, for some rows of A. */
void pine_products(const signed_t *m, const int32_t *rows, int64_t n_rows, const double *vector, double *products)
{
    double own[LANES];
    for (int64_t i = 0; i < n_rows; i += LANES) {
        int64_t count = n_rows - i < LANES ? n_rows - i : LANES;
        row_products(m, rows + i, count, vector, own);
        memcpy(products + i, own, (size_t)count * sizeof *own);
    }
}

static inline void scatter(const signed_t *m, int64_t row, double number, double *sums)
{
    const int32_t *start = m->start + 2 * row;
    if (m->sign[row] < 0) number = -number;
    for (int64_t k = start[0]; k < start[1]; k++) sums[m->column[k]] += number;
    for (int64_t k = start[1]; k < start[2]; k++) sums[m->column[k]] -= number;
}

/* sums += A' weight, for some rows of A; all entries count as 1 if is_unsigned. */
void pine_transposed(const signed_t *m, const int32_t *rows, int64_t n_rows, const double *weight, int32_t is_unsigned,
                     double *sums)
{
    for (int64_t i = 0; i < n_rows; i++) {
        const int32_t *start = m->start + 2 * rows[i];
        if (is_unsigned)
            for (int64_t k = start[0]; k < start[2]; k++) sums[m->column[k]] += weight[i];
        else
            scatter(m, rows[i], weight[i], sums);
    }
}

/* sums += A' W A vector, for some rows of A, in one pass. */
void pine_normal(const signed_t *m, const int32_t *rows, int64_t n_rows, const double *weight, const double *vector,
                 double *sums)
{
    double own[LANES];
    for (int64_t i = 0; i < n_rows; i += LANES) {
        int64_t count = n_rows - i < LANES ? n_rows - i : LANES;
        row_products(m, rows + i, count, vector, own);
        for (int64_t lane = 0; lane < count; lane++) scatter(m, rows[i + lane], weight[i + lane] * own[lane], sums);
    }
}

/* Some rows over other columns, without the entries of columns whose number is negative; returns their number. */
int64_t pine_renumber(const signed_t *m, const int32_t *rows, int64_t n_rows, const int32_t *number, int32_t *start,
                      int32_t *column)
{
    int64_t n = 0;
    start[0] = 0;
    for (int64_t run = 0; run < 2 * n_rows; run++) {
        const int32_t *own = m->start + 2 * rows[run / 2] + run % 2;
        for (int64_t k = own[0]; k < own[1]; k++) {
            column[n] = number[m->column[k]];
            n += column[n] >= 0;
        }
        start[run + 1] = (int32_t)n;
    }
    return n;
}
