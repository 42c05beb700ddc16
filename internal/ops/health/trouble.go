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

// pressure is a condition that keeps a node from working although its kubelet reports that it is
// ready.
type pressure struct {
	kind    corev1.NodeConditionType
	message string
	remedy  string
}

func pressures() []pressure {
	return []pressure{
		{corev1.NodeNetworkUnavailable, "its network is not ready", "look at the pods of the cluster's network in kube-system; where kops sets the routes (kubenet), look at kops-controller"},
		{corev1.NodeDiskPressure, "its disk is almost full, so it takes no new pods and evicts others", "free space on it (logs, images, emptyDir volumes), or give its group a larger disk (spec.rootVolumeSize)"},
		{corev1.NodeMemoryPressure, "its memory is almost used up, so it takes no new pods and evicts others", "limit the memory of its pods, or give its group a larger machine type (spec.machineType)"},
		{corev1.NodePIDPressure, "it runs almost as many processes as it can, so it takes no new pods and evicts others", "find the pods with many processes, or limit them (spec.kubelet.podPidsLimit)"},
	}
}

// underPressure returns a node's first such condition, or nil if it has none.
func underPressure(n *corev1.Node) (*pressure, *corev1.NodeCondition) {
	for _, p := range pressures() {
		if c := condition(n, p.kind); c != nil && c.Status == corev1.ConditionTrue {
			return &p, c
		}
	}
	return nil, nil
}

// Unready says why a node is not ready, or "" if it is. A node under pressure is not ready.
func Unready(n *corev1.Node) string {
	c := condition(n, corev1.NodeReady)
	switch {
	case c == nil:
		return "its kubelet has not reported yet"
	case c.Status != corev1.ConditionTrue:
		return reasonAndMessage(c.Reason, c.Message)
	}
	if p, c := underPressure(n); p != nil {
		return p.message + withReason(reasonAndMessage(c.Reason, c.Message))
	}
	return ""
}

// trouble says what is wrong with a node and its machine, and what helps; "" if nothing is.
func (w *World) trouble(n *corev1.Node, m platform.Machine) (message, remedy string) {
	start, why := w.Starts[m.Name], Unready(n)
	ready := condition(n, corev1.NodeReady)
	created := m.Created.Truncate(time.Second) // heartbeats are whole seconds
	if why == "" && ready.LastHeartbeatTime.Time.Before(created) && !ready.LastHeartbeatTime.IsZero() {
		why = "its kubelet has not reported since the machine was created at " + m.Created.UTC().Format(time.RFC3339)
	}
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
		if p, _ := underPressure(n); p != nil && ready.Status == corev1.ConditionTrue {
			remedy = p.remedy
		}
		return why, remedy
	case w.API.isSilent(n):
		return "its API server is not among those that serve the cluster", w.replace(m.Name)
	}
	return "", ""
}

// replace returns the remedy for a machine that does not recover.
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

// isSilent reports whether a node should serve the API, but does not. Each API server renews its
// address in the Service kubernetes as long as it serves. If no node has any of these addresses,
// they are not node addresses, and nothing follows from them.
func (s *Observation) isSilent(n *corev1.Node) bool {
	role := roleOf(n)
	if role != roleControlPlane && role != roleAPIServer || s.isServing(n) {
		return false
	}
	return slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return s.isServing(&n) })
}

func (s *Observation) isServing(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
		address, err := netip.ParseAddr(a.Address)
		return err == nil && slices.Contains(s.Serving, address)
	})
}

// fromDown says which parts are down on a machine that has started.
func (s *Start) fromDown(down []report.Down) {
	var parts []string
	for _, d := range down {
		text := fmt.Sprintf("its %s has been down since %s: %s", d.Name, d.Since.UTC().Format(time.RFC3339), lastLine(d.Error))
		if l := errorLine(strings.Join(d.Log, "\n")); l != "" {
			text += "; its log says: " + l
		}
		parts = append(parts, text)
	}
	s.Message, s.Broken, s.Down = strings.Join(parts, "; "), true, true
}
