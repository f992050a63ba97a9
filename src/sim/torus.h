/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_SIM_TORUS_H
#define COP_SIM_TORUS_H

#include <coppice/types.h>

/*
 * A torus of three dimensions. Positions are numbered with x first, then y, then z:
 * position p is at (p % X, p / X % Y, p / X / Y % Z). The simulator and the models of
 * the command measure distances with the same code.
 */

/* The dimensions of the smallest near cube that holds n. */
void cop__torus_near_cube(uint32_t n, uint32_t dims[3]);
/* Whether dims are all in [1, COP_MEMBERS_MAX] and hold n. */
bool cop__torus_holds(const uint32_t dims[3], uint32_t n);
/* Hops between two positions, around the ends where that is shorter. */
uint32_t cop__torus_hops(const uint32_t dims[3], uint32_t a, uint32_t b);

#endif
