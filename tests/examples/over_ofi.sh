# SPDX-License-Identifier: Apache-2.0
# Members over libfabric: real processes by two providers, of which some are killed.
. "$(dirname "$0")/lib.sh"

# Providers for devices that are not here look for them for seconds, at each start.
export FI_PROVIDER='^psm,psm2,psm3,usnic'

# said N TEXT: exactly N processes said it.
said() {
    [ "$(grep -c ": $2\$" out.0)" = "$1" ] || { echo "FAILED: not $1 times: $2"; exit 1; }
}

for provider in 'tcp;ofi_rxm' shm; do
    timeout 80 "$EXAMPLE" "$provider" 6 0 >out.0 2>&1
    said 6 '0 failed, sum 15'
    said 5 '1 failed, sum 15'
    echo "one of six died, over $provider"
done

# One line that says what is missing.
if "$EXAMPLE" nosuch 1 >out.0 2>&1; then
    echo "FAILED: there is no such provider"
    exit 1
fi
grep -q "libfabric has no reliable datagrams by 'nosuch' here" out.0
echo "a provider that is not there is said"
