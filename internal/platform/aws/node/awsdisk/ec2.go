package awsdisk

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"kops.local/kops/internal/platform/aws/awsquery"
)

// ec2 asks EC2. The SDK's own client of EC2, once an interface holds it, makes the
// program twice as large: the linker then keeps all of its seven hundred operations.
type ec2 struct{ api awsquery.Client }

func (c ec2) call(ctx context.Context, action string, values url.Values, answer any) error {
	return c.api.Call(ctx, "ec2", "2016-11-15", action, values, answer)
}

// filter is a condition on what is listed; one of the values has to be met.
type filter struct {
	name   string
	values []string
}

// pages calls an action until there are no more pages; read says how to go on.
func (c ec2) pages(ctx context.Context, action string, filters []filter, page func() (answer any, read func() (next string))) error {
	next := ""
	for {
		values := url.Values{}
		for i, f := range filters {
			prefix := "Filter." + strconv.Itoa(i+1)
			values.Set(prefix+".Name", f.name)
			for j, v := range f.values {
				values.Set(prefix+".Value."+strconv.Itoa(j+1), v)
			}
		}
		if next != "" {
			values.Set("NextToken", next)
		}
		answer, read := page()
		if err := c.call(ctx, action, values, answer); err != nil {
			return err
		}
		before := next
		if next = read(); next == "" {
			return nil
		}
		if next == before {
			return errors.New("EC2 answers with the same page again")
		}
	}
}

// ebsVolume and instance are what is read of EC2's answers.
type ebsVolume struct {
	ID    string `xml:"volumeId"`
	State string `xml:"status"`
	Zone  string `xml:"availabilityZone"`
	Tags  []struct {
		Key   string `xml:"key"`
		Value string `xml:"value"`
	} `xml:"tagSet>item"`
	Attachments []struct {
		Instance string `xml:"instanceId"`
		Device   string `xml:"device"`
		State    string `xml:"status"`
	} `xml:"attachmentSet>item"`
}

type instance struct {
	ID         string `xml:"instanceId"`
	Private    string `xml:"privateIpAddress"`
	Interfaces []struct {
		Six  []string `xml:"ipv6AddressesSet>item>ipv6Address"`
		Four []string `xml:"privateIpAddressesSet>item>privateIpAddress"`
	} `xml:"networkInterfaceSet>item"`
	Devices []string `xml:"blockDeviceMapping>item>deviceName"`
}

// volumes lists volumes.
func (c ec2) volumes(ctx context.Context, filters ...filter) (out []ebsVolume, err error) {
	err = c.pages(ctx, "DescribeVolumes", filters, func() (any, func() string) {
		var a struct {
			Volumes []ebsVolume `xml:"volumeSet>item"`
			Next    string      `xml:"nextToken"`
		}
		return &a, func() string { out = append(out, a.Volumes...); return a.Next }
	})
	return out, err
}

// instances lists instances. They are asked for by a filter, as one that is gone
// would be an error of all otherwise.
func (c ec2) instances(ctx context.Context, filters ...filter) (out []instance, err error) {
	err = c.pages(ctx, "DescribeInstances", filters, func() (any, func() string) {
		var a struct {
			Instances []instance `xml:"reservationSet>item>instancesSet>item"`
			Next      string     `xml:"nextToken"`
		}
		return &a, func() string { out = append(out, a.Instances...); return a.Next }
	})
	return out, err
}

func (c ec2) attach(ctx context.Context, volume, instance, device string) error {
	values := url.Values{"VolumeId": {volume}, "InstanceId": {instance}, "Device": {device}}
	var a struct{}
	return c.call(ctx, "AttachVolume", values, &a)
}
