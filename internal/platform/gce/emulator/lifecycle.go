package emulator

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/standin/tree"
)

// instance returns the description of an entry's machine.
func (e *Emulator) instance(x *entry) Instance {
	parts := strings.Split(x.path, "/")
	id, _ := strconv.ParseUint(tree.Text(x.o, "id"), 10, 64) // set by the emulator
	i := Instance{Project: parts[1], Zone: parts[3], Name: parts[5], ID: id, MachineType: lastPart(tree.Text(x.o, "machineType"), "/"), Metadata: map[string]string{}, Tags: tree.Texts(tree.Sub(x.o, "tags"), "items")}
	for _, item := range tree.Subs(tree.Sub(x.o, "metadata"), "items") {
		i.Metadata[tree.Text(item, "key")] = tree.Text(item, "value")
	}
	for n, nic := range tree.Subs(x.o, "networkInterfaces") {
		if n > 0 {
			break
		}
		i.Address, _ = netip.ParseAddr(tree.Text(nic, "networkIP")) // set by the emulator
		if subnet := e.entries[pathOf(tree.Text(nic, "subnetwork"))]; subnet != nil {
			i.Subnet, _ = netip.ParsePrefix(tree.Text(subnet.o, "ipCidrRange")) // likewise
		}
		for _, a := range tree.Subs(nic, "accessConfigs") {
			i.External, _ = netip.ParseAddr(tree.Text(a, "natIP")) // likewise
		}
	}
	for _, d := range tree.Subs(x.o, "disks") {
		size, _ := strconv.Atoi(tree.Text(d, "diskSizeGb")) // likewise
		i.Disks = append(i.Disks, InstanceDisk{Name: lastPart(tree.Text(d, "source"), "/"), Device: tree.Text(d, "deviceName"), GiB: size, Boot: tree.Bool(d, "boot")})
	}
	return i
}

// errSuperseded is the error of an operation on an instance if another one was started in the meantime.
var errSuperseded = &Error{Status: http.StatusBadRequest, Reason: "resourceNotReady", Message: "Another operation was started on the instance."}

// scheduleStep schedules a step for an instance after part thirds of its boot time. If another operation
// starts before that, the step is cancelled, and done is called with the error.
func (e *Emulator) scheduleStep(x *entry, part int, done func(error), do func(context.Context)) {
	turn := x.machine.operations
	e.Schedule(max(e.o.Boot, e.o.Latency)*time.Duration(part)/3, func(ctx context.Context) {
		if e.entries[x.path] == x && x.machine.operations == turn {
			do(ctx)
			return
		}
		done(errSuperseded)
	})
}

// boot starts an instance, and calls done when it runs or has failed.
func (e *Emulator) boot(x *entry, done func(error)) {
	x.machine.operations++
	x.o["status"] = "PROVISIONING"
	e.scheduleStep(x, 1, done, func(ctx context.Context) {
		x.o["status"] = "STAGING"
		if err := e.o.Machines.Start(ctx, e.instance(x)); err != nil {
			x.o["status"] = "TERMINATED"
			done(refusal(http.StatusServiceUnavailable, "INTERNAL_ERROR", "%v", err))
			return
		}
		e.scheduleStep(x, 2, done, func(context.Context) {
			x.o["status"], x.o["lastStartTimestamp"] = "RUNNING", stamp(e.Now())
			done(nil)
		})
	})
}

// halt stops an instance, which keeps its disks, and calls done.
func (e *Emulator) halt(x *entry, done func(error)) {
	x.machine.operations++
	x.o["status"] = "STOPPING"
	e.scheduleStep(x, 2, done, func(ctx context.Context) {
		err := e.o.Machines.Stop(ctx, e.instance(x))
		x.o["status"], x.o["lastStopTimestamp"] = "TERMINATED", stamp(e.Now())
		done(err)
	})
}

