package health

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api/status"
	"kops.local/kops/internal/platform"
)

// Reports about machines and pods, as programs receive them.
type (
	Diagnosis        = status.Diagnosis
	MachineDiagnosis = status.Machine
	PodDiagnosis     = status.Pod
	PodLog           = status.PodLog
)

// MachinesInTrouble lists the machines that do not run, have no node, or whose nodes are not
// ready, control planes first: their start reports are worth reading.
func MachinesInTrouble(w World) []platform.Machine {
	role := w.roles()
	var out []platform.Machine
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			if role[m.Group] != "" && slices.Contains([]string{"not running", "unknown", "not joined", "not ready"}, w.statusOf(m, role[m.Group])) {
				out = append(out, m)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b platform.Machine) int {
		leads := func(m platform.Machine) int {
			if role[m.Group] == roleControlPlane {
				return 0
			}
			return 1
		}
		return cmp.Compare(leads(a), leads(b))
	})
	return out
}

// roles returns the roles of the groups' nodes, by the group's name.
func (w World) roles() map[string]string {
	out := map[string]string{}
	for _, g := range w.Groups {
		out[g.Name] = roleOfGroup(g)
	}
	return out
}

// statusOf returns the state of a machine that should become a node of the role; role is "" if it
// needs no node.
func (w *World) statusOf(m platform.Machine, role string) string {
	n := NodeOf(m, w.API.Nodes)
	switch {
	case m.Spare:
		return "spare"
	case m.Detached:
		return "detached"
	case !m.Running:
		return "not running"
	case role == "":
		return "running"
	case w.API.Problem != nil:
		return "unknown"
	case n == nil:
		return "not joined"
	}
	if why, _ := w.trouble(n, m); why != "" {
		return "not ready"
	}
	return "ready"
}

// Diagnose builds a diagnosis from a view of the cluster, with at most the given number of lines of
// each console.
func Diagnose(w World, lines int) *Diagnosis {
	d := &Diagnosis{Cluster: w.Cluster, Failures: Check(w).Failures, Machines: []MachineDiagnosis{}, Pods: []PodDiagnosis{}}
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			d.Machines = append(d.Machines, diagnoseMachine(w, m, lines))
		}
	}
	slices.SortFunc(d.Machines, func(a, b MachineDiagnosis) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range w.API.Pods {
		if why := PodTrouble(&p); why != "" && critical(&p) {
			d.Pods = append(d.Pods, PodDiagnosis{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Message: why})
		}
	}
	slices.SortFunc(d.Pods, func(a, b PodDiagnosis) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return d
}

func diagnoseMachine(w World, m platform.Machine, lines int) MachineDiagnosis {
	out := MachineDiagnosis{Name: m.Name, Group: m.Group, Addresses: m.Addresses, State: m.State, Created: m.Created, Status: w.statusOf(m, w.roles()[m.Group])}
	start := w.Starts[m.Name]
	out.Boot, out.Console = start.Report, start.Console[max(0, len(start.Console)-lines):]
	n := NodeOf(m, w.API.Nodes)
	if n != nil {
		out.Node = n.Name
		out.Message, out.Remedy = w.trouble(n, m)
	}
	switch {
	case start.Down && n == nil:
		out.Message, out.Remedy = start.Message, w.replace(m.Name)
	case w.API.Problem != nil && start.Report != nil && start.Report.Done && !start.Broken:
		out.Message = "it has booted; its node's state is unknown while the API does not answer"
	case n == nil || start.Broken && out.Message == "":
		out.Message, out.Remedy = start.Message, start.Remedy
	}
	return out
}

// Limit removes everything that is not about one machine.
func Limit(d *Diagnosis, m platform.Machine) {
	d.Machines = slices.DeleteFunc(d.Machines, func(x MachineDiagnosis) bool { return x.Name != m.Name })
	node := m.Node
	if len(d.Machines) > 0 {
		node = cmp.Or(d.Machines[0].Node, node)
	}
	d.Failures = slices.DeleteFunc(d.Failures, func(f Failure) bool {
		return f.Name != m.Name && f.Name != node && f.Kind != KindAPI && f.Kind != KindDNS
	})
	d.Pods = slices.DeleteFunc(d.Pods, func(p PodDiagnosis) bool { return p.Node != node })
}

// ReadLogs adds the last log lines of a pod's containers that are not ready; for a crashed
// container, they are from its previous run, which is more informative.
func (a *API) ReadLogs(ctx context.Context, p *corev1.Pod, d *PodDiagnosis, lines int) {
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		if s.Ready || s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 || s.ContainerID == "" && s.RestartCount == 0 {
			continue
		}
		log := PodLog{Container: s.Name, Previous: s.State.Running == nil && s.State.Terminated == nil && s.LastTerminationState.Terminated != nil}
		text, err := a.Log(ctx, p.Namespace, p.Name, s.Name, lines, log.Previous)
		log.Lines = text
		if err != nil {
			log.Error = err.Error()
		}
		d.Logs = append(d.Logs, log)
	}
}
