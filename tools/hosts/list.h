/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_HOSTS_LIST_H
#define COP_TOOLS_HOSTS_LIST_H

#include "names/nodeset.h"

/*
 * The hosts of a cluster as people write them: a node set, or (with a '/' in it) the path of
 * a file with lines
 *
 *   [USER@]HOSTS[:PORT] [name=NAME] [address=IP]
 *
 * where HOSTS is a node set; '#' begins a comment. PORT is where the agent listens; ssh has
 * its own settings for where it connects to. An IPv6 address is in brackets if a port follows.
 */
struct host {
    char user[64];                      /* "": ssh decides */
    char host[256];                     /* as ssh is told it */
    char name[NODESET_NAME_LENGTH + 1]; /* of the member */
    char address[64];                   /* that was given, or found; a number, or "" */
    uint16_t port;
};

#define HOSTS_MAX 65536u
struct hosts_list {
    struct host *items; /* owned */
    uint32_t count;
};

/*
 * What is not written there comes from the defaults; `user` may be "". COP_EINVAL with a
 * sentence, COP_ENOMEM.
 */
int hosts_list_read(const char *text, const char *user, uint16_t port,
                    struct hosts_list *out, char *message, size_t size);
void hosts_list_free(struct hosts_list *list);

/*
 * The numbers of a host that has none yet, as this machine resolves its name. 0; COP_ENOENT
 * with a sentence: its name means nothing here, which need not be so for ssh.
 */
int host_resolve(struct host *host, char *message, size_t size);
/* Whether this is an address that only the machine itself can reach. */
bool host_is_loopback(const char *address);
/* "tcp:10.0.0.1:7640", "tcp:[fe80::1]:7640". */
void host_address(const struct host *host, char *out, size_t size);

#endif
