// Package rotate defines how the keys of a cluster are replaced while it serves: the steps, in
// their order, and what each needs. It also has the steps that need only the API server: restarting
// pods that read an authority or a token at startup, and rewriting stored objects with another key.
//
// It must not know where keys are stored, how machines change, or the terminal.
package rotate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
)

// Keys that can be rotated.
const (
	CA             = "ca"
	ServiceAccount = "service-account"
	Etcd           = "etcd"
	Encryption     = "encryption"
	All            = "all"
)

// Step is a step of a rotation.
type Step string

// The steps, in their order. Between two of them, every machine receives what the first has
// written.
const (
	// Make creates new keys, which are trusted in addition to the old ones and do not sign.
	Make Step = "make"
	// Trust distributes them to the machines.
	Trust Step = "trust"
	// Pods restarts pods that read the cluster's authority at startup.
	Pods Step = "pods"
	// Promote makes the new keys sign.
	Promote Step = "promote"
	// Reissue distributes that to the machines, whose certificates are reissued.
	Reissue Step = "reissue"
	// Tokens replaces service account tokens with tokens of the new key.
	Tokens Step = "tokens"
	// Rewrite rewrites what the old key has encrypted.
	Rewrite Step = "rewrite"
	// Distrust stops trusting the old keys, once nothing that is alive uses them.
	Distrust Step = "distrust"
	// Forget distributes that to the machines.
	Forget Step = "forget"
	// BackUp backs up etcd, so that the latest back-up needs none of the old keys.
	BackUp Step = "backup"
	// Done means that the rotation is complete.
	Done Step = "done"
)

// State is how far a rotation has come. It is a plain value, kept as JSON.
type State struct {
	// What is one of the constants above.
	What  string    `json:"what"`
	Began time.Time `json:"began"`
	// Step is the next step, and Since is when the previous one was done.
	Step  Step      `json:"step"`
	Since time.Time `json:"since"`
	// New are the items that will sign, by keyset, and Old those that will no longer be trusted.
	New map[string]string   `json:"new,omitempty"`
	Old map[string][]string `json:"old,omitempty"`
	// Key is the name of the new key of the EncryptionConfiguration; empty if it is not rotated.
	Key string `json:"key,omitempty"`
	// Rewritten are the resources that were rewritten.
	Rewritten []string `json:"rewritten,omitempty"`
	// Left are pods that the rotation cannot restart.
	Left []string `json:"left,omitempty"`
	// NoBackup says why no back-up was taken at the end.
	NoBackup string `json:"noBackup,omitempty"`
	// Ended is when the rotation was completed.
	Ended time.Time `json:"ended,omitzero"`
}

// Keysets returns the keysets of a cluster that are rotated, sorted.
func Keysets(what string, there []string) []string {
	var out []string
	for _, k := range there {
		kind := ""
		switch {
		case k == pki.ServiceAccount:
			kind = ServiceAccount
		case k == pki.KubernetesCA || k == pki.AggregatorCA || k == pki.DiscoveryCA:
			kind = CA
		case strings.HasPrefix(k, "etcd-") && pki.Rotatable(k):
			kind = Etcd
		}
		if kind != "" && (what == All || what == kind) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// IsAffected reports whether machines of a group change if some keysets are rotated, or the key with
// which API servers encrypt: they do if they trust one of them, or have an API server.
func IsAffected(g *api.InstanceGroup, keysets []string) bool {
	return !g.IsBastion() && (g.HasAPIServer() || slices.Contains(keysets, pki.KubernetesCA) || slices.Contains(keysets, pki.EtcdClientsCiliumCA))
}

// Steps returns the steps of a rotation; encrypts means that it includes a key of the
// EncryptionConfiguration.
func Steps(what string, encrypts bool) []Step {
	out := []Step{Make, Trust}
	if what == CA || what == All {
		out = append(out, Pods)
	}
	out = append(out, Promote, Reissue)
	if what == ServiceAccount || what == All {
		out = append(out, Tokens)
	}
	if encrypts {
		out = append(out, Rewrite)
	}
	return append(out, Distrust, Forget, BackUp)
}

// Next returns the state after its step was done, at a given time.
func (s State) Next(now time.Time) State {
	steps := Steps(s.What, s.Key != "")
	i := slices.Index(steps, s.Step)
	s.Since = now.UTC()
	if s.Step = Done; i >= 0 && i+1 < len(steps) {
		s.Step = steps[i+1]
	}
	if s.Step == Done {
		s.Ended = s.Since
	}
	return s
}

// Rewind returns the state in which all encrypted objects still have to be rewritten with the new
// key, which is necessary if a back-up was restored meanwhile, and whether it differs.
func (s State) Rewind() (State, bool) {
	if s.Key == "" || len(s.Rewritten) == 0 && s.Step != Distrust || s.Step != Rewrite && s.Step != Distrust {
		return s, false
	}
	s.Step, s.Rewritten = Rewrite, nil
	return s, true
}

// ReplacesMachines reports whether a step changes machines.
func (s Step) ReplacesMachines() bool { return s == Trust || s == Reissue || s == Forget }

// Text describes a step.
func (s Step) Text() string {
	switch s {
	case Make:
		return "create new keys, which are trusted next to the old ones and do not sign yet"
	case Trust:
		return "make every machine trust them (update, then restart in place if that is enough)"
	case Pods:
		return "restart pods that read the cluster's certificate authority when they start, through their Deployments, StatefulSets and DaemonSets"
	case Promote:
		return "make the new keys sign"
	case Reissue:
		return "issue certificates from the new keys to every machine (update, then restart in place)"
	case Tokens:
		return "restart pods, which get tokens from the new key; replace tokens in Secrets"
	case Rewrite:
		return "write all encrypted objects again with the new key"
	case Distrust:
		return "prove that nothing uses the old keys, and distrust them"
	case Forget:
		return "remove them from every machine (update, then restart in place)"
	case BackUp:
		return "take a backup of etcd that does not need an old key"
	}
	return "done"
}

// Check refuses to begin another rotation while one is under way.
func (s *State) Check(what string) error {
	if s == nil || s.Step == Done || s.What == what {
		return nil
	}
	return fmt.Errorf("the rotation of %s, which began at %s, is not finished; its current step is %s", s.What, s.Began.Format(time.RFC3339), s.Step)
}
