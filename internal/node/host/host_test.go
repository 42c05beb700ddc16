package host_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/test/kindtest"
)

func now() time.Time { return time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC) }

// signer is an authority with one keyset.
type signer struct{ *pki.Keyset }

func issuer() pki.Issuer {
	return pki.Issuer{Rand: rand.Reader, Now: now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
}

func (s signer) Signer(c *x509.Certificate) string {
	if c.CheckSignatureFrom(s.Keyset.Signer().Certificate) != nil {
		return ""
	}
	return s.Name
}

func (s signer) Issue(_ context.Context, _, _ string, r pki.Request) (pki.Pair, error) {
	return issuer().Issue(r, s.Keyset)
}

func machine(t *testing.T) *host.Machine {
	t.Helper()
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, issuer())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	return &host.Machine{Root: root, Cache: "/cache", Now: now, Systemd: host.Offline{Root: root}, Authority: signer{all[pki.KubernetesCA]}, Fetch: host.Open(http.DefaultClient)}
}

func write(t *testing.T, m *host.Machine, path, text string) {
	t.Helper()
	at := filepath.Join(m.Root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, m *host.Machine, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.Root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func content(s string) resource.Content { return resource.Text(resource.Lit(s)) }

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// archive returns a .tar.gz with these programs.
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, n := range names {
		if err := w.WriteHeader(&tar.Header{Name: n, Mode: 0o755, Size: int64(len(n)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, n) // writes to memory do not fail
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// asset stores data where the machine can fetch it.
func asset(t *testing.T, name string, data []byte) host.Asset {
	t.Helper()
	at := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(at, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := host.NewAsset(sum(data) + "@file://" + at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func fetched(t *testing.T, m *host.Machine, name string, data []byte) string {
	t.Helper()
	a := asset(t, name, data)
	if err := host.Assets.Create(t.Context(), m, &a); err != nil {
		t.Fatal(err)
	}
	return a.File
}

func TestTheLifeOfEachKind(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		kindtest.Run(t, &host.Files, machine(t), kindtest.Life[host.File]{OnlyNamed: true, Want: host.File{Path: "/a/b", Content: content("x"), Mode: "0640"},
			Changes: []kindtest.Change[host.File]{{Name: "content", Do: func(f *host.File) { f.Content = content("y") }}, {Name: "mode", Do: func(f *host.File) { f.Mode = "0600" }},
				{Name: "owner", Do: func(f *host.File) { f.Owner = 7 }}, {Name: "group", Do: func(f *host.File) { f.Group = 8 }}}})
	})
	t.Run("log", func(t *testing.T) {
		m := machine(t)
		kindtest.Run(t, &host.Logs, m, kindtest.Life[host.Log]{OnlyNamed: true, Want: host.Log{Path: "/var/log/a.log"}})
		if err := host.Logs.Create(t.Context(), m, &host.Log{Path: "/var/log/b.log"}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(m.Root, "/var/log/b.log")); err != nil || info.Mode().Perm() != 0o400 || info.Size() != 0 {
			t.Errorf("%v %+v", err, info)
		}
	})
	t.Run("directory", func(t *testing.T) {
		kindtest.Run(t, &host.Directories, machine(t), kindtest.Life[host.Directory]{OnlyNamed: true, Want: host.Directory{Path: "/a/b", Mode: "0755"},
			Changes: []kindtest.Change[host.Directory]{{Name: "mode", Do: func(f *host.Directory) { f.Mode = "0700" }},
				{Name: "owner", Do: func(f *host.Directory) { f.Owner = 7 }}, {Name: "group", Do: func(f *host.Directory) { f.Group = 8 }}}})
	})
	t.Run("symlink", func(t *testing.T) {
		kindtest.Run(t, &host.Symlinks, machine(t), kindtest.Life[host.Symlink]{OnlyNamed: true, Want: host.Symlink{Path: "/a/b", Target: "/x"},
			Changes: []kindtest.Change[host.Symlink]{{Name: "target", Do: func(l *host.Symlink) { l.Target = "../y" }}}})
	})
	t.Run("block", func(t *testing.T) {
		m := machine(t)
		write(t, m, "/etc/hosts", "127.0.0.1 localhost\n# Begin other - do not edit\n10.0.0.1 x\n# End other\n")
		before := read(t, m, "/etc/hosts")
		kindtest.Run(t, &host.Blocks, m, kindtest.Life[host.Block]{OnlyNamed: true, Want: host.Block{Path: "/etc/hosts", Name: "ours", Lines: []string{"10.0.0.2 y"}},
			Changes: []kindtest.Change[host.Block]{{Name: "lines", Do: func(b *host.Block) { b.Lines = []string{"10.0.0.3 y", "10.0.0.4 z"} }}}})
		if got := read(t, m, "/etc/hosts"); got != before {
			t.Errorf("others' lines became\n%s", got)
		}
	})
	t.Run("user", func(t *testing.T) {
		m := machine(t)
		write(t, m, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
		write(t, m, "/etc/shadow", "root:*:1:0:99999:7:::\n")
		kindtest.Run(t, &host.Users, m, kindtest.Life[host.User]{OnlyNamed: true, Want: host.User{Name: "u", ID: 10011, Home: "/h", Shell: "/sbin/nologin"},
			Changes: []kindtest.Change[host.User]{{Name: "home", Do: func(u *host.User) { u.Home = "/x" }}, {Name: "shell", Do: func(u *host.User) { u.Shell = "/bin/sh" }}}})
		if got := read(t, m, "/etc/passwd") + read(t, m, "/etc/shadow"); got != "root:x:0:0:root:/root:/bin/bash\nroot:*:1:0:99999:7:::\n" {
			t.Errorf("the accounts became\n%s", got)
		}
	})
	t.Run("module", func(t *testing.T) {
		kindtest.Run(t, &host.Modules, machine(t), kindtest.Life[host.Module]{OnlyNamed: true, Want: host.Module{Name: "br_netfilter"}})
	})
	t.Run("sysctl", func(t *testing.T) {
		kindtest.Run(t, &host.SysctlFiles, machine(t), kindtest.Life[host.SysctlFile]{OnlyNamed: true, Want: host.SysctlFile{Path: "/etc/sysctl.d/x.conf", Content: content("a=1\n")},
			Changes: []kindtest.Change[host.SysctlFile]{{Name: "content", Do: func(f *host.SysctlFile) { f.Content = content("a=2\n") }}}})
	})
	t.Run("asset", func(t *testing.T) {
		a := asset(t, "kubelet", []byte("program"))
		kindtest.Run(t, &host.Assets, machine(t), kindtest.Life[host.Asset]{OnlyNamed: true, Want: a,
			Untested: map[string]string{"SHA256": "a file of another digest has another name; see TestAChangedByteIsFetchedAgain"}})
	})
	t.Run("archive", func(t *testing.T) {
		m := machine(t)
		file := fetched(t, m, "c.tar.gz", archive(t, "bin/containerd", "bin/ctr", "bin/deep/x", "README"))
		kindtest.Run(t, &host.Archives, m, kindtest.Life[host.Archive]{OnlyNamed: true, Want: host.Archive{Folder: "/usr/bin", Asset: file, Below: "bin"}})
	})
	t.Run("binary", func(t *testing.T) {
		m := machine(t)
		kindtest.Run(t, &host.Binaries, m, kindtest.Life[host.Binary]{OnlyNamed: true, Want: host.Binary{Path: "/usr/bin/kubelet", Asset: fetched(t, m, "kubelet", []byte("program"))}})
	})
	t.Run("certificate in two files", func(t *testing.T) {
		kindtest.Run(t, &host.Certificates, machine(t), kindtest.Life[host.Certificate]{OnlyNamed: true, Want: certificate("/srv/c.crt", "/srv/c.key"), Changes: certificateChanges(),
			Untested: map[string]string{"KeyPath": "it is a part of the key", "Server": "only a kubeconfig has it", "User": "only a kubeconfig has it", "Signer": "see TestWhatMakesACertificateInvalid", "Valid": "see TestWhatMakesACertificateInvalid"}})
	})
	t.Run("certificate in a kubeconfig", func(t *testing.T) {
		c := certificate("/var/lib/kubeconfig", "")
		c.KeyMode, c.Server, c.User = "", "https://127.0.0.1", "u"
		changes := []kindtest.Change[host.Certificate]{{Name: "server", Do: func(c *host.Certificate) { c.Server = "https://api" }}, {Name: "user", Do: func(c *host.Certificate) { c.User = "v" }}}
		for _, x := range certificateChanges() {
			if x.Name != "key mode" {
				changes = append(changes, x)
			}
		}
		kindtest.Run(t, &host.Certificates, machine(t), kindtest.Life[host.Certificate]{OnlyNamed: true, Want: c, Changes: changes,
			Untested: map[string]string{"KeyPath": "it is a part of the key", "KeyMode": "there is one file", "Signer": "see TestWhatMakesACertificateInvalid", "Valid": "see TestWhatMakesACertificateInvalid"}})
	})
	t.Run("unit", func(t *testing.T) {
		for _, drop := range []bool{false, true} {
			kindtest.Run(t, &host.Units, machine(t), kindtest.Life[host.Unit]{OnlyNamed: true, Want: host.Unit{Name: "x.service", DropIn: drop, Content: content("[Unit]\n"), On: true, Current: true},
				Changes:  []kindtest.Change[host.Unit]{{Name: "content", Do: func(u *host.Unit) { u.Content = content("[Unit]\nx=y\n") }}, {Name: "off", Do: func(u *host.Unit) { u.On = false }}},
				Untested: map[string]string{"Current": "a folder has no running units; see TestAUnitOlderThanItsFileIsRestarted"}})
		}
	})
}

func certificate(path, key string) host.Certificate {
	return host.Certificate{Path: path, KeyPath: key, CommonName: "n", Organization: []string{"o"}, Names: []string{"a.example.com", "10.0.0.1"}, Usage: string(pki.Server),
		Signer: pki.KubernetesCA, Validity: 10000 * time.Hour, Valid: true, CA: content("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"), Mode: "0644", KeyMode: "0600"}
}

func certificateChanges() []kindtest.Change[host.Certificate] {
	return []kindtest.Change[host.Certificate]{
		{Name: "name", Do: func(c *host.Certificate) { c.CommonName = "m" }}, {Name: "organization", Do: func(c *host.Certificate) { c.Organization = nil }},
		{Name: "names", Do: func(c *host.Certificate) { c.Names = []string{"fd00::1"} }}, {Name: "usage", Do: func(c *host.Certificate) { c.Usage = string(pki.Client) }},
		{Name: "bundle", Do: func(c *host.Certificate) {
			c.CA = content("-----BEGIN CERTIFICATE-----\nYg==\n-----END CERTIFICATE-----\n")
		}},
		{Name: "mode", Do: func(c *host.Certificate) { c.Mode = "0600" }}, {Name: "key mode", Do: func(c *host.Certificate) { c.KeyMode = "0400" }},
		{Name: "owner", Do: func(c *host.Certificate) { c.Owner = 7 }}, {Name: "group", Do: func(c *host.Certificate) { c.Group = 8 }},
	}
}

func TestEveryKindIsSound(t *testing.T) {
	for _, k := range host.Kinds() {
		if err := k.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatMakesACertificateInvalid(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, *host.Machine)
		want  func(*host.Certificate) bool
	}{
		{"another key", func(t *testing.T, m *host.Machine) { write(t, m, "/c.key", read(t, machine2(t), "/c.key")) }, func(c *host.Certificate) bool { return !c.Valid }},
		{"no key", func(t *testing.T, m *host.Machine) { write(t, m, "/c.key", "") }, func(c *host.Certificate) bool { return !c.Valid }},
		{"89 days before its end", func(_ *testing.T, m *host.Machine) {
			m.Now = func() time.Time { return now().Add(10000*time.Hour - 89*24*time.Hour) }
		}, func(c *host.Certificate) bool { return !c.Valid }},
		{"91 days before its end it is not", func(_ *testing.T, m *host.Machine) {
			m.Now = func() time.Time { return now().Add(10000*time.Hour - 91*24*time.Hour) }
		}, func(c *host.Certificate) bool { return c.Valid && c.Signer == pki.KubernetesCA }},
		{"before it begins", func(_ *testing.T, m *host.Machine) { m.Now = func() time.Time { return now().Add(-72 * time.Hour) } }, func(c *host.Certificate) bool { return !c.Valid }},
		{"another authority", func(t *testing.T, m *host.Machine) { m.Authority = machine(t).Authority }, func(c *host.Certificate) bool { return c.Signer == "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine2(t)
			c.spoil(t, m)
			got, err := host.Certificates.List(t.Context(), m, resource.Scope{Names: []string{"/c.crt=/c.key"}})
			if err != nil || len(got) != 1 || !c.want(got[0]) {
				t.Errorf("%v %+v", err, got)
			}
		})
	}
}

// machine2 returns a machine with a certificate.
func machine2(t *testing.T) *host.Machine {
	t.Helper()
	m, c := machine(t), certificate("/c.crt", "/c.key")
	if err := host.Certificates.Create(t.Context(), m, &c); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAFileIsThereWhollyOrNotAtAll(t *testing.T) {
	m := machine(t)
	write(t, m, "/d/taken/x", "")
	f := host.File{Path: "/d/taken", Content: content("text"), Mode: "0644"}
	if err := host.Files.Create(t.Context(), m, &f); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(filepath.Join(m.Root, "d"))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestAllBitsOfAModeAreSet(t *testing.T) {
	m := machine(t)
	m.Chown = os.Getuid() == 0 // chown clears the setuid bit
	f := host.File{Path: "/program", Content: content("text"), Mode: "4755"}
	if err := host.Files.Create(t.Context(), m, &f); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(m.Root, "program"))
	if err != nil || info.Mode() != 0o755|os.ModeSetuid {
		t.Errorf("the mode is %v: %v", info.Mode(), err)
	}
	have, err := host.Files.List(t.Context(), m, resource.Scope{Names: []string{"/program"}})
	if err != nil || len(have) != 1 || have[0].Mode != f.Mode {
		t.Errorf("the mode is seen as %+v: %v", have, err)
	}
}

func TestAChangedByteIsFetchedAgain(t *testing.T) {
	m := machine(t)
	a := asset(t, "kubelet", []byte("program"))
	if err := host.Assets.Create(t.Context(), m, &a); err != nil {
		t.Fatal(err)
	}
	write(t, m, "/cache/"+a.File, "progrAm")
	k := host.Assets.Erase()
	have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{a.File}})
	if err != nil || len(have) != 1 {
		t.Fatal(have, err)
	}
	changes := k.Schema().Diff(&a, have[0].Got)
	if len(changes) != 1 || changes[0].Field != "SHA256" {
		t.Fatalf("changes %+v", changes)
	}
	if _, err := k.Set(t.Context(), m, have[0].Got, &a, changes); err != nil || read(t, m, "/cache/"+a.File) != "program" {
		t.Error(err, read(t, m, "/cache/"+a.File))
	}
}

func TestAServerWithTLSMayNotLeadElsewhere(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/round" {
			http.Redirect(w, r, "/round", http.StatusFound)
		}
	}))
	defer plain.Close()
	var at string
	safe := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/leave":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/stay":
			http.Redirect(w, r, at+"/there", http.StatusFound)
		}
	}))
	defer safe.Close()
	at = safe.URL
	client := host.NewHTTPClient(nil)
	client.Transport.(*http.Transport).TLSClientConfig = safe.Client().Transport.(*http.Transport).TLSClientConfig
	for url, says := range map[string]string{safe.URL + "/stay": "", safe.URL + "/leave": "redirects from TLS to " + plain.URL, plain.URL + "/round": "redirects 10 times"} {
		body, err := host.Open(client)(t.Context(), url)
		if err == nil {
			_ = body.Close()
		}
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || !fault.Is(err, fault.Permanent)) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestMirrorsAreTriedInOrder(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch r.URL.Path {
		case "/gone/kubelet":
			http.NotFound(w, r)
		case "/busy/kubelet":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/wrong/kubelet":
			_, _ = io.WriteString(w, "progrAm") // a failed write fails the test
		case "/short/kubelet":
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "pro") // a failed write fails the test
		default:
			_, _ = io.WriteString(w, "program") // a failed write fails the test
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		name, places string
		asked        string
		class        fault.Class
		message      string
	}{
		{"the first that is right", "gone,wrong,short,right,never", "/gone/kubelet /wrong/kubelet /short/kubelet /right/kubelet", "", ""},
		{"none is right", "gone,wrong", "/gone/kubelet /wrong/kubelet", fault.Permanent, "the server answers 404 Not Found"},
		{"one may be right later", "wrong,busy", "/wrong/kubelet /busy/kubelet", fault.NotYet, "the server answers 503 Service Unavailable"},
		{"one broke off", "short", "/short/kubelet", fault.NotYet, "the download was interrupted: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			m := machine(t)
			var urls []string
			for p := range strings.SplitSeq(c.places, ",") {
				urls = append(urls, server.URL+"/"+p+"/kubelet")
			}
			a, err := host.NewAsset(sum([]byte("program")) + "@" + strings.Join(urls, ","))
			if err != nil {
				t.Fatal(err)
			}
			err = host.Assets.Create(t.Context(), m, &a)
			if fault.Of(err) != c.class || err != nil && !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: %v", fault.Of(err), err)
			}
			if got := strings.Join(asked, " "); got != c.asked {
				t.Errorf("asked %s", got)
			}
			entries, _ := os.ReadDir(filepath.Join(m.Root, "cache"))
			if want := map[bool]int{true: 1, false: 0}[c.class == ""]; len(entries) != want {
				t.Errorf("in the cache: %v", entries)
			}
		})
	}
}

