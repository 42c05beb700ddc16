package host_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/host"
)

// unfinishedFiles lists the files that a step has left unfinished.
func unfinishedFiles(t *testing.T, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") {
			out = append(out, at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// smallMachine returns a machine with a disk of 64 KiB.
func smallMachine(t *testing.T) *host.Machine {
	t.Helper()
	m := machine(t)
	if err := syscall.Mount("none", m.Root, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("CANNOT RUN: a small file system cannot be mounted here: ", err)
		}
		t.Skip("SKIPPED, NOTHING WAS TESTED: a small file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(m.Root, 0) }) // the test is over
	return m
}

// zeros returns an archive that is small, and large when it is unpacked.
func zeros(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, n := range []string{"bin/a", "bin/b"} {
		err := w.WriteHeader(&tar.Header{Name: n, Mode: 0o755, Size: 40 << 10, Typeflag: tar.TypeReg})
		_, werr := w.Write(make([]byte, 40<<10))
		if err := errors.Join(err, werr); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAFullDisk(t *testing.T) {
	big := strings.Repeat("x", 100<<10)
	for _, c := range []struct {
		name string
		do   func(*testing.T, *host.Machine) error
		kept map[string]string // files that are unchanged
	}{
		{"a file is fetched", func(t *testing.T, m *host.Machine) error {
			a := asset(t, "kubelet", []byte(big))
			write(t, m, "/cache/"+a.File, "old")
			k := host.Assets.Erase()
			_, err := k.Create(t.Context(), m, &a)
			if got := read(t, m, "/cache/"+a.File); got != "old" {
				t.Errorf("the file before became %q", got)
			}
			return err
		}, nil},
		{"an archive is unpacked", func(t *testing.T, m *host.Machine) error {
			write(t, m, "/usr/bin/b", "old")
			file := fetched(t, m, "c.tar.gz", zeros(t))
			return host.Archives.Create(t.Context(), m, &host.Archive{Folder: "/usr/bin", Asset: file, Below: "bin"})
		}, map[string]string{"/usr/bin/b": "old"}},
		{"a program is installed", func(t *testing.T, m *host.Machine) error {
			write(t, m, "/usr/bin/kubelet", "old")
			return host.Binaries.Create(t.Context(), m, &host.Binary{Path: "/usr/bin/kubelet", Asset: fetched(t, m, "kubelet", []byte(big[:40<<10]))})
		}, map[string]string{"/usr/bin/kubelet": "old"}},
		{"a file is written", func(t *testing.T, m *host.Machine) error {
			write(t, m, "/etc/f", "old")
			return host.Files.Create(t.Context(), m, &host.File{Path: "/etc/f", Content: content(big), Mode: "0644"})
		}, map[string]string{"/etc/f": "old"}},
		{"names are added", func(t *testing.T, m *host.Machine) error {
			write(t, m, "/etc/hosts", "127.0.0.1 localhost\n")
			return host.Blocks.Create(t.Context(), m, &host.Block{Path: "/etc/hosts", Name: "ours", Lines: []string{big}})
		}, map[string]string{"/etc/hosts": "127.0.0.1 localhost\n"}},
		{"a certificate is issued", func(t *testing.T, m *host.Machine) error {
			write(t, m, "/c.crt", "old")
			write(t, m, "/c.key", "old")
			write(t, m, "/filler", big[:56<<10])
			cert := certificate("/c.crt", "/c.key")
			return host.Certificates.Create(t.Context(), m, &cert)
		}, map[string]string{"/c.crt": "old", "/c.key": "old"}},
		{"a unit is written", func(t *testing.T, m *host.Machine) error {
			write(t, m, "/etc/systemd/system/x.service", "old")
			return host.Units.Create(t.Context(), m, &host.Unit{Name: "x.service", Content: content(big), On: true})
		}, map[string]string{"/etc/systemd/system/x.service": "old"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := smallMachine(t)
			err := c.do(t, m)
			if !fault.Is(err, fault.Quota) || !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(fault.Remedy(err), "free space on the disk") {
				t.Errorf("%s: %v; %s", fault.Of(err), err, fault.Remedy(err))
			}
			if left := unfinishedFiles(t, m.Root); len(left) > 0 {
				t.Errorf("left half-written: %v", left)
			}
			for path, want := range c.kept {
				if got := read(t, m, path); got != want {
					t.Errorf("%s became %q", path, got)
				}
			}
		})
	}
}

// badMirrors returns servers that each fail in a different way. No server listens on the port of refuse.
func badMirrors(t *testing.T) (server, refuse string) {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch filepath.Dir(r.URL.Path) {
		case "/404":
			http.NotFound(w, r)
		case "/503":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/403":
			w.WriteHeader(http.StatusForbidden)
		case "/silent":
			<-done
		case "/stops":
			_, _ = io.WriteString(w, "prog") // a failed write fails the test
			w.(http.Flusher).Flush()
			<-done
		case "/cut":
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "pro") // a failed write fails the test
		case "/other":
			_, _ = io.WriteString(w, "progrAm") // a failed write fails the test
		case "/right":
			_, _ = io.WriteString(w, "program") // a failed write fails the test
		}
	}))
	t.Cleanup(func() { close(done); s.Close() })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it was only opened to find a free port
	return s.URL, "http://" + l.Addr().String()
}

func TestBadMirrors(t *testing.T) {
	server, refuse := badMirrors(t)
	other := "the file is not the requested one: its SHA-256 digest is " + sum([]byte("progrAm")) + ", not " + sum([]byte("program"))
	address := strings.TrimPrefix(refuse, "http://")
	for _, c := range []struct {
		place, message string
		class          fault.Class
	}{
		{refuse, "dial tcp " + address + ": connect: connection refused", fault.NotYet},
		{"http://mirror.invalid", "no such host", fault.NotYet},
		{server + "/404", "the server answers 404 Not Found", fault.Permanent},
		{server + "/403", "the server answers 403 Forbidden", fault.Permanent},
		{server + "/503", "the server answers 503 Service Unavailable", fault.NotYet},
		{server + "/silent", "no data received for 200ms", fault.NotYet},
		{server + "/stops", "no data received for 200ms", fault.NotYet},
		{server + "/cut", "the download was interrupted: unexpected EOF", fault.NotYet},
		{server + "/other", other, fault.Permanent},
		{"ftp://mirror", `files cannot be fetched with the scheme "ftp"`, fault.Permanent},
	} {
		t.Run(c.place, func(t *testing.T) {
			for _, second := range []string{"/right", "/404"} {
				m := machine(t)
				m.Silence, m.Fetch = 200*time.Millisecond, host.Open(host.NewHTTPClient(nil))
				first, last := c.place+"/kubelet", server+second+"/kubelet"
				a, err := host.NewAsset(sum([]byte("program")) + "@" + first + "," + last)
				if err != nil {
					t.Fatal(err)
				}
				write(t, m, "/cache/"+a.File, "old")
				err = host.Assets.Create(t.Context(), m, &a)
				if left := unfinishedFiles(t, m.Root); len(left) > 0 {
					t.Errorf("left half-written: %v", left)
				}
				if second == "/right" {
					if err != nil || read(t, m, "/cache/"+a.File) != "program" {
						t.Errorf("the second place was right: %v", err)
					}
					continue
				}
				if err == nil || read(t, m, "/cache/"+a.File) != "old" {
					t.Fatalf("%v; the file became %q", err, read(t, m, "/cache/"+a.File))
				}
				text := err.Error()
				if !strings.HasPrefix(text, "fetch kubelet: "+first+": ") || !strings.Contains(text, c.message+"; "+last+": the server answers 404 Not Found") {
					t.Errorf("the message is %s", text)
				}
				if fault.Of(err) != c.class || !strings.HasPrefix(fault.Remedy(err), "make one of these places reachable from the machine, or set spec.assets.fileRepository to a mirror") {
					t.Errorf("%s; %s", fault.Of(err), fault.Remedy(err))
				}
			}
		})
	}
}

func TestABadArchive(t *testing.T) {
	for _, c := range []struct {
		name, message string
		data          []byte
	}{
		{"no archive", "unpack c.tar.gz: gzip: invalid header", []byte("<html>not found</html>")},
		{"nothing in it", `unpack c.tar.gz: there are no files below "bin"`, archive(t, "other/x")},
		{"one that ends early", "unpack c.tar.gz: unexpected EOF", zeros(t)[:40]},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := machine(t)
			err := host.Archives.Create(t.Context(), m, &host.Archive{Folder: "/usr/bin", Asset: fetched(t, m, "c.tar.gz", c.data), Below: "bin"})
			if err == nil || err.Error() != c.message || !fault.Is(err, fault.Permanent) || !strings.HasPrefix(fault.Remedy(err), "use the URL and digest of an archive with the same layout as the released one") {
				t.Errorf("%v; %s", err, fault.Remedy(err))
			}
			if left := unfinishedFiles(t, m.Root); len(left) > 0 {
				t.Errorf("left half-written: %v", left)
			}
		})
	}
}

// The next run removes what a killed run has left.
func TestLeftoversOfAKilledRunAreOverwritten(t *testing.T) {
	m := machine(t)
	write(t, m, "/etc/.f.kops-new", "half")
	write(t, m, "/etc/.l.kops-new", "half")
	a := asset(t, "kubelet", []byte("program"))
	write(t, m, "/cache/."+a.File+".kops-new", "half")
	ctx := t.Context()
	if err := errors.Join(host.Files.Create(ctx, m, &host.File{Path: "/etc/f", Content: content("whole"), Mode: "0644"}),
		host.Symlinks.Create(ctx, m, &host.Symlink{Path: "/etc/l", Target: "f"}), host.Assets.Create(ctx, m, &a)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, m, "/etc/f") + read(t, m, "/etc/l") + read(t, m, "/cache/"+a.File); got != "wholewholeprogram" {
		t.Errorf("the files hold %q", got)
	}
	if left := unfinishedFiles(t, m.Root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
