// Package status describes the observed state of an existing cluster: whether it matches its
// objects, what is wrong with it, and what its machines and pods report about themselves.
//
// It must not know how that is determined.
package status

import "time"

// Failure is one problem of the cluster.
type Failure struct {
	// Kind is dns, APIServer, InstanceGroup, Machine, Node, Pod, Certificate, Keyset or Etcd.
	Kind    string `json:"type"`
	Name    string `json:"name"`
	Message string `json:"message"`
	// Remedy is what the user can do; empty if no remedy is known or waiting may help.
	Remedy string `json:"remedy,omitempty"`
	// Group is the instance group that the failure belongs to, or empty.
	Group string `json:"instanceGroup,omitempty"`
}

// String returns the failure as one line.
func (f Failure) String() string { return f.Kind + " " + f.Name + ": " + f.Text() }

// Text returns the message and the remedy.
func (f Failure) Text() string {
	if f.Remedy == "" {
		return f.Message
	}
	return f.Message + "; " + f.Remedy
}

// Kinds of failures.
const (
	KindDNS     = "dns"
	KindAPI     = "APIServer"
	KindGroup   = "InstanceGroup"
	KindMachine = "Machine"
	KindNode    = "Node"
	KindPod     = "Pod"

	KindCertificate = "Certificate"
	KindKeyset      = "Keyset"
)

// Node is a node as the cluster reports it.
type Node struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Role is control-plane, apiserver or node; empty if no label indicates it.
	Role     string `json:"role,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Status is the status of the condition Ready: True, False or Unknown.
	Status string `json:"status"`
}

// Validation is the result of a validation.
type Validation struct {
	// Failures are the problems, causes before their possible consequences; empty if there are no problems.
	Failures []Failure `json:"failures"`
	Nodes    []Node    `json:"nodes"`
	// Ending are certificates that expire within 30 days. That is not a failure.
	Ending []string `json:"ending,omitempty"`
	// Stale is how many machines must be restarted or replaced to match the spec. That is not a
	// failure.
	Stale int `json:"stale,omitempty"`
	// Leaving are the nodes whose instance group was removed from the spec. Their problems are not
	// failures; an update that prunes deletes their machines.
	Leaving []string `json:"leaving,omitempty"`
}

// Ready reports whether there are no failures.
func (v *Validation) Ready() bool { return len(v.Failures) == 0 }

// Diagnosis is a validation with the reports of machines and pods about themselves.
type Diagnosis struct {
	Cluster  string    `json:"cluster"`
	Failures []Failure `json:"failures"`
	Machines []Machine `json:"machines"`
	Pods     []Pod     `json:"pods"`
}

// Machine is the known state of one machine.
type Machine struct {
	Name      string    `json:"name"`
	Group     string    `json:"instanceGroup,omitempty"`
	Node      string    `json:"node,omitempty"` // empty while it has not joined
	Addresses []string  `json:"addresses,omitempty"`
	State     string    `json:"state,omitempty"` // the platform's own term
	Created   time.Time `json:"created,omitzero"`
	// Status is ready, not ready, not joined, not running, spare or detached;
	// running for a machine that does not become a node, and unknown while the API does not answer.
	Status string `json:"status"`
	// Message is the problem, and Remedy what helps.
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Effect is what must be done to make the machine match the spec, and Reasons why;
	// both are empty if it matches.
	Effect  Effect   `json:"effect,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Boot is the machine's boot report, and Console the end of its console output.
	Boot    *BootReport `json:"boot,omitempty"`
	Console []string    `json:"console,omitempty"`
}

// Pod is a critical pod that does not work.
type Pod struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Node      string   `json:"node,omitempty"`
	Message   string   `json:"message"`
	Logs      []PodLog `json:"logs,omitempty"`
}

// PodLog is the end of a container's log.
type PodLog struct {
	Container string `json:"container"`
	// Previous means that it is from the container's previous run.
	Previous bool     `json:"previous,omitempty"`
	Lines    []string `json:"lines,omitempty"`
	// Error is the reason why it could not be read.
	Error string `json:"error,omitempty"`
}
