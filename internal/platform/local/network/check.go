package network

import (
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
)

// CheckAddresses makes ports of a bridge drop IPv4 packets from or to other addresses than those given
// for the port, as clouds' networks do. Ports that are not in the map are not checked. It replaces what
// an earlier call has set, in one step; without ports, nothing is left of it.
func CheckAddresses(bridge string, ports map[string][]netip.Prefix) error {
	if _, err := exec.LookPath("nft"); err != nil && len(ports) == 0 {
		return nil // it has set nothing
	}
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader(checkTable(bridge, ports))
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("check the addresses of machines on %s: nft: %w: %s", bridge, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// checkTable returns the commands that replace the bridge's table of nft.
func checkTable(bridge string, ports map[string][]netip.Prefix) string {
	remove := fmt.Sprintf("table bridge %[1]s {}\ndelete table bridge %[1]s\n", bridge)
	if len(ports) == 0 {
		return remove
	}
	var from, to strings.Builder
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		own := make([]string, len(ports[port]))
		for i, p := range ports[port] {
			own[i] = p.String()
		}
		set := strings.Join(own, ", ")
		fmt.Fprintf(&from, "\t\tiifname %q ip saddr != { %s } drop\n", port, set)
		fmt.Fprintf(&to, "\t\toifname %q ip daddr != { %s } drop\n", port, set)
	}
	chain := "\tchain %s {\n\t\ttype filter hook %s priority 0; policy accept;\n%s\t}\n"
	return remove + fmt.Sprintf("table bridge %s {\n"+chain+chain+"}\n", bridge, "from", "prerouting", from.String(), "to", "postrouting", to.String())
}
