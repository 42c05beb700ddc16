package health

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform"
)

// healthy returns a healthy cluster with one control plane and two workers.
func healthy() World {
	w := World{Cluster: "a.example.com", Counted: true, Groups: []*api.InstanceGroup{
		group("cp", api.RoleControlPlane, 1), group("nodes", api.RoleNode, 2), group("bastions", api.RoleBastion, 1)},
		Etcd: []api.EtcdClusterSpec{{Name: "main", EtcdMembers: []api.EtcdMemberSpec{{InstanceGroup: new("cp")}}}},
		Machines: []platform.MachineGroup{
			{Name: "cp", Target: 1, Machines: []platform.Machine{machine("cp", "cp-0")}},
			{Name: "nodes", Target: 2, Machines: []platform.Machine{machine("nodes", "n-0"), machine("nodes", "n-1")}},
			{Name: "bastions", Target: 1, Machines: []platform.Machine{machine("bastions", "b-0")}}},
		API: Observation{Server: "https://a", Nodes: []corev1.Node{node("cp-0", "control-plane"), node("n-0", "node"), node("n-1", "node")}},
	}
	for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd-manager-main"} {
		w.API.Pods = append(w.API.Pods, pod("kube-system/"+c+"-cp-0", c, "cp-0", clusterCritical))
	}
	w.API.Pods = append(w.API.Pods, pod("kube-system/kube-proxy-n-0", "kube-proxy", "n-0", nodeCritical), pod("apps/web", "web", "n-0", ""))
	return w
}

func group(name string, role api.InstanceGroupRole, size int32) *api.InstanceGroup {
	g := &api.InstanceGroup{Spec: api.InstanceGroupSpec{Role: role, MinSize: &size, MaxSize: &size}}
	g.Name = name
	return g
}

func machine(group, name string) platform.Machine {
	return platform.Machine{Name: name, Group: group, Node: name, State: "running", Running: true}
}

func node(name, role string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/" + role: ""}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}}
}

func pod(name, app, node, class string) corev1.Pod {
	ns, name, _ := strings.Cut(name, "/")
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"k8s-app": app}},
		Spec:   corev1.PodSpec{NodeName: node, PriorityClassName: class},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: app, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
}

func notReady(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "container runtime network not ready"}}
}

func setPressure(n *corev1.Node, kind corev1.NodeConditionType) {
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "Why", Message: "what"})
}

// setSilent gives a node a kubelet that no longer reports.
func setSilent(n *corev1.Node) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}}
}

// startWithDown returns the start of a machine with a part that is down.
func startWithDown(part string) Start {
	return ReadStart(platform.BootRecord{Report: boot(report.Report{Done: true, Down: []report.Down{{Name: part, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Error: "it does not run", Log: []string{"I0102 starting", "E0102 no such file", "I0102 bye"}}}})})
}

// addControlPlane gives the cluster a second control-plane machine; both serve.
func addControlPlane(w *World) {
	w.API.Nodes = append(w.API.Nodes, node("cp-1", "control-plane"))
	w.Machines[0].Target, w.Machines[0].Machines = 2, append(w.Machines[0].Machines, machine("cp", "cp-1"))
	for _, c := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd-manager-main"} {
		w.API.Pods = append(w.API.Pods, pod("kube-system/"+c+"-cp-1", c, "cp-1", clusterCritical))
	}
	for i, address := range map[int]string{0: "10.0.0.1", 3: "10.0.0.2"} {
		w.API.Nodes[i].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	}
	w.API.Serving = []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
}

