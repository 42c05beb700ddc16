// Package awsdisk finds the volumes of an etcd cluster on AWS and the machines that they are
// attached to, and attaches a volume to this machine.
//
// It must not know what a volume is mounted for.
package awsdisk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/volume"
	"kops.local/kops/internal/platform/aws/awsquery"
	metadata "kops.local/kops/internal/platform/aws/node/ec2"
)

// Machine is the instance that this program runs on.
type Machine struct{ ID, Region, Zone string }

// Identify reads the instance's identity from its metadata service.
func Identify(ctx context.Context, of metadata.Metadata) (Machine, error) {
	s, err := of.Session(ctx)
	var m Machine
	for _, f := range []struct {
		key string
		to  *string
	}{{"instance-id", &m.ID}, {"placement/region", &m.Region}, {"placement/availability-zone", &m.Zone}} {
		if err == nil {
			*f.to, err = s.Get(ctx, f.key)
		}
		if err == nil && *f.to == "" {
			err = fmt.Errorf("the metadata service has no %s", f.key)
		}
	}
	if err != nil {
		return Machine{}, fault.Wrap(fault.NotYet, fmt.Errorf("identify this machine: %w", err), "make the metadata service reachable from the machine")
	}
	return m, nil
}

// Volumes are the volumes of one etcd cluster. They implement volume.Disks.
type Volumes struct {
	// API calls AWS in the machine's region.
	API     awsquery.Client
	Machine Machine
	// Tags select the volumes: KEY=VALUE, or KEY for any value. The tag NameTag names the member.
	Tags    []string
	NameTag string
}

// List implements volume.Disks.
func (a Volumes) List(ctx context.Context) ([]volume.LabelledDisk, error) {
	found, err := ec2{a.API}.volumes(ctx, a.filters()...)
	if err != nil {
		return nil, classifyError("list the volumes of etcd", err)
	}
	var out []volume.LabelledDisk
	for _, x := range found {
		out = append(out, a.disk(x))
	}
	return out, nil
}

func (a Volumes) filters() []filter {
	var out []filter
	for _, tag := range a.Tags {
		if key, value, exact := strings.Cut(tag, "="); exact {
			out = append(out, filter{"tag:" + key, []string{value}})
		} else {
			out = append(out, filter{"tag-key", []string{key}})
		}
	}
	return out
}

func (a Volumes) disk(x ebsVolume) volume.LabelledDisk {
	d := volume.LabelledDisk{ID: x.ID, Place: volume.Place{Location: x.Zone}, IsAvailable: x.State == "available"}
	for _, t := range x.Tags {
		if t.Key == a.NameTag {
			d.Name = t.Value
		}
	}
	for _, t := range x.Attachments {
		if t.State == "detached" || t.Instance == "" {
			continue
		}
		d.Machine, d.IsLeaving = t.Instance, t.State == "detaching"
		d.Devices = []string{"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(x.ID, "-", ""), t.Device}
	}
	return d
}

// Locate implements volume.Disks. The addresses of a machine are its IPv6 addresses, or if
// there are none all private IPv4 addresses, the machine's primary
// address first, because EC2 lists its interfaces in any order.
func (a Volumes) Locate(ctx context.Context, attached []volume.LabelledDisk) (map[string][]string, error) {
	var machines []string
	for _, d := range attached {
		machines = append(machines, d.Machine)
	}
	found, err := ec2{a.API}.instances(ctx, filter{"instance-id", machines})
	if err != nil {
		return nil, classifyError("find the machines of etcd's volumes", err)
	}
	at := map[string][]string{}
	for _, m := range found {
		var six, four []string
		if m.Private != "" {
			four = []string{m.Private}
		}
		for _, n := range m.Interfaces {
			six = append(six, n.Six...)
			four = append(four, slices.DeleteFunc(n.Four, func(a string) bool { return a == m.Private })...)
		}
		at[m.ID] = six
		if len(six) == 0 {
			at[m.ID] = four
		}
	}
	out := map[string][]string{}
	for _, d := range attached {
		out[d.ID] = at[d.Machine]
	}
	return out, nil
}

// deviceNames lists the device names for attaching volumes. Only machines whose disks are not NVMe
// show a volume by such a name.
func deviceNames() []string {
	return []string{"/dev/xvdu", "/dev/xvdv", "/dev/xvdw", "/dev/xvdx", "/dev/xvdy", "/dev/xvdz"}
}

// Attach implements volume.Disks. It uses the first device name that the machine does not use yet.
func (a Volumes) Attach(ctx context.Context, id string) error {
	self, err := ec2{a.API}.instances(ctx, filter{"instance-id", []string{a.Machine.ID}})
	if err != nil {
		return classifyError("find this machine", err)
	}
	names := deviceNames()
	for _, m := range self {
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(m.Devices, n) })
	}
	if len(names) == 0 {
		return fault.Wrap(fault.Permanent, fmt.Errorf("attach volume %s: machine %s already uses all device names: %s", id, a.Machine.ID, strings.Join(deviceNames(), " ")),
			"detach volumes that the machine does not need")
	}
	return classifyError("attach volume "+id, ec2{a.API}.attach(ctx, id, a.Machine.ID, names[0]))
}

// classifyError adds a class to an error of EC2: whether it may resolve without intervention.
func classifyError(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	var answer *awsquery.Error
	if !errors.As(err, &answer) {
		return fault.Wrap(fault.NotYet, err, "make EC2 reachable from the machine, and give the machine a role")
	}
	switch code := answer.Code; {
	case fault.Is(err, fault.Denied) || code == "AuthFailure":
		return fault.Wrap(fault.Denied, err, "allow the machine's role ec2:DescribeVolumes, ec2:DescribeInstances and ec2:AttachVolume")
	case code == "VolumeInUse" || code == "IncorrectState" || code == "IncorrectInstanceState":
		return fault.Wrap(fault.Conflict, err, "")
	case code == "InvalidParameterValue" && strings.HasPrefix(what, "attach"):
		return fault.Wrap(fault.Conflict, err, "") // meanwhile, the manager of another etcd cluster took the device name
	}
	return err
}