func TestAssetsAreReadFromConfiguration(t *testing.T) {
	h := strings.Repeat("a", 64)
	for _, c := range []struct{ text, file, urls string }{
		{h + "@https://x/kubelet,https://y/kubelet", h + "_kubelet", "https://x/kubelet https://y/kubelet"},
		{"unverified@https://x/kubelet", "unverified_kubelet", "https://x/kubelet"},
		{"unverified@https://user@x/a%20b", "unverified_a_20b", "https://user@x/a%20b"},
		{"https://x/kubelet", "", ""}, // only a configuration that allows it installs unverified content
		{"https://user@x/kubelet", "", ""},
		{"@https://x/kubelet", "", ""},
		{"12@https://x/kubelet", "", ""},
		{"", "", ""},
		{h + "@", "", ""},
	} {
		a, err := host.NewAsset(c.text)
		if (err != nil) != (c.file == "") || err == nil && (a.File != c.file || strings.Join(a.URLs, " ") != c.urls) {
			t.Errorf("%q: %+v %v", c.text, a, err)
		}
	}
}

func TestUnitsOfTheDistributionAreSwitchedOnAsTheyAre(t *testing.T) {
	m := machine(t)
	write(t, m, "/etc/systemd/system/chrony.service", "[Unit]\n")
	u := host.Unit{Name: "chrony.service", On: true, Current: true}
	if err := host.Units.Create(t.Context(), m, &u); err != nil || read(t, m, "/etc/systemd/system/chrony.service") != "[Unit]\n" {
		t.Error(err)
	}
}

