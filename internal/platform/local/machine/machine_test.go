package machine

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/platform/local/cgroup"
	"kops.local/kops/internal/platform/local/site"
)

const many = `Content-Type: multipart/mixed; boundary="MIMEBOUNDARY"
MIME-Version: 1.0

--MIMEBOUNDARY
Content-Disposition: attachment; filename="nodeup.sh"
Content-Transfer-Encoding: 7bit
Content-Type: text/x-shellscript
Mime-Version: 1.0

#!/bin/bash
echo one
--MIMEBOUNDARY
Content-Type: text/x-shellscript
Content-Transfer-Encoding: base64

IyEvYmluL3NoCmVjaG8gdHdvCg==
--MIMEBOUNDARY--
`

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       []Script
		err        string
	}{
		{name: "none", data: " \n"},
		{name: "a script", data: "#!/bin/sh\ntrue\n", want: []Script{{"user-data", "#!/bin/sh\ntrue\n"}}},
		{name: "many parts", data: many, want: []Script{{"nodeup.sh", "#!/bin/bash\necho one"}, {"part-1", "#!/bin/sh\necho two\n"}}},
		{name: "a name with folders is only a name", data: strings.Replace(many, "nodeup.sh", "../../etc/x.sh", 1),
			want: []Script{{"x.sh", "#!/bin/bash\necho one"}, {"part-1", "#!/bin/sh\necho two\n"}}},
		{name: "text", data: "hello", err: "user data is neither a script, which begins with #!, nor a MIME message"},
		{name: "one part", data: "Content-Type: text/plain\n\nx", err: `user data is a MIME message of type "text/plain", but must be a multipart message`},
		{name: "cloud-config", data: strings.Replace(many, "text/x-shellscript", "text/cloud-config", 1),
			err: `the part nodeup.sh of the user data is of type "text/cloud-config"; machines of the local cloud run scripts (text/x-shellscript) only`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Scripts(c.data)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Fatalf("%v, not %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestResolversLeavesOutTheHostsOwn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	stub := write("stub", "nameserver 127.0.0.53\nsearch example.com\n")
	real := write("real", "# comment\nnameserver 127.0.0.1\nnameserver fe80::1%eth0\nnameserver 2001:db8::53\nnameserver 192.0.2.53\nsearch example.com\noptions edns0\n")
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{stub, real}, "nameserver 192.0.2.53\nsearch example.com\noptions edns0\n"},
		{[]string{write("six", "nameserver 2001:db8::53\n"), real}, "nameserver 192.0.2.53\nsearch example.com\noptions edns0\n"},
		{[]string{filepath.Join(dir, "missing"), stub}, "# the host names no server that machines can reach\nnameserver 10.77.0.1\n"},
	} {
		got, err := resolvers(netip.MustParseAddr("10.77.0.1"), c.files...)
		if err != nil || string(got) != c.want {
			t.Errorf("resolvers(%v) = %q, %v", c.files, got, err)
		}
	}
}

// TestFilesTakeTheImagesPlace: the given files and the resolver override those of the image.
func TestFilesTakeTheImagesPlace(t *testing.T) {
	s := Spec{Name: "m", Address: netip.MustParsePrefix("10.77.0.11/24"), Gateway: netip.MustParseAddr("10.77.0.1"),
		Resolver: netip.MustParseAddr("198.18.0.1"), Files: map[string][]byte{"/etc/ssl/x.pem": []byte("pem")}}
	files, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		got[f.path] = string(f.data)
	}
	if got["/etc/resolv.conf"] != "nameserver 198.18.0.1\n" || got["/etc/ssl/x.pem"] != "pem" {
		t.Errorf("got %q", got)
	}
}

