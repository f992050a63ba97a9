/* SPDX-License-Identifier: Apache-2.0 */
#include <coppice/sim.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

/* Scripts: what is read is what is printed, and mistakes are named with their line. */

static void expect_same(const char *text)
{
    struct cop_sim_script script;
    char message[256] = "";
    if (cop_sim_script_parse(text, &script, message, sizeof(message)) != 0)
        fail_msg("%s", message);
    char *printed = cop_sim_script_print(&script);
    assert_non_null(printed);
    assert_string_equal(printed, text);
    free(printed);
    struct cop_sim_script copy;
    assert_int_equal(cop_sim_script_copy(&script, &copy), 0);
    cop_sim_script_free(&script);
    printed = cop_sim_script_print(&copy);
    assert_non_null(printed);
    assert_string_equal(printed, text);
    free(printed);
    cop_sim_script_free(&copy);
}

/* Two broadcasts of one member would be one to the checkers if both had no number. */
static void test_tokens_are_numbered(void **state)
{
    struct cop_sim_script script;
    struct cop_sim_report report;
    char message[256] = "";
    (void)state;
    assert_int_equal(cop_sim_script_parse("nodes 4\nshape radix:2\n"
                                          "at 0ns bcast 0 timeout 1s\n"
                                          "at 5ms bcast 0 timeout 1s token 7\n"
                                          "at 9ms bcast 0 timeout 1s\n",
                                          &script, message, sizeof(message)),
                     0);
    assert_int_equal(script.actions[0].request.token, 1);
    assert_int_equal(script.actions[1].request.token, 7);
    assert_int_equal(script.actions[2].request.token, 8);
    assert_int_equal(cop_sim_script_run(&script, &report), 0);
    assert_string_equal(report.failure, "");
    assert_int_equal(report.completed, 3);
    cop_sim_script_free(&script);
}

static void test_printed_as_read(void **state)
{
    (void)state;
    expect_same(
        "nodes 16\nshape radix:4\nseed 7\nnet constant 10us\n"
        "at 0ns probe 0 token 1 timeout 1s shape knomial:2 outcome\n"
        "at 5us abort 0 1\nat 12us crash 3\nat 13us crash 4-7\n"
        "crash 5 after-send 2\ncrash 6 before-recv 1\nat 1ms restart 3\n"
        "at 2ms pause 1\nat 3ms resume 1\nat 4ms slow 1 5us\nat 4ms slow 1 > 2 5us\n"
        "at 5ms partition 1-4,6 | 5,7-9\nat 5ms partition 0 > 1\nat 6ms heal\n"
        "at 7ms break 0 1\nat 8ms jump 2 1s\nat 9ms lie 2 about 3\n"
        "liveness\nuntil-complete\n");
    expect_same(
        "nodes 6\nshape hosts:chain\nhosts 2\nseed 18446744073709551615\n"
        "flags codec cut buggify quiet\nnet loggp 5us 1us 2us 300 jitter 3us\n");
    expect_same("nodes 8\nshape flat\nseed 1\nnet torus 4600ns 100ns 2x2x2 shuffle "
                "compute 2us\n");
    expect_same("nodes 8\nshape flat\nseed 1\nnet switch 1us 200ns ports 4 byte 80\n");
    expect_same("nodes 8\nshape flat\nseed 1\nnet recorded 10000ns,7ns\n");
}

static void test_comments_and_topologies(void **state)
{
    (void)state;
    struct cop_sim_script script;
    char message[256];
    assert_int_equal(cop_sim_script_parse("# a tree\n\n  topology a:0 => a:1 a:2 ;\n"
                                          "at 7 crash 2 # here\n",
                                          &script, message, sizeof(message)),
                     0);
    assert_int_equal(script.config.nodes, 3);
    assert_int_equal(script.count, 1);
    assert_int_equal(script.actions[0].at, 7);
    cop_sim_script_free(&script);
}

