package emulator

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// instance is what a machine is made of.
func (e *Emulator) instance(x *entry) Instance {
	parts := strings.Split(x.path, "/")
	id, _ := strconv.ParseUint(text(x.o, "id"), 10, 64) // the emulator's own
	i := Instance{Project: parts[1], Zone: parts[3], Name: parts[5], ID: id, MachineType: last(text(x.o, "machineType"), "/"), Metadata: map[string]string{}, Tags: texts(sub(x.o, "tags"), "items")}
	for _, item := range subs(sub(x.o, "metadata"), "items") {
		i.Metadata[text(item, "key")] = text(item, "value")
	}
	for n, nic := range subs(x.o, "networkInterfaces") {
		if n > 0 {
			break
		}
		i.Address, _ = netip.ParseAddr(text(nic, "networkIP")) // the emulator's own
		if subnet := e.entries[pathOf(text(nic, "subnetwork"))]; subnet != nil {
			i.Subnet, _ = netip.ParsePrefix(text(subnet.o, "ipCidrRange")) // so is this
		}
		for _, a := range subs(nic, "accessConfigs") {
			i.External, _ = netip.ParseAddr(text(a, "natIP")) // and this
		}
	}
	for _, d := range subs(x.o, "disks") {
		size, _ := strconv.Atoi(text(d, "diskSizeGb")) // and this
		i.Disks = append(i.Disks, InstanceDisk{Name: last(text(d, "source"), "/"), Device: text(d, "deviceName"), GiB: size, Boot: flag(d, "boot")})
	}
	return i
}

// overtaken is what an operation upon an instance ends with when another was begun meanwhile.
var overtaken = &Error{Status: http.StatusBadRequest, Reason: "resourceNotReady", Message: "Another operation was begun upon the instance."}

// next schedules a step for an instance after so many thirds of its time. If another operation
// begins before that, the step is cancelled, and done receives the error.
func (e *Emulator) next(x *entry, part int, done func(error), do func(context.Context)) {
	turn := x.machine.turn
	e.later(max(e.o.Boot, e.o.Latency)*time.Duration(part)/3, func(ctx context.Context) {
		if e.entries[x.path] == x && x.machine.turn == turn {
			do(ctx)
			return
		}
		done(overtaken)
	})
}

// boot starts an instance, and tells when it runs, or why it does not.
func (e *Emulator) boot(x *entry, done func(error)) {
	x.machine.turn++
	x.o["status"] = "PROVISIONING"
	e.next(x, 1, done, func(ctx context.Context) {
		x.o["status"] = "STAGING"
		if err := e.o.Machines.Start(ctx, e.instance(x)); err != nil {
			x.o["status"] = "TERMINATED"
			done(refusal(http.StatusServiceUnavailable, "INTERNAL_ERROR", "%v", err))
			return
		}
		e.next(x, 2, done, func(context.Context) {
			x.o["status"], x.o["lastStartTimestamp"] = "RUNNING", stamp(e.now)
			done(nil)
		})
	})
}

// halt stops an instance, which keeps its disks.
func (e *Emulator) halt(x *entry, done func(error)) {
	x.machine.turn++
	x.o["status"] = "STOPPING"
	e.next(x, 2, done, func(ctx context.Context) {
		err := e.o.Machines.Stop(ctx, e.instance(x))
		x.o["status"], x.o["lastStopTimestamp"] = "TERMINATED", stamp(e.now)
		done(err)
	})
}

// end stops an instance, and removes it.
func (e *Emulator) end(x *entry, done func(error)) {
	x.machine.turn++
	x.leaving = true
	x.o["status"] = "STOPPING"
	e.next(x, 2, done, func(ctx context.Context) {
		err := e.o.Machines.Delete(ctx, e.instance(x))
		if err == nil {
			e.remove(x)
		} else {
			x.leaving = false
		}
		done(err)
	})
}

