/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/limits.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* Marks an origin as one of IPv4. No network of IPv6 begins like this. */
#define IPV4 (UINT64_C(0xffff) << 48)

/* ---- addresses ------------------------------------------------------------------- */

cop__origin cop__origin_of(const struct sockaddr *address)
{
    uint64_t origin = 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        return IPV4 | ntohl(v4->sin_addr.s_addr);
    }
    if (address->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    bool is_mapped = IN6_IS_ADDR_V4MAPPED(v6);
    for (int i = 0; i < (is_mapped ? 4 : 8); i++)
        origin = origin << 8 | v6->s6_addr[is_mapped ? 12 + i : i];
    /* The loopback of IPv6 is no network, and 0 stands for nothing. */
    return is_mapped ? IPV4 | origin : origin != 0 ? origin : 1;
}

const char *cop__origin_text(cop__origin origin, char *out, size_t size)
{
    if ((origin & IPV4) == IPV4)
        snprintf(out, size, "%u.%u.%u.%u", (unsigned)(origin >> 24 & 255),
                 (unsigned)(origin >> 16 & 255), (unsigned)(origin >> 8 & 255),
                 (unsigned)(origin & 255));
    else if (origin == 1)
        snprintf(out, size, "::1");
    else
        snprintf(out, size, "%x:%x:%x:%x::/64", (unsigned)(origin >> 48),
                 (unsigned)(origin >> 32 & 0xffff), (unsigned)(origin >> 16 & 0xffff),
                 (unsigned)(origin & 0xffff));
    return out;
}

/* ---- purses ---------------------------------------------------------------------- */

static uint32_t set_of(cop__origin origin)
{
    return (uint32_t)((origin * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % COP__LIMITS_SETS;
}

static int32_t units_at(const struct cop__purse *purse, cop_time now)
{
    cop_time passed = now > purse->filled ? now - purse->filled : 0;
    if (passed > COP__PURSE_FULL * (COP_SEC / COP__PURSE_EACH_SEC) * 2)
        return COP__PURSE_FULL;
    int32_t units = purse->units + (int32_t)(passed * COP__PURSE_EACH_SEC / COP_SEC);
    return units < COP__PURSE_FULL ? units : COP__PURSE_FULL;
}

static struct cop__purse *find(struct cop__limits *limits, cop__origin origin)
{
    struct cop__purse *set = limits->purses[set_of(origin)];
    for (uint32_t i = 0; i < COP__LIMITS_WAYS; i++)
        if (set[i].origin == origin)
            return &set[i];
    return NULL;
}

/* Fuller than any other, or where nobody's is. */
static bool is_fuller(const struct cop__purse *a, const struct cop__purse *b,
                      cop_time now)
{
    if (a->origin == 0 || b->origin == 0)
        return b->origin != 0;
    if ((a->members == 0) != (b->members == 0))
        return a->members == 0;
    return units_at(a, now) > units_at(b, now);
}

static struct cop__purse *get(struct cop__limits *limits, cop__origin origin,
                              cop_time now)
{
    struct cop__purse *set = limits->purses[set_of(origin)], *room = &set[0];
    for (uint32_t i = 0; i < COP__LIMITS_WAYS; i++) {
        if (set[i].origin == origin)
            return &set[i];
        if (is_fuller(&set[i], room, now))
            room = &set[i];
    }
    *room = (struct cop__purse){origin, now, COP__PURSE_FULL, 0};
    return room;
}

static int32_t price_of(const struct cop__purse *purse, int32_t price)
{
    return purse->members > 0 && price > COP__PRICE_MEMBER ? COP__PRICE_MEMBER : price;
}

/* What is less than a unit stays to be gained: or who pays often gains nothing. */
static void refill(struct cop__purse *purse, cop_time now)
{
    int32_t units = units_at(purse, now);
    if (units == COP__PURSE_FULL)
        purse->filled = now;
    else
        purse->filled +=
            (cop_time)(units - purse->units) * (COP_SEC / COP__PURSE_EACH_SEC);
    purse->units = units;
}

/* A debt would outlast the offence. */
static void pay(struct cop__purse *purse, int32_t price, cop_time now)
{
    refill(purse, now);
    int32_t left = purse->units - price;
    purse->units = left < 0 ? 0 : left < COP__PURSE_FULL ? left : COP__PURSE_FULL;
}

/* Who could not pay for a fault is not let in: or each unit would be one. */
bool cop__limits_admit(struct cop__limits *limits, cop__origin origin, cop_time now)
{
    if (origin == 0)
        return true;
    struct cop__purse *purse = get(limits, origin, now);
    if (units_at(purse, now) < price_of(purse, COP__PRICE_FAULT))
        return false;
    pay(purse, COP__PRICE_END, now);
    return true;
}

void cop__limits_charge(struct cop__limits *limits, cop__origin origin, cop_time now)
{
    if (origin == 0)
        return;
    struct cop__purse *purse = get(limits, origin, now);
    pay(purse, price_of(purse, COP__PRICE_FAULT) - COP__PRICE_END, now);
}

void cop__limits_refund(struct cop__limits *limits, cop__origin origin, cop_time now)
{
    struct cop__purse *purse = origin != 0 ? find(limits, origin) : NULL;
    if (purse != NULL)
        pay(purse, -COP__PRICE_END, now);
}

void cop__limits_enter(struct cop__limits *limits, cop__origin origin, cop_time now)
{
    if (origin != 0)
        get(limits, origin, now)->members++;
}

void cop__limits_leave(struct cop__limits *limits, cop__origin origin)
{
    struct cop__purse *purse = origin != 0 ? find(limits, origin) : NULL;
    if (purse != NULL && purse->members > 0)
        purse->members--;
}
