package bundle

import (
	"slices"
	"testing"
)

func TestByVersion(t *testing.T) {
	want := []string{"", "iptables-9", "iptables-12.9", "iptables-12.10", "iptables-bookworm", "v1.9.1/a", "v1.36.3", "v1.36.3/a", "v1.36.10/a"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, byVersion)
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if byVersion("a-01", "a-1") != 0 {
		t.Error("a zero before a number makes another")
	}
}

func TestNamed(t *testing.T) {
	const at = "https://dl.example.com/"
	b := &Bundle{contents: contents{Files: map[string]File{}}}
	for _, u := range []string{"v1.9.0/bin/linux/amd64/kubectl", "v1.36.10/bin/linux/amd64/kubectl", "v1.36.9/bin/linux/amd64/kubectl",
		"v1.36.10/bin/linux/arm64/kubectl", "v2/bin/linux/arm64/kubectl", "tool"} {
		b.contents.Files[at+u] = File{}
	}
	for _, c := range []struct{ end, arch, want string }{
		{"kubectl", "amd64", "v1.36.10/bin/linux/amd64/kubectl"},
		{"kubectl", "arm64", "v2/bin/linux/arm64/kubectl"},
		{"v1.9.0/bin/linux/amd64/kubectl", "arm64", "v1.9.0/bin/linux/amd64/kubectl"}, // FILE names the file in it
		{"tool", "arm64", "tool"},
		{"ctl", "amd64", ""},
	} {
		got, ok := b.Named(c.end, c.arch)
		if ok != (c.want != "") || ok && got != at+c.want {
			t.Errorf("%s for %s: %q, %t", c.end, c.arch, got, ok)
		}
	}
}
