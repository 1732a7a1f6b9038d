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

/* 1 for a line, 0 at the end of the file, -1 without memory, after a read error and at a NUL byte (UTF-16). */
static int read_line(FILE *file, char **line, size_t *size)
{
    for (size_t used = 0;; used++) {
        if (*size - used < 2) {
            char *longer = realloc(*line, *size = 2 * *size + 4096);
            if (!longer) return -1;
            *line = longer;
        }
        int found = getc(file);
        if (found == '\0' || (found == EOF && ferror(file))) return -1;
        (*line)[used] = found == EOF ? '\0' : (char)found;
        (*line)[used + 1] = '\0';
        if (found == EOF) return used > 0;
        if (found == '\n') return 1;
    }
}

/* The end of a field that holds a number, or is missing: empty, NA or nan; 0 for anything else. */
static const char *read_field(const char *text, double *value)
{
    char *end;
    while (*text == ' ') text++;
    *value = strtod(text, &end);
    if (end == text) {
        *value = NAN;
        if (end[0] == 'N' && end[1] == 'A') end += 2;
    }
    while (*end == ' ' || *end == '\r') end++;
    return *end == ',' || *end == '\n' || *end == '\0' ? end : 0;
}

/* Numbers separated by commas. -1 for anything else. */
static int read_row(const char *text, double *row)
{
    int64_t n = pine_scorer.n_features;
    for (int64_t j = 0; j < n; j++) {
        const char *end = read_field(text, &row[j]);
        if (!end || (j + 1 < n) != (*end == ',')) return -1;
        text = end + 1;
    }
    return 0;
}

/* Whether a line holds as many names as there are features: none is a number or missing, and not all begin like one. */
static int is_header(const char *text)
{
    int64_t n_names = 0, n_plain = 0;
    double value;
    for (;;) {
        int is_quoted = 0;
        const char *name = text + strspn(text, " \"");
        char *end;
        strtod(name, &end);
        if (read_field(text, &value) || (end > name && *end == '"')) return 0; /* a number in quotes is none of ours */
        n_names++;
        n_plain += !strchr("0123456789+-.", *name);
        for (; *text && *text != '\n' && (is_quoted || *text != ','); text++) {
            is_quoted ^= *text == '"';
            if (*text == '\r' && text[1] && text[1] != '\n') return 0; /* lines that end with it alone */
        }
        if (*text != ',') return n_names == pine_scorer.n_features && n_plain > 0;
        text++;
    }
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    double *row = malloc((size_t)pine_scorer.n_features * sizeof *row);
    double *scores = malloc((size_t)pine_scorer.n_outputs * sizeof *scores);
    char *line = 0;
    size_t size = 0;
    int state;
    if (!file || !row || !scores) return fprintf(stderr, "cannot read %s\n", argc > 1 ? argv[1] : "stdin"), 1;
    for (int64_t number = 1; (state = read_line(file, &line, &size)) == 1; number++) {
        const char *text = line;
        if (number == 1 && !strncmp(text, "\xEF\xBB\xBF", 3)) text += 3; /* the mark of UTF-8 */
        int is_blank = !text[strspn(text, " \r\n")];
        if (is_blank && pine_scorer.n_features > 1) continue;
        if (is_blank || read_row(text, row)) { /* blank: of one feature, it may be a missing value */
            if (number == 1 && !is_blank && is_header(text)) continue;
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
    if (state) return fprintf(stderr, "the input cannot be read to its end, or is not text in UTF-8\n"), 1;
    if (fflush(stdout) || ferror(stdout)) return fprintf(stderr, "the answers cannot be written\n"), 1;
    return 0;
}
#endif
