// Package status is what is found of a cluster that exists: whether it is what its objects
// say, what is wrong with it, and what its machines and pods tell of themselves.
//
// It must not know how that is found out.
package status

import "time"

// Failure is one problem of the cluster.
type Failure struct {
	// Kind is dns, APIServer, InstanceGroup, Machine, Node, Pod, Certificate, Keyset or Etcd.
	Kind    string `json:"type"`
	Name    string `json:"name"`
	Message string `json:"message"`
	// Remedy is what the user can do; empty when nothing is known or waiting may help.
	Remedy string `json:"remedy,omitempty"`
	// Group is the instance group that the failure is of, or empty.
	Group string `json:"instanceGroup,omitempty"`
}

// String is the failure in a line.
func (f Failure) String() string { return f.Kind + " " + f.Name + ": " + f.Text() }

// Text is the message and what helps.
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

// Node is a node as the cluster shows it.
type Node struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	// Role is control-plane, apiserver or node; empty when no label tells.
	Role     string `json:"role,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Status is the status of the condition Ready: True, False or Unknown.
	Status string `json:"status"`
}

// Validation is what was found.
type Validation struct {
	// Failures are what is wrong, causes before what may follow from them; empty when all is well.
	Failures []Failure `json:"failures"`
	Nodes    []Node    `json:"nodes"`
	// Ending are certificates that expire within 30 days. That is not a failure.
	Ending []string `json:"ending,omitempty"`
	// Stale is how many machines have to be restarted or replaced to match the spec. That is not a
	// failure.
	Stale int `json:"stale,omitempty"`
}

// Ready reports whether nothing is wrong.
func (v *Validation) Ready() bool { return len(v.Failures) == 0 }

// Diagnosis is a validation with what machines and pods tell of themselves.
type Diagnosis struct {
	Cluster  string    `json:"cluster"`
	Failures []Failure `json:"failures"`
	Machines []Machine `json:"machines"`
	Pods     []Pod     `json:"pods"`
}

// Machine is what is known of one machine.
type Machine struct {
	Name      string    `json:"name"`
	Group     string    `json:"instanceGroup,omitempty"`
	Node      string    `json:"node,omitempty"` // empty while it has not joined
	Addresses []string  `json:"addresses,omitempty"`
	State     string    `json:"state,omitempty"` // the platform's word
	Created   time.Time `json:"created,omitzero"`
	// Status is ready, not ready, not joined, not running, spare or detached;
	// running for a machine that does not become a node, and unknown while the API does not answer.
	Status string `json:"status"`
	// Message says what is wrong, Remedy what helps.
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Effect is what it takes to have the machine do what the spec says, and Reasons why;
	// both are empty where it does.
	Effect  Effect   `json:"effect,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Boot is the machine's report of its start, and Console the end of what it wrote on its console.
	Boot    *BootReport `json:"boot,omitempty"`
	Console []string    `json:"console,omitempty"`
}

// Pod is a critical pod that does not do its work.
type Pod struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Node      string   `json:"node,omitempty"`
	Message   string   `json:"message"`
	Logs      []PodLog `json:"logs,omitempty"`
}

// PodLog is the end of what a container wrote.
type PodLog struct {
	Container string `json:"container"`
	// Previous says that it is from the life before the present one.
	Previous bool     `json:"previous,omitempty"`
	Lines    []string `json:"lines,omitempty"`
	// Error says why it could not be read.
	Error string `json:"error,omitempty"`
}
