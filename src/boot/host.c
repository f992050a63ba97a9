/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/host.h"

#include "boot/exchange.h"
#include "run/address.h"
#include "run/listen.h"

#include <arpa/inet.h>
#include <coppice/error.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void take_address(const struct sockaddr *found, struct cop__address *out)
{
    memset(out, 0, sizeof *out);
    out->length = found->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                              : sizeof(struct sockaddr_in6);
    memcpy(&out->storage, found, out->length);
}

static bool is_link_local(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* How good an interface is: 0 not at all. IPv4 is preferred: it needs no scope. */
static int judge(const struct ifaddrs *at, const char *wanted)
{
    if (at->ifa_addr == NULL || !(at->ifa_flags & IFF_UP) ||
        is_link_local(at->ifa_addr))
        return 0;
    if (wanted != NULL ? strcmp(at->ifa_name, wanted) != 0
                       : (at->ifa_flags & IFF_LOOPBACK) != 0)
        return 0;
    return at->ifa_addr->sa_family == AF_INET    ? 2
           : at->ifa_addr->sa_family == AF_INET6 ? 1
                                                 : 0;
}

static bool find_interface(const char *wanted, struct cop__address *out)
{
    struct ifaddrs *all;
    int best = 0;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
        if (judge(at, wanted) > best) {
            best = judge(at, wanted);
            take_address(at->ifa_addr, out);
        }
    freeifaddrs(all);
    return best > 0;
}

/* "192.0.2.7" or "fd00::7". */
static bool read_number(const char *text, struct cop__address *out)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        take_address((const struct sockaddr *)&four, out);
    else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1)
        take_address((const struct sockaddr *)&six, out);
    else
        return false;
    return true;
}

static int choose(bool is_local, struct cop__address *out, char *message, size_t size)
{
    const char *wanted = getenv("COPPICE_INTERFACE");
    if (wanted != NULL && *wanted != '\0') {
        if (read_number(wanted, out) || find_interface(wanted, out))
            return 0;
        return cop__exchange_fail(COP_EINVAL, message, size,
                                  "COPPICE_INTERFACE=%s is neither an address nor an "
                                  "interface of this host that is up",
                                  wanted);
    }
    if (is_local)
        return read_number("127.0.0.1", out) ? 0 : COP_EIO;
    if (find_interface(NULL, out))
        return 0;
    return cop__exchange_fail(COP_EIO, message, size,
                              "no interface of this host is up but the loopback, and "
                              "the job runs on several hosts (COPPICE_INTERFACE "
                              "names one)");
}

/* Settings take descriptor 0 for none, and it may be the next where a program has closed its
 * input; 1 and 2 somebody may write to. */
static int raise_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int raised = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    close(fd);
    return raised < 0 ? -error : raised;
}

int cop__boot_listen(bool is_local, int *fd, char *address, size_t address_size,
                     char *message, size_t size)
{
    struct cop__address where;
    int error = choose(is_local, &where, message, size);
    if (error)
        return error;
    int got = raise_above_standard(cop__listen_address(&where));
    where.length = sizeof where.storage;
    if (got < 0 ||
        getsockname(got, (struct sockaddr *)&where.storage, &where.length) != 0) {
        if (got >= 0)
            close(got);
        return cop__exchange_fail(COP_EIO, message, size, "cannot listen: %s",
                                  got < 0 ? strerror(-got) : "no name");
    }
    cop__address_print(&where, address, address_size);
    *fd = got;
    return 0;
}
