// Package stage is this host's half of a rehearsal: machines, disks and a network of its
// own, closed against the world, in which what the play answers, and what publishers serve
// of a bundle, is found under its real names, over TLS of an authority that the machines trust.
//
// Whatever it makes on the host is gone when it is closed, and what a run that was cut off
// has left goes when the next one opens.
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
	"kops.local/kops/internal/ops/bundle"
	"kops.local/kops/internal/platform/local/ground"
	"kops.local/kops/internal/platform/local/image"
	"kops.local/kops/internal/platform/local/keeper"
	"kops.local/kops/internal/platform/local/machine"
	bridges "kops.local/kops/internal/platform/local/network"
	"kops.local/kops/internal/platform/local/site"
	"kops.local/kops/internal/platform/rehearsal"
)

// Options say where a rehearsal is, and of what.
type Options struct {
	// Root is its folder, Cache the folder of images, and Run one that all clusters of this host
	// share, for state that is valid until the host is restarted.
	Root, Cache, Run string
	// Bundle is the folder of a bundle, whose files and images are served as their
	// publishers do, as they are now; empty: there are none.
	Bundle string
	// Image is what machines boot from.
	Image image.Recipe
	Log   *slog.Logger
	// Output receives what long work tells; may be nil.
	Output io.Writer
	Now    func() time.Time
}

// address is where everything that has a name is served. It is of a range that is for
// tests of networks (RFC 2544), which no cloud and hardly a host has.
const address = "198.18.0.1"

// Ports that machines may reach at this host's addresses: names, the metadata of a
// platform, its services, and what load balancers serve of a cluster.
func tcpPorts() []int { return []int{53, 80, 443, 3988} }
func udpPorts() []int { return []int{53} }

// Stage is a part of this host in which a play is on.
type Stage struct {
	Options
	site    site.Site
	host    machine.Host
	lock    *os.File
	address netip.Addr
	trust   *authority
	image   string // root folder
	// machineTrust is the file of trusted authorities that machines have.
	machineTrust []byte

	play    atomic.Pointer[rehearsal.Play]
	disks   *disks
	network *wires
	closers []func() // each ends a server
	hashes  []string // of the files of the bundle that are not their publishers', SHA256@URL
	serving sync.WaitGroup
}

// Open makes the stage. The caller closes it. There is one at a time in a root, and on a host; the
// error of a second names its holder.
func Open(ctx context.Context, o Options) (*Stage, error) {
	if err := ground.Check(ground.This()); err != nil {
		return nil, err
	}
	if o.Bundle != "" { // an image takes a while
		if _, err := bundle.Open(o.Bundle); err != nil {
			return nil, fmt.Errorf("open the rehearsal: %w", err)
		}
	}
	here := site.Site{Root: o.Root, Cluster: "rehearsal"}
	host, err := machine.On(here)
	if err != nil {
		return nil, err
	}
	s := &Stage{Options: o, site: here, host: host, address: netip.MustParseAddr(address)}
	s.disks = &disks{host: host, plugged: map[string]rehearsal.Disk{}}
	s.network = &wires{bridge: here.Bridge(), address: s.address, served: map[netip.AddrPort]*served{}}
	if err := s.claim(); err != nil {
		return nil, err
	}
	err = s.strike(ctx)
	if err == nil {
		err = s.build(ctx)
	}
	if err == nil {
		err = s.serve()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the rehearsal: %w", err), s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// lockFile is locked by the process that has the root, and names it.
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
		return fault.Wrap(fault.Conflict, fmt.Errorf("a rehearsal is on already in %s: %s", s.Root, who), "end it first, or take another folder")
	}
	s.lock = lock
	err = lock.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintf(lock, "process %d, since %s", os.Getpid(), s.Now().Format(time.DateTime))
	}
	return err
}

