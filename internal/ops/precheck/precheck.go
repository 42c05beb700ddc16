// Package precheck finds what in a running cluster prevents an upgrade of Kubernetes, or the
// replacement of its machines: what is wrong, where, what helps, and whether it stops the upgrade.
//
// Judging is pure: Judge takes what was observed. Look only queries an API server, and changes
// nothing. The package must not know any platform, the store or the terminal.
package precheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	policyv1 "k8s.io/api/policy/v1"

	"kops.local/kops/api"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/spec/diag"
)

// Names of the checks, with which they are skipped; they are also the rules of findings.
const (
	API         = "api"
	RemovedAPIs = "removed-apis"
	Budgets     = "disruption-budgets"
	Webhooks    = "webhooks"
	APIServices = "api-services"
	Nodes       = "nodes"
	Skew        = "skew"
	Etcd        = "etcd"
	Room        = "room"
	Rollout     = "rollout"
)

// Names lists the checks.
func Names() []string {
	return []string{API, RemovedAPIs, Budgets, Webhooks, APIServices, Nodes, Skew, Etcd, Room, Rollout}
}

// CheckSkipped rejects names of unknown checks.
func CheckSkipped(skip []string) error {
	for _, s := range skip {
		if slices.Contains(Names(), s) {
			continue
		}
		hint := "use " + strings.Join(Names(), ", ")
		if near := diag.Nearest(s, Names()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return fmt.Errorf("option:SkipChecks: there is no check %q; %s", s, hint)
	}
	return nil
}

// Input is what should happen to a cluster.
type Input struct {
	// Target is the wanted version of Kubernetes.
	Target semver.Version
	Groups []*api.InstanceGroup
	Etcd   []api.EtcdClusterSpec
	// Rollout describes a replacement of machines that was begun and not finished; "" if there is
	// none.
	Rollout string
	// Room is the platform's report about the machines that a roll adds.
	Room []Shortage
	// Skip lists the names of checks to skip.
	Skip []string
}

func (in *Input) isSkipped(check string) bool { return slices.Contains(in.Skip, check) }

// Shortage is a shortage of something that additional machines of a group need.
type Shortage struct {
	Group, Message, Remedy string
	// None means that not a single machine can be added.
	None bool
}

// Observation is what an API server reports.
type Observation struct {
	// Version is the server's own.
	Version semver.Version
	// Requests are the requests to deprecated APIs, of all servers that were queried, and Written
	// the objects that a client wrote in an API that is removed.
	Requests []Request
	Written  []Written
	// Servers is how many servers reported their requests.
	Servers  int
	Budgets  []policyv1.PodDisruptionBudget
	Webhooks []Webhook
	APIs     []APIService
	// Storage is how much each etcd stores.
	Storage []Storage
	// Seen are its nodes and pods, and its own checks that fail.
	health.Observation
	// Failed has, by the name of a check, why its input could not be observed.
	Failed map[string]error
}

// Judge returns the obstacles. Findings that stop the upgrade are errors, and come first.
func Judge(in Input, s Observation) diag.List {
	j := &judge{Input: in, Observation: s}
	for _, check := range []struct {
		name string
		do   func()
	}{
		{Nodes, j.nodes}, {Skew, j.skew}, {Etcd, j.etcd}, {RemovedAPIs, j.removedAPIs}, {Webhooks, j.webhooks}, {APIServices, j.apiServices},
		{Budgets, j.budgets}, {Room, j.checkRoom}, {Rollout, j.rollout},
	} {
		if in.isSkipped(check.name) {
			continue
		}
		j.rule = check.name
		if err := s.Failed[check.name]; err != nil {
			j.warn("", "could not be checked: "+err.Error(), "use an administrator's credentials, or check it yourself")
			continue
		}
		check.do()
	}
	slices.SortStableFunc(j.findings, func(a, b diag.Finding) int { return cmp.Compare(severity(a), severity(b)) })
	return j.findings
}

func severity(f diag.Finding) int {
	if f.Warning {
		return 1
	}
	return 0
}

// judge is the state of one Judge call.
type judge struct {
	Input
	Observation
	rule     string
	findings diag.List
}

func (j *judge) add(object, message, remedy string, warning bool) {
	j.findings = append(j.findings, diag.Finding{Object: object, Rule: j.rule, Message: message, Remedy: remedy, Warning: warning})
}

func (j *judge) stop(object, message, remedy string) { j.add(object, message, remedy, false) }
func (j *judge) warn(object, message, remedy string) { j.add(object, message, remedy, true) }

// checkRoom reports what the platform is short of for the machines that a roll adds.
func (j *judge) checkRoom() {
	for _, s := range j.Room {
		j.add("InstanceGroup/"+s.Group, s.Message, s.Remedy, !s.None)
	}
}

// rollout reports a rollout that was begun and not finished.
func (j *judge) rollout() {
	if j.Rollout != "" {
		j.warn("", j.Rollout, "finish it first: kops rolling-update cluster --yes")
	}
}
