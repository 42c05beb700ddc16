// Package stage is this host's half of a rehearsal: machines, disks and a network of its own,
// isolated from the world, in which the play's services, and the files and images that
// publishers serve from a bundle, have their real names, with TLS certificates of an authority
// that the machines trust.
//
// Whatever it creates on the host is removed when it is closed, and what an interrupted run has
// left is removed when the next one opens.
//
// It must not know any platform that is played.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/access"
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/image"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/rehearsal"
)

// Options configure a rehearsal.
type Options struct {
	// Root is its folder, Cache the folder of images, and Run a folder that all clusters of this
	// host share, for state that is valid until the host is restarted.
	Root, Cache, Run string
	// Bundle is the folder of a bundle whose files and images are served, in their
	// current state, as by their publishers; empty: there are none.
	Bundle string
	// Image is what machines boot from.
	Image image.Recipe
	Log   *slog.Logger
	// Output receives the progress of long operations; may be nil.
	Output io.Writer
	Now    func() time.Time
}

// address is where everything that has a name is served. Its range is for benchmarking
// networks (RFC 2544); no cloud uses it, and hardly any host does.
const address = "198.18.0.1"

// tcpPorts and udpPorts return the ports of this host's addresses that machines may reach: DNS, a
// platform's metadata, its services, and those of a cluster's load balancers.
func tcpPorts() []int { return append([]int{53, 80}, access.DoorPorts()...) }
func udpPorts() []int { return []int{53} }

// Stage is a part of this host in which a play runs.
type Stage struct {
	Options
	site    site.Site
	host    machine.Host
	lock    *os.File
	address netip.Addr
	trust   *authority
	image   string // root folder
	// machineTrust is the machines' file of trusted authorities.
	machineTrust []byte

	play    atomic.Pointer[rehearsal.Play]
	disks   *disks
	network *stageNetwork
	closers []func() // each stops a server
	hashes  []string // of the bundle's files that differ from their publishers', SHA256@URL
	serving sync.WaitGroup
}

// Open creates the stage. The caller closes it. There can be one at a time in a root, and on a
// host; the error for a second one names the holder.
func Open(ctx context.Context, o Options) (*Stage, error) {
	if err := ground.Check(ground.LocalHost(), ground.Nft()); err != nil {
		return nil, err
	}
	if o.Bundle != "" { // an image takes a while
		if _, err := bundle.Open(o.Bundle); err != nil {
			return nil, fmt.Errorf("open the rehearsal: %w", err)
		}
	}
	s, err := newStage(o)
	if err != nil {
		return nil, err
	}
	if err := s.claim(); err != nil {
		return nil, err
	}
	err = s.removeAll(ctx)
	if err == nil {
		err = s.setUp(ctx)
	}
	if err == nil {
		err = s.serve()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the rehearsal: %w", err), s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// newStage returns the stage in a root, of which nothing exists yet.
func newStage(o Options) (*Stage, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	here := site.Site{Root: root, Cluster: "rehearsal"}
	host, err := machine.NewHost(here)
	if err != nil {
		return nil, err
	}
	s := &Stage{Options: o, site: here, host: host, address: netip.MustParseAddr(address)}
	s.disks = &disks{host: host, plugged: map[string]rehearsal.Disk{}}
	s.network = &stageNetwork{bridge: here.Bridge(), address: s.address, port: host.Link, ports: map[netip.AddrPort]*balancerPort{}}
	return s, nil
}

// lockFile returns the file that is locked by the process that uses the root, and that names it.
func (s *Stage) lockFile() string { return filepath.Join(s.Root, "rehearsal.lock") }

func (s *Stage) claim() error {
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return fmt.Errorf("open the rehearsal: %w", err)
	}
	lock, held, err := site.TryLock(s.lockFile())
	if err != nil {
		return fmt.Errorf("open the rehearsal: %w", err)
	}
	if !held {
		who, err := os.ReadFile(s.lockFile())
		if err != nil {
			return err
		}
		return fault.Wrap(fault.Conflict, fmt.Errorf("a rehearsal is already running in %s: %s", s.Root, who), "stop it first, or use another folder")
	}
	s.lock = lock
	err = lock.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(lock, "process %d, since %s", os.Getpid(), s.Now().Format(time.DateTime))
	}
	return err
}

