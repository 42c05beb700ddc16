package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kops.local/kops/internal/contract/labels"
	"kops.local/kops/internal/engine/fault"
)

// Marks are the labels and taints that kops maintains on the nodes of a group.
type Marks struct {
	Labels map[string]string
	Taints []corev1.Taint
}

func (m Marks) equal(o Marks) bool {
	return maps.Equal(m.Labels, o.Labels) && slices.Equal(newOwnedMarks(m).Taints, newOwnedMarks(o).Taints)
}

// ownedMarks is what a node was given last time. It is stored in an annotation of the node,
// authenticated by a label: kubelets may change the annotation, and what it lists is
// removed.
type ownedMarks struct {
	Labels []string `json:"labels,omitempty"` // their keys
	Taints []string `json:"taints,omitempty"` // as kubectl writes them
}

// fresh is the age up to which an unknown node gets the taints that it is missing. Its
// kubelet registered it with the taints of that time, and another controller may since have
// removed the one that kept pods away until the node was prepared.
const fresh = time.Minute

// newOwnedMarks returns what a node is given with marks.
func newOwnedMarks(m Marks) ownedMarks {
	o := ownedMarks{Labels: slices.Sorted(maps.Keys(m.Labels))}
	for _, t := range m.Taints {
		o.Taints = append(o.Taints, t.ToString())
	}
	slices.Sort(o.Taints)
	return o
}

// text returns the annotation, and authenticator the label, of a node.
func (o ownedMarks) text() string {
	text, _ := json.Marshal(o) // strings can always be marshaled
	return string(text)
}

func authenticator(n *corev1.Node, text string) string {
	sum := sha256.Sum256([]byte(string(n.UID) + " " + text))
	return hex.EncodeToString(sum[:16])
}

// readOwned reads what a node was given last time.
func readOwned(n *corev1.Node) (o ownedMarks, known bool) {
	text := n.Annotations[labels.Owned]
	if text == "" || n.Labels[labels.Owned] != authenticator(n, text) || json.Unmarshal([]byte(text), &o) != nil {
		return ownedMarks{}, false
	}
	return o, true
}

// patchOf returns a patch that adds a node's missing marks and removes former ones;
// Taints is nil if they stay unchanged. The patch is empty for a node that already has
// its marks.
func patchOf(n *corev1.Node, want Marks, now time.Time) nodePatch {
	p := nodePatch{Metadata: nodeMetadata{Labels: map[string]*string{}, Annotations: map[string]string{}}}
	was, known := readOwned(n)
	for k, v := range want.Labels {
		if have, ok := n.Labels[k]; !ok || have != v {
			p.Metadata.Labels[k] = &v
		}
	}
	for _, k := range was.Labels {
		_, wanted := want.Labels[k]
		if _, there := n.Labels[k]; there && !wanted {
			p.Metadata.Labels[k] = nil
		}
	}
	if text := newOwnedMarks(want).text(); !known || n.Annotations[labels.Owned] != text {
		vouched := authenticator(n, text)
		p.Metadata.Annotations[labels.Owned], p.Metadata.Labels[labels.Owned] = text, &vouched
	}
	if known || now.Sub(n.CreationTimestamp.Time) < fresh {
		if taints := taintsOf(n.Spec.Taints, was, want); !slices.Equal(texts(taints), texts(n.Spec.Taints)) {
			p.Spec = map[string]any{"taints": taints}
			p.Metadata.ResourceVersion = n.ResourceVersion // the list is replaced as a whole
		}
	}
	return p
}

func (p nodePatch) isEmpty() bool {
	return len(p.Metadata.Labels) == 0 && len(p.Metadata.Annotations) == 0 && len(p.Spec) == 0
}

// taintsOf returns a node's taints with those added that are new in its group, and without those
// that its group no longer has. Taints that are in both stay as they are: a taint that another
// controller has removed is not restored.
func taintsOf(have []corev1.Taint, was ownedMarks, want Marks) []corev1.Taint {
	out := slices.Clone(have)
	if out == nil {
		out = []corev1.Taint{} // an empty list rather than null
	}
	wanted := texts(want.Taints)
	out = slices.DeleteFunc(out, func(t corev1.Taint) bool {
		return slices.Contains(was.Taints, t.ToString()) && !slices.Contains(wanted, t.ToString())
	})
	for _, t := range want.Taints {
		if slices.Contains(was.Taints, t.ToString()) {
			continue
		}
		if i := slices.IndexFunc(out, func(o corev1.Taint) bool { return o.MatchTaint(&t) }); i >= 0 {
			out[i].Value = t.Value
		} else {
			out = append(out, t)
		}
	}
	return out
}

func texts(taints []corev1.Taint) []string {
	var out []string
	for _, t := range taints {
		out = append(out, t.ToString())
	}
	return out
}

// parseTaints parses taints of the form key=value:effect or key:effect.
func parseTaints(in []string) ([]corev1.Taint, error) {
	var out []corev1.Taint
	for _, text := range in {
		key, value, effect := labels.SplitTaint(text)
		if key == "" || effect == "" {
			return nil, fault.New(fault.Permanent, "%q is not a taint", text)
		}
		out = append(out, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return out, nil
}

// check returns an error if a node whose taints were to change has changed since it was read.
func (p nodePatch) check(there bool, n *corev1.Node) error {
	if there || p.Spec == nil {
		return nil
	}
	return fmt.Errorf("the node %s has changed in the meantime", n.Name)
}
