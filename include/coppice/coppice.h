/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COPPICE_H
#define COPPICE_H

/* Everything. Programs may include only what they use. */
#include <coppice/agree.h>
#include <coppice/boot.h>
#include <coppice/buf.h>
#include <coppice/coll.h>
#include <coppice/error.h>
#include <coppice/filter.h>
#include <coppice/log.h>
#include <coppice/node.h>
#include <coppice/run.h>
#include <coppice/service.h>
#include <coppice/sim.h>
#include <coppice/stats.h>
#include <coppice/stream.h>
#include <coppice/tree.h>
#include <coppice/types.h>
#include <coppice/view.h>

#define COP_VERSION_MAJOR 0
#define COP_VERSION_MINOR 1
#define COP_VERSION_PATCH 0
#define COP_VERSION_STRING "0.1.0"

#endif
