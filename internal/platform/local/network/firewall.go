package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/local/localcloud"
	"kops.local/kops/internal/platform/local/site"
)

// rule is one rule of the host's firewall.
type rule struct {
	table string
	chain string
	args  []string
	first bool // before all that the host has of its own
}

// served are the ports of the host's address in their network that machines use: the
// API's load balancer, and the mirror of what they fetch.
func served() []string {
	return []string{"443", strconv.Itoa(ports.Controller), strconv.Itoa(localcloud.MirrorPort)}
}

// rules let machines reach the world, what serves them at the host's address in their
// network, and each other on hosts whose firewall sees what passes a bridge. Nobody
// reaches machines through the host, other clusters neither, and machines reach nothing
// else of the host: what it binds to all its addresses is not for every pod. Those that come first are
// in the order in which they count. Each carries the bridge's name as its mark.
func rules(bridge string, cidr netip.Prefix) []rule {
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
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-d", gateway, "-p", "tcp", "-m", "multiport", "--dports", strings.Join(served(), ",")),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-p", "udp", "-m", "udp", "--dport", "53"),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-p", "tcp", "-m", "tcp", "--dport", "53"),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-p", "icmp"),
		r("filter", "INPUT", true, "DROP", "-i", bridge),
		r("nat", "POSTROUTING", false, "MASQUERADE", "-s", cidr.String(), "!", "-o", bridge),
	}
}

// enclosure lets machines reach each other, and this host's addresses on their bridge at
// some ports, and nothing else; nobody reaches them through the host, nor its own address,
// but they and root of this host. The order counts.
func enclosure(bridge string, address netip.Addr, tcp, udp []int) []rule {
	r := func(chain, target string, args ...string) rule {
		return rule{"filter", chain, append(append(args, "-m", "comment", "--comment", bridge, "-j"), target), true}
	}
	list := func(ports []int) string {
		return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ports)), ","), "[]")
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

// former are the rules that earlier versions made, which let in more.
func former(bridge string, cidr netip.Prefix) []rule {
	mark := []string{"-m", "comment", "--comment", bridge, "-j", "ACCEPT"}
	return []rule{
		{table: "filter", chain: "FORWARD", args: append([]string{"-o", bridge}, mark...)},
		{table: "filter", chain: "INPUT", args: append([]string{"-i", bridge, "-d", Gateway(cidr).Addr().String()}, mark...)},
	}
}

// Masquerades reports whether the rules of Masquerade are there.
func Masquerades(bridge string, cidr netip.Prefix) bool {
	if slices.ContainsFunc(rules(bridge, cidr), absent) || slices.ContainsFunc(former(bridge, cidr), present) {
		return false
	}
	runs, err := firewalld("query", bridge)
	return !runs || err == nil
}

// Masquerade makes the host pass the packets of a network on under its own
// address, or no longer. It needs the program iptables only to begin.
func Masquerade(bridge string, cidr netip.Prefix, on bool) error {
	return set(bridge, rules(bridge, cidr), former(bridge, cidr), on)
}

// Enclose keeps the machines of a bridge among themselves and, at the ports that are given,
// the addresses that this host has on the bridge; or no longer. The first of these, address,
// is for root of this host, and not for its neighbours, which could find a way to it.
func Enclose(bridge string, address netip.Addr, tcp, udp []int, on bool) error {
	return set(bridge, enclosure(bridge, address, tcp, udp), nil, on)
}

// set adds or removes the rules of a bridge, and removes former ones.
func set(bridge string, rules, former []rule, on bool) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		if !on {
			return nil
		}
		return fault.Wrap(fault.Permanent, errors.New("the machines' network access cannot be restricted without the program iptables"), "run: apt-get install -y iptables")
	}
	if on && !slices.ContainsFunc(rules, absent) && !slices.ContainsFunc(former, present) {
		return trust(bridge, true)
	}
	for _, r := range append(former, rules...) { // where one is missing, the order is not known
		if present(r) {
			if err := iptables(r, "-D"); err != nil {
				return err
			}
		}
	}
	for _, r := range slices.Backward(rules) { // each that comes first is put before the others
		action := "-A"
		if r.first {
			action = "-I"
		}
		if !on {
			break
		}
		if err := iptables(r, action); err != nil {
			return err
		}
	}
	return trust(bridge, on)
}

// trust makes firewalld let traffic from a bridge through, or no longer. If that firewall runs its
// rules come after iptables', and refuse traffic that they do not know themselves; they never see
// the packets that iptables' rules drop.
func trust(bridge string, on bool) error {
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

// firewalld does something with an interface and the zone of trusted networks. It
// reports whether the host has that firewall and it runs.
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

func present(r rule) bool { return iptables(r, "-C") == nil }
func absent(r rule) bool  { return !present(r) }

func iptables(r rule, action string) error {
	args := append([]string{"-w", "-t", r.table, action, r.chain}, r.args...)
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
