package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"kops.local/kops/internal/fault"
)

// rule is one rule of the host's firewall.
type rule struct {
	table string
	chain string
	args  []string
	first bool
}

// rules let machines reach the world and the host's address in their network,
// and each other on hosts whose firewall sees what passes a bridge. Each carries
// the bridge's name as its mark.
func rules(bridge string, cidr netip.Prefix) []rule {
	mark := []string{"-m", "comment", "--comment", bridge, "-j"}
	r := func(table, chain string, first bool, target string, args ...string) rule {
		return rule{table, chain, append(append(args, mark...), target), first}
	}
	return []rule{
		r("filter", "FORWARD", true, "ACCEPT", "-i", bridge),
		r("filter", "FORWARD", true, "ACCEPT", "-o", bridge),
		r("filter", "INPUT", true, "ACCEPT", "-i", bridge, "-d", Gateway(cidr).Addr().String()),
		r("nat", "POSTROUTING", false, "MASQUERADE", "-s", cidr.String(), "!", "-o", bridge),
	}
}

// Masquerades reports whether the rules of Masquerade are there.
func Masquerades(bridge string, cidr netip.Prefix) bool {
	for _, r := range rules(bridge, cidr) {
		if iptables(r, "-C") != nil {
			return false
		}
	}
	runs, err := firewalld("query", bridge)
	return !runs || err == nil
}

// Masquerade makes the host pass the packets of a network on under its own
// address, or no longer. It needs the program iptables only to begin.
func Masquerade(bridge string, cidr netip.Prefix, on bool) error {
	if _, err := exec.LookPath("iptables"); err != nil {
		if !on {
			return nil
		}
		return fault.Wrap(fault.Permanent, errors.New("machines cannot reach the world without the program iptables"), "run: apt-get install -y iptables")
	}
	for _, r := range rules(bridge, cidr) {
		has := iptables(r, "-C") == nil
		switch {
		case on && !has && r.first:
			if err := iptables(r, "-I"); err != nil {
				return err
			}
		case on && !has:
			if err := iptables(r, "-A"); err != nil {
				return err
			}
		case !on && has:
			if err := iptables(r, "-D"); err != nil {
				return err
			}
		}
	}
	return trust(bridge, on)
}

// trust makes firewalld let through what comes from a bridge, or no longer. Where
// that firewall runs its rules come after those of iptables, and refuse what they
// do not know themselves.
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

func iptables(r rule, action string) error {
	args := append([]string{"-w", "-t", r.table, action, r.chain}, r.args...)
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
