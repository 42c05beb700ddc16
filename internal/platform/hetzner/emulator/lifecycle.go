package emulator

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"kops.local/kops/internal/standin"
	"kops.local/kops/internal/standin/tree"
)

// bootTime returns thirds of the time that a server takes to be created and to start.
func (e *Emulator) bootTime(thirds int) time.Duration {
	return max(e.o.Boot, e.o.Latency) * time.Duration(thirds) / 3
}

// boot starts a server's machine.
func (e *Emulator) boot(s *standin.Entry, end func(error)) {
	if s.Object["status"] == running {
		end(nil)
		return
	}
	s.Object["status"] = "starting"
	e.Schedule(0, func(ctx context.Context) {
		if err := e.o.Machines.Start(ctx, e.machineOf(s)); err != nil {
			s.Object["status"] = off
			end(err)
			return
		}
		e.Schedule(e.bootTime(2), func(context.Context) {
			s.Object["status"] = running
			end(nil)
		})
	})
}

// halt stops a server's machine.
func (e *Emulator) halt(s *standin.Entry, end func(error)) {
	s.Object["status"] = "stopping"
	e.Schedule(e.bootTime(1), func(ctx context.Context) {
		err := e.o.Machines.Stop(ctx, e.machineOf(s))
		s.Object["status"] = off
		end(err)
	})
}

func (e *Emulator) reset(s *standin.Entry, end func(error)) {
	e.halt(s, func(err error) {
		if err != nil {
			end(err)
			return
		}
		e.boot(s, end)
	})
}

// power starts an action that changes whether a server runs.
func (c *call) power(command string, change func(*Emulator, *standin.Entry, func(error))) (object, error) {
	s, err := c.free("servers")
	if err != nil {
		return nil, err
	}
	a, end := c.begin(command, s)
	c.Operate(c.fate, 0, func(context.Context) error { return nil }, func(err error) {
		if err != nil {
			end(err)
			return
		}
		change(c.Emulator, s, end)
	})
	return object{"action": tree.Clone(a)}, nil
}

// shutdown asks a server to shut down. The action ends before it has.
func (c *call) shutdown() (object, error) {
	s, err := c.free("servers")
	if err != nil {
		return nil, err
	}
	return c.act("shutdown_server", func() error {
		if s.Object["status"] == running {
			c.halt(s, func(error) {})
		}
		return nil
	}, s), nil
}

// deleteServer deletes a server; what is attached to it stays.
func (c *call) deleteServer() (object, error) {
	s, err := c.deletable("servers")
	if err != nil {
		return nil, err
	}
	before := s.Object["status"]
	s.Object["status"] = "deleting"
	a, end := c.begin("delete_server", s)
	c.Operate(c.fate, c.bootTime(1), func(ctx context.Context) error { return c.o.Machines.Delete(ctx, c.machineOf(s)) }, func(err error) {
		if s.Object["status"] = before; err == nil {
			c.removeServer(s)
		}
		end(err)
	})
	return object{"action": tree.Clone(a)}, nil
}

func (e *Emulator) removeServer(s *standin.Entry) {
	e.store.Remove(s)
	without := func(x *standin.Entry, field string) {
		x.Object[field] = slices.DeleteFunc(tree.Items(x.Object, field), func(o any) bool { return tree.Has(object{"": o}, ".server.id", s.ID()) })
	}
	for _, x := range e.store.Users(s) {
		switch x.Kind {
		case "volumes":
			x.Object["server"] = nil
		case "firewalls":
			without(x, "applied_to")
		case "load_balancers":
			without(x, "targets")
		}
	}
	for _, p := range e.store.All("primary_ips") {
		if p.Object["assignee_id"] == s.ID() {
			e.store.Remove(p)
		}
	}
}

// machineOf describes a server's machine.
func (e *Emulator) machineOf(s *standin.Entry) Server {
	kind := tree.Sub(s.Object, "server_type")
	more, _ := s.More.(secret)
	out := Server{ID: tree.Number(s.Object, "id"), Name: tree.Text(s.Object, "name"), Type: tree.Text(kind, "name"), Location: tree.Text(tree.Sub(s.Object, "location"), "name"),
		CPUs: int(tree.Number(kind, "cores")), MemoryMiB: int(tree.Number(kind, "memory")) * 1024, Labels: labelsOf(s.Object), UserData: more.userData, SSHKeys: more.keys}
	out.Public, _ = netip.ParseAddr(tree.Text(tree.Sub(tree.Sub(s.Object, "public_net"), "ipv4"), "ip")) // without one, it is invalid
	for _, p := range tree.Subs(s.Object, "private_net") {
		n := e.store.Get("networks", p["network"])
		i := Interface{Network: tree.Number(n.Object, "id"), Range: rangeOf(n.Object)}
		i.Gateway = i.Range.Addr().Next()
		i.Address, _ = netip.ParseAddr(tree.Text(p, "ip")) // set by the emulator
		for _, r := range subnetsOf(n.Object) {
			if r.Contains(i.Address) {
				i.Subnet = r
			}
		}
		out.Networks = append(out.Networks, i)
	}
	for _, v := range e.store.All("volumes") {
		if v.Object["server"] == s.ID() {
			out.Volumes = append(out.Volumes, Volume{ID: tree.Number(v.Object, "id"), Name: tree.Text(v.Object, "name"), GiB: int(tree.Number(v.Object, "size")), Device: tree.Text(v.Object, "linux_device")})
		}
	}
	return out
}

// plug updates the volumes and the networks of a running machine.
func (e *Emulator) plug(ctx context.Context, s *standin.Entry) error {
	if s.Object["status"] != running && s.Object["status"] != "starting" {
		return nil
	}
	return e.o.Machines.Plug(ctx, e.machineOf(s))
}
