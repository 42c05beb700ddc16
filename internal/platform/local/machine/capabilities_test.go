package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingCapabilities(t *testing.T) {
	for _, c := range []struct{ status, last, want, err string }{
		{"Name:\tsh\nCapBnd:\t000001ffffffffff\n", "40\n", "", ""},
		{"CapBnd:\t000001fffeffffff\n", "40\n", "CAP_SYS_RESOURCE", ""},
		{"CapBnd:\t0000000000000000\n", "1\n", "CAP_CHOWN CAP_DAC_OVERRIDE", ""},
		{"CapBnd:\tnone\n", "40\n", "", "read /proc/self/status"},
		{"Name:\tsh\n", "40\n", "", "does not list capabilities"},
		{"CapBnd:\t0\n", "many\n", "", "read /proc/sys/kernel/cap_last_cap"},
	} {
		got, err := missingCapabilities(c.status, c.last)
		if text := strings.Join(got, " "); text != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, %v; want %q, %q", c.status, text, err, c.want, c.err)
		}
	}
}

// TestRuncWrapper runs the wrapper before a program that shows what it is called with.
func TestRuncWrapper(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("real/runc", "#!/bin/sh\necho \"$@\"\n")
	script := write("runc", string(wrapper([]string{"CAP_SYS_RESOURCE", "CAP_BPF"})))
	t.Setenv("PATH", dir+":"+dir+"/real:"+os.Getenv("PATH"))
	const lists = `{"bounding":["CAP_SYS_RESOURCE","CAP_CHOWN"],"effective":["CAP_CHOWN","CAP_BPF","CAP_SYS_RESOURCE"],"permitted":["CAP_BPF"]}`
	const want = `{"bounding":["CAP_CHOWN"],"effective":["CAP_CHOWN"],"permitted":[]}`
	write("config.json", lists)
	process := write("process", lists)
	for _, c := range []struct {
		args []string
		file string
	}{
		{[]string{"--log", "x", "create", "--bundle", dir, "id"}, filepath.Join(dir, "config.json")},
		{[]string{"exec", "--process", process, "id"}, process},
		{[]string{"state", "id"}, ""},
	} {
		out, err := exec.CommandContext(t.Context(), script, c.args...).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != strings.Join(c.args, " ") {
			t.Errorf("%v: runc gets %s, %v", c.args, out, err)
		}
		if c.file == "" {
			continue
		}
		if got, err := os.ReadFile(c.file); err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", c.args, got, err, want)
		}
	}
}
