// Package run is etcd-manager: it finds the disk of a member and the other managers, as
// its options specify, and runs the parts of package etcd.
//
// It must not know any platform, nor read flags or the environment itself.
package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/contract/encryption"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd"
	"kops.local/kops/internal/node/etcd/apiserver"
	"kops.local/kops/internal/node/etcd/backup"
	"kops.local/kops/internal/node/etcd/certs"
	"kops.local/kops/internal/node/etcd/live"
	"kops.local/kops/internal/node/etcd/manager"
	"kops.local/kops/internal/node/etcd/member"
	"kops.local/kops/internal/node/etcd/peer"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/onmachine"
)

const (
	// patience is how long the program waits for what it needs, and retryPause how
	// often it checks. A pod has 30 seconds to stop.
	patience, retryPause = time.Minute, 200 * time.Millisecond
)

// Options holds the settings from flags and environment. Paths are paths on the machine.
type Options struct {
	// Cluster is the name of the etcd cluster, PeerID the ID of this peer; if empty, it is read
	// from its disk.
	Cluster, PeerID string
	// BackupStore is the URL of the store that managers and users share.
	BackupStore string
	// In URLs, __name__ is this peer's host name.
	ClientURLs, PeerURLs, QuarantineURLs []string
	// Port is the port on which managers listen, on the address Listen; etcd listens on EtcdListen.
	Port               int
	Listen, EtcdListen string
	// DNSSuffix follows the peer's name in its host name, which is written to HostsFile; if empty,
	// addresses are used.
	DNSSuffix, HostsFile string
	// Address is this machine's; if empty, the first within NetworkCIDR that others can reach.
	Address, NetworkCIDR string
	// Containerized is set if the machine's own files are below /rootfs.
	Containerized bool
	// PKIDir contains the authorities, DataDir the member's data if there is no
	// VolumeProvider, and Programs the folders etcd-vVERSION.
	PKIDir, DataDir, Programs string
	// VolumeProvider is the platform whose disks hold the members' data, and VolumeTags select
	// them: see volume.Request.
	VolumeProvider, NameTag string
	VolumeTags              []string
	Disks, Machines         string
	// Other managers are found by their addresses, by names, and in files.
	Seeds, DNS              []string
	SeedsPath, StaticConfig string
	// MetricsPort serves the manager's metrics, on the address Listen; 0 disables them.
	MetricsPort int
	// Verbosity of 8 and more logs every attempt.
	Verbosity int

	BackupInterval, Discover         time.Duration
	Meet, PeerTimeout, Soon, Replace time.Duration
	// Commands is the interval at which the store is checked for commands.
	Commands time.Duration
	// Certificates is the validity of issued certificates; 0 means the default.
	Certificates time.Duration
	Retention    etcd.Retention
	// EtcdEnvironment is etcd's, as NAME=value, and Environment this program's.
	EtcdEnvironment []string
	Environment     map[string]string

	Platforms []onmachine.Platform
	Out       io.Writer
}

// Manager runs one member: it returns when ctx ends and etcd has stopped, or when it cannot continue.
func Manager(ctx context.Context, o Options) error {
	level := slog.LevelInfo
	if o.Verbosity >= 8 {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(o.Out, &slog.HandlerOptions{Level: level})).With("cluster", o.Cluster)
	disks, err := o.source(log)
	if err != nil {
		return err
	}
	var p place
	if err := retryWhileTemporary(ctx, log, cmp.Or(disks.Pause, retryPause), func() (err error) { p, err = o.place(ctx, disks); return err }); err != nil {
		return err
	}
	log = log.With("peer", p.id)
	authorities, err := certs.Load(o.PKIDir, time.Now)
	if err != nil {
		return err
	}
	authorities.Validity = o.Certificates
	trust := peer.NewTLS(authorities, p.id)
	archive, shared, err := o.archive(ctx, p, disks, trust)
	if err != nil {
		return err
	}
	cfg := member.Config{
		Dir: p.dir, ID: p.id, Address: p.address, Listen: o.EtcdListen, Programs: member.Programs(o.Programs), Authorities: authorities,
		PeerURLs: p.name(o.PeerURLs), ClientURLs: p.name(o.ClientURLs), QuarantineURLs: p.name(o.QuarantineURLs),
		Environment: o.EtcdEnvironment, Output: o.Out, Log: log,
		Fetch: func(ctx context.Context, backup, file string) (int64, error) {
			c, err := archive.Fetch(ctx, backup, file)
			return c.Revision, err
		},
	}
	archive.Scratch = p.dir
	ports, err := portsOf(cfg.ClientURLs)
	if err != nil {
		return err
	}
	cfg.RestartReaders = restartAPIServers(ports, log)
	archive.Encryption = func() []encryption.KeyID { return readers(ports, log) }
	var m *member.Member
	if err := retryWhileTemporary(ctx, log, retryPause, func() (err error) { m, err = member.Open(cfg); return err }); err != nil {
		return err
	}
	err = o.manage(ctx, log, p, disks, network{authorities, trust, shared}, archive, m)
	return errors.Join(err, m.Close())
}

// portsOf returns the ports of etcd's client URLs.
func portsOf(clientURLs []string) ([]string, error) {
	var ports []string
	for _, s := range clientURLs {
		u, err := url.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("--client-urls: %w", err)
		}
		ports = append(ports, u.Port())
	}
	return ports, nil
}

// restartAPIServers stops the API servers of this machine that use the etcd at some ports, because
// their caches belong to another cluster. The kubelet starts them again.
func restartAPIServers(ports []string, log *slog.Logger) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for _, port := range ports {
			ended, err := apiserver.Stop(ctx, port, apiserver.Containerd)
			if err != nil {
				return err
			}
			log.Info("etcd starts with other data; restarting API servers that have read the old data", "port", port, "processes", ended)
		}
		return nil
	}
}

