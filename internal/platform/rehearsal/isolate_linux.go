package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startInNamespace starts a command in its own network namespace, which has only a loopback interface:
// other users of this host cannot reach its ports.
func startInNamespace(cmd *exec.Cmd) error {
	return inNetwork(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a network for %s: %w", cmd.Path, err)
		}
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("bring up the loopback of %s: %w", cmd.Path, err)
		}
		return cmd.Start()
	})
}

// dialInNamespace connects to an address, IP:PORT, in the network namespace of a process.
func dialInNamespace(ctx context.Context, pid int, address string) (net.Conn, error) {
	var conn net.Conn
	err := inNetwork(func() error {
		err := enter(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
		return err
	})
	return conn, err
}

// inNetwork calls do on a thread that may enter another network namespace, and brings the thread
// back. A thread that cannot return is discarded.
func inNetwork(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		own := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		home, err := os.Open(own)
		if err != nil {
			done <- err
			return
		}
		defer home.Close() // read only
		err = do()
		back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
		if back == nil {
			runtime.UnlockOSThread()
		}
		done <- errors.Join(err, back)
	}()
	return <-done
}

func enter(path string) error {
	ns, err := os.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close() // read only
	return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
}

// loopbackUp brings up the loopback interface in this thread's network namespace.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s) //nolint:errcheck // nothing was written
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}
