package health

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform"
)

// pressure is a condition that keeps a node from its work while its kubelet says that it is ready.
type pressure struct {
	kind   corev1.NodeConditionType
	says   string
	remedy string
}

func pressures() []pressure {
	return []pressure{
		{corev1.NodeNetworkUnavailable, "its network is not ready", "look at the pods of the cluster's network in kube-system; where kops sets the routes (kubenet), look at kops-controller"},
		{corev1.NodeDiskPressure, "its disk is almost full, so it takes no new pods and evicts others", "free space on it (logs, images, emptyDir volumes), or give its group a larger disk (spec.rootVolume.size)"},
		{corev1.NodeMemoryPressure, "its memory is almost used up, so it takes no new pods and evicts others", "limit the memory of its pods, or give its group a larger machine type (spec.machineType)"},
		{corev1.NodePIDPressure, "it runs almost as many processes as it can, so it takes no new pods and evicts others", "find the pods with many processes, or limit them (spec.kubelet.podPidsLimit)"},
	}
}

// pressed returns the first such condition that a node has, and nil when it has none.
func pressed(n *corev1.Node) (*pressure, *corev1.NodeCondition) {
	for _, p := range pressures() {
		if c := condition(n, p.kind); c != nil && c.Status == corev1.ConditionTrue {
			return &p, c
		}
	}
	return nil, nil
}

// Unready says why a node is not ready, or "" when it is. A node under pressure is not.
func Unready(n *corev1.Node) string {
	c := condition(n, corev1.NodeReady)
	switch {
	case c == nil:
		return "its kubelet has not reported yet"
	case c.Status != corev1.ConditionTrue:
		return reasonAndMessage(c.Reason, c.Message)
	}
	if p, c := pressed(n); p != nil {
		return p.says + because(reasonAndMessage(c.Reason, c.Message))
	}
	return ""
}

// trouble says what is wrong with a node and its machine, and what helps; "" when nothing is.
func (w *World) trouble(n *corev1.Node, m platform.Machine) (message, remedy string) {
	start, why := w.Starts[m.Name], Unready(n)
	ready := condition(n, corev1.NodeReady)
	switch {
	case why != "" && start.Down:
		return why + "; " + start.Message, w.replace(m.Name)
	case why != "" && start.Broken:
		return why + "; " + start.Message, start.Remedy
	case start.Down:
		return start.Message, w.replace(m.Name)
	case ready != nil && ready.Status == corev1.ConditionUnknown:
		return why, w.replace(m.Name)
	case why != "":
		if p, _ := pressed(n); p != nil && ready.Status == corev1.ConditionTrue {
			remedy = p.remedy
		}
		return why, remedy
	case w.API.silent(n):
		return "its API server is not among those that serve the cluster", w.replace(m.Name)
	}
	return "", ""
}

// replace is the remedy for a machine that does not recover.
func (w *World) replace(machine string) string {
	if machine == "" {
		return ""
	}
	cloud := ""
	if w.API.Problem != nil { // it cannot be drained
		cloud = " --cloudonly"
	}
	return fmt.Sprintf("see the end of its log: kops doctor %s; if it does not recover, replace it: kops delete instance %s --name %s%s --yes", w.Cluster, machine, w.Cluster, cloud)
}

// silent reports whether a node is to serve the API, and does not. Each API server renews its
// address in the Service kubernetes as long as it serves. Where no node has any of these
// addresses, they are others than the nodes', and tell nothing.
func (s *Seen) silent(n *corev1.Node) bool {
	role := roleOf(n)
	if role != roleControlPlane && role != roleAPIServer || s.serves(n) {
		return false
	}
	return slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return s.serves(&n) })
}

func (s *Seen) serves(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		address, err := netip.ParseAddr(a.Address)
		return err == nil && slices.Contains(s.Serving, address)
	})
}

// fromDown says which parts of a machine that has started are down.
func (s *Start) fromDown(down []report.Down) {
	var parts []string
	for _, d := range down {
		text := fmt.Sprintf("its %s has been down since %s: %s", d.Name, d.Since.UTC().Format(time.RFC3339), line(d.Error))
		if l := telling(d.Log); l != "" {
			text += "; its log says: " + l
		}
		parts = append(parts, text)
	}
	s.Message, s.Broken, s.Down = strings.Join(parts, "; "), true, true
}

// telling is the line of the end of a log that says most: the last error, as Kubernetes'
// programs mark them, or else the last line.
func telling(log []string) string {
	for _, l := range slices.Backward(log) {
		if len(l) > 5 && (l[0] == 'E' || l[0] == 'F') && strings.Trim(l[1:5], "0123456789") == "" {
			return line(l)
		}
	}
	return line(strings.Join(log, "\n"))
}
