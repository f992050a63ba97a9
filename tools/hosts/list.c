/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts/list.h"

#include "run/name.h"
#include "run/text.h"
#include "term/say.h"

#include <arpa/inet.h>
#include <coppice/error.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LINE_SIZE 1024u

#define bad(...) cop__explain(__VA_ARGS__)

/* ---- one entry ------------------------------------------------------------------- */

/* The words of one line, or of a node set on the command line. */
struct entry {
    char user[64];
    char hosts[LINE_SIZE];
    const char *name, *address; /* NULL: not given */
    uint16_t port;
};

static int add_host(struct hosts_list *list, const struct entry *entry,
                    const char *host, char *message, size_t size)
{
    struct host made = {.port = entry->port};
    const char *name = entry->name ? entry->name : host;
    char why[200];
    if (host[0] == '-' || strlen(host) >= sizeof made.host)
        return bad(message, size, "'%s' cannot be a host", host);
    if (cop__name_check(name, why, sizeof why) != 0)
        return bad(message, size, "%s; in a file, name=NAME gives the host one", why);
    if (list->count == HOSTS_MAX)
        return bad(message, size, "more than %u hosts", HOSTS_MAX);
    struct host *grown = realloc(list->items, (list->count + 1) * sizeof *grown);
    if (grown == NULL)
        return COP_ENOMEM;
    list->items = grown;
    snprintf(made.user, sizeof made.user, "%s", entry->user);
    snprintf(made.host, sizeof made.host, "%s", host);
    snprintf(made.name, sizeof made.name, "%s", name);
    snprintf(made.address, sizeof made.address, "%s",
             entry->address ? entry->address : "");
    list->items[list->count++] = made;
    return 0;
}

/* Takes ":PORT" off the end, unless the colon belongs to a number of IPv6. */
static int take_port(char *text, uint16_t *port, char *message, size_t size)
{
    char *colon = strrchr(text, ':');
    uint64_t number;
    bool is_literal = colon != NULL && strchr(text, ':') != colon && text[0] != '[';
    if (colon == NULL || is_literal || strchr(colon, ']') != NULL)
        return 0;
    if (parse_number(colon + 1, 1, UINT16_MAX, &number) != 0)
        return bad(message, size, "'%s' is not a port", colon + 1);
    *colon = '\0';
    *port = (uint16_t)number;
    return 0;
}

static bool is_number(const char *text)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, text, &ignored) == 1 ||
           inet_pton(AF_INET6, text, &ignored) == 1;
}

/* "[fe80::1]" is an address; other brackets are those of a node set. */
static void take_brackets(char *text)
{
    size_t length = strlen(text);
    char inner[INET6_ADDRSTRLEN];
    if (length < 3 || length - 2 >= sizeof inner || text[0] != '[' ||
        text[length - 1] != ']')
        return;
    memcpy(inner, text + 1, length - 2);
    inner[length - 2] = '\0';
    if (is_number(inner))
        memcpy(text, inner, length - 1);
}

static int add_entry(struct hosts_list *list, struct entry *entry, char *message,
                     size_t size)
{
    struct nodeset set = {0};
    int error = take_port(entry->hosts, &entry->port, message, size);
    take_brackets(entry->hosts);
    if (error)
        return error;
    if (entry->address != NULL && !is_number(entry->address))
        return bad(message, size, "address=%s is not a number such as 10.0.0.1",
                   entry->address);
    if (is_number(entry->hosts))
        return add_host(list, entry, entry->hosts, message, size);
    error = nodeset_parse(entry->hosts, NULL, &set, message, size);
    if (error)
        return error;
    if (set.count > 1 && (entry->name != NULL || entry->address != NULL))
        error = bad(message, size, "a name or an address is of one host");
    for (uint32_t i = 0; i < set.count && !error; i++)
        error = add_host(list, entry, set.names[i], message, size);
    nodeset_free(&set);
    return error;
}

/* ---- files ----------------------------------------------------------------------- */