// build makes what machines need.
func (s *Stage) build(ctx context.Context) (err error) {
	own := netip.PrefixFrom(s.address, s.address.BitLen())
	other, err := bridges.Overlap(own, s.site.Bridge())
	if err != nil {
		return err
	}
	if other != "" {
		return fault.Wrap(fault.Conflict, fmt.Errorf("the address %s, which the rehearsal needs, belongs to the interface %s", s.address, other), "end the other rehearsal; if it no longer runs: ip link delete "+other)
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
	s.machineTrust = s.trust.added(trusted)
	if err := s.furnishUser(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir(), 0o700); err != nil {
		return err
	}
	if err := site.WriteJSON(keeper.NetworkFile(s.site), keeper.Network{CIDR: own.String()}); err != nil {
		return err
	}
	if err := s.memory().Remember(ctx, s.site); err != nil { // after the file, by which others see that this one is there
		return err
	}
	if err := ground.RaiseSysctls(ground.Sysctls); err != nil {
		return err
	}
	if err := bridges.Ensure(s.site.Bridge(), own); err != nil {
		return err
	}
	if err := bridges.Enclose(s.site.Bridge(), s.address, tcpPorts(), udpPorts(), true); err != nil {
		return err
	}
	return ground.SetSysctl(ground.Sysctls, ground.Forwarding, "1")
}

func (s *Stage) memory() ground.Memory {
	return ground.Memory{Run: s.Run, Now: s.Now, Lives: keeper.Wished}
}

// serve answers for names, and what is asked of them.
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
		return taken(err)
	}
	s.answer(&dns.Server{PacketConn: packets, Handler: n})
	for _, x := range []struct {
		port  uint16
		serve func(net.Listener)
	}{
		{53, func(l net.Listener) { s.answer(&dns.Server{Listener: l, Handler: n}) }},
		{443, func(l net.Listener) { s.serveHTTP(s.trust.listener(l), g) }},
	} {
		l, err := net.Listen("tcp4", netip.AddrPortFrom(s.address, x.port).String())
		if err != nil {
			return taken(err)
		}
		x.serve(l)
	}
	return nil
}

// taken says what to do about a port that is not free.
func taken(err error) error {
	return fault.Wrap(fault.Conflict, err, "a program of this host that listens at all of its addresses is in the way: ss -lnptu shows it")
}

// answer starts a server of names.
func (s *Stage) answer(d *dns.Server) {
	begun := make(chan struct{})
	d.NotifyStartedFunc = func() { close(begun) }
	s.serving.Go(func() {
		if err := d.ActivateAndServe(); err != nil {
			s.Log.Error("the server of names has ended", "error", err)
		}
	})
	<-begun // one that has not begun cannot be ended
	s.closers = append(s.closers, func() { _ = d.Shutdown() })
}

// serveHTTP starts a web server.
func (s *Stage) serveHTTP(l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
	s.serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("a web server has ended", "at", l.Addr().String(), "error", err)
		}
	})
	s.closers = append(s.closers, func() { _ = server.Close() })
}

// Contract is what a play has of this host. It holds until the stage is closed.
func (s *Stage) Contract() rehearsal.Stage {
	return rehearsal.Stage{Machines: machines{s}, Disks: s.disks, Network: s.network, Address: s.address, Log: s.Log}
}

// Dir is a folder for files of the play, which go with the stage.
func (s *Stage) Dir() string { return s.site.Path("play") }

// Play sets the platform to play: from now on its names are known and its services answer. It is
// called once; the play is not closed with the stage.
func (s *Stage) Play(p *rehearsal.Play) error {
	if s.play.Load() != nil {
		return errors.New("set the play: there is one already")
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
			return taken(err)
		}
		s.serveHTTP(l, h)
	}
	s.play.Store(p)
	return nil
}

// Close ends everything that runs, and leaves the host as it was. It can be called again.
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
	if err := s.strike(ctx); err != nil {
		return fmt.Errorf("close the rehearsal: %w", err)
	}
	err := os.Remove(s.lockFile())
	s.lock.Close() // ends the lock
	s.lock = nil
	_ = os.Remove(filepath.Join(s.Root, ".lock")) // of those who made disks, one after another
	_ = os.Remove(s.Root)                         // it stays where others have files in it
	return err
}

// strike removes all that a rehearsal has made of this host.
func (s *Stage) strike(ctx context.Context) error {
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
	if err := s.disks.strike(ctx); err != nil {
		return err
	}
	if err := bridges.Enclose(s.site.Bridge(), s.address, tcpPorts(), udpPorts(), false); err != nil {
		return err
	}
	if err := bridges.Remove(s.site.Bridge()); err != nil {
		return err
	}
	if err := s.host.RetireSlice(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(keeper.NetworkFile(s.site)); !errors.Is(err, fs.ErrNotExist) { // else the host's settings were not touched
		if err := s.memory().Restore(ctx, s.site); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.site.Dir())
}
