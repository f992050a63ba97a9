/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_FUZZ_TLS_PAIR_H
#define COP_TESTS_FUZZ_TLS_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/tls/channel.h"
#include "net/tls/keys.h"

/* Two ends of an encrypted connection in memory, for the fuzzers. */
struct pair {
    struct cop__channel *ends[2]; /* client, server */
    struct cop__outbox out[2];
};

/* With a key of its own. */
static struct cop__tls *pair_tls(void)
{
    struct cop__keys keys = {.step = COP__KEYS_ALONE};
    char folder[] = "/tmp/coppice-fuzz-XXXXXX", path[64], message[400];
    struct cop__tls_files files = {.key = path};
    struct cop__tls *tls;
    COP_ASSERT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/key", folder);
    COP_ASSERT(cop__key_make(&keys.use) == 0);
    COP_ASSERT(cop__keys_write(path, &keys, true, message, sizeof message) == 0);
    COP_ASSERT(cop__tls_create(&files, &tls, message, sizeof message) == 0);
    unlink(path);
    rmdir(folder);
    return tls;
}

static void pair_close(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        cop__channel_destroy(pair->ends[i]);
        pair->ends[i] = NULL;
        pair->out[i].used = 0;
    }
}

static void pair_open(struct pair *pair, struct cop__tls *tls)
{
    pair->out[0].used = pair->out[1].used = 0;
    COP_ASSERT(cop__channel_create(tls, false, &pair->ends[0]) == 0);
    COP_ASSERT(cop__channel_create(tls, true, &pair->ends[1]) == 0);
}

/* What one end has said. */
static struct cop__bytes pair_said(struct pair *pair, int end)
{
    struct cop__bytes bytes = {pair->out[end].bytes, (uint32_t)pair->out[end].used};
    pair->out[end].used = 0;
    return bytes;
}

#endif
