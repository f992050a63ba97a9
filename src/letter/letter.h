/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_LETTER_LETTER_H
#define COP_LETTER_LETTER_H

#include "node/node.h"

/*
 * Messages between two members: in order, each at most once, and delivered in the view in
 * which they were sent (rules L1-L4 of docs/PROTOCOL.md). A letter names the view of its
 * sender. Who has that view delivers it; who has a later one gives the sender the commit that
 * it misses, and the letter comes again, under the same number, in the new view; who has an
 * earlier one keeps it until it has caught up.
 */
extern const struct cop__layer cop__letter_layer;

/* Letters to one member that are not answered for yet: more get COP_EAGAIN. */
#define COP__LETTERS_MAX 64u
/* Its sender hears no later than this, unless it said otherwise. */
#define COP__LETTER_TIMEOUT (UINT64_C(30) * COP_SEC)
#define COP__LETTER_BYTES (UINT32_C(1) << 20) - 64u

cop__handler cop__on_letter, cop__on_receipt;

#endif