static void test_mistakes_have_a_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"nodes 3\nfoo 7\n", "line 2: unknown: 'foo'"},
        {"shape chain\n", "the script does not say how many nodes"},
        {"nodes x\n", "line 1: nodes must be a number"},
        {"nodes 99999999999\n", "line 1: nodes must be a number"},
        {"nodes 3\nshape round\n", "no such shape"},
        {"nodes 3\nat soon crash 1\n", "line 2: the time must be a time"},
        {"nodes 3\nat 5parsec crash 1\n", "line 2: the time must be a time"},
        {"nodes 3\nat 99999999999s crash 1\n", "line 2: the time must be a time"},
        {"nodes 3\ncrash 1\n", "line 2: needs 'at TIME'"},
        {"nodes 3\nheal\n", "line 2: needs 'at TIME'"},
        {"nodes 3\ncrash 1 after-send 0\n", "line 2: the count begins with 1"},
        {"nodes 3\nat 1 crash 2-1\n", "line 2: crash needs a node"},
        {"nodes 3\nat 1 partition 1 2\n", "line 2: partition needs '|'"},
        {"nodes 3\nat 1 partition a | 2\n", "line 2: 'a' is not a list"},
        {"nodes 3\nat 1 lie 1 2\n", "line 2: lie needs 'about'"},
        {"nodes 3\nat 1 pause 1 now\n", "line 2: did not expect 'now'"},
        {"nodes 3\nnet pigeon\n", "line 2: net must be"},
        {"nodes 3\nnet torus 1us 1us 2x2\n", "line 2: dimensions must be like"},
        {"nodes 3\nnet recorded 5s\n", "line 2: '5s' is not a time"},
        {"nodes 3\nflags brave\n", "line 2: flags are"},
        {"topology a:0 => ;\n", "line 1:"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cop_sim_script script;
        char message[256] = "";
        assert_int_equal(
            cop_sim_script_parse(cases[i].text, &script, message, sizeof(message)),
            COP_EINVAL);
        if (!strstr(message, cases[i].message))
            fail_msg("'%s' says '%s', not '%s'", cases[i].text, message,
                     cases[i].message);
    }
}

static void test_ranks_that_are_not_there(void **state)
{
    (void)state;
    struct cop_sim_script script;
    struct cop_sim_report report;
    char message[256];
    assert_int_equal(cop_sim_script_parse("nodes 3\nat 1 crash 3\n", &script, message,
                                          sizeof(message)),
                     0);
    assert_int_equal(cop_sim_script_run(&script, &report), COP_EINVAL);
    cop_sim_script_free(&script);
}

/* ---- checkers -------------------------------------------------------------------- */

static unsigned checker_calls;

static void *no_memory(struct cop_sim *sim)
{
    (void)sim;
    checker_calls++;
    return NULL;
}

static bool is_not_concerned(const struct cop_sim *sim)
{
    (void)sim;
    return false;
}

static void run_with(const struct cop_sim_checker *checker,
                     struct cop_sim_report *report)
{
    const struct cop_sim_checker *const checkers[] = {checker, NULL};
    struct cop_sim_script script;
    char message[256];
    assert_int_equal(cop_sim_script_parse("nodes 3\nat 1us crash 2\n", &script, message,
                                          sizeof(message)),
                     0);
    script.config.checkers = checkers;
    checker_calls = 0;
    assert_int_equal(cop_sim_script_run(&script, report), 0);
    cop_sim_script_free(&script);
}

/* One that cannot look on is no reason to believe that all is well. */
static void test_a_checker_without_memory(void **state)
{
    (void)state;
    struct cop_sim_report report;
    struct cop_sim_checker checker = {.name = "poor", .init = no_memory};
    run_with(&checker, &report);
    assert_int_equal(checker_calls, 1);
    assert_string_equal(report.failure, "poor: out of memory");
    checker.is_concerned = is_not_concerned;
    run_with(&checker, &report);
    assert_int_equal(checker_calls, 0);
    assert_string_equal(report.failure, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed_as_read),
        cmocka_unit_test(test_tokens_are_numbered),
        cmocka_unit_test(test_comments_and_topologies),
        cmocka_unit_test(test_mistakes_have_a_line),
        cmocka_unit_test(test_ranks_that_are_not_there),
        cmocka_unit_test(test_a_checker_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
