package drive

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/ops/pods"
	"kops.local/kops/internal/ops/roll"
	"kops.local/kops/internal/ops/roll/inplace"
)

// view returns what is currently observed.
func (d *Driver) view() roll.View {
	w := health.World{Cluster: d.Cluster.Name, Groups: d.Groups, Etcd: d.Cluster.Spec.EtcdClusters}
	machines, known := d.listing.groupsNow()
	w.Machines, w.Counted = machines, machines != nil
	fresh := false
	if d.Client != nil {
		nodes, nodesFresh := d.nodes.objects()
		pods, podsFresh := d.pods.objects()
		w.API.Nodes, w.API.Pods, fresh = nodes, pods, nodesFresh && podsFresh
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w.API.Server, w.API.Problem, w.API.Unready = d.server.Server, d.server.Problem, d.server.Unready
	w.Starts = d.starts
	v := NewView(w, d.state.ID)
	confirmHealth(v.Etcd, w, d.etcd)
	v.Now, v.API = d.Now(), fresh && d.queried && d.server.Problem == nil
	v.EtcdKnown = v.API
	if !v.API {
		v.Failures = nil
	}
	if !known {
		v.Groups = nil
	}
	v.Requests, v.Results = slices.Clone(d.requests), slices.Clone(d.results)
	for i := range v.Groups {
		g := &v.Groups[i]
		g.Machines = slices.DeleteFunc(g.Machines, func(m roll.MachineView) bool { return d.terminated[m.Name] })
		for j := range g.Machines {
			g.Machines[j].Blockers = d.drains[g.Machines[j].Name].list()
		}
	}
	return v
}

// NewView converts a view of the cluster to a rollout's view. rollout is the ID of the rollout that
// asked machines to restart.
func NewView(w health.World, rollout string) roll.View {
	v := roll.View{API: w.API.Problem == nil, EtcdKnown: w.API.Problem == nil, Failures: health.Check(w).Failures}
	if !w.Counted {
		return v
	}
	for _, mg := range w.Machines {
		g := roll.GroupView{Name: mg.Name, Target: mg.Target, Trouble: mg.Trouble}
		for _, m := range mg.Machines {
			s := roll.MachineView{Name: m.Name, Running: m.Running, Detached: m.Detached, Spare: m.Spare, Note: w.Starts[m.Name].Message}
			if n := health.NodeOf(m, w.API.Nodes); n != nil {
				addNode(&s, n, rollout)
			}
			g.Machines = append(g.Machines, s)
		}
		v.Groups = append(v.Groups, g)
	}
	v.Etcd = members(w)
	return v
}

// addNode adds a node's report about its machine.
func addNode(s *roll.MachineView, n *corev1.Node, rollout string) {
	s.Node, s.Ready, s.Cordoned, s.Tainted = n.Name, health.Unready(n) == "", n.Spec.Unschedulable, hasTaint(n)
	if s.Ready {
		s.Note = ""
	}
	asked, _, err := labels.Read[labels.Apply](n.Annotations, labels.ApplyConfig)
	if err != nil || rollout == "" || asked.Nonce != rollout {
		return // not requested by this rollout
	}
	if s.Applied, err = inplace.Result(n); err != nil {
		s.Note = err.Error()
	}
}

func hasTaint(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == labels.ScheduledForUpdate })
}

// members returns the members of the etcd clusters. A member is healthy if its pod is ready, and so
// is the API server on the same node, which uses it.
func members(w health.World) []roll.EtcdView {
	ready := map[[2]string]bool{} // by component and node
	for _, p := range w.API.Pods {
		ready[[2]string{p.Labels["k8s-app"], p.Spec.NodeName}] = pods.Ready(&p)
	}
	var out []roll.EtcdView
	for _, e := range w.Etcd {
		v := roll.EtcdView{Name: e.Name}
		for _, g := range w.Machines {
			if !slices.ContainsFunc(e.EtcdMembers, func(m api.EtcdMemberSpec) bool { return m.InstanceGroup != nil && *m.InstanceGroup == g.Name }) {
				continue
			}
			for _, m := range g.Machines {
				if m.Spare {
					continue
				}
				n := health.NodeOf(m, w.API.Nodes)
				well := n != nil && health.Unready(n) == "" && ready[[2]string{"etcd-manager-" + e.Name, n.Name}] && ready[[2]string{"kube-apiserver", n.Name}]
				v.Members = append(v.Members, roll.EtcdMember{Name: m.Name, Machine: m.Name, Healthy: well, Voter: true})
			}
		}
		for i := len(v.Members); i < len(e.EtcdMembers); i++ { // members whose machine is missing
			v.Members = append(v.Members, roll.EtcdMember{Name: fmt.Sprintf("member %d", i+1), Voter: true})
		}
		out = append(out, v)
	}
	return out
}

// confirmHealth counts members as healthy only if etcd agrees. A member that is missing from its
// cluster's report does not count.
func confirmHealth(etcd []roll.EtcdView, w health.World, reports EtcdReport) {
	group := map[string]string{} // by machine
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			group[m.Name] = g.Name
		}
	}
	for _, e := range etcd {
		of, ok := reports[e.Name]
		for i := range e.Members {
			m := &e.Members[i]
			m.Healthy = m.Healthy && (!ok || of[group[m.Machine]])
		}
	}
}
