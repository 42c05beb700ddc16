package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/site"
)

// rule is one rule of the host's firewall.
type rule struct {
	table   string
	chain   string
	args    []string
	prepend bool // before all of the host's own rules
}

// servedPorts returns the TCP ports of the host's address in their network that machines use: the doors
// of their control plane, and the mirror of what they fetch. They are sorted, because iptables finds a
// rule by its text.
func servedPorts() []int {
	return slices.Sorted(slices.Values(append(access.DoorPorts(), localcloud.MirrorPort)))
}

// machineRules let machines reach the world, the host's services at its address in their network, and each
// other on hosts whose firewall filters bridged packets. Nothing outside reaches machines through the
// host, not even other clusters, and machines reach nothing else on the host: what it binds to all its
// addresses is not for every pod. The rules to insert first are in the order in which they apply. Each
// carries the bridge's name as its mark.
func machineRules(bridge string, cidr netip.Prefix) []rule {
	r := func(table, chain string, first bool, target string, args ...string) rule {
		return rule{table, chain, append(append(args, "-m", "comment", "--comment", bridge, "-j"), target), first}
	}
	answers := []string{"-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"}
	gateway := Gateway(cidr).Addr().String()
	return []rule{
		r("filter", "FORWARD", true, "ACCEPT", "-i", bridge, "-o", bridge),
		r("filter", "FORWARD", true, "ACCEPT", append([]string{"-o", bridge}, answers...)...),
		r("filter", "FORWARD", true, "DROP", "-o", bridge),
		r("filter", "FORWARD", true, "DROP", "-i", bridge, "-o", site.BridgePrefix+"+"),
		r("filter", "FORWARD", true, "ACCEPT", "-i", bridge),
		r("filter", "INPUT", true, "ACCEPT", append([]string{"-i", bridge}, answers...)...),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-d", gateway, "-p", "tcp", "-m", "multiport", "--dports", list(servedPorts())),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-p", "udp", "-m", "udp", "--dport", "53"),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-p", "tcp", "-m", "tcp", "--dport", "53"),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-p", "icmp"),
		r("filter", "INPUT", true, "DROP", "-i", bridge),
		r("nat", "POSTROUTING", false, "MASQUERADE", "-s", cidr.String(), "!", "-o", bridge),
	}
}

// list returns ports as iptables lists them.
func list(ports []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ports)), ","), "[]")
}

// enclosureRules lets machines reach each other, and some ports of this host's addresses on
// their bridge, and nothing else. Nothing outside reaches them through the host. Only they
// and the host's root reach address, the host's own. The order matters.
func enclosureRules(bridge string, address netip.Addr, tcp, udp []int) []rule {
	r := func(chain, target string, args ...string) rule {
		return rule{"filter", chain, append(append(args, "-m", "comment", "--comment", bridge, "-j"), target), true}
	}
	own := func(args ...string) []string {
		return append([]string{"-i", bridge, "-m", "addrtype", "--dst-type", "LOCAL", "--limit-iface-in"}, args...)
	}
	return []rule{
		r("FORWARD", "ACCEPT", "-i", bridge, "-o", bridge),
		r("FORWARD", "DROP", "-i", bridge),
		r("FORWARD", "DROP", "-o", bridge),
		r("INPUT", "ACCEPT", "-i", bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"),
		r("INPUT", "ACCEPT", own("-p", "tcp", "-m", "multiport", "--dports", list(tcp))...),
		r("INPUT", "ACCEPT", own("-p", "udp", "-m", "multiport", "--dports", list(udp))...),
		r("INPUT", "ACCEPT", own("-p", "icmp")...),
		r("INPUT", "DROP", "-i", bridge),
		r("INPUT", "DROP", "-d", address.String(), "!", "-i", "lo"),
		r("OUTPUT", "DROP", "-d", address.String(), "-m", "owner", "!", "--uid-owner", "0"),
	}
}

// formerRules returns the rules of earlier versions, which let in more.
func formerRules(bridge string, cidr netip.Prefix) []rule {
	mark := []string{"-m", "comment", "--comment", bridge, "-j", "ACCEPT"}
	return []rule{
		{table: "filter", chain: "FORWARD", args: append([]string{"-o", bridge}, mark...)},
		{table: "filter", chain: "INPUT", args: append([]string{"-i", bridge, "-d", Gateway(cidr).Addr().String()}, mark...)},
	}
}

// Masquerades reports whether the rules of Masquerade are in place.
func Masquerades(bridge string, cidr netip.Prefix) bool {
	if slices.ContainsFunc(machineRules(bridge, cidr), lacksRule) || slices.ContainsFunc(formerRules(bridge, cidr), hasRule) {
		return false
	}
	runs, err := firewalld("query", bridge)
	return !runs || err == nil
}

// Masquerade makes the host forward the packets of a network under its own address,
// or stop doing so. The program iptables is only required to start it.
func Masquerade(bridge string, cidr netip.Prefix, on bool) error {
	return setRules(bridge, machineRules(bridge, cidr), formerRules(bridge, cidr), on)
}

// Enclose confines the machines of a bridge to each other and to the given ports of the
// addresses that this host has on the bridge, or stops doing so. The first of these, address,
// is for the host's root, and not for its neighbours, which could find a way to it.
func Enclose(bridge string, address netip.Addr, tcp, udp []int, on bool) error {
	return setRules(bridge, enclosureRules(bridge, address, tcp, udp), nil, on)
}

// setRules adds or removes the rules of a bridge, and removes those of former.
func setRules(bridge string, rules, former []rule, on bool) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		if !on {
			return nil
		}
		return fault.Wrap(fault.Permanent, errors.New("the machines' network access cannot be restricted without the program iptables"), "run: apt-get install -y iptables")
	}
	if on && !slices.ContainsFunc(rules, lacksRule) && !slices.ContainsFunc(former, hasRule) {
		return setFirewalldTrust(bridge, true)
	}
	for _, r := range append(former, rules...) { // if one is missing, the order is unknown
		if hasRule(r) {
			if err := iptables(r, "-D"); err != nil {
				return err
			}
		}
	}
	for _, r := range slices.Backward(rules) { // each of those that come first is inserted before the others
		action := "-A"
		if r.prepend {
			action = "-I"
		}
		if !on {
			break
		}
		if err := iptables(r, action); err != nil {
			return err
		}
	}
	return setFirewalldTrust(bridge, on)
}

// setFirewalldTrust makes firewalld let traffic from a bridge through, or stop doing so. If firewalld runs, its
// rules apply after those of iptables, and reject traffic that they do not know; they never see
// packets that iptables' rules drop.
func setFirewalldTrust(bridge string, on bool) error {
	runs, err := firewalld("query", bridge)
	if trusted := err == nil; !runs || trusted == on {
		return nil
	}
	action := "remove"
	if on {
		action = "change"
	}
	_, err = firewalld(action, bridge)
	return err
}

// firewalld applies an action to an interface in the zone of trusted networks. It
// reports whether the host has firewalld and it runs.
func firewalld(action, link string) (runs bool, err error) {
	const program = "firewall-cmd"
	if _, err := exec.LookPath(program); err != nil {
		return false, nil
	}
	if err := exec.Command(program, "--quiet", "--state").Run(); err != nil {
		return false, nil
	}
	args := []string{"--zone=trusted", "--" + action + "-interface=" + link}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return true, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return true, nil
}

func hasRule(r rule) bool   { return iptables(r, "-C") == nil }
func lacksRule(r rule) bool { return !hasRule(r) }

func iptables(r rule, action string) error {
	args := append([]string{"-w", "-t", r.table, action, r.chain}, r.args...)
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
