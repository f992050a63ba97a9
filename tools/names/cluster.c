/* SPDX-License-Identifier: Apache-2.0 */
#include "names/cluster.h"

#include "base/assert.h"
#include "run/address.h"
#include "run/text.h"
#include "term/say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One entry of the index for so many members: 4 bytes for 64, whatever the size. */
#define CLUSTER_STRIDE 64u
#define LINE_MAX_BYTES 255u

/* The sentence, and the error that goes with it. */
#define bad(...) cop__explain(__VA_ARGS__)

/* ---- lines ----------------------------------------------------------------------- */

/* A line of the mapped text, without its end. Returns where the next one begins. */
static size_t line_at(const struct cluster *cluster, size_t at, char *out)
{
    const char *start = cluster->text + at;
    const char *end = memchr(start, '\n', cluster->size - at);
    size_t length = end ? (size_t)(end - start) : cluster->size - at;
    size_t kept = length <= LINE_MAX_BYTES ? length : LINE_MAX_BYTES;
    memcpy(out, start, kept);
    out[kept] = '\0';
    return at + length + (end != NULL);
}

static bool is_member_line(const char *line)
{
    return line[0] >= '0' && line[0] <= '9';
}

/* The line of a member that is known to exist. */
static void member_line(const struct cluster *cluster, cop_id id, char *line)
{
    COP_ASSERT(id < cluster->n);
    size_t at = cluster->index[id / CLUSTER_STRIDE];
    for (uint32_t skip = id % CLUSTER_STRIDE;; skip--) {
        do
            at = line_at(cluster, at, line);
        while (!is_member_line(line));
        if (skip == 0)
            return;
    }
}

/* ---- addresses ------------------------------------------------------------------- */

int cluster_parse_address(const char *text, const char *directory,
                          struct cop__address *out, char *message, size_t size)
{
    return cop__address_parse(text, directory, 1, out, message, size);
}

void cluster_absolute(const char *text, char *out, size_t size)
{
    char directory[PATH_MAX];
    bool relative = strncmp(text, "unix:", 5) == 0 && text[5] != '/';
    if (relative && getcwd(directory, sizeof directory) != NULL)
        snprintf(out, size, "unix:%s/%s", directory, text + 5);
    else
        snprintf(out, size, "%s", text);
}

int cluster_parse_listen(const char *text, struct cop__address *out, char *message,
                         size_t size)
{
    return cop__address_parse(text, ".", 0, out, message, size);
}

/* ---- reading the file ------------------------------------------------------------ */

static int parse_id(const char *text, uint8_t out[16])
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
        return COP_EINVAL;
    for (int i = 0; i < 16; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return 0;
}

int cluster_parse_quorum(const char *text, enum cop_quorum *out, const char **names)
{
    return cop__text_quorum(text, out, names);
}

int cluster_parse_detector(const char *text, struct cop_detect *out)
{
    return cop__text_detector(text, out);
}

static int read_detector(struct cluster *cluster, const char *value, char *message,
                         size_t size)
{
    size_t length = strlen(value);
    if (length >= sizeof cluster->detector_text ||
        cluster_parse_detector(value, &cluster->detect) != 0)
        return bad(message, size,
                   "detector is connection, or as ring:100ms,witnesses:2");
    memcpy(cluster->detector_text, value, length + 1);
    return 0;
}

static int read_quorum(struct cluster *cluster, const char *value, char *message,
                       size_t size)
{
    const char *names;
    size_t length = strlen(value);
    if (length >= sizeof cluster->quorum_text ||
        cluster_parse_quorum(value, &cluster->quorum, &names) != 0)
        return bad(message, size, "quorum is majority, none, fixed or has:NAMES");
    memcpy(cluster->quorum_text, value, length + 1);
    return 0;
}

/* The names can be looked up once the members are known. */
static int resolve_quorum(struct cluster *cluster, const char *path, char *message,
                          size_t size)
{
    const char *names;
    char why[200] = "";
    if (cluster->quorum != COP_QUORUM_HAS)
        return 0;
    COP_ASSERT(cluster_parse_quorum(cluster->quorum_text, &cluster->quorum, &names) ==
               0);
    char *texts[] = {(char *)(uintptr_t)names};
    if (cluster_select(cluster, texts, 1, &cluster->quorum_ids, why, sizeof why) != 0)
        return bad(message, size, "%s: quorum: %s", path, why);
    return 0;
}

