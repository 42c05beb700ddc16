package validate

import (
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/spec/fields"
)

// portNumbers checks that the number of every port is one.
func portNumbers(c *Check, spec reflect.Value) {
	fields.Each("spec", spec, func(path string, _ reflect.StructField, v reflect.Value) bool {
		if !strings.HasSuffix(strings.ToLower(path), "port") {
			return true
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.CanInt() && (v.Int() < 0 || v.Int() > 65535) {
			c.Bad(c.older(path), Number(v.Int()), notAPort, validPort)
		}
		return true
	})
}

// What is wrong with a number that is not a port, and what to do.
const (
	notAPort  = "is not a port"
	validPort = "write a number from 1 to 65535, or remove it"
)

// hostPort is a port that a program of a pod network listens on, at the address of the machine.
type hostPort struct {
	number int
	by     string
	on     bool
}

// free checks that no other program listens on the port in a value; 0 is not a port.
func (c *Check) free(path, value string, port int, others ...hostPort) {
	for _, o := range append(others, hostPort{ports.Kubelet, "the kubelet", true}) {
		if o.on && port != 0 && o.number == port {
			c.Bad(path, value, "is a port that "+o.by+" uses on the same machines", "choose another port")
			return
		}
	}
}

// ciliumPorts checks the port of the agents' metrics. The other ports are in the add-on's manifest
// or, for the probes between nodes, Cilium's own.
func ciliumPorts(c *Check) {
	k := c.Spec.Networking.Cilium
	if k == nil {
		return
	}
	hubble := k.Hubble != nil && IsTrue(k.Hubble.Enabled)
	pods := []hostPort{ // which the manifest reserves
		{4244, "Hubble", hubble},
		{9963, "the metrics of Cilium's operator", k.EnablePrometheusMetrics},
		{9964, "the metrics of Envoy", k.EnablePrometheusMetrics},
		{9965, "the metrics of Hubble", hubble && len(k.Hubble.Metrics) > 0},
	}
	all := append(slices.Clone(pods),
		hostPort{4240, "Cilium's health checks between nodes", true},
		hostPort{9234, "the API of Cilium's operator", true},
		hostPort{9879, "the health check of Cilium's agents", true},
	)
	address, isOverridden := k.ExtraConfig["prometheus-serve-addr"]
	if k.EnablePrometheusMetrics {
		others := all
		if isOverridden { // the manifest still reserves the port
			others = pods
		}
		c.free(ciliumPath+"agentPrometheusPort", Number(k.AgentPrometheusPort), k.AgentPrometheusPort, others...)
	}
	if isOverridden {
		c.freeAddress(ciliumPath+"extraConfig[prometheus-serve-addr]", address, all...)
	}
}

// freeAddress checks that no other program listens on the port of an address such as :9090. Other
// programs can listen on the same port of another address of the machine.
func (c *Check) freeAddress(path, address string, others ...hostPort) {
	i := strings.LastIndexByte(address, ':')
	port, err := strconv.Atoi(address[i+1:])
	if i < 0 || err != nil {
		return // what its reader makes of it is not known
	}
	if port < 0 || port > 65535 {
		c.Bad(path, address, notAPort, validPort)
		return
	}
	host, err := netip.ParseAddr(strings.Trim(address[:i], "[]"))
	if i == 0 || err == nil && host.IsUnspecified() {
		c.free(path, address, port, others...)
	}
}

// Default ports of the metrics of Calico's programs.
const (
	felixMetrics = 9091
	typhaMetrics = 9093
)

// calicoPorts checks the ports of the metrics of Calico's agents and of Typha. The other ports are
// in the add-on's manifest, or Calico's own.
func calicoPorts(c *Check) {
	k := c.Spec.Networking.Calico
	if k == nil {
		return
	}
	const path = "spec.networking.calico."
	typha := k.TyphaReplicas > 0
	others := []hostPort{
		{ports.BGP, "BIRD", k.EncapsulationMode == "ipip"},
		{5473, "Typha", typha},
		{9098, "the health check of Typha", typha},
		{9099, "the health check of Calico's agents", true},
	}
	felix, ofTypha := hostPort{felixMetrics, "the metrics of Calico's agents", k.PrometheusMetricsEnabled}, typha && k.TyphaPrometheusMetricsEnabled
	if k.PrometheusMetricsPort != 0 {
		felix.number = int(k.PrometheusMetricsPort)
	}
	if felix.on {
		c.free(path+"prometheusMetricsPort", Number(felix.number), felix.number, append(others, hostPort{typhaMetrics, "the metrics of Typha", ofTypha && k.TyphaPrometheusMetricsPort == 0})...)
	}
	if ofTypha {
		c.free(path+"typhaPrometheusMetricsPort", Number(k.TyphaPrometheusMetricsPort), int(k.TyphaPrometheusMetricsPort), append(others, felix)...)
	}
}
