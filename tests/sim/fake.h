/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_SIM_FAKE_H
#define COP_TESTS_SIM_FAKE_H

#include <coppice/sim.h>

/*
 * A state machine that does as it is told and writes down what it hears, for tests of the
 * simulator itself. A request (token K, target D) makes it send K numbered frames to D, in
 * one step; with `outcome` it says CONNECT before; K = 0 with `outcome` only connects.
 */

/* Everything that all nodes heard, e.g. "[1 up0 +10us][1 got0.1 +10us]". */
extern char fake_log[65536];
void fake_reset(void);
/* Whether the log has this text. */
bool fake_heard(const char *text);
/* How often the log has this text. */
unsigned fake_count(const char *text);

extern const struct cop_sim_actor fake_actor;

/* A simulation of n fakes, started: all connections are gone, all logs are empty. */
struct cop_sim *fake_sim(uint32_t nodes, const struct cop_sim_net *net, uint32_t flags);
/* Tells `from` at `at` to send `count` frames to `to`. */
void fake_send(struct cop_sim *sim, cop_time at, cop_id from, cop_id to,
               uint32_t count);
void fake_connect(struct cop_sim *sim, cop_time at, cop_id from, cop_id to);
/* Does what one line of a script says. */
void fake_do(struct cop_sim *sim, const char *line);

#endif
