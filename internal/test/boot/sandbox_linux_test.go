package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// sandboxed is set when these tests run in their own namespaces.
const sandboxed = "KOPS_TEST_SANDBOXED"

// controllerIP is the address of the control plane's machine, metadataIP the address of the
// metadata service; both are served here.
const (
	controllerIP = "10.0.0.9"
	metadataIP   = "169.254.169.254"
)

// TestMain re-executes the tests with a file system and a network of their own: user data
// writes to /opt and /etc, and uses real names and addresses.
func TestMain(m *testing.M) {
	if os.Getenv(sandboxed) == "" {
		os.Exit(runInNamespaces(m))
	}
	if err := isolateFiles(); err != nil {
		fmt.Fprintln(os.Stderr, "furnish the sandbox:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runInNamespaces runs this program in namespaces, or directly if they are not available.
func runInNamespaces(m *testing.M) int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdout, os.Stderr, append(os.Environ(), sandboxed+"=yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return m.Run() // each test reports that it has no sandbox
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		return 1
	}
	return 0
}

// isolateFiles gives this process private versions of the parts of the machine that user data changes.
func isolateFiles() error {
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
	for _, ip := range []string{controllerIP, metadataIP} {
		if err == nil {
			var a *netlink.Addr
			if a, err = netlink.ParseAddr(ip + "/32"); err == nil {
				err = netlink.AddrAdd(lo, a)
			}
		}
	}
	return err
}

// requireTools skips a test that cannot run here, with a loud message, or fails it in CI.
func requireTools(t *testing.T) {
	t.Helper()
	missing := ""
	for _, tool := range []string{"bash", "curl", "gzip", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = tool + " is not installed"
		}
	}
	if os.Getenv(sandboxed) == "" {
		missing = "there can be no namespaces; run as root"
	}
	switch {
	case missing == "":
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip("NO MACHINE IS STARTED: " + missing)
	}
}

// resolveToHost makes the given names, and no others, resolve to this host.
func resolveToHost(t *testing.T, all ...string) {
	t.Helper()
	text := "127.0.0.1 localhost " + strings.Join(all, " ") + "\n"
	for name, text := range map[string]string{"hosts": text, "resolv.conf": "", "nsswitch.conf": "hosts: files\n"} {
		file := filepath.Join("/etc", name)
		_ = os.Remove(file) // it may be a symbolic link
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