// stateful is a systemd whose units are all in one state.
type stateful struct {
	host.Offline
	state host.UnitState
	known bool
}

func (s stateful) States(_ context.Context, units []string) (map[string]host.UnitState, error) {
	if !s.known {
		return nil, nil
	}
	return map[string]host.UnitState{units[0]: s.state}, nil
}

func TestUnitsThatAreToBeOff(t *testing.T) {
	want, k := host.Unit{Name: "x.service", Off: true, Current: true}, host.Units.Erase()
	for _, c := range []struct {
		name  string
		state stateful
		off   bool
	}{
		{"unknown", stateful{}, true},
		{"stopped", stateful{known: true}, true},
		{"stopped, but it starts with the machine", stateful{known: true, state: host.UnitState{Enabled: true}}, false},
		{"runs", stateful{known: true, state: host.UnitState{Running: true}}, false},
		{"a task that has ended", stateful{known: true, state: host.UnitState{Running: true, Ended: true}}, true},
		{"stopped, and only others start it", stateful{known: true, state: host.UnitState{Enabled: true, Static: true}}, true},
	} {
		m := machine(t)
		m.Systemd = c.state
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{k.KeyOf(&want)}})
		if err != nil || len(have) != 1 {
			t.Fatal(c.name, have, err)
		}
		if changes := k.Schema().Diff(&want, have[0].Got); (len(changes) == 0) != c.off {
			t.Errorf("%s: changes %+v", c.name, changes)
		}
	}
}

