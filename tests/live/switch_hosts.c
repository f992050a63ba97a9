/* SPDX-License-Identifier: Apache-2.0 */
#include "switch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Everything is of this process: namespaces are held by descriptors and not by names, so
 * that nothing is left when it and those who inherit them are gone, however they went.
 */

static bool refuse(const char *format, ...)
{
    va_list arguments;
    int error = errno;
    va_start(arguments, format);
    fputs("skipped: ", stdout);
    vprintf(format, arguments);
    printf(": %s\n", strerror(error));
    va_end(arguments);
    return false;
}

/* ---- namespaces ------------------------------------------------------------------ */

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return good;
}

/* As root in a namespace of users whom nobody else knows. */
static bool become_root(void)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "0 %u 1", (unsigned)geteuid());
    snprintf(groups, sizeof groups, "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return refuse("network namespaces are not permitted here");
    if (!write_file("/proc/self/setgroups", "deny") ||
        !write_file("/proc/self/uid_map", users) ||
        !write_file("/proc/self/gid_map", groups))
        return refuse("a user cannot be root of its own namespace here");
    return true;
}

static int open_namespace(void)
{
    return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Leaves this process where it was; the new one is descriptor HOST_FD + i. */
static bool make_namespace(int home, unsigned i)
{
    int fd = -1;
    if (unshare(CLONE_NEWNET) != 0 || (fd = open_namespace()) < 0 ||
        dup2(fd, HOST_FD + (int)i) < 0)
        return refuse("there is no namespace for host %u", i);
    close(fd);
    if (setns(home, CLONE_NEWNET) != 0)
        return refuse("there is no way back from the namespace of host %u", i);
    return true;
}

/* ---- cables ---------------------------------------------------------------------- */

struct request {
    struct nlmsghdr header;
    struct ifinfomsg info;
    char attributes[256];
};

static void *end_of(struct request *request)
{
    return (char *)request + NLMSG_ALIGN(request->header.nlmsg_len);
}

static struct rtattr *put(struct request *request, unsigned short type,
                          const void *data, size_t size)
{
    struct rtattr *attribute = end_of(request);
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    if (size > 0)
        memcpy(RTA_DATA(attribute), data, size);
    request->header.nlmsg_len =
        (unsigned)(NLMSG_ALIGN(request->header.nlmsg_len) + RTA_SPACE(size));
    return attribute;
}

static void close_nest(struct request *request, struct rtattr *nest)
{
    nest->rta_len = (unsigned short)((char *)end_of(request) - (char *)nest);
}

/* The two ends of a cable: s<i> here, h0 in the namespace of the host. */
static void describe_cable(struct request *request, unsigned i)
{
    char name[IFNAMSIZ];
    int host = HOST_FD + (int)i;
    const struct ifinfomsg other = {0};
    const uint8_t address[6] = {2, 0, 0, 0, 0, (uint8_t)i};
    *request =
        (struct request){.header = {.nlmsg_type = RTM_NEWLINK,
                                    .nlmsg_len = NLMSG_LENGTH(sizeof request->info),
                                    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK |
                                                   NLM_F_CREATE | NLM_F_EXCL}};
    snprintf(name, sizeof name, "s%u", i);
    put(request, IFLA_IFNAME, name, strlen(name) + 1);
    struct rtattr *link = put(request, IFLA_LINKINFO, NULL, 0);
    put(request, IFLA_INFO_KIND, "veth", 5);
    struct rtattr *data = put(request, IFLA_INFO_DATA, NULL, 0);
    struct rtattr *peer = put(request, VETH_INFO_PEER, &other, sizeof other);
    put(request, IFLA_IFNAME, "h0", 3);
    put(request, IFLA_ADDRESS, address, sizeof address);
    put(request, IFLA_NET_NS_FD, &host, sizeof host);
    close_nest(request, peer);
    close_nest(request, data);
    close_nest(request, link);
}

static bool make_cable(unsigned i)
{
    struct request request;
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[512];
    } answer;
    describe_cable(&request, i);
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    bool good = fd >= 0 && send(fd, &request, request.header.nlmsg_len, 0) >= 0 &&
                recv(fd, &answer, sizeof answer, 0) >=
                    (ssize_t)(sizeof answer.header + sizeof answer.error);
    if (good && answer.error.error != 0) {
        errno = -answer.error.error;
        good = false;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return good || refuse("no virtual cable (veth) for host %u", i);
}

/* ---- interfaces ------------------------------------------------------------------ */

static struct ifreq named(const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return request;
}

static bool set_up(int fd, const char *name)
{
    struct ifreq request = named(name);
    if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
        return false;
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

static bool set_address(int fd, unsigned long what, uint32_t address)
{
    struct ifreq request = named("h0");
    struct sockaddr_in internet = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(address)};
    memcpy(&request.ifr_addr, &internet, sizeof internet);
    return ioctl(fd, what, &request) == 0;
}

/* Frames are as they would be on a wire: no larger, and with their sums. */
static bool make_plain(int fd)
{
    static const uint32_t features[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM};
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        struct ethtool_value value = {.cmd = features[i], .data = 0};
        struct ifreq request = named("h0");
        request.ifr_data = (char *)&value;
        if (ioctl(fd, SIOCETHTOOL, &request) != 0)
            return false;
    }
    return true;
}

static bool set_up_host(int home, unsigned i)
{
    uint32_t address = 0x0A4D0001u + i; /* 10.77.0.1 + i */
    if (setns(HOST_FD + (int)i, CLONE_NEWNET) != 0)
        return refuse("host %u cannot be entered", i);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && make_plain(fd) && set_up(fd, "lo") &&
                set_address(fd, SIOCSIFADDR, address) &&
                set_address(fd, SIOCSIFNETMASK, 0xFFFFFF00u) && set_up(fd, "h0");
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (setns(home, CLONE_NEWNET) != 0)
        return refuse("there is no way back from host %u", i);
    errno = error;
    return good || refuse("the interface of host %u cannot be set up", i);
}

/* ---- ports ----------------------------------------------------------------------- */

#define PORT_BUFFER (4 << 20)

/* The switch's end of a cable: what comes from the host, and nothing that goes to it. */
static bool open_port(unsigned i, int *out)
{
    char name[IFNAMSIZ];
    int yes = 1, size = PORT_BUFFER;
    snprintf(name, sizeof name, "s%u", i);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(name)};
    if (fd < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || !set_up(fd, name))
        return refuse("no packets can be taken from the cable of host %u", i);
    /* Only root may have more than the system's limit; less is slower, not wrong. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    *out = fd;
    return true;
}

bool hosts_create(unsigned count, int *ports)
{
    if (unshare(CLONE_NEWNET) != 0 && !become_root())
        return false;
    int home = open_namespace();
    if (home < 0)
        return refuse("the network namespace cannot be opened");
    for (unsigned i = 0; i < count; i++)
        if (!make_namespace(home, i) || !make_cable(i) || !open_port(i, &ports[i]) ||
            !set_up_host(home, i))
            return false;
    close(home);
    return true;
}
