package health

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/platform"
)

// Roles of nodes, as they are shown.
const (
	roleControlPlane = "control-plane"
	roleAPIServer    = "apiserver"
	roleNode         = "node"
)

// roleOf returns the role that a node's labels specify, or "". A control-plane machine may have the
// label of API servers too.
func roleOf(n *corev1.Node) string {
	for _, r := range []struct{ label, role string }{
		{labels.ControlPlane, roleControlPlane},
		{labels.APIServer, roleAPIServer},
		{"node-role.kubernetes.io/apiserver", roleAPIServer},
		{labels.Node, roleNode},
	} {
		if _, ok := n.Labels[r.label]; ok {
			return r.role
		}
	}
	return ""
}

// IsControlPlane reports whether a node belongs to the control plane, by its labels.
func IsControlPlane(n *corev1.Node) bool { return roleOf(n) == roleControlPlane }

// roleOfGroup returns the role that the nodes of a group should have, or "" if
// its machines are not nodes.
func roleOfGroup(g *api.InstanceGroup) string {
	switch g.Spec.Role {
	case api.RoleControlPlane:
		return roleControlPlane
	case api.RoleAPIServer:
		return roleAPIServer
	case api.RoleNode:
		return roleNode
	default:
		return ""
	}
}

// NodeOf finds a machine's node, by its name or by what the cloud's
// controller recorded; nil if the machine has no node.
func NodeOf(m platform.Machine, nodes []corev1.Node) *corev1.Node {
	named := "/" + m.Name
	for i := range nodes {
		if n := &nodes[i]; n.Name == m.Node && m.Node != "" || strings.HasSuffix(n.Spec.ProviderID, named) {
			return n
		}
	}
	return nil
}

// condition returns a condition of a node, or nil.
func condition(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i, c := range n.Status.Conditions {
		if c.Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// describe returns a node as it is printed.
func describe(n *corev1.Node) Node {
	out := Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone], Role: roleOf(n), Hostname: n.Labels[corev1.LabelHostname], Status: "Unknown"}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeHostName {
			out.Hostname = a.Address
		}
	}
	if c := condition(n, corev1.NodeReady); c != nil {
		out.Status = string(c.Status)
	}
	return out
}

// groupOf returns the instance group of a node: its machine's group, or the group in its label.
func (c *check) groupOf(n *corev1.Node) string {
	return cmp.Or(c.machineOf[n.Name].Group, n.Labels[api.LabelInstanceGroup])
}

// isLeaving reports whether a node's instance group was removed from the spec: its machine is kept until an
// update with --prune deletes it, and may no longer serve the cluster.
func (c *check) isLeaving(n *corev1.Node) bool {
	group := c.groupOf(n)
	return group != "" && c.groups[group] == nil
}

// instanceGroups compares each group with its machines, and the machines with the nodes.
func (c *check) instanceGroups() {
	shown := map[string]*platform.MachineGroup{}
	for i := range c.Machines {
		shown[c.Machines[i].Name] = &c.Machines[i]
	}
	for _, g := range c.Groups {
		m := shown[g.Name]
		switch {
		case !c.Counted:
			c.countNodes(g)
		case m != nil:
			c.countMachines(g, m)
			c.machines(g, m)
		case minSize(g) > 0 && g.Spec.Manager != api.ManagerKarpenter:
			c.fail(Failure{Kind: KindGroup, Name: g.Name, Group: g.Name, Message: "it does not exist in the cloud",
				Remedy: "create it: kops update cluster " + c.Cluster + " --yes"})
		}
	}
}

// minSize returns the size that a group must have.
func minSize(g *api.InstanceGroup) int {
	if g.Spec.MinSize == nil {
		return 1
	}
	return int(*g.Spec.MinSize)
}

// countNodes counts nodes on platforms that do not report machines.
func (c *check) countNodes(g *api.InstanceGroup) {
	if c.API.Problem != nil || roleOfGroup(g) == "" {
		return
	}
	have := 0
	for _, n := range c.API.Nodes {
		if n.Labels[api.LabelInstanceGroup] == g.Name {
			have++
		}
	}
	if have < minSize(g) {
		c.fail(Failure{Kind: KindGroup, Name: g.Name, Group: g.Name, Message: fmt.Sprintf("it did not have enough nodes: %d of %d", have, minSize(g))})
	}
}

// countMachines reports a group's missing machines, and the obstacle that the platform reports,
// even while no machine is missing.
func (c *check) countMachines(g *api.InstanceGroup, shown *platform.MachineGroup) {
	have, want := 0, shown.Target
	for _, m := range shown.Machines {
		if !m.Detached && !m.Spare {
			have++
		}
	}
	if g.Spec.MinSize != nil && g.Spec.Manager != api.ManagerKarpenter {
		want = max(want, minSize(g))
	}
	message := shown.Trouble
	if have < want {
		message = fmt.Sprintf("it did not have enough nodes: %d of %d machines are there%s", have, want, withReason(shown.Trouble))
	}
	if message != "" {
		c.fail(Failure{Kind: KindGroup, Name: g.Name, Group: g.Name, Message: message})
	}
}

