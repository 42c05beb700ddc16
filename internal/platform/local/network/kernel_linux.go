package network

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
)

// HasLinkKind reports whether the kernel, or a module that it loads, can make links of a kind such as geneve. It
// tries, in a network namespace of its own, which needs root: other users get true.
func HasLinkKind(kind string) (bool, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "try"
	err := inNewNamespace(func() error {
		return netlink.LinkAdd(&netlink.GenericLink{LinkAttrs: attrs, LinkType: kind})
	})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return false, nil
	}
	return true, unlessTried(err)
}

// HasESP is HasLinkKind for the protocol ESP of IPsec, with the algorithm AES-GCM (RFC 4106).
func HasESP() (bool, error) {
	state := &netlink.XfrmState{
		Src: net.IPv4(192, 0, 2, 1), Dst: net.IPv4(192, 0, 2, 2), Spi: 3, Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL,
		Aead: &netlink.XfrmStateAlgo{Name: "rfc4106(gcm(aes))", Key: make([]byte, 20), ICVLen: 128},
	}
	err := inNewNamespace(func() error { return netlink.XfrmStateAdd(state) })
	for _, missing := range []error{syscall.ENOSYS, syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP} {
		if errors.Is(err, missing) {
			return false, nil
		}
	}
	return true, unlessTried(err)
}

// errNamespace is why nothing could be tried.
var errNamespace = errors.New("make a network namespace")

// unlessTried returns an error if nothing was tried although the user is root.
func unlessTried(err error) error {
	if errors.Is(err, errNamespace) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	return nil
}

// inNewNamespace runs a function in a network namespace that ends with it.
func inNewNamespace(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("%w: %w", errNamespace, err)
			return
		}
		done <- do()
	}()
	return <-done
}