static int read_guard(struct cluster *cluster, const char *value, char *message,
                      size_t size)
{
    uint64_t number;
    if (parse_number(value, 0, CLUSTER_GUARD_MAX, &number) != 0)
        return bad(message, size, "guard is a number of removals a minute, 0 for any");
    cluster->guard = (uint32_t)number;
    return 0;
}

/* "key value" in front of the members. */
static int read_setting(struct cluster *cluster, const char *line, char *message,
                        size_t size)
{
    char key[16], value[256];
    if (sscanf(line, "%15s %255s", key, value) != 2)
        return bad(message, size, "expected \"key value\" or \"ID NAME ADDRESS\"");
    if (strcmp(key, "quorum") == 0)
        return read_quorum(cluster, value, message, size);
    if (strcmp(key, "detector") == 0)
        return read_detector(cluster, value, message, size);
    if (strcmp(key, "guard") == 0)
        return read_guard(cluster, value, message, size);
    if (strcmp(key, "directory") == 0) {
        if (strlen(value) >= sizeof cluster->directory || value[0] != '/')
            return bad(message, size, "the directory is a path from the root");
        snprintf(cluster->directory, sizeof cluster->directory, "%s", value);
        return 0;
    }
    if (strcmp(key, "cluster") == 0)
        return parse_id(value, cluster->id)
                   ? bad(message, size, "the id of a cluster is 32 digits 0-9, a-f")
                   : 0;
    if (strcmp(key, "instance") == 0)
        return parse_number(value, 1, UINT64_MAX, &cluster->instance)
                   ? bad(message, size, "an instance is a number above 0")
                   : 0;
    if (strcmp(key, "first") == 0)
        return parse_number(value, 1, UINT64_MAX, &cluster->first)
                   ? bad(message, size, "an incarnation is a number above 0")
                   : 0;
    if (strcmp(key, "shape") != 0)
        return bad(message, size, "unknown key '%s'", key);
    snprintf(cluster->shape_text, sizeof cluster->shape_text, "%.63s", value);
    return cop_shape_parse(value, &cluster->shape, message, size);
}

/* "ID NAME ADDRESS", with the next id. */
static int read_member(struct cluster *cluster, const char *line, char *message,
                       size_t size)
{
    char id[16], name[NODESET_NAME_LENGTH + 2], address[160], more[2];
    struct cop__address ignored;
    struct nodeset one = {0};
    uint64_t number;
    if (sscanf(line, "%15s %64s %159s %1s", id, name, address, more) != 3)
        return bad(message, size, "expected \"ID NAME ADDRESS\"");
    if (cluster->n == CLUSTER_MEMBERS_MAX)
        return bad(message, size, "more than %u members", CLUSTER_MEMBERS_MAX);
    if (parse_number(id, 0, UINT32_MAX, &number) != 0 || number != cluster->n)
        return bad(message, size, "expected member %u here, not '%s'", cluster->n, id);
    int error = nodeset_add(&one, name);
    nodeset_free(&one);
    if (error == COP_EINVAL)
        return bad(message, size, "'%s' cannot be a name", name);
    return error ? error
                 : cluster_parse_address(address, cluster->directory, &ignored, message,
                                         size);
}

static int add_to_index(struct cluster *cluster, size_t at)
{
    uint32_t slot = cluster->n / CLUSTER_STRIDE;
    if (cluster->n++ % CLUSTER_STRIDE != 0)
        return 0;
    uint32_t *index = realloc(cluster->index, (slot + 1) * sizeof *index);
    if (index == NULL)
        return COP_ENOMEM;
    cluster->index = index;
    index[slot] = (uint32_t)at;
    return 0;
}

