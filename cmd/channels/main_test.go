package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kops.local/kops/internal/test/kubetest"
)

// applyWith runs the command and returns its output.
func applyWith(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := command()
	c.SetArgs(append([]string{"apply", "channel"}, args...))
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAChannelIsPreviewedAndApplied(t *testing.T) {
	kubeconfig := kubetest.Kubeconfig(t, kubetest.Start(t))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"channel.yaml": "kind: Addons\nmetadata: {name: bootstrap}\nspec:\n  addons:\n  - {name: a.io, id: one, manifest: a.yaml, manifestHash: ''}\n",
		"a.yaml":       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	channel := "file://" + dir + "/channel.yaml"
	for step, want := range []struct {
		args  []string
		shows bool
	}{
		{[]string{channel}, true},
		{[]string{channel}, true}, // a preview changes nothing
		{[]string{"--yes", channel}, false},
		{[]string{channel}, false},
	} {
		out, err := applyWith(t, append([]string{"--kubeconfig", kubeconfig}, want.args...)...)
		if err != nil || strings.Contains(out, "a.io") != want.shows {
			t.Errorf("step %d: %q, %v", step+1, out, err)
		}
	}
	if _, err := applyWith(t, "--kubeconfig", kubeconfig, "--yes", dir+"/absent.yaml"); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("an absent channel: %v", err)
	}
}

func TestADroppedAddonIsPreviewedAndRemoved(t *testing.T) {
	kubeconfig := kubetest.Kubeconfig(t, kubetest.Start(t))
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const stays, leaves = "  - {name: stays.io, manifest: stays.yaml}\n", "  - {name: leaves.io, manifest: leaves.yaml}\n"
	const list = "kind: Addons\nmetadata: {name: bootstrap}\nspec:\n  addons:\n"
	write("stays.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays, namespace: kube-system}\n")
	write("leaves.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: leaves}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: leaves, namespace: leaves}\n")
	const removal = "\nleaves.io is no longer listed and would be removed:\n  delete ConfigMap leaves/leaves\n  keep Namespace leaves\n"
	for step, tt := range []struct {
		addons string
		yes    bool
		shows  string
	}{
		{stays + leaves, true, ""},
		{stays, false, removal},
		{stays, false, removal}, // a preview changes nothing
		{stays, true, ""},
		{stays, false, ""},
	} {
		write("channel.yaml", list+tt.addons)
		args := []string{"--kubeconfig", kubeconfig, "file://" + dir + "/channel.yaml"}
		if tt.yes {
			args = append(args, "--yes")
		}
		out, err := applyWith(t, args...)
		if _, got, _ := strings.Cut(out, "PKI\n"); err != nil || got != tt.shows {
			t.Errorf("step %d: %q, %v", step+1, got, err)
		}
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"at least 1 arg": nil,
		"--node-name":    {"--node-labels=a", "x"},
		"has no name":    {"--node-labels==a", "x"},
	} {
		if _, err := applyWith(t, args...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got %v, want %q", args, err, says)
		}
	}
}