// clockwork is a systemd whose units were all started at one time.
type clockwork struct {
	host.Offline
	started  time.Time
	restarts int
}

func (c *clockwork) States(context.Context, []string) (map[string]host.UnitState, error) {
	return map[string]host.UnitState{"x.service": {Enabled: true, Running: true, Started: c.started}}, nil
}

func (c *clockwork) Start(_ context.Context, _ string, anew bool) error {
	if anew {
		c.started, c.restarts = time.Now().Add(time.Second), c.restarts+1
	}
	return nil
}

func TestAUnitOlderThanItsFileIsRestarted(t *testing.T) {
	m := machine(t)
	c := &clockwork{started: time.Now().Add(-time.Hour)}
	m.Systemd = c
	write(t, m, "/etc/systemd/system/x.service", "[Unit]\n") // and then the power failed
	u := host.Unit{Name: "x.service", Content: content("[Unit]\n"), On: true, Current: true}
	k := host.Units.Erase()
	for _, want := range []int{1, 0} {
		have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{"x.service"}})
		if err != nil || len(have) != 1 {
			t.Fatal(have, err)
		}
		changes := k.Schema().Diff(&u, have[0].Got)
		if len(changes) != want {
			t.Fatalf("changes %+v", changes)
		}
		if want == 1 {
			if _, err := k.Set(t.Context(), m, have[0].Got, &u, changes); err != nil || c.restarts != 1 {
				t.Fatal(c.restarts, err)
			}
		}
	}
}

