/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"

#include <string.h>

/* A hook that keeps the last line. */
struct memory {
    int lines;
    enum cop_log_level level;
    char line[2 * COP__LOG_LINE_MAX];
};

static void keep(void *context, enum cop_log_level level, const char *line)
{
    struct memory *memory = context;
    memory->lines++;
    memory->level = level;
    assert_true(strlen(line) < sizeof(memory->line));
    memcpy(memory->line, line, strlen(line) + 1);
}

static void line_reaches_its_hook(void **state)
{
    (void)state;
    struct memory memory = {0};
    struct cop_log log = {keep, &memory, COP_LOG_DEBUG};
    cop__log(&log, COP_LOG_WARN, "member %d is %s", 7, "late");
    assert_int_equal(memory.lines, 1);
    assert_int_equal(memory.level, COP_LOG_WARN);
    assert_string_equal(memory.line, "member 7 is late");
}

static void limit_is_kept(void **state)
{
    (void)state;
    for (int limit = COP_LOG_ERROR; limit <= COP_LOG_DEBUG; limit++) {
        for (int level = COP_LOG_ERROR; level <= COP_LOG_DEBUG; level++) {
            struct memory memory = {0};
            struct cop_log log = {keep, &memory, (enum cop_log_level)limit};
            cop__log(&log, (enum cop_log_level)level, "x");
            assert_int_equal(memory.lines, level <= limit);
        }
    }
}

static void no_log_is_silence(void **state)
{
    (void)state;
    struct cop_log log = {NULL, NULL, COP_LOG_DEBUG};
    cop__log(NULL, COP_LOG_ERROR, "%s", "lost");
    cop__log(&log, COP_LOG_ERROR, "%s", "lost");
}

static void long_line_is_cut_and_marked(void **state)
{
    (void)state;
    char text[2 * COP__LOG_LINE_MAX];
    struct memory memory = {0};
    struct cop_log log = {keep, &memory, COP_LOG_DEBUG};
    for (size_t length = COP__LOG_LINE_MAX - 3; length < sizeof(text); length++) {
        memset(text, 'x', length);
        text[length] = '\0';
        cop__log(&log, COP_LOG_INFO, "%s", text);
        if (length < COP__LOG_LINE_MAX) {
            assert_string_equal(memory.line, text);
        } else {
            memcpy(text + COP__LOG_LINE_MAX - 4, "...", 4);
            assert_string_equal(memory.line, text);
        }
    }
}

/* Words of others do not look like lines of ours, and move no cursor. */
static void a_line_is_one_line(void **state)
{
    (void)state;
    struct memory memory = {0};
    struct cop_log log = {keep, &memory, COP_LOG_DEBUG};
    cop__log(&log, COP_LOG_WARN, "by %s",
             "x\ncoppice[n0]: exec: \033[2J\177\t\303\244");
    assert_string_equal(memory.line, "by x?coppice[n0]: exec: ?[2J??\303\244");
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(cop__log_level_name(COP_LOG_ERROR), "error");
    assert_string_equal(cop__log_level_name(COP_LOG_WARN), "warn");
    assert_string_equal(cop__log_level_name(COP_LOG_INFO), "info");
    assert_string_equal(cop__log_level_name(COP_LOG_DEBUG), "debug");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_reaches_its_hook),
        cmocka_unit_test(limit_is_kept),
        cmocka_unit_test(no_log_is_silence),
        cmocka_unit_test(long_line_is_cut_and_marked),
        cmocka_unit_test(a_line_is_one_line),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
