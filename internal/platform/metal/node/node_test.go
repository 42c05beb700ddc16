package node

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/onmachine"
)

func TestAMemberFindsItsFolderAndTheOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(onhost.Peers)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	disk := filepath.Join(dir, "c.example.com--main--1")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	s := volumes(onmachine.World{}, volume.Request{Cluster: "etcd", Tags: []string{onhost.DiskTag("c.example.com", "main")}, Disks: dir, Machines: dir, Port: "3996"})
	if d, err := s.Disk(t.Context()); err != nil || d.Dir != disk || d.Peer != "etcd-1" {
		t.Errorf("the disk is %+v, %v", d, err)
	}
	if found, err := s.Discover(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("without a file: %v, %v", found, err)
	}
	if _, err := s.Home(); !fault.Is(err, fault.NotYet) {
		t.Errorf("without a file the home is known: %v", err)
	}
	write(`{"addresses": ["10.0.0.1", "fd00::2"], "home": "fd00::2"}`)
	found, err := s.Discover(t.Context())
	if err != nil || len(found) != 2 || found[0].Endpoint != "10.0.0.1:3996" || found[1].Endpoint != "[fd00::2]:3996" {
		t.Errorf("found %v, %v", found, err)
	}
	if home, err := s.Home(); err != nil || home != "fd00::2" {
		t.Errorf("the home is %q, %v", home, err)
	}
	write(`{`)
	if _, err := s.Discover(t.Context()); err == nil {
		t.Error("a broken file is believed")
	}
}

func TestTheAddressOfAHost(t *testing.T) {
	dir := t.TempDir()
	p := peers{file: filepath.Join(dir, "peers.json"), own: func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("100.96.0.1")}, &net.IPNet{IP: net.ParseIP("10.0.0.2")}}, nil
	}}
	if _, err := p.address(); !fault.Is(err, fault.NotYet) {
		t.Errorf("before it is told: %v", err)
	}
	if err := os.WriteFile(p.file, []byte(`{"addresses": ["10.0.0.1", "10.0.0.2"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if at, err := p.address(); err != nil || at != "10.0.0.2" {
		t.Errorf("got %q, %v", at, err)
	}
}

func TestAHostProvesItselfByItsKey(t *testing.T) {
	w := onmachine.World{Root: t.TempDir(), Hostname: func() (string, error) { return "node1", nil }, Now: time.Now}
	if _, err := Platform().Prove(w); !fault.Is(err, fault.Permanent) {
		t.Errorf("without a key: %v", err)
	}
	if tags := onhost.Disk("c", "main", 2); !slices.Equal([]string{tags}, []string{"/mnt/disks/c--main--2"}) {
		t.Errorf("the disk is %s", tags)
	}
}
