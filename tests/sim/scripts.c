/* SPDX-License-Identifier: Apache-2.0 */
#include "scripts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka needs the first three above. */
#include <cmocka.h>

struct cop_sim_script parse_script(const char *text)
{
    struct cop_sim_script script;
    char message[256];
    if (cop_sim_script_parse(text, &script, message, sizeof(message)) != 0)
        fail_msg("%s: %s", text, message);
    return script;
}

struct cop_sim_report run_script(const struct cop_sim_script *script)
{
    struct cop_sim_report report;
    assert_int_equal(cop_sim_script_run(script, &report), 0);
    if (report.failure[0]) {
        char *text = cop_sim_script_print(script);
        print_error("# %s\n%s", report.failure, text ? text : "");
        free(text);
        fail();
    }
    return report;
}

struct cop_sim_report run_text(const char *text)
{
    struct cop_sim_script script = parse_script(text);
    struct cop_sim_report report = run_script(&script);
    cop_sim_script_free(&script);
    return report;
}
