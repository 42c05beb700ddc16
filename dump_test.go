package kops_test

import (
	"strings"
	"testing"
	"time"

	"kops.local/kops"
)

// TestADumpOfAClusterThatDoesNotAnswer: there is a dump regardless of what does not answer, with
// the missing parts and the reasons, and without secrets.
func TestADumpOfAClusterThatDoesNotAnswer(t *testing.T) {
	b := newAppliedBench(t)
	c, err := b.Clusters().Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Clusters().SetFields(t.Context(), c, c.Spec, []string{`spec.fileAssets=[{"name":"x","path":"/x","content":"hush hush"}]`}, nil); err != nil {
		t.Fatal(err)
	}
	d, err := b.Dump(t.Context(), name, kops.DumpOptions{Resources: true, Files: true, Objects: true, Machines: 10, MachineTime: time.Minute,
		ReachOptions: kops.ReachOptions{Server: "https://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Resources) < 3 || len(d.Instances) == 0 {
		t.Errorf("the resources are %v, and the machines %v", d.Resources, d.Instances)
	}
	for _, path := range []string{"dump.yaml", "cluster.yaml", "completed.yaml", "instancegroups/nodes-here.yaml", "revisions.yaml", "diagnosis.yaml", "kubernetes/pods.yaml.error", "logs.error"} {
		if len(d.Files[path]) == 0 {
			t.Errorf("%s is missing; there are %d files", path, len(d.Files))
		}
	}
	for path, text := range d.Files {
		if strings.Contains(string(text), "hush") || strings.Contains(string(text), "PRIVATE KEY") {
			t.Errorf("%s holds what is secret:\n%s", path, text)
		}
	}
	if text := string(d.Files["cluster.yaml"]); !strings.Contains(text, "9 bytes, left out") {
		t.Errorf("the spec tells nothing of what was left out:\n%s", text)
	}
}
