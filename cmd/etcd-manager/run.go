package main

import (
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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

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
)

const (
	// patience is how long what this program needs may take to be there, and
	// retryPause how often it is asked for, and cloudPause how often a cloud is. A pod has
	// 30 seconds to end.
	patience, retryPause, cloudPause = time.Minute, 200 * time.Millisecond, time.Second
	// watchPause is how often the registry of a local cluster is looked at.
	watchPause = time.Second
)

// run is the program: it returns when ctx ends and etcd has ended, or when it cannot go on.
func run(ctx context.Context, args, environment []string, out io.Writer) error {
	o, err := parse(args, environment)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if o.verbosity >= 8 {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})).With("cluster", o.cluster)
	var p place
	if o.volumeProvider == onAWS {
		o.cloud, o.mounter = &awsVolumes{options: o}, volume.Host{Root: o.host("/"), Log: log}
	}
	if err := patiently(ctx, log, o.pause(), func() (err error) { p, err = o.place(ctx); return err }); err != nil {
		return err
	}
	log = log.With("peer", p.id)
	authorities, err := certs.Load(o.pkiDir, time.Now)
	if err != nil {
		return err
	}
	authorities.Validity = o.certificates
	archive, err := o.archive(ctx)
	if err != nil {
		return err
	}
	cfg := member.Config{
		Dir: p.dir, ID: p.id, Address: p.address, Listen: o.etcdListn, Programs: member.Programs(o.programs), Authorities: authorities,
		PeerURLs: p.name(o.peerURLs), ClientURLs: p.name(o.clientURLs), QuarantineURLs: p.name(o.quarantineURLs),
		Environment: o.etcdEnvironment, Output: out, Log: log,
		Fetch: func(ctx context.Context, backup, file string) (int64, error) {
			c, err := archive.Fetch(ctx, backup, file)
			return c.Revision, err
		},
	}
	archive.Scratch = p.dir
	if cfg.Anew, err = anew(cfg.ClientURLs, log); err != nil {
		return err
	}
	var m *member.Member
	if err := patiently(ctx, log, retryPause, func() (err error) { m, err = member.Open(cfg); return err }); err != nil {
		return err
	}
	err = o.manage(ctx, log, p, authorities, archive, m)
	return errors.Join(err, m.Close())
}

// anew ends the API servers of this machine that use the etcd at its URLs: what they
// keep in memory is of another cluster. Their kubelet starts them again.
func anew(clientURLs []string, log *slog.Logger) (func(ctx context.Context) error, error) {
	var ports []string
	for _, s := range clientURLs {
		u, err := url.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("--client-urls: %w", err)
		}
		ports = append(ports, u.Port())
	}
	return func(ctx context.Context) error {
		for _, port := range ports {
			ended, err := apiserver.End(ctx, port)
			if err != nil {
				return err
			}
			log.Info("etcd begins with other data; API servers that have read those before start anew", "port", port, "processes", ended)
		}
		return nil
	}, nil
}

// patiently tries something again while that may succeed by itself: the folder is
// held by a manager that is about to end with its pod or its machine; or the disk
// or the registry of the machine is not there yet.
func patiently(ctx context.Context, log *slog.Logger, pause time.Duration, try func() error) error {
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

// manage serves the other managers and is one itself until ctx ends.
func (o *options) manage(ctx context.Context, log *slog.Logger, p place, a *certs.Authorities, archive *backup.Archive, m *member.Member) error {
	discovery, err := o.discovery()
	if err != nil {
		return err
	}
	port := strconv.Itoa(o.grpcPort)
	listener, err := net.Listen("tcp", net.JoinHostPort(o.listen, port))
	if err != nil {
		return fmt.Errorf("listen for other managers: %w", err)
	}
	client := a.Present(a.Clients, pki.Client, "etcd-manager-"+p.id)
	cluster := &live.Cluster{Self: p.id, TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certs.Pool(a.Clients), GetClientCertificate: client.ToServers}}
	defer cluster.Close()
	trust := peer.NewTLS(a, p.id)
	policy := etcd.DefaultPolicy()
	policy.Backup, policy.Replace = o.backupInterval, o.replace
	times := manager.DefaultTimes()
	times.Meet, times.Heard, times.Discover, times.Soon, times.Control = o.meet, o.heard, o.discover, o.soon, o.commands
	cfg := manager.Config{
		Cluster: o.cluster,
		Self: etcd.Peer{ID: p.id, Endpoint: net.JoinHostPort(p.address, port),
			PeerURLs: p.name(o.peerURLs), ClientURLs: p.name(o.clientURLs), QuarantineURLs: p.name(o.quarantineURLs)},
		Versions: member.Programs(o.programs).Versions,
		Local:    m, Etcd: cluster, Link: peer.Dial(trust), Discovery: discovery, Store: archive.Store, Archive: archive,
		Policy: policy, Times: times, Now: time.Now, Token: token, Log: log, Each: manager.Together,
	}
	if o.hostsFile != "" && o.dnsSuffix != "" {
		cfg.Hosts = peer.HostsFile{Path: o.hostsFile, Cluster: o.cluster, Suffix: o.dnsSuffix}.Update
	}
	guide := manager.New(cfg)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var served error
	wg.Go(func() {
		served = peer.Serve(ctx, listener, trust, guide, log)
		cancel()
	})
	if o.volumeProvider == local {
		wg.Go(func() { o.registry().Watch(ctx, watchPause, guide.Wake) })
	}
	log.Info("etcd-manager is there", "address", cfg.Self.Endpoint, "folder", p.dir, "versions", strings.Join(cfg.Versions(), " "))
	guide.Run(ctx)
	wg.Wait()
	return served
}

// discovery is every way to find others that was asked for.
func (o *options) discovery() (peer.Discovery, error) {
	port := strconv.Itoa(o.grpcPort)
	all := peer.Any{peer.Static(o.seeds)}
	if o.volumeProvider == local {
		all = append(all, o.registry())
	}
	if o.cloud != nil {
		all = append(all, volume.Machines{Cloud: o.cloud, Port: port})
	}
	if o.seedsPath != "" {
		all = append(all, peer.File{Path: o.host(o.seedsPath), Port: port})
	}
	if len(o.dns) > 0 {
		all = append(all, peer.DNS{Names: o.dns, Port: port})
	}
	if o.staticConfig != "" {
		s, err := peer.StaticConfig(o.staticConfig, port)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// token is 16 random bytes as text for URLs.
func token() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // it never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}
