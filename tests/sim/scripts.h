/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SIM_SCRIPTS_H
#define TESTS_SIM_SCRIPTS_H

#include <coppice/sim.h>

/* Scripts whose run must violate nothing. What does ends the test, with the script printed. */

/* To be freed. Ends the test if it is none. */
struct cop_sim_script parse_script(const char *text);
struct cop_sim_report run_script(const struct cop_sim_script *script);
/* Both, and frees it. */
struct cop_sim_report run_text(const char *text);

#endif