// setUp creates what machines need.
func (s *Stage) setUp(ctx context.Context) (err error) {
	own := netip.PrefixFrom(s.address, s.address.BitLen())
	other, err := bridges.Overlap(own, s.site.Bridge())
	if err != nil {
		return err
	}
	if other != "" {
		if err := s.removeKilled(ctx, other); err != nil {
			return err
		}
		if other, err = bridges.Overlap(own, s.site.Bridge()); err != nil {
			return err
		}
	}
	if other != "" {
		return fault.Wrap(fault.Conflict, fmt.Errorf("the address %s, which the rehearsal needs, belongs to the interface %s", s.address, other), "stop the other rehearsal; if it is no longer running: ip link delete "+other)
	}
	if s.image, err = s.Image.Ensure(ctx, s.Cache, s.Output); err != nil {
		return err
	}
	if s.trust, err = newAuthority(s.Now()); err != nil {
		return err
	}
	trusted, err := os.ReadFile(filepath.Join(s.image, trustFile))
	if err != nil {
		return fmt.Errorf("read which authorities the image trusts: %w", err)
	}
	s.machineTrust = s.trust.withAuthority(trusted)
	if err := s.writeUserFiles(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		return err
	}
	if err := site.WriteJSON(keeper.NetworkFile(s.site), keeper.Network{CIDR: own.String()}); err != nil {
		return err
	}
	if err := s.memory().Remember(ctx, s.site); err != nil { // after the network's file, from which others see that this one exists
		return err
	}
	if err := ground.RaiseSysctls(ground.Sysctls); err != nil {
		return err
	}
	if err := bridges.Ensure(s.site.Bridge(), own); err != nil {
		return err
	}
	if err := bridges.Label(s.site.Bridge(), s.Root); err != nil { // before another rehearsal may have to remove this one
		return err
	}
	if err := bridges.Enclose(s.site.Bridge(), s.address, tcpPorts(), udpPorts(), true); err != nil {
		return err
	}
	return ground.SetSysctl(ground.Sysctls, ground.Forwarding, "1")
}

// removeKilled removes the rehearsal in another root whose process was killed, given its bridge, from
// whose label the root is known. A bridge of anything else stays.
func (s *Stage) removeKilled(ctx context.Context, bridge string) error {
	root, err := bridges.LabelOf(bridge)
	if err != nil {
		return err
	}
	killed := site.Site{Root: root, Cluster: s.site.Cluster}
	if root == "" || killed.Bridge() != bridge {
		return nil
	}
	o := s.Options
	o.Root = root
	other, err := newStage(o)
	if err != nil {
		return err
	}
	if err := other.claim(); err != nil {
		return err
	}
	s.Log.Warn("another rehearsal was killed; what it left on this host is being removed", "dir", root)
	return other.Close(ctx)
}

func (s *Stage) memory() ground.HostState {
	return ground.HostState{Run: s.Run, Now: s.Now, IsAlive: keeper.IsWanted}
}

// serve starts the DNS and web servers.
func (s *Stage) serve() error {
	g := &gate{play: s.play.Load, log: s.Log}
	published := map[string]bool{}
	if s.Bundle != "" {
		p, err := newPublishers(s.Bundle, s.trust, s.machineTrust, s.Log)
		if err != nil {
			return err
		}
		g.publishers, s.hashes = p, p.hashes()
		for host := range p.hosts {
			published[host] = true
		}
	}
	n := &names{play: s.play.Load, published: published, address: s.address, log: s.Log}
	packets, err := net.ListenPacket("udp4", netip.AddrPortFrom(s.address, 53).String())
	if err != nil {
		return portInUseError(err)
	}
	s.startDNS(&dns.Server{PacketConn: packets, Handler: n})
	for _, x := range []struct {
		port  uint16
		serve func(net.Listener)
	}{
		{53, func(l net.Listener) { s.startDNS(&dns.Server{Listener: l, Handler: n}) }},
		{443, func(l net.Listener) { s.serveHTTP(s.trust.listener(l), g) }},
	} {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(s.address, x.port).String())
		if err != nil {
			return portInUseError(err)
		}
		x.serve(l)
	}
	return nil
}