static int read_lines(struct cluster *cluster, const char *path, bool trusted,
                      char *message, size_t size)
{
    char line[LINE_MAX_BYTES + 1];
    char why[200] = "";
    unsigned number = 1;
    COP_ASSERT(cluster->text != NULL);
    for (size_t at = 0; at < cluster->size; number++) {
        size_t next = line_at(cluster, at, line);
        int error = 0;
        if (next - at > LINE_MAX_BYTES)
            error = bad(why, sizeof why, "the line is too long");
        else if (is_member_line(line) && !trusted)
            error = read_member(cluster, line, why, sizeof why);
        else if (is_member_line(line))
            error = 0;
        else if (line[strspn(line, " \t\r")] != '\0' && line[0] != '#')
            error = read_setting(cluster, line, why, sizeof why);
        if (!error && is_member_line(line))
            error = add_to_index(cluster, at);
        if (error == COP_EINVAL)
            return bad(message, size, "%s:%u: %s", path, number, why);
        if (error)
            return bad(message, size, "%s: %s", path, cop_strerror(error));
        at = next;
    }
    static const uint8_t none[16];
    if (memcmp(cluster->id, none, sizeof none) == 0)
        return bad(message, size, "%s: the line \"cluster ID\" is missing", path);
    if (cluster->n == 0)
        return bad(message, size, "%s: there are no members in it", path);
    return 0;
}

/* A name that two members have would make every message about it ambiguous. */
static int check_names(const struct cluster *cluster, const char *path, char *message,
                       size_t size)
{
    struct nodeset names = {0};
    char line[LINE_MAX_BYTES + 1], name[NODESET_NAME_LENGTH + 1];
    int error = 0;
    size_t at = cluster->index[0];
    for (cop_id id = 0; id < cluster->n && !error; id++) {
        do
            at = line_at(cluster, at, line);
        while (!is_member_line(line));
        sscanf(line, "%*s %63s", name);
        if (nodeset_has(&names, name))
            error = bad(message, size, "%s: two members are called '%s'", path, name);
        else if (nodeset_add(&names, name) != 0)
            error = bad(message, size, "%s: %s", path, cop_strerror(COP_ENOMEM));
    }
    nodeset_free(&names);
    return error;
}

static int map_file(struct cluster *cluster, const char *path, char *message,
                    size_t size)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return bad(message, size, "%s: %s", path, strerror(error));
    }
    bool good = S_ISREG(status.st_mode) && status.st_size > 0 &&
                status.st_size < (INT64_C(1) << 30);
    if (good) {
        cluster->size = (size_t)status.st_size;
        cluster->text = mmap(NULL, cluster->size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (!good)
        return bad(message, size, "%s: not a file of members", path);
    if (cluster->text == MAP_FAILED) {
        cluster->text = NULL;
        return bad(message, size, "%s: cannot be mapped: %s", path, strerror(errno));
    }
    return 0;
}

static int set_directory(struct cluster *cluster, const char *path, char *message,
                         size_t size)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 1;
    if (length >= sizeof cluster->directory)
        return bad(message, size, "%s: the path is too long", path);
    snprintf(cluster->directory, sizeof cluster->directory, "%.*s", (int)length,
             slash ? path : ".");
    return 0;
}

static const struct cluster defaults = {.instance = 1,
                                        .first = 1,
                                        .shape_text = "radix:4",
                                        .quorum_text = "majority",
                                        .detector_text = "connection",
                                        .quorum = COP_QUORUM_MAJORITY};

/* What the text says, when it is there. */
static int read_all(struct cluster *cluster, const char *path, bool trusted,
                    char *message, size_t size)
{
    int error = cop_shape_parse(cluster->shape_text, &cluster->shape, message, size);
    if (!error)
        error = read_lines(cluster, path, trusted, message, size);
    if (!error && !trusted)
        error = check_names(cluster, path, message, size);
    if (!error)
        error = resolve_quorum(cluster, path, message, size);
    return error;
}

int cluster_open(const char *path, bool trusted, struct cluster *out, char *message,
                 size_t size)
{
    struct cluster cluster = defaults;
    int error = set_directory(&cluster, path, message, size);
    if (!error)
        error = map_file(&cluster, path, message, size);
    if (!error)
        error = read_all(&cluster, path, trusted, message, size);
    if (error) {
        cluster_close(&cluster);
        return error;
    }
    *out = cluster;
    return 0;
}

