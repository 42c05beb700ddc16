// Package precheck finds what in a running cluster prevents another version of
// Kubernetes, or the replacement of its machines: what is wrong, where, what helps, and
// whether it stops the upgrade.
//
// Judging is pure: Judge takes what was seen. Look only asks an API server, and changes
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

// Names of the checks, by which they are skipped; the rule of a finding is one of them.
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

// CheckSkipped refuses a name that no check has.
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

// Input is what is to happen to a cluster.
type Input struct {
	// Target is the version of Kubernetes that it is to have.
	Target semver.Version
	Groups []*api.InstanceGroup
	Etcd   []api.EtcdClusterSpec
	// Rollout says that a replacement of machines was begun and not ended; "" is that there is none.
	Rollout string
	// Room is the platform's report on the machines that a roll adds.
	Room []Shortage
	// Skip are the names of checks that are not made.
	Skip []string
}

func (in *Input) skips(check string) bool { return slices.Contains(in.Skip, check) }

// Shortage is a lack of what more machines of a group need.
type Shortage struct {
	Group, Message, Remedy string
	// None says that not one more machine can be made.
	None bool
}

// Seen is what an API server shows.
type Seen struct {
	// Version is the server's own.
	Version semver.Version
	// Requests are the requests to deprecated APIs, of all servers that were asked, and Written
	// the objects that a client wrote in an API that is removed.
	Requests []Request
	Written  []Written
	// Servers is how many servers reported their requests.
	Servers  int
	Budgets  []policyv1.PodDisruptionBudget
	Webhooks []Webhook
	APIs     []APIService
	// Storage is how much the server keeps in each etcd.
	Storage []Storage
	// Seen are its nodes and pods, and its own checks that fail.
	health.Seen
	// Failed says by the name of a check why what it needs could not be seen.
	Failed map[string]error
}

// Judge returns the obstacles. Findings that stop the upgrade are errors, and come first.
func Judge(in Input, s Seen) diag.List {
	j := &judge{Input: in, Seen: s}
	for _, check := range []struct {
		name string
		do   func()
	}{
		{Nodes, j.nodes}, {Skew, j.skew}, {Etcd, j.etcd}, {RemovedAPIs, j.removedAPIs}, {Webhooks, j.webhooks}, {APIServices, j.apiServices},
		{Budgets, j.budgets}, {Room, j.room}, {Rollout, j.rollout},
	} {
		if in.skips(check.name) {
			continue
		}
		j.rule = check.name
		if err := s.Failed[check.name]; err != nil {
			j.warn("", "could not be checked: "+err.Error(), "use an administrator's credentials, or check it yourself")
			continue
		}
		check.do()
	}
	slices.SortStableFunc(j.findings, func(a, b diag.Finding) int { return cmp.Compare(warns(a), warns(b)) })
	return j.findings
}

func warns(f diag.Finding) int {
	if f.Warning {
		return 1
	}
	return 0
}

// judge is one judgement under way.
type judge struct {
	Input
	Seen
	rule     string
	findings diag.List
}

func (j *judge) add(object, message, remedy string, warning bool) {
	j.findings = append(j.findings, diag.Finding{Object: object, Rule: j.rule, Message: message, Remedy: remedy, Warning: warning})
}

func (j *judge) stop(object, message, remedy string) { j.add(object, message, remedy, false) }
func (j *judge) warn(object, message, remedy string) { j.add(object, message, remedy, true) }

// room tells what the platform lacks for the machines that a roll adds.
func (j *judge) room() {
	for _, s := range j.Room {
		j.add("InstanceGroup/"+s.Group, s.Message, s.Remedy, !s.None)
	}
}

// rollout reports a rollout that was begun and not ended.
func (j *judge) rollout() {
	if j.Rollout != "" {
		j.warn("", j.Rollout, "finish it first: kops rolling-update cluster --yes")
	}
}
