// Package node is bare metal on its machines: there is no metadata service, the machine has its
// own key, which was registered at enrollment, and a file lists the control plane.
//
// It must not know how a machine is enrolled.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/onmachine"
)

// watchPause is how often the file of the control plane is polled.
const watchPause = 2 * time.Second

// Platform is bare metal.
func Platform() onmachine.Platform {
	return onmachine.Platform{Name: "metal", Traits: onmachine.Traits{VerifiedKubelets: true, RoutedPods: true, Prompt: true}, Prove: func(w onmachine.World) (bootstrap.Prover, error) {
		return bootstrap.OwnKey(w.Root, []string{onhost.Key}, w.Hostname, w.Now, w.Rand)
	}, Volumes: volumes}
}

// volumes returns the source of volumes: folders of the host. A replacement for a
// member has its predecessor's name, and an empty folder.
func volumes(_ onmachine.World, r volume.Request) volume.Source {
	p := peers{file: filepath.Join(r.Machines, filepath.Base(onhost.Peers)), port: r.Port, own: net.InterfaceAddrs}
	return volume.Source{Disk: r.FolderDisk, Address: p.address, Discover: p.discover, Home: p.home, Watch: p.watch}
}

// peers is the control plane, as listed in a file that is read on each call.
type peers struct {
	file, port string
	own        func() ([]net.Addr, error)
}

// read reads the file; a missing file yields an empty list.
func (p peers) read() (known onhost.ControlPlane, err error) {
	text, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	if err != nil {
		return known, fmt.Errorf("read the addresses of the control plane: %w", err)
	}
	return known, nil
}

func (p peers) addresses() ([]string, error) {
	known, err := p.read()
	return known.Addresses, err
}

// home returns the host whose backup folder all share.
func (p peers) home() (string, error) {
	known, err := p.read()
	if err == nil && known.Home == "" {
		err = fault.New(fault.NotYet, "%s does not say which host keeps the backups", p.file)
	}
	return known.Home, err
}

// address returns the one of this host's addresses that the other hosts use.
func (p peers) address() (string, error) {
	all, err := p.own()
	if err != nil {
		return "", fmt.Errorf("find the address of this machine: %w", err)
	}
	known, err := p.addresses()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && slices.Contains(known, n.IP.String()) {
			return n.IP.String(), nil
		}
	}
	return "", fault.Wrap(fault.NotYet, errors.Join(fmt.Errorf("this machine has no address of the control plane in %s: %s", p.file, strings.Join(known, ", ")), err),
		"enroll the machine again, and update the cluster")
}

func (p peers) discover(context.Context) ([]etcd.Sighting, error) {
	addresses, err := p.addresses()
	var out []etcd.Sighting
	for _, a := range addresses {
		out = append(out, etcd.Sighting{Endpoint: net.JoinHostPort(a, p.port)})
	}
	return out, err
}

func (p peers) watch(ctx context.Context, changed func()) {
	before, _ := p.addresses() // discover reports errors in the file
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now, err := p.addresses(); err == nil && !slices.Equal(now, before) {
			before = now
			changed()
		}
	}
}
