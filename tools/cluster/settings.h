/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_CLUSTER_SETTINGS_H
#define COP_TOOLS_CLUSTER_SETTINGS_H

#include <coppice/tree.h>

/*
 * What can be set in four places: by flag, else by a COPPICE_* variable, else in
 * /etc/coppice/coppice.conf (COPPICE_CONF names another file), else the default. The
 * file has lines "key = value"; '#' begins a comment.
 *
 *   X(key, default, what a value looks like)
 */
#define COP_SETTINGS(X)                                                                \
    X(name, "default",                                                                 \
      "1 to 63 letters, digits, '-', '_' or '.', not beginning with '.'")              \
    X(shape, "radix:4", "kary:K, radix:A, knomial:K, binomial, flat or chain")         \
    X(transport, "unix", "unix or tcp")                                                \
    X(timeout, "5s", "a time such as 500ms or 2s")                                     \
    X(quorum, "majority", "majority, none, fixed or has:NAMES")                        \
    X(detector, "connection",                                                          \
      "connection, or ring:PERIOD such as ring:100ms, or ring:100ms,witnesses:2")      \
    X(key, "", "the path of a key file, for TCP")                                      \
    X(guard, "0", "a number of removals a minute; 0 for any")                          \
    X(hosts, "", "a node set, or the path of a file of hosts, with a '/'")             \
    X(user, "", "the name of a user at the hosts")                                     \
    X(ssh, "ssh", "the ssh client with its options, without quotes")                   \
    X(remote, "coppice", "the command at the hosts: a path, or a name that is found")  \
    X(port, "7640", "a number from 1 to 65535")

enum setting {
#define COP_SETTING_ENUM(key, value, text) SETTING_##key,
    COP_SETTINGS(COP_SETTING_ENUM)
#undef COP_SETTING_ENUM
        SETTINGS_COUNT
};

#define SETTING_SIZE 256
struct settings {
    struct {
        char value[SETTING_SIZE];
        char origin[SETTING_SIZE]; /* "--name", "COPPICE_NAME", "FILE:3" or "default" */
    } at[SETTINGS_COUNT];
};

/* The key of a setting, "name". */
const char *setting_key(enum setting which);

/*
 * Resolves all settings. `flags` holds the text of each flag that was given, NULL for
 * the others. 0, or EXIT_USAGE after one line that names the place of the mistake.
 */
int settings_load(struct settings *settings, const char *const flags[SETTINGS_COUNT]);

const char *settings_name(const struct settings *settings);
struct cop_shape settings_shape(const struct settings *settings);
bool settings_is_tcp(const struct settings *settings);
uint32_t settings_guard(const struct settings *settings);
cop_time settings_timeout(const struct settings *settings);

#endif