// restartCounter counts how often units are restarted.
type restartCounter struct {
	stateful
	restarts int
}

func (c *restartCounter) Start(_ context.Context, _ string, anew bool) error {
	if anew {
		c.restarts++
	}
	return nil
}

// If something else starts a unit meanwhile, such as systemd at boot, it starts with the
// current file.
func TestOnlyChangedUnitsAreRestarted(t *testing.T) {
	u, k := host.Unit{Name: "x.service", Content: content("[Unit]\n"), On: true, Current: true}, host.Units.Erase()
	for _, c := range []struct {
		name, file string
		state      host.UnitState
		changes    int
		restarts   int
	}{
		{"its start is queued", "[Unit]\n", host.UnitState{Enabled: true, Running: true, Queued: true}, 0, 0},
		{"its start is queued, as it was before", "[Unit]\n", host.UnitState{Enabled: true, Running: true, Queued: true, Outdated: true}, 1, 1},
		{"its start is queued, as another file had it", "[Socket]\n", host.UnitState{Enabled: true, Running: true, Queued: true}, 1, 1},
		{"it does not run", "[Unit]\n", host.UnitState{Enabled: true, Started: time.Now().Add(time.Hour)}, 1, 0},
		{"nobody has enabled it", "[Unit]\n", host.UnitState{Running: true, Started: time.Now().Add(time.Hour)}, 1, 0},
		{"it has run with another file", "[Unit]\n", host.UnitState{Enabled: true, Running: true, Started: time.Now().Add(-time.Hour)}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(t)
			starts := &restartCounter{stateful: stateful{host.Offline{Root: m.Root}, c.state, true}}
			m.Systemd = starts
			write(t, m, "/etc/systemd/system/x.service", c.file)
			have, err := k.Observe(t.Context(), m, resource.Scope{Names: []string{"x.service"}})
			if err != nil || len(have) != 1 {
				t.Fatal(have, err)
			}
			changes := k.Schema().Diff(&u, have[0].Got)
			if len(changes) != c.changes {
				t.Fatalf("changes %+v", changes)
			}
			if len(changes) == 0 {
				return
			}
			if _, err := k.Set(t.Context(), m, have[0].Got, &u, changes); err != nil || starts.restarts != c.restarts {
				t.Errorf("started anew %d times: %v", starts.restarts, err)
			}
		})
	}
}

func TestParametersInForceAreLeftAlone(t *testing.T) {
	m := machine(t)
	write(t, m, "/proc/sys/net/a", "1\t2\n")
	write(t, m, "/proc/sys/net/b", "1\n")
	m.Command = func(context.Context, string, ...string) ([]byte, error) { return nil, nil }
	var warned []string
	m.Warn = func(s string) { warned = append(warned, s) }
	f := host.SysctlFile{Path: "/etc/sysctl.d/x", Content: content("# comment\nnet.a=1 2\nnet.b=2\nnet.none=1\nnet.conf.lxc*.x=0\n")}
	if err := host.SysctlFiles.Create(t.Context(), m, &f); err != nil {
		t.Fatal(err)
	}
	if a, b := read(t, m, "/proc/sys/net/a"), read(t, m, "/proc/sys/net/b"); a != "1\t2\n" || b != "2" {
		t.Errorf("parameters %q %q", a, b)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "net.none was not set: the kernel does not have it") {
		t.Errorf("warnings %v", warned)
	}
}