// readers returns the keys with which the API servers of this machine read from the etcd at some
// ports; nil if they are not known.
func readers(ports []string, log *slog.Logger) []encryption.KeyID {
	var out []encryption.KeyID
	for _, port := range ports {
		text, known, err := apiserver.EncryptionConfig(port)
		var config *encryption.Config
		if err == nil && len(text) > 0 {
			config, err = encryption.Parse(text)
		}
		switch {
		case err != nil:
			log.Warn("cannot record which keys the backup needs", "error", err)
			return nil
		case config != nil:
			return config.Keys()
		case known:
			out = []encryption.KeyID{}
		}
	}
	return out
}

// retryWhileTemporary retries something as long as it may still succeed: the folder is held
// by a manager that is about to stop with its pod or its machine; or the machine's
// disk or registry entry does not exist yet.
func retryWhileTemporary(ctx context.Context, log *slog.Logger, pause time.Duration, try func() error) error {
	said := ""
	for start := time.Now(); ; {
		err := try()
		if err == nil || !fault.Of(err).Retryable() || time.Since(start) > patience {
			return err
		}
		if err.Error() != said {
			said = err.Error()
			log.Info("waiting", "for", said)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// network is how managers authenticate each other, and what they share.
type network struct {
	authorities *certs.Authorities
	trust       peer.TLS
	shared      *peer.Shared
}

// manage serves the other managers and is one itself until ctx ends.
func (o Options) manage(ctx context.Context, log *slog.Logger, p place, disks volume.Source, n network, archive *backup.Archive, m *member.Member) error {
	discovery, err := o.discovery(disks)
	if err != nil {
		return err
	}
	port := strconv.Itoa(o.Port)
	listener, err := net.Listen("tcp", net.JoinHostPort(o.Listen, port))
	if err != nil {
		return fmt.Errorf("listen for other managers: %w", err)
	}
	client := n.authorities.Present(n.authorities.Clients, pki.Client, "etcd-manager-"+p.id)
	cluster := &live.Cluster{Self: p.id, TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certs.Pool(n.authorities.Clients), GetClientCertificate: client.ToServers}}
	defer cluster.Close()
	policy := etcd.DefaultPolicy()
	policy.Backup, policy.Replace = o.BackupInterval, o.Replace
	times := manager.DefaultTimes()
	times.Meet, times.PeerTimeout, times.Discover, times.Soon, times.Control = o.Meet, o.PeerTimeout, o.Discover, o.Soon, o.Commands
	cfg := manager.Config{
		Cluster: o.Cluster,
		Self: etcd.Peer{ID: p.id, Endpoint: net.JoinHostPort(p.address, port),
			PeerURLs: p.name(o.PeerURLs), ClientURLs: p.name(o.ClientURLs), QuarantineURLs: p.name(o.QuarantineURLs)},
		Versions: member.Programs(o.Programs).Versions,
		Local:    m, Etcd: cluster, Link: peer.Dial(n.trust), Discovery: discovery, Store: archive.Store, Archive: archive,
		Drill: driller{archive: backup.Archive{Store: archive.Store}, programs: member.Programs(o.Programs), dir: filepath.Join(p.dir, "drill"),
			tls: cluster.TLS, output: o.Out, now: time.Now}.drill,
		Policy: policy, Times: times, Now: time.Now, Token: token, Log: log, Each: manager.Together,
	}
	if o.HostsFile != "" && o.DNSSuffix != "" {
		cfg.Hosts = peer.HostsFile{Path: o.HostsFile, Cluster: o.Cluster, Suffix: o.DNSSuffix}.Update
	}
	guide := manager.New(cfg)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var served error
	if o.MetricsPort != 0 {
		metrics, err := net.Listen("tcp", net.JoinHostPort(o.Listen, strconv.Itoa(o.MetricsPort)))
		if err != nil {
			return errors.Join(fmt.Errorf("listen for metrics requests: %w", err), listener.Close())
		}
		wg.Go(func() { serveMetrics(ctx, metrics, o.Cluster, guide.Status, log) })
	}
	wg.Go(func() {
		served = peer.Serve(ctx, listener, n.trust, guide, n.shared, log)
		cancel()
	})
	if disks.Watch != nil {
		wg.Go(func() { disks.Watch(ctx, guide.Wake) })
	}
	log.Info("etcd-manager is running", "address", cfg.Self.Endpoint, "folder", p.dir, "versions", strings.Join(cfg.Versions(), " "))
	guide.Run(ctx)
	wg.Wait()
	if n.shared != nil {
		n.shared.Close()
	}
	return served
}

// discovery returns every configured way to find other managers.
func (o Options) discovery(disks volume.Source) (peer.Discovery, error) {
	port := strconv.Itoa(o.Port)
	all := peer.Any{peer.Static(o.Seeds)}
	if disks.Discover != nil {
		all = append(all, platform(disks.Discover))
	}
	if o.SeedsPath != "" {
		all = append(all, peer.File{Path: o.host(o.SeedsPath), Port: port})
	}
	if len(o.DNS) > 0 {
		all = append(all, peer.DNS{Names: o.DNS, Port: port})
	}
	if o.StaticConfig != "" {
		s, err := peer.StaticConfig(o.StaticConfig, port)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// platform is discovery through a platform.
type platform func(context.Context) ([]etcd.Sighting, error)

// Discover implements peer.Discovery.
func (p platform) Discover(ctx context.Context) ([]etcd.Sighting, error) { return p(ctx) }

// token returns 16 random bytes as text for URLs.
func token() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // it never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}
