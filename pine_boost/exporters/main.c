/* The class of one row: an index into pine_labels, REFUSED (-2) where the library would raise. */
int32_t predict(const double *row) { return pine_score_row(&pine_scorer, row, 0); }

/* Raw margins (link -1) or linked scores of one row, pine_scorer.n_outputs numbers. */
int32_t predict_scores(const double *row, int32_t link, double *scores)
{
    table_t table = {row, 0, pine_scorer.n_features, 1, 1, 1};
    return pine_margins(&pine_scorer, &table, 0, 1, link, scores);
}

#ifndef PINE_NO_MAIN
#include <stdio.h>

static int read_line(FILE *file, char **line, size_t *size)
{
    size_t used = 0;
    for (;;) {
        if (*size - used < 2) {
            char *longer = realloc(*line, *size = 2 * *size + 4096);
            if (!longer) return -1;
            *line = longer;
        }
        if (!fgets(*line + used, (int)(*size - used), file)) return used > 0;
        used += strlen(*line + used);
        if ((*line)[used - 1] == '\n') return 1;
    }
}

/* Numbers separated by commas; an empty field, NA and nan are missing. -1 for anything else. */
static int read_row(const char *text, double *row)
{
    int64_t n = pine_scorer.n_features;
    for (int64_t j = 0; j < n; j++) {
        char *end;
        while (*text == ' ') text++;
        row[j] = strtod(text, &end);
        if (end == text) {
            row[j] = NAN;
            if (end[0] == 'N' && end[1] == 'A') end += 2;
        }
        while (*end == ' ' || *end == '\r') end++;
        if (j + 1 < n ? *end != ',' : *end != '\n' && *end != '\0') return -1;
        text = end + 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    double *row = malloc((size_t)pine_scorer.n_features * sizeof *row);
    double *scores = malloc((size_t)pine_scorer.n_outputs * sizeof *scores);
    char *line = 0;
    size_t size = 0;
    if (!file || !row || !scores) return fprintf(stderr, "cannot read %s\n", argc > 1 ? argv[1] : "stdin"), 1;
    for (int64_t number = 1; read_line(file, &line, &size) == 1; number++) {
        if (line[0] == '\n' || line[0] == '\0') continue;
        if (read_row(line, row)) {
            if (number == 1) continue; /* a header */
            return fprintf(stderr, "line %lld: %lld numbers were expected\n", (long long)number,
                           (long long)pine_scorer.n_features), 1;
        }
        if (PINE_CLASSES) {
            int32_t found = predict(row);
            if (found < 0) return fprintf(stderr, "line %lld: refused\n", (long long)number), 1;
            puts(pine_labels[found]);
        } else {
            if (predict_scores(row, (int32_t)pine_scorer.link, scores))
                return fprintf(stderr, "line %lld: refused\n", (long long)number), 1;
            printf("%.17g\n", scores[0]);
        }
    }
    return 0;
}
#endif