// machines reports the machines of a group that do not run, or are not nodes.
func (c *check) machines(g *api.InstanceGroup, shown *platform.MachineGroup) {
	for _, m := range shown.Machines {
		n := NodeOf(m, c.API.Nodes)
		switch {
		case m.Detached || m.Spare:
		case !m.Running:
			f := Failure{Kind: KindMachine, Name: m.Name, Group: g.Name, Message: "it is not running; it is " + cmp.Or(m.State, "in an unknown state")}
			if m.State == "stopped" {
				f.Remedy = "start it, or delete it so that its group creates another"
			}
			c.fail(f)
		case roleOfGroup(g) == "": // it does not become a node
		case n == nil:
			c.notJoined(g, m)
		default:
			c.checkRole(g, n)
		}
	}
}

// notJoined adds the failure of a machine without a node. While the API is not available, it is not
// known which machines have one, and only the machine's own report counts.
func (c *check) notJoined(g *api.InstanceGroup, m platform.Machine) {
	start, known := c.Starts[m.Name]
	if c.API.Problem != nil && !start.Broken {
		return
	}
	f := Failure{Kind: KindMachine, Name: m.Name, Group: g.Name, Message: "it has not yet joined the cluster"}
	if c.API.Problem != nil {
		f.Message = "its boot has problems"
	}
	switch {
	case start.Down && c.API.Problem != nil:
		f.Message, f.Remedy = start.Message, c.replace(m.Name)
	case start.Down:
		f.Message, f.Remedy = "it is not a node of the cluster: "+start.Message, c.replace(m.Name)
	case known && start.Message != "":
		f.Message, f.Remedy = f.Message+": "+start.Message, start.Remedy
	}
	c.fail(f)
}

// checkRole compares a node's role with its group's.
func (c *check) checkRole(g *api.InstanceGroup, n *corev1.Node) {
	have, want := roleOf(n), roleOfGroup(g)
	switch have {
	case want:
	case "":
		c.fail(Failure{Kind: KindNode, Name: n.Name, Group: g.Name, Message: fmt.Sprintf("it lacks the label of its role, %s, which kops-controller sets", want)})
	default:
		c.fail(Failure{Kind: KindNode, Name: n.Name, Group: g.Name, Message: fmt.Sprintf("it has the role %s, but its group %s has %s", have, g.Name, want),
			Remedy: "replace the machine, or correct the labels of the node"})
	}
}

// nodes reports the nodes that are not ready, have lost their machine, or are missing a part of the
// control plane. Nodes that leave are not judged.
func (c *check) nodes() {
	running := c.staticPods()
	var workers []Failure // workers that are not ready
	for i := range c.API.Nodes {
		n := &c.API.Nodes[i]
		m, machine := c.machineOf[n.Name]
		group := c.groupOf(n)
		if c.Counted && !machine {
			c.fail(Failure{Kind: KindNode, Name: n.Name, Group: group, Message: "its machine is gone", Remedy: "if it is not removed soon: kubectl delete node " + n.Name})
			continue
		}
		if c.isLeaving(n) {
			continue
		}
		role := roleOf(n)
		if role == "" && c.groups[group] != nil {
			role = roleOfGroup(c.groups[group])
		}
		if why, remedy := c.trouble(n, m); why != "" {
			f := Failure{Kind: KindNode, Name: n.Name, Group: group, Message: fmt.Sprintf("the node of role %q is not ready: %s", role, why), Remedy: remedy}
			if role == roleNode {
				workers = append(workers, f)
			} else {
				c.fail(f)
			}
		}
		if role == roleControlPlane {
			c.controlPlane(n, group, running)
		}
	}
	if len(workers) > c.MaxUnready {
		for _, f := range workers {
			c.fail(f)
		}
	}
}

// onNode is a component and where it runs.
type onNode struct{ component, node string }

// staticPods returns the components that run in kube-system, by their label.
func (c *check) staticPods() map[onNode]bool {
	out := map[onNode]bool{}
	for _, p := range c.API.Pods {
		if p.Namespace == "kube-system" {
			out[onNode{p.Labels["k8s-app"], p.Spec.NodeName}] = true
		}
	}
	return out
}

// controlPlane reports what is missing on a control-plane machine.
func (c *check) controlPlane(n *corev1.Node, group string, running map[onNode]bool) {
	need := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	for _, e := range c.Etcd {
		for _, m := range e.EtcdMembers {
			if m.InstanceGroup != nil && *m.InstanceGroup == group {
				need = append(need, "etcd-manager-"+e.Name)
				break
			}
		}
	}
	for _, component := range need {
		if !running[onNode{component, n.Name}] {
			c.fail(Failure{Kind: KindNode, Name: n.Name, Group: group, Message: fmt.Sprintf("the control-plane node is missing its %s pod", component)})
		}
	}
}
