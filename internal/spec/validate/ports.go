package validate

import (
	"fmt"
	"reflect"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/api/compat"
)

// portNumbers checks that the number of every port is one.
func portNumbers(c *Check) {
	eachField("spec", reflect.ValueOf(c.Spec), func(path string, _ reflect.StructField, v reflect.Value) bool {
		if !strings.HasSuffix(strings.ToLower(path), "port") {
			return true
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.CanInt() && (v.Int() < 0 || v.Int() > 65535) {
			c.Bad(compat.OlderPath(api.KindCluster, path), Number(v.Int()), "is not a port", "write a number from 1 to 65535, or remove it")
		}
		return true
	})
}

// hostPort is a port that a program of a pod network listens on, at the address of the machine.
type hostPort struct {
	number int
	by     string
	on     bool
}

// free checks that no other program listens on a port; 0 is not a port.
func (c *Check) free(path string, port int, others ...hostPort) {
	for _, o := range append(others, hostPort{10250, "the kubelet", true}) {
		if o.on && port != 0 && o.number == port {
			c.Bad(path, fmt.Sprint(port), "is a port that "+o.by+" uses on the same machines", "choose another port")
			return
		}
	}
}

// ciliumPorts checks the port of the agents' metrics. The other ports are in the add-on's manifest
// or, for the probes between nodes, Cilium's own.
func ciliumPorts(c *Check) {
	k := c.Spec.Networking.Cilium
	if k == nil || !k.EnablePrometheusMetrics {
		return
	}
	hubble := k.Hubble != nil && isTrue(k.Hubble.Enabled)
	c.free(ciliumPath+"agentPrometheusPort", k.AgentPrometheusPort,
		hostPort{4240, "Cilium's health checks between nodes", true},
		hostPort{4244, "Hubble", hubble},
		hostPort{9234, "the API of Cilium's operator", true},
		hostPort{9879, "the health check of Cilium's agents", true},
		hostPort{9963, "the metrics of Cilium's operator", true},
		hostPort{9964, "the metrics of Envoy", true},
		hostPort{9965, "the metrics of Hubble", hubble && len(k.Hubble.Metrics) > 0},
	)
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
		{179, "BIRD", k.EncapsulationMode == "ipip"},
		{5473, "Typha", typha},
		{9098, "the health check of Typha", typha},
		{9099, "the health check of Calico's agents", true},
	}
	felix, ofTypha := hostPort{felixMetrics, "the metrics of Calico's agents", k.PrometheusMetricsEnabled}, typha && k.TyphaPrometheusMetricsEnabled
	if k.PrometheusMetricsPort != 0 {
		felix.number = int(k.PrometheusMetricsPort)
	}
	if felix.on {
		c.free(path+"prometheusMetricsPort", felix.number, append(others, hostPort{typhaMetrics, "the metrics of Typha", ofTypha && k.TyphaPrometheusMetricsPort == 0})...)
	}
	if ofTypha {
		c.free(path+"typhaPrometheusMetricsPort", int(k.TyphaPrometheusMetricsPort), append(others, felix)...)
	}
}