func TestCheckRefusesWhatMountsWouldMisread(t *testing.T) {
	good := Spec{Name: "m", Image: "/usr", Folders: []Folder{{Host: "/", Path: "/mnt/x"}}}
	if err := good.check("/var/lib/kops/c"); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*Spec){
		"a name with a slash":     func(s *Spec) { s.Name = "a/b" },
		"an image with a colon":   func(s *Spec) { s.Image = "/usr:a" },
		"an image with a comma":   func(s *Spec) { s.Image = "/usr,a" },
		"a relative image":        func(s *Spec) { s.Image = "usr" },
		"an image that is absent": func(s *Spec) { s.Image = "/no/such/image" },
		"a folder with a colon":   func(s *Spec) { s.Folders[0].Path = "/mnt:x" },
		"a relative file":         func(s *Spec) { s.Files = map[string][]byte{"etc/x": nil} },
		"a file that climbs":      func(s *Spec) { s.Files = map[string][]byte{"/etc/../../x": nil} },
		"a folder that is absent": func(s *Spec) { s.Folders[0].Host = "/no/such/folder" },
	} {
		s := good
		s.Folders = []Folder{good.Folders[0]}
		bad(&s)
		if s.check("/var/lib/kops/c") == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestRunScript: the script that runs a machine, on hosts with either version of control groups.
func TestRunScript(t *testing.T) {
	s := Spec{Name: "nodes-x", Image: "/images/it's", Address: netip.MustParsePrefix("10.77.1.12/16")}
	where := site.Site{Root: "/r", Cluster: "c"}
	v1 := Host{Site: where, Trees: []cgroup.Tree{{Dir: "/cg/cpu"}, {Dir: "/cg/unified", Unified: true}}}
	v2 := Host{Site: where, Trees: []cgroup.Tree{{Dir: "/cg", Unified: true}}}
	own, service := "/kops/"+where.ID()+"/nodes-x", "/kops.slice/kops-"+where.ID()+".slice/kops-"+where.ID()+"-nodes-x.service"
	booted := v2
	booted.Systemd = true
	for _, c := range []struct {
		name     string
		host     Host
		has, not []string
	}{
		{"version 1", v1, []string{"echo 0 > '/cg/cpu" + own + "'/cgroup.procs", "echo 0 > '/cg/unified" + own + "'/cgroup.procs", `lowerdir=/r/c/machines/nodes-x/seed:/images/it'\''s,upperdir=/r/c/machines/nodes-x/disk/upper,`, "mount -o loop,discard,", "count=16777216 ", "find '/cg/cpu" + own + "' -mindepth 1", "'--machine=k" + where.ID() + "010c'",
			"mount -t bpf bpf '/r/c/machines/nodes-x/bpf'", "'--bind=/r/c/machines/nodes-x/bpf:/sys/fs/bpf'"}, []string{"start-$n"}},
		{"version 2", v2, []string{"group='/cg" + own + "'", `"$group/start-$n/cgroup.procs"`, `rmdir {} +`}, []string{"'/cgroup.procs"}},
		{"version 2 with systemd", booted, []string{"group='/cg" + service + "'"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.host.script("/r/c/machines/nodes-x", s)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.has {
				if !strings.Contains(string(got), want) {
					t.Errorf("the script lacks %s:\n%s", want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(string(got), not) {
					t.Errorf("the script has %s:\n%s", not, got)
				}
			}
		})
	}
}

// TestGroupOfAnEarlierKops: machines that run in the control group of an earlier kops are
// found there.
func TestGroupOfAnEarlierKops(t *testing.T) {
	h := Host{Site: site.Site{Root: "/r", Cluster: "c"}, Trees: []cgroup.Tree{{Dir: t.TempDir()}, {Dir: t.TempDir()}}}
	if got, want := h.Group("m").Path, "kops/"+h.ID()+"/m"; got != want {
		t.Errorf("a machine is in %s, not %s", got, want)
	}
	old := "kops-" + h.ID() + "/m"
	if err := os.MkdirAll(filepath.Join(h.Trees[1].Dir, old), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := h.Group("m").Path; got != old {
		t.Errorf("it is looked for in %s, not %s", got, old)
	}
}

// TestASliceLimitsAllMachines: if systemd is the host's init, it limits the memory of
// all machines together and of each.
func TestASliceLimitsAllMachines(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"$(basename \"$0\") $*\" >> " + filepath.Join(bin, "calls") + "\n"
	for _, program := range []string{"systemctl", "systemd-run"} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	tree := t.TempDir()
	h := Host{Site: site.Site{Root: t.TempDir(), Cluster: "c"}, Trees: []cgroup.Tree{{Dir: tree, Unified: true}}, Systemd: true}
	if err := site.Write(filepath.Join(h.Group("m").Dirs()[0], "cgroup.procs"), []byte("1\n"), 0o600); err != nil { // so that it counts as running
		t.Fatal(err)
	}
	s := Spec{Name: "m", Address: netip.MustParsePrefix("10.77.1.12/16")}
	if err := h.start(t.Context(), h.Path(site.Machines, "m"), s, memory{perMachine: 1000, total: 1500}); err != nil {
		t.Fatal(err)
	}
	if err := h.RetireSlice(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(bin, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"systemctl set-property --runtime kops.slice MemoryMax=1500M MemorySwapMax=0\nsystemd-run ", "--property=MemoryMax=1000M --property=MemorySwapMax=0 "} {
		if !strings.Contains(string(got), want) {
			t.Errorf("systemd was not told %q:\n%s", want, got)
		}
	}
}

// TestDelete: a machine's registry entry is removed after it has ended, and before
// its folder, from which the next deletion finds it.
func TestDelete(t *testing.T) {
	const name = "nodes-1"
	h := Host{Site: site.Site{Root: t.TempDir(), Cluster: "c"}}
	dir, entry := h.Path(site.Machines, name), h.Path(site.Registry, name+".json")
	write := func(file, text string) {
		t.Helper()
		if err := site.Write(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	}
	write(filepath.Join(dir, recordFile), "{") // its interface is unknown, and so not removed
	write(entry, "{}")
	if err := h.Delete(t.Context(), name); err == nil || !there(entry) || !there(dir) {
		t.Errorf("a machine that may run: %v; registered %t, its folder %t", err, there(entry), there(dir))
	}
	if err := os.Remove(entry); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, recordFile), `{"Name": "nodes-1", "Address": "10.77.0.11"}`)
	write(filepath.Join(entry, "in-the-way"), "")
	if err := h.Delete(t.Context(), name); err == nil || !there(dir) {
		t.Errorf("an entry that cannot be removed: %v; its folder %t", err, there(dir))
	}
	if err := os.RemoveAll(entry); err != nil {
		t.Fatal(err)
	}
	write(entry, "{}")
	for range 2 { // deleting it again is not an error
		if err := h.Delete(t.Context(), name); err != nil || there(entry) || there(dir) {
			t.Errorf("%v; registered %t, its folder %t", err, there(entry), there(dir))
		}
	}
}
