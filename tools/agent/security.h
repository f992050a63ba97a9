/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_AGENT_SECURITY_H
#define COP_TOOLS_AGENT_SECURITY_H

#include "net/tcp/driver.h"
#include "net/tls/tls.h"

/* What a member proves itself with, as it was typed. */
struct security_options {
    const char *key;
    const char *authority, *certificate, *private_key;
    bool insecure;
};

/* Rows of a table of options. */
#define SECURITY_OPTIONS(got)                                                          \
    {                                                                                  \
        0,         "key",      "FILE", "the key of the cluster, for TCP",              \
        ARGS_TEXT, &(got).key, 0,      0},                                             \
        {0,         "ca",                                                              \
         "FILE",    "instead: who signs the certificates of members",                  \
         ARGS_TEXT, &(got).authority,                                                  \
         0,         0},                                                                \
        {0,         "cert",                                                            \
         "FILE",    "the certificate of this member",                                  \
         ARGS_TEXT, &(got).certificate,                                                \
         0,         0},                                                                \
        {0,         "cert-key",         "FILE", "the private key of the certificate",  \
         ARGS_TEXT, &(got).private_key, 0,      0},                                    \
    {                                                                                  \
        0, "insecure", NULL, "allow TCP without encryption", ARGS_FLAG,                \
            &(got).insecure, 0, 0                                                      \
    }

/*
 * Reads the files, of which `key` may also be a setting. *out is NULL if there are none, or
 * if --insecure was typed. 0, or an exit code after one line.
 */
int security_open(const char *command, const struct security_options *options,
                  struct cop__tls **out);

/*
 * Whether a member may listen there: on a Unix socket always, on TCP with something to
 * prove itself with or with --insecure. 0, or EXIT_USAGE after one line.
 */
int security_check(const char *command, const struct cop__address *address,
                   const struct cop__tls *tls, bool insecure);

#endif
