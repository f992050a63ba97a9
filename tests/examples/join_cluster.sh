# SPDX-License-Identifier: Apache-2.0
# A cluster of `coppice up`, over both transports; the example joins by a member's address,
# or by a command socket, and leaves again.
. "$(dirname "$0")/lib.sh"
[ -x "${COPPICE:-}" ] || { echo "no command here"; exit 77; }

export XDG_RUNTIME_DIR=$scratch/r COPPICE_CONF=/dev/null
mkdir -m 0700 "$XDG_RUNTIME_DIR"
take_down() {
    local status=$?
    "$COPPICE" down >/dev/null 2>&1 || true
    (exit $status) || cleanup
    cleanup
}
trap take_down EXIT

try() {
    "$EXAMPLE" "$1" visitor >out.visitor 2>&1 || { echo "FAILED: $1"; exit 1; }
    grep -q "joined as 4: 5 members" out.visitor
    grep -q "5 of 5 answered" out.visitor
    grep -qx "left" out.visitor
}

"$COPPICE" up -n 4 >/dev/null
try "unix:$XDG_RUNTIME_DIR/coppice/default/m2.sock"
try "$XDG_RUNTIME_DIR/coppice/default/c1.sock"
"$COPPICE" view --json | grep -q '"left":"visitor"' || { "$COPPICE" view; exit 1; }
"$COPPICE" down >/dev/null
"$COPPICE" up -n 4 --transport tcp --insecure >/dev/null
try "$(awk '$1 == 3 { print $3 }' "$XDG_RUNTIME_DIR/coppice/default/members")"
"$COPPICE" down >/dev/null
echo "joined by an address, a command socket, and TCP"
