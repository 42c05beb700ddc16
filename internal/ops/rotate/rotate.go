// Package rotate defines how the keys of a cluster are replaced while it serves: the steps, in
// their order, and what each needs. It also has the steps that need only the API server:
// pods that read an authority or a token at their start are restarted, and stored objects
// are written with another key.
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

// The steps, in their order. Between two of them every machine has what the first has written.
const (
	// Make makes new keys, which are trusted beside the old and do not sign.
	Make Step = "make"
	// Trust brings them to the machines.
	Trust Step = "trust"
	// Pods restarts pods that read the cluster's authority at their start.
	Pods Step = "pods"
	// Promote has the new keys sign.
	Promote Step = "promote"
	// Reissue brings that to the machines, whose certificates are reissued.
	Reissue Step = "reissue"
	// Tokens has tokens of service accounts be of the new key.
	Tokens Step = "tokens"
	// Rewrite rewrites what the old key has encrypted.
	Rewrite Step = "rewrite"
	// Distrust stops trusting the old keys, once nothing alive uses them.
	Distrust Step = "distrust"
	// Forget brings that to the machines.
	Forget Step = "forget"
	// BackUp has etcd backed up, so that the latest back-up needs none of the old keys.
	BackUp Step = "backup"
	// Done is the end.
	Done Step = "done"
)

// State is how far a rotation has come. It is a plain value, kept as JSON.
type State struct {
	// What is one of the constants above.
	What  string    `json:"what"`
	Began time.Time `json:"began"`
	// Step is the next one, and Since when the one before it was done.
	Step  Step      `json:"step"`
	Since time.Time `json:"since"`
	// New are the items that will sign, by keyset, and Old the items that will no longer be trusted.
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
	// Ended is when all was over.
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

// Concerns reports whether machines of a group change where some keysets are rotated, or the
// key by which API servers encrypt: those that believe one, or that have an API server.
func Concerns(g *api.InstanceGroup, keysets []string) bool {
	return !g.IsBastion() && (g.HasAPIServer() || slices.Contains(keysets, pki.KubernetesCA) || slices.Contains(keysets, pki.EtcdClientsCiliumCA))
}

// Steps are the steps that rotating something takes; encrypts says that a key of the
// EncryptionConfiguration is among it.
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

// Next returns the state once its step is done, at a time.
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

// Rewind returns the state in which everything that is encrypted is still to be written with the
// new key, as it has to be when a back-up was restored meanwhile, and whether that is another.
func (s State) Rewind() (State, bool) {
	if s.Key == "" || len(s.Rewritten) == 0 && s.Step != Distrust || s.Step != Rewrite && s.Step != Distrust {
		return s, false
	}
	s.Step, s.Rewritten = Rewrite, nil
	return s, true
}

// Moves reports whether a step changes machines.
func (s Step) Moves() bool { return s == Trust || s == Reissue || s == Forget }

// Text says what a step does.
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
		return "take a backup of etcd that needs no old key"
	}
	return "done"
}

// Check refuses to begin something else while a rotation is under way.
func (s *State) Check(what string) error {
	if s == nil || s.Step == Done || s.What == what {
		return nil
	}
	return fmt.Errorf("the rotation of %s, which began at %s, is not finished; its current step is %s", s.What, s.Began.Format(time.RFC3339), s.Step)
}
