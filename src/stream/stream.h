/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_STREAM_STREAM_H
#define COP_STREAM_STREAM_H

#include "node/node.h"

/*
 * Streams over trees that mend themselves: states go up and are joined, an orphan finds a
 * parent alone and sends the whole of its state (rules T1-T22 of docs/PROTOCOL.md).
 */
extern const struct cop__layer cop__stream_layer;

cop__handler cop__on_network, cop__on_attach, cop__on_adopt, cop__on_detach,
    cop__on_path, cop__on_wave, cop__on_credit, cop__on_down, cop__on_got;

struct cop_stream_options;
/*
 * T1: what a stream with these options is, by the view of this member, whose front-end opens it:
 * the `definition` of its options, for every root. To be unreferenced. COP_EINVAL, COP_ENOMEM;
 * COP_ESTATE where views stand still.
 */
int cop__stream_plan(const struct cop_node *node,
                     const struct cop_stream_options *options, struct cop_buf **out);

#endif
