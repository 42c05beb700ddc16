package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestDeadNodesAreRecordedUntilTheirCertificatesExpire(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: deadName, CreationTimestamp: metav1.NewTime(now.Add(-72 * time.Hour))},
		Data: map[string]string{"ended": "2026-07-31", "ends-today": "2026-08-01", "back": "2026-09-09"}})
	d := &Dead{ConfigMaps: client.CoreV1().ConfigMaps("kube-system"), Now: func() time.Time { return now }}
	node := func(name string, age time.Duration, labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age)), Labels: labels}}
	}
	alive := func(_ context.Context, names []string) ([]string, error) { return []string{"back", "replaced"}, nil }
	dead := []*corev1.Node{node("new", time.Hour, nil), node("old", 1000*time.Hour, nil), node("unsettled", 50*time.Hour, nil), node("replaced", 50*time.Hour, nil),
		node("cp", time.Hour, map[string]string{"node-role.kubernetes.io/control-plane": ""})}
	if err := d.update(t.Context(), dead, alive); err != nil {
		t.Fatal(err)
	}
	noted := func() map[string]string {
		c, err := d.ConfigMaps.Get(t.Context(), deadName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Data
	}
	want := map[string]string{"ends-today": "2026-08-01", "new": "2026-09-01", "old": "2027-11-30", "unsettled": "2027-11-30", "cp": "2027-11-30"}
	if got := noted(); !maps.Equal(got, want) {
		t.Errorf("noted are %v, want %v", got, want)
	}
	client.ClearActions()
	if err := d.update(t.Context(), nil, alive); err != nil || len(client.Actions()) != 1 {
		t.Errorf("nothing is new, and it does %v: %v", client.Actions(), err)
	}
	uncertain := errors.New("throttled")
	if err := d.update(t.Context(), nil, func(context.Context, []string) ([]string, error) { return nil, uncertain }); !errors.Is(err, uncertain) || !maps.Equal(noted(), want) {
		t.Errorf("when it cannot be told who is back: %v", err)
	}
	var many []*corev1.Node
	for n := range maxDead + 10 {
		many = append(many, node(fmt.Sprintf("i-%08x", n), time.Hour, nil))
	}
	if err := d.update(t.Context(), many, alive); err != nil {
		t.Fatal(err)
	}
	got := noted()
	if _, ended := got["ends-today"]; len(got) != maxDead || got["old"] == "" || ended {
		t.Errorf("%d are noted", len(got))
	}
}

// Nodes are also removed by others, such as a cloud controller manager.
func TestAMachineWhoseNodeOthersDeletedIsRecorded(t *testing.T) {
	now := time.Now()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}})
	l := lifecycle(client, now, machineNames{"cp-1", "a"})
	noted := func() string {
		if err := l.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		c, err := l.Dead.ConfigMaps.Get(t.Context(), deadName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for name := range c.Data {
			out = append(out, name)
		}
		return strings.Join(out, " ")
	}
	if got := noted(); got != "" {
		t.Errorf("noted are %s", got)
	}
	if err := l.Nodes.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := noted(); got != "" {
		t.Errorf("noted are %s, while the machine lives", got)
	}
	l.Machines = machineNames{"cp-1"}
	if got := noted(); got != "a" {
		t.Errorf("noted are %s", got)
	}
	l.Machines = machineNames{"cp-1", "a"}
	if got := noted(); got != "" {
		t.Errorf("noted are %s, when another machine has the name", got)
	}
}
