/* SPDX-License-Identifier: Apache-2.0 */
/* Any text gives a sentence or a set; a set folds to a text that gives the same set. */
#include "base/assert.h"
#include "names/nodeset.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

static void check_round_trip(const struct nodeset *set)
{
    char *folded = nodeset_fold(set);
    struct nodeset again = {0};
    COP_ASSERT(folded != NULL);
    /* All members and what a text adds to them may be more than one text may name. */
    if (set->count > NODESET_NAMES_MAX) {
        COP_ASSERT(nodeset_parse(folded, NULL, &again, NULL, 0) == COP_EINVAL);
    } else if (set->count > 0) {
        COP_ASSERT(nodeset_parse(folded, NULL, &again, NULL, 0) == 0);
        COP_ASSERT(again.count == set->count);
        for (uint32_t i = 0; i < set->count; i++)
            COP_ASSERT(strcmp(set->names[i], again.names[i]) == 0);
    }
    nodeset_free(&again);
    free(folded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Longer texts only repeat what short ones do, slowly. */
    if (size > 256)
        return 0;
    char *text = malloc(size + 1);
    COP_ASSERT(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';

    struct nodeset all = {0}, set = {0};
    char message[80] = "";
    COP_ASSERT(nodeset_parse("n[0-9]", NULL, &all, NULL, 0) == 0);
    int error = nodeset_parse(text, &all, &set, message, sizeof message);
    if (error)
        COP_ASSERT(error == COP_EINVAL && message[0] != '\0');
    else
        check_round_trip(&set);
    nodeset_free(&set);
    nodeset_free(&all);
    free(text);
    return 0;
}
