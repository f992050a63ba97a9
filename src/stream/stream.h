/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_STREAM_STREAM_H
#define COP_STREAM_STREAM_H

#include "node/node.h"

/*
 * Streams over trees that mend themselves: states go up and are joined, an orphan finds a
 * parent alone and sends the whole of its state (rules T1-T16 of docs/PROTOCOL.md).
 */
extern const struct cop__layer cop__stream_layer;

cop__handler cop__on_network, cop__on_attach, cop__on_adopt, cop__on_detach,
    cop__on_path, cop__on_wave, cop__on_credit, cop__on_down, cop__on_got;

#endif