// plug shows a machine the disks that its instance has now.
func (e *Emulator) plug(ctx context.Context, x *entry) error {
	if text(x.o, "status") != "RUNNING" && text(x.o, "status") != "STAGING" {
		return nil
	}
	return e.o.Machines.Plug(ctx, e.instance(x))
}

// turnOf makes an operation of a change of the life of the instance of a call.
func (c *call) turnOf(verb string, turn func(*entry, func(error))) (object, error) {
	x, err := c.kinds["instances"].changeable(c)
	if err != nil {
		return nil, err
	}
	op := c.newOperation(verb, x.path)
	if fails := c.fails; fails != nil {
		c.later(c.o.Latency, func(context.Context) { c.finish(op, fails) })
		return clone(op.o), nil
	}
	op.o["status"], op.o["startTime"] = "RUNNING", stamp(c.now)
	turn(x, func(err error) { c.finish(op, err) })
	return clone(op.o), nil
}

func (c *call) deleteInstance() (object, error) {
	x, err := c.kinds["instances"].changeable(c)
	if err != nil {
		return nil, err
	}
	if flag(x.o, "deletionProtection") {
		return nil, refusal(http.StatusBadRequest, "invalid", "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'.")
	}
	return c.turnOf("delete", func(x *entry, done func(error)) {
		c.end(x, func(err error) {
			done(err)
			if group := c.entries[x.machine.manager]; group != nil {
				c.steer(group) // which recreates the instance
			}
		})
	})
}

func (c *call) stopInstance() (object, error) { return c.turnOf("stop", c.halt) }

func (c *call) startInstance() (object, error) {
	x, err := c.kinds["instances"].changeable(c)
	if err != nil {
		return nil, err
	}
	if s := text(x.o, "status"); s != "TERMINATED" && s != "RUNNING" {
		return nil, notReady(x.path)
	}
	return c.turnOf("start", func(x *entry, done func(error)) {
		if text(x.o, "status") == "RUNNING" {
			done(nil)
			return
		}
		c.boot(x, done)
	})
}

func (c *call) resetInstance() (object, error) {
	return c.turnOf("reset", func(x *entry, done func(error)) {
		x.machine.turn++
		c.next(x, 1, done, func(ctx context.Context) {
			if err := c.o.Machines.Stop(ctx, c.instance(x)); err != nil {
				done(err)
				return
			}
			done(c.o.Machines.Start(ctx, c.instance(x)))
		})
	})
}

// maxSerial is how much of a serial port is answered at once, in bytes.
const maxSerial = 1 << 20

func (c *call) serialPort() (object, error) {
	x, err := c.kinds["instances"].found(c)
	if err != nil {
		return nil, err
	}
	console, err := c.o.Machines.Console(c.instance(x))
	if err != nil {
		return nil, refusal(http.StatusServiceUnavailable, "backendError", "%v", err)
	}
	if p := c.params["port"]; p != "" && p != "1" {
		console = nil
	}
	start, _ := strconv.Atoi(c.params["start"]) // it is a number, or not given
	start = max(0, min(start, len(console)))
	end := min(len(console), start+maxSerial)
	return object{"kind": "compute#serialPortOutput", "contents": string(console[start:end]), "start": strconv.Itoa(start), "next": strconv.Itoa(end), "selfLink": link(x.path + "/serialPort")}, nil
}

// identity answers the keys of the virtual TPM of an instance.
func (c *call) identity() (object, error) {
	x, err := c.kinds["instances"].found(c)
	if err != nil {
		return nil, err
	}
	out := object{"kind": "compute#shieldedInstanceIdentity"}
	if c.o.EKPub == nil || !flag(sub(x.o, "shieldedInstanceConfig"), "enableVtpm") {
		return out, nil
	}
	key, err := c.o.EKPub(c.instance(x))
	if err != nil {
		return nil, refusal(http.StatusServiceUnavailable, "backendError", "%v", err)
	}
	out["signingKey"] = object{"ekPub": key}
	return out, nil
}

// encoded is a text of bytes as Google's APIs write them.
func encoded(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
