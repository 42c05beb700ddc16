package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// inside is set in a process that runs in its own namespaces.
const inside = "KOPS_TEST_SANDBOXED"

// MetadataIP is the usual address of a metadata service.
const MetadataIP = "169.254.169.254"

// Enter runs the calling test again in its own namespaces, where Enter returns true. Outside, it returns
// false once that is done, and the test ends. A test that cannot run here is skipped with a loud message,
// or fails in CI.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		if err := isolate(); err != nil {
			t.Fatalf("furnish the sandbox: %v", err)
		}
		return true
	}
	missing := ""
	for _, tool := range []string{"bash", "curl", "gzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = tool + " is not installed"
		}
	}
	var out bytes.Buffer
	cmd := inNamespaces(t, &out)
	if missing == "" {
		if err := cmd.Start(); err != nil {
			missing = "there can be no namespaces; run as root: " + err.Error()
		}
	}
	switch {
	case missing == "":
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip("NO MACHINE IS STARTED: " + missing)
	}
	err := cmd.Wait()
	text := "in the sandbox:\n| " + strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\n", "\n| ") // so that it is not taken for the output of this process
	switch {
	case err != nil:
		t.Errorf("%v %s", err, text)
	case strings.Contains(text, "--- SKIP: "+t.Name()):
		t.Skip(text)
	default:
		t.Log(text)
	}
	return false
}

// inNamespaces returns the command that runs a test of this program in namespaces.
func inNamespaces(t *testing.T, out *bytes.Buffer) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, []string{inside + "=yes"}
	for _, v := range os.Environ() { // others, such as those of proxies and authorities, are about another network
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(v, "GO") || strings.HasPrefix(v, "KOPS_") || slices.Contains([]string{"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "CI"}, name) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// isolate gives this process private versions of the parts of the machine that user data changes, and
// a network that is only the loopback interface.
func isolate() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/opt", "/mnt"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, dir := range []string{"/mnt/upper", "/mnt/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := syscall.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work"); err != nil {
		return fmt.Errorf("/etc: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	return errors.Join(err, addAddress(MetadataIP))
}

// AddAddress gives this host another IPv4 address.
func AddAddress(t testing.TB, ip string) {
	t.Helper()
	if err := addAddress(ip); err != nil {
		t.Fatalf("add the address %s: %v", ip, err)
	}
}

func addAddress(ip string) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(ip + "/32")
	if err != nil {
		return err
	}
	return netlink.AddrReplace(lo, a)
}

// Resolve makes the given names, and no others, resolve to this host.
func Resolve(t testing.TB, all ...string) {
	t.Helper()
	writeEtc(t, map[string]string{"hosts": "127.0.0.1 localhost " + strings.Join(all, " ") + "\n", "resolv.conf": "", "nsswitch.conf": "hosts: files\n"})
}

func writeEtc(t testing.TB, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join("/etc", name)
		_ = os.Remove(file) // it may be a symbolic link
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