// portInUseError adds the remedy for a port that is in use.
func portInUseError(err error) error {
	return fault.Wrap(fault.Conflict, err, "stop the program on this host that listens on all addresses; find it with: ss -lnptu")
}

// startDNS starts a DNS server.
func (s *Stage) startDNS(d *dns.Server) {
	begun := make(chan struct{})
	d.NotifyStartedFunc = func() { close(begun) }
	s.serving.Go(func() {
		if err := d.ActivateAndServe(); err != nil {
			s.Log.Error("the DNS server has stopped", "error", err)
		}
	})
	<-begun // a server that has not started cannot be stopped
	s.closers = append(s.closers, func() { _ = d.Shutdown() })
}

// serveHTTP starts a web server.
func (s *Stage) serveHTTP(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
	s.serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("a web server has stopped", "at", l.Addr().String(), "error", err)
		}
	})
	s.closers = append(s.closers, func() { _ = server.Close() })
}

// Contract returns the interface of this host for a play. It is valid until the stage is closed.
func (s *Stage) Contract() rehearsal.Stage {
	return rehearsal.Stage{Machines: machines{s}, Disks: s.disks, Network: s.network, Address: s.address, Log: s.Log}
}

// Dir returns a folder for the play's files, which are removed with the stage.
func (s *Stage) Dir() string { return s.site.Path("play") }

// Play sets the platform to play: from now on its names resolve and its services answer. It is
// called once; closing the stage does not close the play.
func (s *Stage) Play(p *rehearsal.Play) error {
	if s.play.Load() != nil {
		return errors.New("start the emulated cloud: it is already running")
	}
	var own []netip.Addr
	for a := range p.Plain {
		own = append(own, a)
	}
	if err := s.network.setPlain(own); err != nil {
		return err
	}
	for a, h := range p.Plain {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(a, 80).String())
		if err != nil {
			return portInUseError(err)
		}
		s.serveHTTP(l, h)
	}
	s.play.Store(p)
	return nil
}

// Close stops everything that runs, and restores the host. It can be called again.
func (s *Stage) Close(ctx context.Context) error {
	if s.lock == nil {
		return nil
	}
	for _, c := range s.closers {
		c()
	}
	s.closers = nil
	s.serving.Wait()
	s.network.close()
	if err := s.removeAll(ctx); err != nil {
		return fmt.Errorf("close the rehearsal: %w", err)
	}
	err := os.Remove(s.lockFile())
	s.lock.Close() // releases the lock
	s.lock = nil
	_ = os.Remove(filepath.Join(s.Root, ".lock")) // taken when disks are created
	_ = os.Remove(s.Root)                         // fails if others have files in it
	return err
}

// removeAll removes everything that a rehearsal has created on this host.
func (s *Stage) removeAll(ctx context.Context) error {
	all, err := s.host.List()
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() { errs[i] = s.host.Delete(ctx, m.Name) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.disks.detachAll(ctx); err != nil {
		return err
	}
	if err := bridges.Enclose(s.site.Bridge(), s.address, tcpPorts(), udpPorts(), false); err != nil {
		return err
	}
	if err := bridges.CheckAddresses(s.site.Bridge(), nil); err != nil {
		return err
	}
	if err := bridges.Remove(s.site.Bridge()); err != nil {
		return err
	}
	if err := s.host.RetireSlice(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(keeper.NetworkFile(s.site)); !errors.Is(err, fs.ErrNotExist) { // otherwise the host's settings were not changed
		if err := s.memory().Restore(ctx, s.site); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.site.Dir())
}
