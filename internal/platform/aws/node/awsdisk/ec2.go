package awsdisk

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"kops.local/kops/internal/platform/aws/awsquery"
)

// ec2 calls EC2. With the SDK's EC2 client in an interface, the program would be twice as large:
// the linker would keep all seven hundred operations.
type ec2 struct{ api awsquery.Client }

func (c ec2) call(ctx context.Context, action string, values url.Values, answer any) error {
	return c.api.Call(ctx, "ec2", "2016-11-15", action, values, answer)
}

// filter is a condition on listed objects; one of the values must match.
type filter struct {
	name   string
	values []string
}

// pages calls an action until there are no more pages; read processes a
// page and returns the token of the next.
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
			return errors.New("EC2 returned the same page twice")
		}
	}
}

// ebsVolume and instance are the fields that are read from EC2's responses.
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

// instances lists instances. It selects them by filters, because an instance ID that no longer
// exists would make the whole call fail.
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
