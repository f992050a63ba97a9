/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/settings.h"

#include "base/assert.h"
#include "names/cluster.h"
#include "term/commands.h"
#include "term/say.h"

#include <coppice/error.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_FILE "/etc/coppice/coppice.conf"
#define LINE_SIZE 512

struct known {
    const char *key;
    const char *value;
    const char *text;
};

static const struct known known[SETTINGS_COUNT] = {
#define COP_SETTING_ROW(key, value, text) {#key, value, text},
    COP_SETTINGS(COP_SETTING_ROW)
#undef COP_SETTING_ROW
};

const char *setting_key(enum setting which) { return known[which].key; }

/* ---- values ---------------------------------------------------------------------- */

static bool is_name(const char *text)
{
    size_t length = strlen(text);
    size_t good = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789-_.");
    return length >= 1 && length <= 63 && good == length && text[0] != '.' &&
           text[0] != '-';
}

/* A shape that needs a table cannot be had by name alone. */
static bool is_shape(const char *text, char *message, size_t size)
{
    struct cop_shape shape;
    if (cop_shape_parse(text, &shape, message, size) != 0)
        return false;
    if (shape.kind != COP_SHAPE_TABLE && shape.kind != COP_SHAPE_HOSTS)
        return true;
    snprintf(message, size, "a shape of its own file or hosts is not possible here");
    return false;
}

static bool is_allowed(enum setting which, const char *value, char *message,
                       size_t size)
{
    cop_time time;
    enum cop_quorum quorum;
    struct cop_detect detect;
    uint64_t number;
    const char *names;
    snprintf(message, size, "%s", known[which].text);
    switch (which) {
    case SETTING_name:
        return is_name(value);
    case SETTING_shape:
        return is_shape(value, message, size);
    case SETTING_transport:
        return strcmp(value, "unix") == 0 || strcmp(value, "tcp") == 0;
    case SETTING_timeout:
        return parse_duration(value, &time) == 0;
    case SETTING_quorum:
        return cluster_parse_quorum(value, &quorum, &names) == 0 &&
               strcspn(value, " \t") == strlen(value);
    case SETTING_detector:
        return cluster_parse_detector(value, &detect) == 0;
    case SETTING_key:
    case SETTING_hosts:
        return true;
    case SETTING_user:
        return value[0] != '-' && strcspn(value, " \t'") == strlen(value) &&
               strlen(value) < 64;
    case SETTING_ssh:
    case SETTING_remote:
        return value[0] != '\0' && value[0] != '-';
    case SETTING_port:
        return parse_number(value, 1, UINT16_MAX, &number) == 0;
    case SETTING_guard:
        return parse_number(value, 0, CLUSTER_GUARD_MAX, &number) == 0;
    case SETTINGS_COUNT:
        break;
    }
    return false;
}

/* Takes a value over from a place that comes before all that were tried so far. */
static int set(struct settings *settings, enum setting which, const char *value,
               const char *origin)
{
    char message[200];
    if (strlen(value) >= SETTING_SIZE)
        return fail(EXIT_USAGE, "%s: the %s is too long", origin, known[which].key);
    if (!is_allowed(which, value, message, sizeof message))
        return fail(EXIT_USAGE, "%s: bad %s '%s': %s", origin, known[which].key, value,
                    message);
    snprintf(settings->at[which].value, SETTING_SIZE, "%s", value);
    snprintf(settings->at[which].origin, SETTING_SIZE, "%s", origin);
    return 0;
}

/* ---- the file -------------------------------------------------------------------- */

/* Cuts white space off both ends, in place. */
static char *trim(char *text)
{
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static int set_from_line(struct settings *settings, char *line, const char *origin)
{
    line[strcspn(line, "#")] = '\0';
    char *key = trim(line);
    if (*key == '\0')
        return 0;
    char *equals = strchr(key, '=');
    if (equals == NULL)
        return fail(EXIT_USAGE, "%s: expected \"key = value\"", origin);
    *equals = '\0';
    key = trim(key);
    for (enum setting i = 0; i < SETTINGS_COUNT; i++)
        if (strcmp(known[i].key, key) == 0)
            return set(settings, i, trim(equals + 1), origin);
    return fail(EXIT_USAGE, "%s: unknown setting '%s'", origin, key);
}

static int read_file(struct settings *settings, FILE *file, const char *path)
{
    char line[LINE_SIZE];
    for (unsigned number = 1; fgets(line, sizeof line, file); number++) {
        char origin[SETTING_SIZE];
        snprintf(origin, sizeof origin, "%s:%u", path, number);
        if (strchr(line, '\n') == NULL && !feof(file))
            return fail(EXIT_USAGE, "%s: the line is too long", origin);
        int code = set_from_line(settings, line, origin);
        if (code)
            return code;
    }
    if (ferror(file))
        return fail(EXIT_USAGE, "%s: %s", path, strerror(errno));
    return 0;
}

/* A file that nobody asked for by name may be absent. */
static int load_file(struct settings *settings)
{
    const char *named = getenv("COPPICE_CONF");
    const char *path = named && *named ? named : DEFAULT_FILE;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        if (errno == ENOENT && path != named)
            return 0;
        return fail(EXIT_USAGE, "%s: %s", path, strerror(errno));
    }
    int code = read_file(settings, file, path);
    fclose(file);
    return code;
}

/* ---- all places ------------------------------------------------------------------ */

static int load_variable(struct settings *settings, enum setting which)
{
    char name[32];
    snprintf(name, sizeof name, "COPPICE_%s", known[which].key);
    for (char *at = name; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    const char *value = getenv(name);
    return value && *value ? set(settings, which, value, name) : 0;
}

static int load_flag(struct settings *settings, enum setting which, const char *value)
{
    char name[32];
    snprintf(name, sizeof name, "--%s", known[which].key);
    return value ? set(settings, which, value, name) : 0;
}

int settings_load(struct settings *settings, const char *const flags[SETTINGS_COUNT])
{
    int code = 0;
    for (enum setting i = 0; i < SETTINGS_COUNT; i++)
        COP_ASSERT(set(settings, i, known[i].value, "default") == 0);
    code = load_file(settings);
    for (enum setting i = 0; i < SETTINGS_COUNT && code == 0; i++)
        code = load_variable(settings, i);
    for (enum setting i = 0; i < SETTINGS_COUNT && code == 0; i++)
        code = load_flag(settings, i, flags[i]);
    return code;
}

const char *settings_name(const struct settings *settings)
{
    return settings->at[SETTING_name].value;
}

struct cop_shape settings_shape(const struct settings *settings)
{
    struct cop_shape shape;
    COP_ASSERT(cop_shape_parse(settings->at[SETTING_shape].value, &shape, NULL, 0) ==
               0);
    return shape;
}

bool settings_is_tcp(const struct settings *settings)
{
    return strcmp(settings->at[SETTING_transport].value, "tcp") == 0;
}

uint32_t settings_guard(const struct settings *settings)
{
    uint64_t number = 0;
    COP_ASSERT(parse_number(settings->at[SETTING_guard].value, 0, CLUSTER_GUARD_MAX,
                            &number) == 0);
    return (uint32_t)number;
}

cop_time settings_timeout(const struct settings *settings)
{
    cop_time time = 0;
    COP_ASSERT(parse_duration(settings->at[SETTING_timeout].value, &time) == 0);
    return time;
}