static int read_words(struct entry *entry, char *line, char *message, size_t size)
{
    char *rest = line, *word;
    while ((word = strsep(&rest, " \t\r\n")) != NULL) {
        if (*word == '\0')
            continue;
        if (entry->hosts[0] == '\0') {
            char *at = strchr(word, '@');
            if (at != NULL && at - word >= (ptrdiff_t)sizeof entry->user)
                return bad(message, size, "the name of the user is too long");
            if (at != NULL)
                snprintf(entry->user, sizeof entry->user, "%.*s", (int)(at - word),
                         word);
            snprintf(entry->hosts, sizeof entry->hosts, "%s", at ? at + 1 : word);
        } else if (strncmp(word, "name=", 5) == 0) {
            entry->name = word + 5;
        } else if (strncmp(word, "address=", 8) == 0) {
            entry->address = word + 8;
        } else {
            return bad(message, size, "expected name=NAME or address=IP, not '%s'",
                       word);
        }
    }
    return 0;
}

static int read_line(struct hosts_list *list, char *line, const char *user,
                     uint16_t port, char *message, size_t size)
{
    struct entry entry = {.port = port};
    line[strcspn(line, "#")] = '\0';
    if (line[strspn(line, " \t\r\n")] == '\0')
        return 0;
    snprintf(entry.user, sizeof entry.user, "%s", user);
    int error = read_words(&entry, line, message, size);
    if (error)
        return error;
    if (entry.hosts[0] == '\0')
        return bad(message, size, "there is no host in it");
    return add_entry(list, &entry, message, size);
}

static int read_file(struct hosts_list *list, const char *path, const char *user,
                     uint16_t port, char *message, size_t size)
{
    char line[LINE_SIZE], why[300] = "";
    FILE *file = fopen(path, "re");
    int error = 0;
    if (file == NULL)
        return bad(message, size, "%s: %s", path, strerror(errno));
    for (unsigned number = 1; error == 0 && fgets(line, sizeof line, file); number++) {
        if (strchr(line, '\n') == NULL && !feof(file))
            error = bad(why, sizeof why, "the line is too long");
        else
            error = read_line(list, line, user, port, why, sizeof why);
        if (error == COP_EINVAL)
            bad(message, size, "%s:%u: %s", path, number, why);
    }
    if (error == 0 && ferror(file))
        error = bad(message, size, "%s: %s", path, strerror(errno));
    fclose(file);
    return error;
}

static int check_names(const struct hosts_list *list, char *message, size_t size)
{
    struct nodeset names = {0};
    int error = list->count > 0 ? 0 : bad(message, size, "there are no hosts in it");
    for (uint32_t i = 0; i < list->count && !error; i++) {
        const char *name = list->items[i].name;
        if (nodeset_has(&names, name))
            error =
                bad(message, size,
                    "two members are called '%s': in a file, name=NAME gives one of "
                    "them another name",
                    name);
        else
            error = nodeset_add(&names, name);
    }
    nodeset_free(&names);
    return error;
}

int hosts_list_read(const char *text, const char *user, uint16_t port,
                    struct hosts_list *out, char *message, size_t size)
{
    struct hosts_list list = {0};
    struct entry entry = {.port = port};
    int error;
    snprintf(message, size, "%s", cop_strerror(COP_ENOMEM));
    if (strchr(text, '/') != NULL) {
        error = read_file(&list, text, user, port, message, size);
    } else if (strlen(text) >= sizeof entry.hosts) {
        error = bad(message, size, "the set of hosts is too long: write a file");
    } else {
        snprintf(entry.user, sizeof entry.user, "%s", user);
        snprintf(entry.hosts, sizeof entry.hosts, "%s", text);
        error = add_entry(&list, &entry, message, size);
    }
    if (error == 0)
        error = check_names(&list, message, size);
    if (error)
        hosts_list_free(&list);
    else
        *out = list;
    return error;
}

void hosts_list_free(struct hosts_list *list)
{
    free(list->items);
    *list = (struct hosts_list){0};
}

/* ---- addresses ------------------------------------------------------------------- */

bool host_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

int host_resolve(struct host *host, char *message, size_t size)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(host->host, NULL, &wanted, &found);
    if (error) {
        bad(message, size, "%s", gai_strerror(error));
        return COP_ENOENT;
    }
    error = getnameinfo(found->ai_addr, found->ai_addrlen, host->address,
                        sizeof host->address, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    if (error == 0)
        return 0;
    host->address[0] = '\0';
    bad(message, size, "%s", gai_strerror(error));
    return COP_ENOENT;
}

void host_address(const struct host *host, char *out, size_t size)
{
    bool is_v6 = strchr(host->address, ':') != NULL;
    snprintf(out, size, is_v6 ? "tcp:[%s]:%u" : "tcp:%s:%u", host->address, host->port);
}
