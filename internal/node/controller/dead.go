package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kops.local/kops/internal/contract/labels"
)

const (
	// deadName is the ConfigMap with the names. The admission policy of the same name
	// keeps kubelets with these names from creating a Node.
	deadName = "kops-gone-machines"
	// longValidity is the maximum validity of a control-plane machine's certificate,
	// and of any machine's certificate that kOps issued.
	longValidity = 485 * 24 * time.Hour
	// settled is how long after the first record other control planes may still run a
	// kops-controller that issues long-lived certificates.
	settled = 24 * time.Hour
	// maxDead limits the number of names: a Kubernetes object holds about a megabyte.
	maxDead = 8000
)

// Dead records the names of nodes whose machines are gone. Their certificates
// cannot be revoked, but must not let anyone register such a node again.
type Dead struct {
	ConfigMaps corev1client.ConfigMapInterface // in kube-system
	Now        func() time.Time
}

// update adds nodes, and removes the names whose certificates have all expired. It also
// removes names for which alive reports a machine: that machine's kubelet will register.
func (d *Dead) update(ctx context.Context, nodes []*corev1.Node, alive func(context.Context, []string) ([]string, error)) error {
	noted, err := d.read(ctx)
	if err != nil {
		return fmt.Errorf("read the list of deleted machines: %w", err)
	}
	want := maps.Clone(noted.Data)
	if want == nil {
		want = map[string]string{}
	}
	today := d.Now().UTC().Format(time.DateOnly)
	maps.DeleteFunc(want, func(_, until string) bool { return until < today })
	for _, n := range nodes {
		want[n.Name] = d.Now().UTC().Add(maxValidity(n, noted.CreationTimestamp.Time)).Add(24 * time.Hour).Format(time.DateOnly)
	}
	if len(want) > 0 {
		back, err := alive(ctx, slices.Sorted(maps.Keys(want)))
		if err != nil {
			return fmt.Errorf("find out which machines are back: %w", err)
		}
		for _, name := range back {
			delete(want, name)
		}
	}
	first := slices.SortedFunc(maps.Keys(want), func(a, b string) int { return cmp.Or(cmp.Compare(want[a], want[b]), cmp.Compare(a, b)) })
	for _, name := range first[:max(0, len(first)-maxDead)] { // those that expire first
		delete(want, name)
	}
	if maps.Equal(want, noted.Data) {
		return nil
	}
	noted.Data = want
	if _, err := d.ConfigMaps.Update(ctx, noted, metav1.UpdateOptions{FieldManager: "kops-controller"}); err != nil {
		return fmt.Errorf("record which machines are gone: %w", err)
	}
	return nil
}

// read returns the ConfigMap, and creates it if it is missing: its age tells since when
// certificates are short-lived.
func (d *Dead) read(ctx context.Context) (*corev1.ConfigMap, error) {
	noted, err := d.ConfigMaps.Get(ctx, deadName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return d.ConfigMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: deadName}}, metav1.CreateOptions{FieldManager: "kops-controller"})
	}
	return noted, err
}

// maxValidity returns the maximum validity of a node's certificate: if a node is older than the
// ConfigMap, another kops-controller may have issued its certificates, and control-plane machines
// sign for themselves.
func maxValidity(n *corev1.Node, since time.Time) time.Duration {
	if _, own := n.Labels[labels.ControlPlane]; own || n.CreationTimestamp.Time.Before(since.Add(settled)) {
		return longValidity
	}
	return leastValidity + spread
}