// removeInstance stops and removes an instance, and calls done.
func (e *Emulator) removeInstance(x *entry, done func(error)) {
	x.machine.operations++
	x.deleting = true
	x.o["status"] = "STOPPING"
	e.scheduleStep(x, 2, done, func(ctx context.Context) {
		err := e.o.Machines.Delete(ctx, e.instance(x))
		if err == nil {
			e.remove(x)
		} else {
			x.deleting = false
		}
		done(err)
	})
}

// plug updates the disks of a running machine.
func (e *Emulator) plug(ctx context.Context, x *entry) error {
	if tree.Text(x.o, "status") != "RUNNING" && tree.Text(x.o, "status") != "STAGING" {
		return nil
	}
	return e.o.Machines.Plug(ctx, e.instance(x))
}

// powerOperation returns an operation that changes the state of the call's instance.
func (c *call) powerOperation(verb string, turn func(*entry, func(error))) (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	op := c.newOperation(verb, x.path)
	if fails := c.fate.Fails; fails != nil {
		c.Schedule(c.o.Latency, func(context.Context) { c.finish(op, fails) })
		return tree.Clone(op.o), nil
	}
	op.o["status"], op.o["startTime"] = "RUNNING", stamp(c.Now())
	turn(x, func(err error) { c.finish(op, err) })
	return tree.Clone(op.o), nil
}

func (c *call) deleteInstance() (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	if tree.Bool(x.o, "deletionProtection") {
		return nil, refusal(http.StatusBadRequest, "invalid", "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'.")
	}
	return c.powerOperation("delete", func(x *entry, done func(error)) {
		c.removeInstance(x, func(err error) {
			done(err)
			if group := c.entries[x.machine.manager]; group != nil {
				c.steer(group) // which recreates the instance
			}
		})
	})
}

func (c *call) stopInstance() (object, error) { return c.powerOperation("stop", c.halt) }

func (c *call) startInstance() (object, error) {
	x, err := c.kinds["instances"].findChangeable(c)
	if err != nil {
		return nil, err
	}
	if s := tree.Text(x.o, "status"); s != "TERMINATED" && s != "RUNNING" {
		return nil, notReady(x.path)
	}
	return c.powerOperation("start", func(x *entry, done func(error)) {
		if tree.Text(x.o, "status") == "RUNNING" {
			done(nil)
			return
		}
		c.boot(x, done)
	})
}

func (c *call) resetInstance() (object, error) {
	return c.powerOperation("reset", func(x *entry, done func(error)) {
		x.machine.operations++
		c.scheduleStep(x, 1, done, func(ctx context.Context) {
			if err := c.o.Machines.Stop(ctx, c.instance(x)); err != nil {
				done(err)
				return
			}
			done(c.o.Machines.Start(ctx, c.instance(x)))
		})
	})
}

// maxSerial is the maximum amount of serial port output in a response, in bytes.
const maxSerial = 1 << 20

func (c *call) serialPort() (object, error) {
	x, err := c.kinds["instances"].find(c)
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
	start, _ := strconv.Atoi(c.params["start"]) // a number, or not set
	start = max(0, min(start, len(console)))
	end := min(len(console), start+maxSerial)
	return object{"kind": "compute#serialPortOutput", "contents": string(console[start:end]), "start": strconv.Itoa(start), "next": strconv.Itoa(end), "selfLink": link(x.path + "/serialPort")}, nil
}

// identity returns the keys of an instance's virtual TPM.
func (c *call) identity() (object, error) {
	x, err := c.kinds["instances"].find(c)
	if err != nil {
		return nil, err
	}
	out := object{"kind": "compute#shieldedInstanceIdentity"}
	if c.o.EKPub == nil || !tree.Bool(tree.Sub(x.o, "shieldedInstanceConfig"), "enableVtpm") {
		return out, nil
	}
	key, err := c.o.EKPub(c.instance(x))
	if err != nil {
		return nil, refusal(http.StatusServiceUnavailable, "backendError", "%v", err)
	}
	out["signingKey"] = object{"ekPub": key}
	return out, nil
}

// encode encodes bytes as Google's APIs do.
func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
