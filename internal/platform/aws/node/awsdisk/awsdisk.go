// Package awsdisk is the volumes of an etcd cluster on AWS: which there are, the
// machines that have them, and how one is attached to the machine that asks.
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

// Machine is the instance that asks.
type Machine struct{ ID, Region, Zone string }

// Identify asks the instance's metadata service which it is.
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
			err = fmt.Errorf("the metadata service says nothing of %s", f.key)
		}
	}
	if err != nil {
		return Machine{}, fault.Wrap(fault.NotYet, fmt.Errorf("ask which machine this is: %w", err), "the machine's metadata service has to answer")
	}
	return m, nil
}

// Volumes are the volumes of one etcd cluster. They implement volume.Cloud.
type Volumes struct {
	// API asks AWS in the machine's region.
	API     awsquery.Client
	Machine Machine
	// Tags select the volumes: KEY=VALUE, or KEY for any value.
	Tags []string
	// NameTag is the key of the tag whose value is the member's name, a slash, and the
	// names of all members; Cluster and a dash go before it in a peer's name.
	NameTag, Cluster string
}

// Volumes implements volume.Cloud.
func (a Volumes) Volumes(ctx context.Context) ([]volume.Volume, error) {
	if len(a.Tags) == 0 || a.NameTag == "" { // which would be the volumes of the whole account
		return nil, fault.New(fault.Permanent, "volumes on AWS are found by --volume-tag and named by --volume-name-tag")
	}
	found, err := ec2{a.API}.volumes(ctx, a.filters()...)
	if err != nil {
		return nil, classed("list the volumes of etcd", err)
	}
	var out []volume.Volume
	var machines []string
	for _, x := range found {
		v := a.volume(x)
		if v.Machine != "" {
			machines = append(machines, v.Machine)
		}
		out = append(out, v)
	}
	at, err := a.locate(ctx, machines)
	for i, v := range out {
		out[i].Addresses = at[v.Machine]
	}
	return out, err
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

func (a Volumes) volume(x ebsVolume) volume.Volume {
	v := volume.Volume{ID: x.ID}
	for _, t := range x.Tags {
		if t.Key == a.NameTag {
			if member, _, _ := strings.Cut(t.Value, "/"); member != "" {
				v.Peer = a.Cluster + "-" + member
			}
		}
	}
	for _, t := range x.Attachments {
		if t.State == "detached" || t.Instance == "" {
			continue
		}
		v.Machine = t.Instance
		// One that is about to be detached has to be waited for.
		v.Here = v.Machine == a.Machine.ID && t.State != "detaching"
		v.Devices = []string{"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(v.ID, "-", ""), t.Device}
	}
	v.Free = v.Machine == "" && x.State == "available" && x.Zone == a.Machine.Zone
	return v
}

// locate returns the addresses of machines: their IPv6 addresses, or else every private IPv4
// address, the machine's own first, because EC2 lists its interfaces in any order.
func (a Volumes) locate(ctx context.Context, machines []string) (map[string][]string, error) {
	at := map[string][]string{}
	if len(machines) == 0 {
		return at, nil
	}
	found, err := ec2{a.API}.instances(ctx, filter{"instance-id", machines})
	if err != nil {
		return nil, classed("find the machines of etcd's volumes", err)
	}
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
	return at, nil
}

// deviceNames are those that a volume may be attached by. The machine itself shows it by
// such a name only where its disks are not NVMe.
func deviceNames() []string {
	return []string{"/dev/xvdu", "/dev/xvdv", "/dev/xvdw", "/dev/xvdx", "/dev/xvdy", "/dev/xvdz"}
}

// Attach implements volume.Cloud. It takes the first device name that the machine
// does not use yet.
func (a Volumes) Attach(ctx context.Context, v volume.Volume) error {
	self, err := ec2{a.API}.instances(ctx, filter{"instance-id", []string{a.Machine.ID}})
	if err != nil {
		return classed("find this machine", err)
	}
	names := deviceNames()
	for _, m := range self {
		names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(m.Devices, n) })
	}
	if len(names) == 0 {
		return fault.Wrap(fault.Permanent, fmt.Errorf("attach volume %s: machine %s uses each of the names %s", v.ID, a.Machine.ID, strings.Join(deviceNames(), " ")),
			"detach what is not needed there")
	}
	return classed("attach volume "+v.ID, ec2{a.API}.attach(ctx, v.ID, a.Machine.ID, names[0]))
}

// classed says what an error of EC2 means here: whether it may go away by itself.
func classed(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	var answer *awsquery.Error
	if !errors.As(err, &answer) {
		return fault.Wrap(fault.NotYet, err, "EC2 has to be reachable, and the machine to have a role")
	}
	switch code := answer.Code; {
	case fault.Is(err, fault.Denied) || code == "AuthFailure":
		return fault.Wrap(fault.Denied, err, "allow the machine's role ec2:DescribeVolumes, ec2:DescribeInstances and ec2:AttachVolume")
	case code == "VolumeInUse" || code == "IncorrectState" || code == "IncorrectInstanceState":
		return fault.Wrap(fault.Conflict, err, "")
	case code == "InvalidParameterValue" && strings.HasPrefix(what, "attach"):
		return fault.Wrap(fault.Conflict, err, "") // the manager of another etcd cluster took the device name meanwhile
	}
	return err
}