int cluster_read(const char *origin, const char *text, size_t length,
                 struct cluster *out, char *message, size_t size)
{
    struct cluster cluster = defaults;
    cluster.is_copy = true;
    cluster.size = length;
    cluster.text = malloc(length + 1);
    int error = cluster.text ? set_directory(&cluster, ".", message, size) : COP_ENOMEM;
    if (!error) {
        memcpy(cluster.text, text, length);
        error = read_all(&cluster, origin, false, message, size);
    }
    if (error) {
        cluster_close(&cluster);
        return error;
    }
    *out = cluster;
    return 0;
}

void cluster_close(struct cluster *cluster)
{
    if (cluster->is_copy)
        free(cluster->text);
    else if (cluster->text != NULL)
        munmap(cluster->text, cluster->size);
    free(cluster->index);
    free(cluster->extras);
    cop_ranks_free(&cluster->quorum_ids);
    cluster->text = NULL;
    cluster->index = NULL;
    cluster->extras = NULL;
    cluster->n = cluster->extra_count = 0;
}

/* ---- as a text ------------------------------------------------------------------- */

/* Whoever reads it need not know names: ids. */
static void print_quorum(const struct cluster *cluster, FILE *out)
{
    if (cluster->quorum != COP_QUORUM_HAS) {
        fprintf(out, "%s\n", cluster->quorum_text);
        return;
    }
    for (uint32_t i = 0; i < cluster->quorum_ids.count; i++)
        fprintf(out, "%s%" PRIu32, i == 0 ? "has:" : ",", cluster->quorum_ids.items[i]);
    fputs("\n", out);
}

char *cluster_describe(const struct cluster *cluster, size_t *length)
{
    char line[LINE_MAX_BYTES + 1], *text = NULL;
    char directory[PATH_MAX];
    FILE *out = open_memstream(&text, length);
    if (out == NULL)
        return NULL;
    fputs("cluster ", out);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", cluster->id[i]);
    fprintf(out, "\ninstance %" PRIu64 "\nfirst %" PRIu64 "\nshape %s\nquorum ",
            cluster->instance, cluster->first, cluster->shape_text);
    print_quorum(cluster, out);
    fprintf(out, "detector %s\nguard %" PRIu32 "\n", cluster->detector_text,
            cluster->guard);
    if (realpath(cluster->directory, directory) != NULL)
        fprintf(out, "directory %s\n", directory);
    size_t at = cluster->index[0];
    for (cop_id id = 0; id < cluster->n; id++) {
        do
            at = line_at(cluster, at, line);
        while (!is_member_line(line));
        fprintf(out, "%s\n", line);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- asking it ------------------------------------------------------------------- */

void cluster_name(const struct cluster *cluster, cop_id id,
                  char out[NODESET_NAME_LENGTH + 1])
{
    char line[LINE_MAX_BYTES + 1];
    if (id >= cluster->n) {
        COP_ASSERT(id < cluster_count(cluster));
        memcpy(out, cluster->extras[id - cluster->n].name, NODESET_NAME_LENGTH + 1);
        return;
    }
    member_line(cluster, id, line);
    COP_ASSERT(sscanf(line, "%*s %63s", out) == 1);
}

void cluster_address_text(const struct cluster *cluster, cop_id id, char *out,
                          size_t size)
{
    char line[LINE_MAX_BYTES + 1], address[160];
    if (id >= cluster->n) {
        COP_ASSERT(id < cluster_count(cluster));
        snprintf(out, size, "%s", cluster->extras[id - cluster->n].address);
        return;
    }
    member_line(cluster, id, line);
    COP_ASSERT(sscanf(line, "%*s %*s %159s", address) == 1);
    snprintf(out, size, "%s", address);
}

int cluster_address(const struct cluster *cluster, cop_id id, struct cop__address *out)
{
    char text[160];
    if (id >= cluster->n)
        return COP_ENOENT;
    cluster_address_text(cluster, id, text, sizeof text);
    return cluster_parse_address(text, cluster->directory, out, NULL, 0);
}