// setWaiting makes the containers of a pod wait.
func setWaiting(p *corev1.Pod, reason, message string) {
	s := &p.Status.ContainerStatuses[0]
	s.Ready, s.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func TestCheck(t *testing.T) {
	broken := ReadStart(platform.BootRecord{Report: boot(report.Report{Phases: []report.Phase{{Name: "identify", State: report.Passed},
		{Name: "download", State: report.Failed, Attempts: 3, Error: "fetch kubelet: 404", Remedy: "put it there"}}})})
	for _, c := range []struct {
		name string
		do   func(*World)
		want []string // kind name [group]: message
	}{
		{"all is well", func(*World) {}, nil},
		{"a group the cloud has not", func(w *World) { w.Machines = w.Machines[:2] },
			[]string{"InstanceGroup bastions [bastions]: it does not exist in the cloud; create it: kops update cluster a.example.com --yes"}},
		{"a group that may be empty", func(w *World) { w.Groups = append(w.Groups, group("none", api.RoleNode, 0)) }, nil},
		{"too few machines, and the reason", func(w *World) {
			w.Machines[1].Machines, w.Machines[1].Target, w.Machines[1].Trouble = w.Machines[1].Machines[:1], 3, "no capacity"
			w.API.Nodes = w.API.Nodes[:2]
		}, []string{"InstanceGroup nodes [nodes]: it did not have enough nodes: 1 of 3 machines are there: no capacity"}},
		{"trouble of a group that has its machines", func(w *World) { w.Machines[1].Trouble = "nothing keeps them" },
			[]string{"InstanceGroup nodes [nodes]: nothing keeps them"}},
		{"spare and detached machines do not count", func(w *World) {
			w.Machines[1].Machines[0].Spare, w.Machines[1].Machines[1].Detached = true, true
		}, []string{"InstanceGroup nodes [nodes]: it did not have enough nodes: 0 of 2 machines are there"}},
		{"a machine that stopped", func(w *World) {
			w.Machines[1].Machines[1].Running, w.Machines[1].Machines[1].State = false, "stopped"
			w.API.Nodes = w.API.Nodes[:2]
		}, []string{"Machine n-1 [nodes]: it is not running; it is stopped; start it, or delete it so that its group creates another"}},
		{"a machine that has not joined", func(w *World) { w.API.Nodes = w.API.Nodes[:2] },
			[]string{"Machine n-1 [nodes]: it has not yet joined the cluster"}},
		{"the phase in which it broke", func(w *World) {
			w.API.Nodes, w.Starts = w.API.Nodes[:2], map[string]Start{"n-1": broken}
		}, []string{"Machine n-1 [nodes]: it has not yet joined the cluster: its boot failed in the phase download: fetch kubelet: 404; put it there"}},
		{"a node found by the cloud's name of its machine", func(w *World) {
			w.API.Nodes[2].Name, w.API.Nodes[2].Spec.ProviderID = "ip-10-0-0-1", "aws:///us-east-1a/n-1"
		}, nil},
		{"a node without its machine", func(w *World) { w.API.Nodes = append(w.API.Nodes, node("old", "node")) },
			[]string{"Node old: its machine is gone; if it is not removed soon: kubectl delete node old"}},
		{"a machine that has the name and the node of the one before", func(w *World) {
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			w.Machines[1].Machines[0].Created = at
			w.API.Nodes[1].Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at.Add(-time.Second))
			w.Machines[1].Machines[1].Created = at.Add(900 * time.Millisecond)
			w.API.Nodes[2].Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at) // a whole second
		}, []string{`Node n-0 [nodes]: the node of role "node" is not ready: its kubelet has not reported since the machine was created at 2026-01-02T03:04:05Z`}},
		{"a platform that shows no machines", func(w *World) { w.Counted, w.Machines = false, nil },
			[]string{"InstanceGroup cp [cp]: it did not have enough nodes: 0 of 1", "InstanceGroup nodes [nodes]: it did not have enough nodes: 0 of 2"}},
		{"and nodes of the label", func(w *World) {
			w.Counted, w.Machines = false, nil
			for i, g := range []string{"cp", "nodes", "nodes"} {
				w.API.Nodes[i].Labels[api.LabelInstanceGroup] = g
			}
		}, nil},
		{"a node that is not ready", func(w *World) { notReady(&w.API.Nodes[1]) },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: KubeletNotReady: container runtime network not ready`}},
		{"a node that told nothing", func(w *World) { w.API.Nodes[1].Status.Conditions = nil },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: its kubelet has not reported yet`}},
		{"a node without network", func(w *World) {
			w.API.Nodes[1].Status.Conditions = append(w.API.Nodes[1].Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"})
		}, []string{`Node n-0 [nodes]: the node of role "node" is not ready: its network is not ready: NoRouteCreated`}},
		{"a full disk", func(w *World) { setPressure(&w.API.Nodes[1], corev1.NodeDiskPressure) },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: its disk is almost full, so it takes no new pods and evicts others: Why: what; free space on it (logs, images, emptyDir volumes), or give its group a larger disk (spec.rootVolumeSize)`}},
		{"no memory", func(w *World) { setPressure(&w.API.Nodes[0], corev1.NodeMemoryPressure) },
			[]string{`Node cp-0 [cp]: the node of role "control-plane" is not ready: its memory is almost used up, so it takes no new pods and evicts others: Why: what; limit the memory`}},
		{"too many processes", func(w *World) { setPressure(&w.API.Nodes[1], corev1.NodePIDPressure) },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: it runs almost as many processes as it can, so it takes no new pods and evicts others: Why: what; find the pods`}},
		{"one full disk is excused", func(w *World) { w.MaxUnready = 1; setPressure(&w.API.Nodes[1], corev1.NodeDiskPressure) }, nil},
		{"a kubelet that has gone silent", func(w *World) { setSilent(&w.API.Nodes[1]) },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: NodeStatusUnknown: Kubelet stopped posting node status.; see the end of its log: kops doctor a.example.com; if it does not recover, replace it: kops delete instance n-0 --name a.example.com --yes`}},
		{"and why", func(w *World) {
			setSilent(&w.API.Nodes[1])
			w.Starts = map[string]Start{"n-0": startWithDown("kubelet")}
		},
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: NodeStatusUnknown: Kubelet stopped posting node status.; its kubelet has been down since 2026-01-02T03:04:05Z: it does not run; its log says: E0102 no such file; see the end`}},
		{"a kubelet that is about to be missed", func(w *World) { w.Starts = map[string]Start{"n-0": startWithDown("kubelet")} },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready: its kubelet has been down since`}},
		{"an API server that does not serve, beside one that does", func(w *World) { addControlPlane(w); w.API.Serving = w.API.Serving[:1] },
			[]string{`Node cp-1 [cp]: the node of role "control-plane" is not ready: its API server is not among those that serve the cluster; see the end of its log`}},
		{"and why", func(w *World) {
			addControlPlane(w)
			w.API.Serving, w.Starts = w.API.Serving[:1], map[string]Start{"cp-1": startWithDown("kube-apiserver")}
		}, []string{`Node cp-1 [cp]: the node of role "control-plane" is not ready: its kube-apiserver has been down since 2026-01-02T03:04:05Z: it does not run; its log says: E0102 no such file; see the end of its log: kops doctor a.example.com; if it does not recover, replace it: kops delete instance cp-1 `}},
		{"API servers that serve", addControlPlane, nil},
		{"addresses that are no node's", func(w *World) { addControlPlane(w); w.API.Serving = []netip.Addr{netip.MustParseAddr("192.0.2.1")} }, nil},
		{"the only API server", func(w *World) {
			w.API = Observation{Problem: &Failure{Kind: KindAPI, Name: "https://a", Message: "no answer"}}
			w.Starts = map[string]Start{"cp-0": startWithDown("kube-apiserver")}
		}, []string{"APIServer https://a: no answer", "Machine cp-0 [cp]: its kube-apiserver has been down since 2026-01-02T03:04:05Z: it does not run; its log says: E0102 no such file; see the end of its log: kops doctor a.example.com; if it does not recover, replace it: kops delete instance cp-0 --name a.example.com --cloudonly --yes"}},
		{"a pod that is missing while its machine is changed", func(w *World) {
			w.API.Pods, w.Rolling = w.API.Pods[1:], map[string]string{"cp-0": "restarting"}
		}, []string{"Node cp-0 [cp]: the control-plane node is missing its kube-apiserver pod; a rolling update is changing the machine (restarting)"}},
		{"one unready worker is excused", func(w *World) { w.MaxUnready = 1; notReady(&w.API.Nodes[1]) }, nil},
		{"two are not", func(w *World) { w.MaxUnready = 1; notReady(&w.API.Nodes[1]); notReady(&w.API.Nodes[2]) },
			[]string{`Node n-0 [nodes]: the node of role "node" is not ready`, `Node n-1 [nodes]: the node of role "node" is not ready`}},
		{"a control plane never is", func(w *World) { w.MaxUnready = 1; notReady(&w.API.Nodes[0]) },
			[]string{`Node cp-0 [cp]: the node of role "control-plane" is not ready`}},
		{"the wrong role", func(w *World) { w.API.Nodes[1].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} },
			[]string{"Node n-0 [nodes]: it has the role control-plane, but its group nodes has node",
				"Node n-0 [nodes]: the control-plane node is missing its kube-apiserver pod", "Node n-0", "Node n-0"}},
		{"no role", func(w *World) { w.API.Nodes[1].Labels = nil }, []string{"Node n-0 [nodes]: it lacks the label of its role, node"}},
		{"a part of the control plane is missing", func(w *World) { w.API.Pods = w.API.Pods[1:] },
			[]string{"Node cp-0 [cp]: the control-plane node is missing its kube-apiserver pod"}},
		{"no etcd", func(w *World) { w.API.Pods = slices.Delete(w.API.Pods, 3, 4) },
			[]string{"Node cp-0 [cp]: the control-plane node is missing its etcd-manager-main pod"}},
		{"a pod that a node needs, and one that nobody does", func(w *World) {
			setWaiting(&w.API.Pods[4], "ImagePullBackOff", `Back-off pulling image "x"`)
			setWaiting(&w.API.Pods[5], "ImagePullBackOff", "")
		}, []string{`Pod kube-system/kube-proxy-n-0 [nodes]: the system-node-critical pod is not ready: the container kube-proxy waits: ImagePullBackOff: Back-off pulling image "x"`}},
		{"a pod whose trouble has another port at each try", func(w *World) {
			setWaiting(&w.API.Pods[4], "ErrImagePull", "failed to pull -> dial tcp 10.0.0.7:40112->10.0.0.1:443:  connection refused")
		}, []string{`Pod kube-system/kube-proxy-n-0 [nodes]: the system-node-critical pod is not ready: the container kube-proxy waits: ErrImagePull: failed to pull -> dial tcp 10.0.0.1:443:  connection refused`}},
		{"a pod that the cluster needs is of no group", func(w *World) { w.API.Pods[1].Status.Phase = corev1.PodUnknown },
			[]string{"Pod kube-system/kube-controller-manager-cp-0: the system-cluster-critical pod is in an unknown state: its node does not report it"}},
		{"the API server is not ready", func(w *World) { w.API.Unready = []string{"etcd"} },
			[]string{"APIServer https://a: it is not ready: its check etcd fails"}},
		{"nothing follows from an API that does not answer", func(w *World) {
			w.API = Observation{Problem: &Failure{Kind: KindAPI, Name: "https://a", Message: "no answer"}}
		}, []string{"APIServer https://a: no answer"}},
		{"but what machines tell of themselves", func(w *World) {
			w.API = Observation{Problem: &Failure{Kind: KindAPI, Name: "https://a", Message: "no answer"}}
			w.Starts = map[string]Start{"cp-0": broken}
		}, []string{"APIServer https://a: no answer", "Machine cp-0 [cp]: its boot has problems: its boot failed in the phase download"}},
		{"each failure once, causes first", func(w *World) {
			w.API.Unready = []string{"etcd", "etcd"}
			setWaiting(&w.API.Pods[0], "CreateContainerError", "no")
			notReady(&w.API.Nodes[2])
			w.Machines[1].Target = 3
		}, []string{"APIServer", "InstanceGroup nodes", "Node n-1", "Pod kube-system/kube-apiserver-cp-0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := healthy()
			c.do(&w)
			v := Check(w)
			var got []string
			for _, f := range v.Failures {
				s := f.Kind + " " + f.Name
				if f.Group != "" {
					s += " [" + f.Group + "]"
				}
				got = append(got, s+": "+f.Text())
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) || v.Ready() != (len(c.want) == 0) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// A control plane whose group was removed from the spec has left etcd, so that its API server and its
// kubelet fail until its machine is deleted.
func TestNodesOfARemovedGroupAreNotJudged(t *testing.T) {
	w := healthy()
	addControlPlane(&w)
	moved := w.Machines[0].Machines[1]
	moved.Group = "former"
	w.Machines[0].Target, w.Machines[0].Machines = 1, w.Machines[0].Machines[:1]
	w.Machines = append(w.Machines, platform.MachineGroup{Name: "former", Target: 1, Machines: []platform.Machine{moved}})
	w.API.Serving = w.API.Serving[:1]
	setSilent(&w.API.Nodes[3])
	for i := range w.API.Pods {
		if w.API.Pods[i].Spec.NodeName == "cp-1" {
			w.API.Pods[i].Status.Phase = corev1.PodUnknown
		}
	}
	if v := Check(w); !v.Ready() || !slices.Equal(v.Leaving, []string{"cp-1"}) || len(v.Nodes) != 4 {
		t.Errorf("%+v", v)
	}
	w.Groups = append(w.Groups, group("former", api.RoleControlPlane, 1))
	if v := Check(w); v.Ready() || v.Leaving != nil {
		t.Errorf("with its group in the spec: %+v", v)
	}
}

func TestPodTrouble(t *testing.T) {
	ended := &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "goroutine 1\npanic: no route\n"}
	for _, c := range []struct {
		name, want string
		do         func(*corev1.Pod)
	}{
		{"runs", "", func(*corev1.Pod) {}},
		{"done", "", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded; p.Status.ContainerStatuses[0].Ready = false }},
		{"going away", "", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{}; setWaiting(p, "X", "") }},
		{"evicted", "", func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" }},
		{"failed", "has failed: DeadlineExceeded: too long", func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", Message: "too long"}
		}},
		{"no place", "is pending: Unschedulable: 0/3 nodes are available", func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}}
		}},
		{"crashes", "is not ready: the container c crashes (CrashLoopBackOff), 7 restarts; the last time it ended with code 2: panic: no route", func(p *corev1.Pod) {
			setWaiting(p, "CrashLoopBackOff", "back-off 5m0s")
			p.Status.ContainerStatuses[0].RestartCount, p.Status.ContainerStatuses[0].LastTerminationState.Terminated = 7, ended
		}},
		{"crashes, and logs more while it stops", "is not ready: the container c ended with code 1: time=… level=fatal msg=\"no such device\"", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error",
				Message: "time=… level=error msg=retry\ntime=… level=fatal msg=\"no such device\"\ntime=… level=info msg=Stopped\n"}}}
		}},
		{"a message that kubelet has cut", "is not ready: the container c ended with code 1: level=error msg=cleanup (its message is cut; kops doctor shows its log)", func(p *corev1.Pod) {
			text := strings.Repeat("level=info msg=x\n", 12<<10/17-3) + "level=error msg=cleanup\n"
			text += strings.Repeat("y", 12<<10-len(text)-1) + "\n"
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: text}}}
		}},
		{"a long reason, whose end is the cause", "is not ready: the container c waits: ErrImagePull: " + strings.Repeat("a", 120) + "…" + strings.Repeat("b", 255) + ": no space left on device", func(p *corev1.Pod) {
			setWaiting(p, "ErrImagePull", strings.Repeat("a", 500)+strings.Repeat("b", 500)+": no space left on device")
		}},
		{"killed", "is not ready: the container c ended with code 137 (OOMKilled)", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}
		}},
		{"being made", "is not ready: the container c is being created", func(p *corev1.Pod) { setWaiting(p, "ContainerCreating", "") }},
		{"not ready", "is not ready: the container c runs but fails its readiness check", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false }},
		{"preparing", "is not ready: the container init waits: ErrImagePull: no such host", func(p *corev1.Pod) {
			setWaiting(p, "PodInitializing", "")
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"}}}}
		}},
	} {
		p := pod("kube-system/p", "c", "n", clusterCritical)
		c.do(&p)
		if got := PodTrouble(&p); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func boot(r report.Report) []byte {
	var b strings.Builder
	if err := report.WriteJSON(&b, &r); err != nil {
		panic(err)
	}
	return []byte(b.String())
}

func TestReadStart(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const nodeup = "[  5.1] nodeup[80]: nodeup: identify: done after 0.1 s\n"
	for _, c := range []struct {
		name         string
		record       platform.BootRecord
		want, remedy string
		broken       bool
	}{
		{"nothing", platform.BootRecord{}, "it has no boot report, and its console is empty", "", false},
		{"broken", platform.BootRecord{Report: boot(report.Report{Phases: []report.Phase{{Name: "configure", State: report.Failed, Attempts: 1, Error: "ask: no", Remedy: "do"}}})},
			"its boot failed in the phase configure: ask: no", "do", true},
		{"not renewed", platform.BootRecord{Report: boot(report.Report{Done: true, Phases: []report.Phase{{Name: report.Renewal, State: report.Failed, Error: "ask: no", Remedy: "do"}}})},
			"it cannot renew its certificates: ask: no", "do", true},
		{"waiting", platform.BootRecord{Report: boot(report.Report{Phases: []report.Phase{{Name: "configure", State: report.Running, Attempts: 3, Error: "EOF", Waiting: true}}})},
			"its boot waits for the control plane, which does not answer yet", "", false},
		{"no longer waiting", platform.BootRecord{Report: boot(report.Report{Phases: []report.Phase{{Name: "configure", State: report.Running, Attempts: 99, Error: "EOF", Remedy: "do"}}})},
			"its boot failed in the phase configure: EOF", "do", true},
		{"under way", platform.BootRecord{Report: boot(report.Report{Phases: []report.Phase{{Name: "images", State: report.Running, Started: at}}})},
			"its boot has been in the phase images since 2026-01-02T03:04:05Z", "", false},
		{"done", platform.BootRecord{Report: boot(report.Report{Done: true})}, "it has booted, but its kubelet has not registered", "the machine restarts its kubelet within two minutes; if that does not help, see: journalctl -u kubelet on the machine", false},
		{"no report", platform.BootRecord{Report: []byte("{")}, "read the boot report: unexpected end of JSON input", "", true},
		{"the kernel", platform.BootRecord{Console: []byte("[0.0] Linux version 6.18\n")}, "booting: the kernel has started, and the console shows nothing else yet", "", false},
		{"a download", platform.BootRecord{Console: []byte("user data: running 00-nodeup.sh\ncurl: (7) Failed to connect to 10.0.0.1\ncurl: (22) The requested URL returned error: 404\n")},
			"it cannot fetch nodeup: curl: (22) The requested URL returned error: 404", "check that machines can reach the address, and that the file exists", true},
		{"colours", platform.BootRecord{Console: []byte("\x1b[0;1;31muser data: x failed with status 3\x1b[0m\r\n")}, "its user data failed: user data: x failed with status 3", "for details, see the console: kops doctor", true},
		{"nodeup runs", platform.BootRecord{Console: []byte("curl: (7) once\n" + nodeup)}, "nodeup runs: [  5.1] nodeup[80]: nodeup: identify: done after 0.1 s", "", false},
		{"nodeup failed", platform.BootRecord{Console: []byte(nodeup + "nodeup: download: failed after 3.0 s: no\nsomething else\n")}, "nodeup failed: nodeup: download: failed after 3.0 s: no", "", true},
		{"something else", platform.BootRecord{Console: []byte("GRUB loading.\n\n")}, "it has no boot report; its console ends with: GRUB loading.", "", false},
	} {
		got := ReadStart(c.record)
		if got.Message != c.want || got.Remedy != c.remedy || got.Broken != c.broken {
			t.Errorf("%s: %q, %q, %v; want %q, %q, %v", c.name, got.Message, got.Remedy, got.Broken, c.want, c.remedy, c.broken)
		}
	}
}

func TestDiagnose(t *testing.T) {
	w := healthy()
	w.API.Nodes = w.API.Nodes[:2]
	notReady(&w.API.Nodes[0])
	setWaiting(&w.API.Pods[4], "ImagePullBackOff", "no")
	w.API.Pods = append(w.API.Pods, pod("kube-system/extra", "extra", "n-0", "")) // not a critical pod
	setWaiting(&w.API.Pods[6], "ImagePullBackOff", "no")
	if got := MachinesInTrouble(w); len(got) != 2 || got[0].Name != "cp-0" || got[1].Name != "n-1" {
		t.Errorf("the starts of %v are wanted", got)
	}
	var console strings.Builder
	for i := range 50 {
		fmt.Fprintf(&console, "line %d\n", i)
	}
	w.Starts = map[string]Start{"n-1": ReadStart(platform.BootRecord{Console: []byte(console.String())})}
	d := Diagnose(w, 2)
	var got []string
	for _, m := range d.Machines {
		got = append(got, m.Name+" "+m.Status+" "+m.Node)
	}
	if want := []string{"b-0 running ", "cp-0 not ready cp-0", "n-0 ready n-0", "n-1 not joined "}; !slices.Equal(got, want) {
		t.Errorf("machines %q, want %q", got, want)
	}
	w2 := healthy()
	setPressure(&w2.API.Nodes[1], corev1.NodeDiskPressure)
	w2.Starts = map[string]Start{"n-1": startWithDown("kubelet")}
	if m := Diagnose(w2, 2).Machines; m[2].Status != "not ready" || !strings.Contains(m[2].Remedy, "spec.rootVolumeSize") || m[3].Status != "not ready" || !strings.Contains(m[3].Remedy, "kops delete instance n-1") {
		t.Errorf("machines that fail after their start: %+v", m)
	}
	addControlPlane(&w2)
	w2.Starts, w2.API.Serving = nil, w2.API.Serving[1:]
	if got := MachinesInTrouble(w2); len(got) != 2 || got[0].Name != "cp-0" {
		t.Errorf("of an API server that does not serve, and a full disk, the reports of %v are wanted", got)
	}
	done := ReadStart(platform.BootRecord{Report: boot(report.Report{Done: true})})
	blind := w
	blind.API, blind.Starts = Observation{Problem: &Failure{Kind: KindAPI, Message: "no answer"}}, map[string]Start{"n-1": done}
	if m := Diagnose(blind, 2).Machines[3]; m.Status != "unknown" || !strings.Contains(m.Message, "its node's state is unknown") || m.Remedy != "" {
		t.Errorf("while the API cannot be asked: %+v", m)
	}
	if last := d.Machines[3]; !slices.Equal(last.Console, []string{"line 48", "line 49"}) || !strings.Contains(last.Message, "line 49") {
		t.Errorf("%+v", last)
	}
	if len(d.Pods) != 1 || d.Pods[0].Name != "kube-proxy-n-0" || len(d.Failures) != 3 {
		t.Errorf("pods %+v, failures %v", d.Pods, d.Failures)
	}
	Limit(d, machine("nodes", "n-1"))
	if len(d.Machines) != 1 || len(d.Failures) != 1 || len(d.Pods) != 0 {
		t.Errorf("of n-1 alone: %+v", d)
	}
	if text, err := json.Marshal(Check(World{})); err != nil || string(text) != `{"failures":[],"nodes":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}
